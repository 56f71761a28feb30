r"""
---
title: Command line
summary: >
  Train a model, generate text, evaluate and draw attention maps, each with one command,
  whose flags derive from dataclasses.
---

```text
python -m labml_nn train feedback --preset tiny
python -m labml_nn generate runs/feedback --prompt "ROMEO:"
python -m labml_nn evaluate runs/feedback
python -m labml_nn attention runs/feedback --text "To be, or not to be"
```

`train` continues a run with `--resume`, and trains on several processes under
`torchrun`. An experiment with variants trains all of them, each in a folder of its own,
and compares their curves. `--help` explains the flags of a command.

Every field of a dataclass is a flag. Its type, default and help come from the class and
from the list in its docstring, so that the command line knows what the library knows:

| Field | Flag |
|:--|:--|
| `d_model: int = 128` | `--d-model N` |
| `tied: bool = True` | `--tied` and `--no-tied` |
| `norm: Literal["layer", "rms"]` | `--norm WORD` |
| `d_ff: int \| None = None` | `--d-ff N`, or `--d-ff none` |

An error is one sentence and an exit code: 1 for a run that failed, 2 for a value that
is not possible, 130 for Ctrl-C. `--debug` shows the traceback.
"""

import argparse
import errno
import inspect
import math
import os
import re
import shlex
import sys
import traceback
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from difflib import get_close_matches
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, NoReturn, Union, get_args, get_origin, get_type_hints

import torch

from labml_nn.attention_maps import attention_maps, save_picture
from labml_nn.checks import check_known, check_sizes
from labml_nn.experiments.checkpoint import Run, RunError, RunFolder, load_run
from labml_nn.experiments.data import TASKS, Vocabulary, read_corpus
from labml_nn.experiments.distributed import World
from labml_nn.experiments.presets import (
    Experiment,
    TrainingConfig,
    default_preset,
    experiments,
)
from labml_nn.experiments.reporters import (
    LabmlRecord,
    Progress,
    Reporter,
    Result,
    curve_svg,
    lines_of,
)
from labml_nn.experiments.trainer import (
    Trainer,
    is_memory,
    pick_device,
    validation_loss,
)
from labml_nn.registry import models
from labml_nn.sampling import (
    Chain,
    Greedy,
    Nucleus,
    Sampler,
    Temperature,
    TopK,
    generate,
)

__all__ = ["main"]

FAILED, REFUSED, INTERRUPTED = 1, 2, 130


# ## Flags from dataclasses
#
class UsageError(ValueError):
    """A command line that cannot be parsed."""


class Parser(argparse.ArgumentParser):
    """
    ### Parser

    argparse with errors raised instead of printed, the nearest match of a misspelt
    flag, `--d_model` for `--d-model`, and numbers such as `-1e-2` as values. The result
    holds only what was typed, so that a preset or the run that continues determines the
    rest.
    """

    def __init__(self, command: str, about: str, *, epilog: str = "") -> None:
        super().__init__(
            prog=f"{program()} {command}",
            usage=f"{program()} {command} [FLAGS]",
            description=about,
            epilog=epilog,
            allow_abbrev=False,
            argument_default=argparse.SUPPRESS,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )

    def add_flags(
        self,
        title: str,
        config: type,
        defaults: Mapping[str, Any],
        leave_out: Collection[str] = (),
    ) -> None:
        """
        ### A flag for each field

        Of the dataclass `config` but for those in `leave_out`. The help shows
        `defaults` in place of those of the class.
        """
        group, about = self.add_argument_group(title), meanings(config)
        for name, kind in get_type_hints(config).items():
            if name in leave_out or name.startswith("_"):
                continue
            several = get_origin(kind) in (Union, UnionType)
            kinds = get_args(kind) if several else (kind,)
            default = defaults.get(name, getattr(config, name, None))
            flag, more = "--" + name.replace("_", "-"), dict[str, Any]()
            if bool in kinds:
                default = flag if default else flag.replace("--", "--no-", 1)
                more["action"] = argparse.BooleanOptionalAction
            else:
                more["type"] = lambda text, kinds=kinds: value_of(text, kinds)
                more["metavar"] = kind_name(kinds)
            shown = "none" if default is None else default
            help_ = f"{about.get(name, '')} (default: {shown})".replace("%", "%%")
            group.add_argument(flag, help=help_, **more)

    def read(self, words: Sequence[str]) -> dict[str, Any]:
        """What was typed, by the names of fields. Raises `UsageError`."""
        values, rest = self.parse_known_args(normalised(words))
        if rest:
            word = rest[0].partition("=")[0]
            if not word.startswith("-"):
                self.error(f"unexpected word {word!r}")
            close = get_close_matches(word, self._option_string_actions, n=1)
            meant = f"; did you mean {close[0]}?" if close else ""
            self.error(f"there is no flag {word}{meant}")
        return vars(values)

    def error(self, message: str) -> NoReturn:
        """Raises `UsageError` instead of ending the program."""
        message = message.removeprefix("argument ")
        message = message.replace("expected one argument", "a value must follow")
        raise UsageError(f"{message}\n`{self.prog} --help` explains all flags")


def kind_name(kinds: Collection[Any]) -> str:
    """What the help shows for a value."""
    if any(map(get_args, kinds)):
        return "WORD"
    return "N" if int in kinds else "X" if float in kinds else "TEXT"


def value_of(text: str, kinds: Collection[Any]) -> Any:
    """Parses `text`; argparse adds the name of the flag to the error."""
    if text.lower() == "none" and NoneType in kinds:
        return None
    choices = [word for kind in kinds for word in get_args(kind)]
    number: Any = int if int in kinds else float if float in kinds else None
    try:
        if choices:
            check_known("choice", text, choices)
        return text if number is None else number(text)
    except ValueError as error:
        expected = "a whole number" if number is int else "a number"
        said = str(error) if choices else f"{text!r} is not {expected}"
        raise argparse.ArgumentTypeError(said) from None


def normalised(words: Sequence[str]) -> list[str]:
    """`--d_model` as `--d-model`, and a negative number joined to its flag."""
    found: list[str] = []
    for word in words:
        name, equals, value = word.partition("=")
        if word.startswith("--"):
            found.append(name.replace("_", "-") + equals + value)
        elif found and found[-1].startswith("--") and re.match(r"-[\d.]|-inf", word):
            found[-1] += f"={word}"
        else:
            found.append(word)
    return found


# An item of a docstring's list, and the names of fields at its start.
ITEM = re.compile(r"^\* (.+(?:\n  .*)*)", re.MULTILINE)
NAMES = re.compile(r"((?:`\w+`(?:, | and |, and )?)+)(:| is| are)?\s+(?=\S)")
# Citations, links and TeX, as a terminal shows them.
PLAIN = (
    (re.compile(r" ?\(?\[-?@[^\]]*\](?:\([^)]*\))?\)?| \(§[\d.]+\)"), ""),
    (re.compile(r"`None`"), "none"),
    (re.compile(r"\[([^\]]*)\]\([^)]*\)"), r"\1"),
    (re.compile(r"\\sqrt\{?(\w+)\}?"), r"√\1"),
    (re.compile(r"\\(\w+)|[${}`]|\\[;,]"), r"\1"),
)


def meanings(config: type) -> dict[str, str]:
    """
    ### Help from docstrings

    Returns for each field the item of the list in the docstring of the class, or of its
    base class, in plain text.
    """
    found: dict[str, str] = {}
    for one in reversed(config.__mro__):
        for item in ITEM.findall(inspect.cleandoc(one.__doc__ or "")):
            if start := NAMES.match(text := " ".join(item.split())):
                about = text[start.end() :]
                for pattern, plain in PLAIN:
                    about = pattern.sub(plain, about)
                found |= dict.fromkeys(re.findall(r"\w+", start[1]), about.strip())
    for name in {one.name for one in fields(config)} - set(found):
        said = (about for about in found.values() if re.search(rf"\b{name}\b", about))
        found[name] = next(said, "")
    return found


# ## Main program
#
def main(words: Sequence[str] | None = None) -> int:
    """
    Runs the command line `words`, by default that of the process. Returns the exit
    code; nothing is raised.
    """
    words = sys.argv[1:] if words is None else list(words)
    debug = "--debug" in words
    try:
        return run([word for word in words if word != "--debug"])
    except SystemExit as done:  # argparse has printed the help
        return done.code if isinstance(done.code, int) else 0
    except BrokenPipeError:  # as in `generate ... | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except BaseException as error:
        if debug:
            traceback.print_exc()
        code, text = explained(error)
        # All processes see a wrong flag, and the first one reports it.
        rank = os.environ.get("RANK", "0")
        several = os.environ.get("WORLD_SIZE", "1") != "1"
        if rank == "0" or not several or code not in (REFUSED, INTERRUPTED):
            who = f"process {rank}: " if several else ""
            shown = text if code == INTERRUPTED else f"{who}error: {text}"
            print(shown, file=sys.stderr)
        return code


def run(words: list[str]) -> int:
    """Runs a command, and raises what it raises."""
    if not words or words[0] in ("-h", "--help", "help"):
        listed = "\n".join(
            f"  {name:<11}{inspect.cleandoc(command.__doc__ or '').splitlines()[0]}"
            for name, command in COMMANDS.items()
        )
        print(
            f"usage: {program()} COMMAND ...\n\nTrain the models of this library, and "
            f"use them.\n\n{listed}\n\n`{program()} COMMAND --help` explains a command."
        )
        return 0
    if words[0] == "--version":
        from importlib.metadata import version

        print(f"labml-nn {version('labml-nn')}")
        return 0
    check_known("command", words[0], COMMANDS)
    return COMMANDS[words[0]](words[1:])


def program() -> str:
    """How this program was called."""
    name = Path(sys.argv[0]).name
    return "labml-nn" if name.startswith("labml-nn") else "python -m labml_nn"


def explained(error: BaseException) -> tuple[int, str]:
    """
    ### Exit code and message

    Our errors have their sentence. Those of the system have a number and a path. Any
    other error is a fault of this library.
    """
    if isinstance(error, KeyboardInterrupt):
        return INTERRUPTED, "interrupted"
    if is_memory(error):
        return FAILED, (
            "the memory is full; use a smaller --batch-size, --seq-len or model "
            "(--d-model, --n-layers), or accumulate gradients (--accumulate)"
        )
    if isinstance(error, RunError):
        return FAILED, str(error)
    if isinstance(error, OSError) and error.errno is not None:
        where = f": {error.filename}" if error.filename else ""
        if error.errno == errno.ENOSPC:
            advice = "free some space, or write elsewhere with --out"
            return FAILED, f"the disk is full{where}; {advice}"
        return REFUSED, f"{(error.strerror or str(error)).lower()}{where}"
    if isinstance(error, ValueError | TypeError | OSError):
        return REFUSED, str(error) or type(error).__name__
    if isinstance(error, ImportError) and error.name:
        return FAILED, f"{error.name} is missing; pip install 'labml-nn[train]'"
    fault = "this is a fault of the library; --debug shows where it happened"
    return FAILED, f"{type(error).__name__}: {error}\n{fault}"


# ## Train
#
@dataclass(frozen=True, kw_only=True)
class Order:
    """
    ### Order

    * `preset` is the set of hyperparameters
    * `variant` is one of the experiment's; without it all are trained, each in a folder
      of its own
    * `text` is a text file in UTF-8 to train on
    * `out` is the run folder
    * `resume` is whether to continue the run in the folder, with its hyperparameters
    * `quiet` is whether to print only the result

    `experiment` is what to train, and `model` and `training` are the fields of their
    configurations that were typed.
    """

    experiment: Experiment
    model: Mapping[str, Any]
    training: Mapping[str, Any]
    preset: str
    variant: str | None = None
    text: str | None = None
    out: str | None = None
    resume: bool = False
    quiet: bool = False

    @property
    def folder(self) -> RunFolder:
        """The run folder, or that of all variants."""
        named_ = [self.experiment.name, *filter(None, [self.variant])]
        return RunFolder(self.out or Path("runs", *named_))

    @property
    def config(self) -> TrainingConfig:
        """The hyperparameters, on resuming those of the run."""
        if self.resume and self.folder.run_file.is_file():
            known = load_run(self.folder.path).training.values()
            return TrainingConfig.of({**known, **self.training})
        return self.experiment.training(self.preset, self.training)

    @property
    def runs(self) -> "list[Order]":
        """An order for each variant, if all are to be trained."""
        if self.variant is not None or not self.experiment.variants:
            return [self]
        path, several = self.folder.path, []
        for variant in self.experiment.variants:
            one = replace(self, variant=variant, out=str(path / variant))
            there = self.resume and one.folder.run_file.is_file()
            several.append(replace(one, resume=there))
        return several


def train(words: Sequence[str]) -> int:
    """
    train a model, or continue a run (--resume)

    Everything that can be refused is refused before the first training starts. Of
    several variants, those that have finished are left alone on resuming.
    """
    order = read_order(words)
    config = order.runs[0].config
    World.announced().share(config.batch_size, config.accumulate)
    world = World.join(pick_device(config.device))
    if world.main:
        for one in order.runs:
            if not one.resume:
                one.folder.check_new()
    for one in order.runs:
        if one is not order and one.resume and one.folder.result.is_file():
            before = load_run(one.folder.path).result()["result"]
            if before["stopped"] == "finished":
                continue
        if train_one(one, order, world).stopped == "interrupted":
            world.leave()
            return INTERRUPTED
    if world.main and len(order.runs) > 1:
        print(compared(order))
    world.leave()
    return 0


def read_order(words: Sequence[str]) -> Order:
    """
    ### From words to an order

    The preset is read first, since the help shows its hyperparameters.
    """
    known = experiments()
    first = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    first.add_argument("--preset", nargs="?")
    preset = first.parse_known_args(words)[0].preset or default_preset()
    name = next((word for word in words if word in known), None)
    if name is None:
        if words and not words[0].startswith("-"):
            check_known("experiment", words[0], known)
        parser = Parser("train NAME", "Train a model.", epilog=str(known))
        if not {"-h", "--help"}.isdisjoint(words):
            parser.parse_args(["--help"])
        parser.error(f"the name of an experiment is missing; known: {', '.join(known)}")
    experiment = known[name]
    chosen = experiment.preset(preset)
    varied = {one for changed in experiment.variants.values() for one in changed}
    for word in normalised(words):
        flag = word.partition("=")[0]
        if flag.startswith("--") and flag[2:].replace("-", "_") in varied:
            raise UsageError(
                f"{flag} is what the variants of {name} differ in; choose one with "
                f"--variant: {', '.join(experiment.variants)}"
            )
    presets = (f"  {name:<7}{one.about}" for name, one in experiment.presets.items())
    about = f"{experiment.title}: {experiment.summary}."
    epilog = "\n".join(["presets:", *presets])
    parser = Parser(f"train {name}", about, epilog=epilog)
    parser.add_argument("experiment", help=argparse.SUPPRESS)
    defaults = {
        "preset": preset,
        "variant": f"all of {', '.join(experiment.variants)}",
        "text": "Tiny Shakespeare",
        "out": f"runs/{name}",
    }
    mine = {"experiment", "model", "training"}
    mine |= set() if experiment.variants else {"variant"}
    parser.add_flags("the run", Order, defaults, leave_out=mine)
    model = models()[experiment.model].load_class().Config
    task = TASKS[experiment.task](None, vocabulary=Vocabulary("a"))
    leave_out = varied | {"padding_token", *task.model_fields}
    defaults = {"max_len": "seq_len", **chosen.model}
    parser.add_flags("the model", model, defaults, leave_out)
    parser.add_flags("the training", TrainingConfig, chosen.training)
    values = parser.read(words) | {"experiment": experiment}
    order = Order(
        **{"preset": preset, **typed(values, Order)},
        model=typed(values, model),
        training=typed(values, TrainingConfig),
    )
    experiment.model_fields(preset, order.variant)
    return order


def typed(values: Mapping[str, Any], config: type) -> dict[str, Any]:
    """The fields of `config` among the values that were typed."""
    return {f.name: values[f.name] for f in fields(config) if f.name in values}


def train_one(order: Order, whole: Order, world: World) -> Result:
    """One training of the `whole`."""
    trainer = trainer_of(order, world)
    if world.main and not order.quiet:
        count = sum(parameter.numel() for parameter in trainer.model.parameters())
        corpus, step = trainer.task.corpus, trainer.history.step
        print(
            f"{named(trainer.about)}: a model with {count:,} parameters on "
            f"{f'{world.size} x ' if world.size > 1 else ''}{trainer.device}\n"
            f"{corpus.name}: {len(corpus.train_text):,} characters for training, "
            f"{len(corpus.validation_text):,} for validation"
            + (f"\nresuming after {step:,} updates" if step else "")
        )
    result = trainer.train()
    if result.stopped == "not finite":
        raise RunError(
            f"the run in {order.folder.path} has ended after {result.step:,} of "
            f"{trainer.config.steps:,} updates; start a new one (--out), with what the "
            "warning suggests"
        )
    if world.main:
        print(ending(order, whole, trainer, result))
    return result


def named(about: Mapping[str, Any]) -> str:
    """Experiment, variant and preset of a run."""
    parts = (about[part] for part in ("experiment", "variant", "preset"))
    return ", ".join(part for part in parts if part)


def trainer_of(order: Order, world: World) -> Trainer:
    """
    A trainer of a new run, or of one that continues. Raises `RunError` for a run that
    is missing, or that differs from what was typed.
    """
    folder, name = order.folder, order.experiment.name
    shown = Warnings() if order.quiet else Progress()
    more: dict[str, Any] = {
        "world": world,
        "reporters": [shown, LabmlRecord(folder.path / "labml")],
        "about": {"experiment": name, "variant": order.variant, "preset": order.preset},
    }
    if not order.resume:
        built = order.experiment.build(
            order.preset,
            corpus=read_corpus(order.text),
            variant=order.variant,
            model=order.model,
            training=order.training,
        )
        return Trainer(*built, folder.path, **more)
    run = load_run(folder.path)
    if (run.about["experiment"], run.about["variant"]) != (name, order.variant):
        raise RunError(
            f"the run in {folder.path} is another one ({named(run.about)}); continue "
            "that, or start a new run in another folder (--out)"
        )
    model, task = run.new_model(**order.model), run.task(order.text)
    trainer = Trainer(model, task, order.config, folder.path, **more)
    trainer.resume()
    return trainer


class Warnings(Reporter):
    """Only warnings, on the standard error."""

    def warned(self, text: str) -> None:
        """The warning."""
        print(f"warning: {text}", file=sys.stderr)


def ending(order: Order, whole: Order, trainer: Trainer, result: Result) -> str:
    """The result, and the next command as a line to copy."""
    folder = str(order.folder.path)
    if result.stopped == "interrupted":
        chosen = [] if whole.variant is None else ["--variant", whole.variant]
        words = ["train", order.experiment.name, *chosen]
        words += ["--out", str(whole.folder.path), "--resume"]
        caller = program()
        if trainer.world.size > 1:
            here = os.environ.get("LOCAL_WORLD_SIZE", str(trainer.world.size))
            caller = f"torchrun --nproc-per-node {here} -m labml_nn"
        return (
            f"interrupted after {result.step:,} updates, and saved; continue with\n"
            f"  {caller} {shlex.join(words)}"
        )
    words = ["generate", folder]
    if trainer.task.replies:
        words += ["--prompt", trainer.task.sample_prompt.splitlines()[0]]
    return (
        f"{result.step:,} updates in {result.seconds:,.1f} s; validation loss "
        f"{result.validation_loss:.4f} nats per character, at best "
        f"{result.best_validation_loss:.4f}\ngenerate text with it:\n"
        f"  {program()} {shlex.join(words)}"
    )


def compared(order: Order) -> str:
    """The best losses of all variants, lowest first, and a picture of their curves."""
    results = {str(o.variant): load_run(o.folder.path).result() for o in order.runs}
    lines = [
        lines_of(result["curve"], variant, colour)[1]
        for colour, (variant, result) in enumerate(results.items())
    ]
    picture = order.folder.path / "curves.svg"
    picture.write_text(curve_svg(lines, order.experiment.title), encoding="utf-8")
    best = {v: r["result"]["best_validation_loss"] for v, r in results.items()}
    table = [f"  {best[v]:.4f}  {v}" for v in sorted(best, key=best.__getitem__)]
    return "\n".join(["best validation loss:", *table, f"curves: {picture}"])


# ## Commands for trained models
#
def read_run(
    words: Sequence[str], command: str, about: str, config: type, **defaults: Any
) -> tuple[Run, dict[str, Any]]:
    """
    The run that the first word names, and the fields of `config` that were typed. An
    experiment with variants has a run in each subfolder: the error names them.
    """
    parser = Parser(f"{command} RUN", about)
    help_ = "the folder of a run, such as runs/feedback"
    parser.add_argument("RUN", help=help_, type=Path)
    parser.add_flags("flags", config, defaults)
    values = parser.read(words)
    path = values.pop("RUN")
    below = sorted(str(file.parent) for file in path.glob("*/run.json"))
    if below and not RunFolder(path).run_file.is_file():
        listed = ", ".join(below)
        raise RunError(f"{path} is not a run, but contains some: {listed}")
    config(**values)  # impossible values are refused before the run is read
    return load_run(path), values


@dataclass(frozen=True, kw_only=True)
class Generation:
    """
    ### Generate text

    * `prompt` is the text to continue, or to reply to; without one, a text starts after
      a new line
    * `tokens` is the number of characters to generate, at most
    * `temperature` divides the logits: below 1 probable characters become more
      probable, above 1 less; 0 is greedy decoding
    * `top_k` samples from that many of the most probable characters only
    * `top_p` samples from the smallest set of characters with this total probability
    * `seed` makes the text repeatable
    * `count` is the number of texts
    * `device` is `"cpu"`, `"cuda"`, `"cuda:1"`, `"mps"`, or `"auto"` for a GPU if there
      is one
    """

    prompt: str = ""
    tokens: int = 300
    temperature: float = 0.8
    top_k: int | None = None
    top_p: float | None = None
    seed: int | None = None
    count: int = 1
    device: str = "auto"

    def __post_init__(self) -> None:
        check_sizes(tokens=self.tokens, count=self.count)
        if not 0 <= self.temperature < math.inf:
            raise ValueError(
                f"`temperature` ({self.temperature}) must be at least 0 and finite; 0 "
                "is greedy decoding"
            )
        TrainingConfig(device=self.device, seed=self.seed or 0)
        _ = self.sampler  # which checks `top_k` and `top_p`

    @property
    def sampler(self) -> Sampler:
        """Truncation follows the temperature."""
        if self.temperature == 0:
            return Greedy()
        steps: list[Sampler] = [Temperature(self.temperature)]
        if self.top_k is not None:
            steps.append(TopK(self.top_k))
        if self.top_p is not None:
            steps.append(Nucleus(self.top_p))
        return Chain(*steps)


def generate_text(words: Sequence[str]) -> int:
    """
    generate text with a trained model

    A character is printed as soon as it is drawn. The empty prompt is a new line, but
    not for a model that replies.
    """
    about = "Generate text with a trained model."
    trained, values = read_run(words, "generate", about, Generation)
    settings, task = Generation(**values), trained.wording
    device = pick_device(settings.device)
    characters = trained.vocabulary.characters
    if not settings.prompt and (task.replies or "\n" not in characters):
        what = "replies to a text" if task.replies else "knows no new line to start at"
        example = "What is your name?" if task.replies else characters[0]
        raise ValueError(f'this model {what}; try --prompt "{example}"')
    prompt = settings.prompt or "\n"
    tokens = task.prompt(prompt).to(device)
    model = trained.model(device)

    # The prompt appears with the first character: reading it may compile a kernel,
    # which says so on the terminal.
    shown = ""

    def show(_: int, token: int) -> None:
        nonlocal shown
        sys.stdout.write(shown)
        sys.stdout.write(task.decode([token]))
        sys.stdout.flush()
        shown = ""

    for i in range(settings.count):
        if i:
            print(f"\n--- {i + 1} of {settings.count} ---")
        shown = "" if task.replies else prompt
        generate(
            model,
            tokens,
            settings.tokens,
            settings.sampler,
            seed=None if settings.seed is None else settings.seed + i,
            on_token=show,
        )
        print()
    return 0


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """
    ### Evaluate a model

    * `text` is a text file in UTF-8, whose last tenth is read
    * `device` is `"cpu"`, `"cuda"`, `"cuda:1"`, `"mps"`, or `"auto"` for a GPU if there
      is one
    """

    text: str | None = None
    device: str = "auto"


def evaluate(words: Sequence[str]) -> int:
    r"""
    compute the loss of a trained model on a text

    The mean loss $\mathcal{L}$ in nats, in bits ($\mathcal{L} / \ln 2$), and as the
    perplexity $e^{\mathcal{L}}$, of the validation split of the text of the training,
    or of the last tenth of another text.
    """
    about = "Compute the validation loss of a trained model."
    default = "that of the training"
    trained, values = read_run(words, "evaluate", about, Evaluation, text=default)
    settings = Evaluation(**values)
    device = pick_device(TrainingConfig(device=settings.device).device)
    task = trained.task(settings.text)
    loss = validation_loss(trained.model(device), task, device)
    corpus = task.corpus
    target = "character of a reply" if task.replies else "character"
    held_out, whole = len(corpus.validation_text), len(corpus.text)
    print(f"run         {trained.folder.path} ({named(trained.about)})")
    print(f"text        {corpus.name}, the last {held_out:,} of {whole:,} characters")
    print(f"loss        {loss:.4f} nats per {target}")
    print(f"            {loss / math.log(2):.4f} bits")
    print(f"perplexity  {math.exp(min(loss, 700)):.2f}")
    if corpus.sha256 != trained.about["corpus"]["sha256"]:
        print(
            f"The model was trained on another text: {trained.about['corpus']['name']}."
        )
    return 0


@dataclass(frozen=True, kw_only=True)
class Drawing:
    """
    ### Draw attention weights

    * `text` is the input of the model
    * `out` is the picture, an SVG
    * `layer` is its number, from 1 on; a model that replies has cross-attention too
    * `head` is its number, from 0 on
    """

    text: str = ""
    out: str = "attention.svg"
    layer: int | None = None
    head: int | None = None


def attention(words: Sequence[str]) -> int:
    """draw the attention weights of a trained model"""
    defaults = {"layer": "the last", "head": "all", "text": "must be given"}
    about = "Draw the attention weights of a trained model."
    trained, values = read_run(words, "attention", about, Drawing, **defaults)
    settings, path = Drawing(**values), Path(values.get("out", Drawing.out))
    if path.suffix.lower() != ".svg" or not path.parent.is_dir():
        raise ValueError(f"--out ({path}) must end in .svg, in a folder that exists")
    task, model = trained.wording, trained.model()
    tokens = task.prompt(settings.text)
    longest = getattr(model.config, "max_len", None) or len(tokens)
    if len(tokens) > longest:
        raise ValueError(
            f"the text has {len(tokens)} tokens, and the context of this model is "
            f"{longest}"
        )
    inputs = [tokens]
    if task.replies:
        start = torch.tensor([[model.config.start_token]])  # type: ignore[attr-defined]
        reply = generate(model, tokens, min(longest - 1, 80))
        inputs.append(torch.cat([start, reply[reply[:, 0] != model.end_token]]))
    labels = [*trained.vocabulary.characters, *task.special]
    maps = attention_maps(model, *inputs, vocabulary=labels)
    layer = len(maps) if settings.layer is None else settings.layer
    if not 1 <= layer <= len(maps):
        raise ValueError(f"there is no layer {layer}; expected 1 to {len(maps)}")
    one, head = maps[layer - 1], settings.head
    if head is not None and not 0 <= head < (heads := one.sizes["head"]):
        raise ValueError(f"there is no head {head}; expected 0 to {heads - 1}")
    save_picture(one, settings.out, heads=None if head is None else [head])
    print(f"{settings.out}: {one.title}")
    return 0


def show_experiments(words: Sequence[str]) -> int:
    """show the experiments that can be trained"""
    Parser("list", "Show the experiments.").read(words)
    print(experiments())
    return 0


COMMANDS = {
    "train": train,
    "generate": generate_text,
    "evaluate": evaluate,
    "attention": attention,
    "list": show_experiments,
}
