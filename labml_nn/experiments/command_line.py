r"""
---
title: Command line
summary: >
  Train a model, generate text, evaluate and draw attention maps, each with one command,
  whose flags derive from the configurations.
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

Every field of a configuration is a flag. Its type, default and help come from the
dataclass and from the list in its docstring, so that the command line knows what the
library knows:

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
import shutil
import sys
import traceback
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields
from difflib import get_close_matches
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, NoReturn, Union, get_args, get_origin, get_type_hints

import torch
from torch import Tensor

from labml_nn.attention_maps import AttentionMap, attention_maps, save_picture
from labml_nn.checks import check_known, check_sizes
from labml_nn.experiments.checkpoint import Run, RunFolder, load_run
from labml_nn.experiments.config import TrainingConfig
from labml_nn.experiments.curve import curve_svg, lines_of
from labml_nn.experiments.data import Vocabulary, read_corpus
from labml_nn.experiments.distributed import World
from labml_nn.experiments.files import RunError
from labml_nn.experiments.presets import Experiment, default_preset, experiments
from labml_nn.experiments.reporters import LabmlRecord, Progress, Reporter, Result
from labml_nn.experiments.tasks import TASKS
from labml_nn.experiments.trainer import Trainer, validation_loss
from labml_nn.experiments.update import is_memory, pick_device
from labml_nn.language_model import LanguageModel
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
RUNS = Path("runs")
FOLDER = "the folder of a run, such as runs/feedback"
DEVICE = "cpu, cuda, cuda:1, mps, or auto for a GPU if there is one (default: auto)"


# ## Flags from dataclasses
#
class UsageError(ValueError):
    """A command line that cannot be parsed."""


@dataclass(frozen=True)
class Flag:
    """
    ### Flag

    The `field` of a configuration, the `kinds` of values that its annotation allows,
    the `default` that the help shows, and its `meaning`.
    """

    field: str
    kinds: tuple[Any, ...]
    default: Any
    meaning: str

    @property
    def name(self) -> str:
        """`--d-model`."""
        return "--" + self.field.replace("_", "-")

    def value(self, text: str) -> Any:
        """Parses `text`; argparse adds the name of the flag to the error."""
        if text.lower() == "none" and NoneType in self.kinds:
            return None
        if str in self.kinds or not {int, float}.intersection(self.kinds):
            return text
        kind = int if int in self.kinds else float
        try:
            return kind(text)
        except ValueError:
            expected = "a whole number" if kind is int else "a number"
            raise argparse.ArgumentTypeError(f"{text!r} is not {expected}") from None

    def add_to(self, group: Any) -> None:
        """
        Adds the flag to a parser without a default: the result holds only what was
        typed, so that a preset or the run that continues determines the rest.
        """
        default = "none" if self.default is None else self.default
        letter = "N" if int in self.kinds else "X" if float in self.kinds else "TEXT"
        words = [word for kind in self.kinds for word in get_args(kind)]
        kwargs: dict[str, Any] = {"type": self.value, "metavar": letter}
        if words:
            kwargs |= {"metavar": "WORD", "choices": words}
        if bool in self.kinds:
            default = self.name if default else self.name.replace("--", "--no-", 1)
            kwargs = {"action": argparse.BooleanOptionalAction}
        shown = "" if self.default is MISSING else f" (default: {default})"
        help_ = (self.meaning + shown).replace("%", "%%")
        group.add_argument(self.name, default=argparse.SUPPRESS, help=help_, **kwargs)


def flags_of(
    config: type, defaults: Mapping[str, Any], leave_out: Iterable[str] = ()
) -> list[Flag]:
    """
    ### Flags of a configuration

    `defaults` are shown in place of those of the class, and the fields in `leave_out`
    have no flag.
    """
    annotations, meaning, flags = get_type_hints(config), meanings(config), []
    for field in fields(config):
        if field.name not in leave_out:
            kind = annotations[field.name]
            several = get_origin(kind) in (Union, UnionType)
            kinds = get_args(kind) if several else (kind,)
            default = defaults.get(field.name, field.default)
            flags.append(Flag(field.name, kinds, default, meaning[field.name]))
    return flags


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
    base class, in plain text; empty if there is none.
    """
    found: dict[str, str] = {}
    for one in reversed(config.__mro__):
        for item in ITEM.findall(inspect.cleandoc(one.__doc__ or "")):
            if start := NAMES.match(text := " ".join(item.split())):
                about = text[start.end() :]
                for pattern, plain in PLAIN:
                    about = pattern.sub(plain, about)
                found |= dict.fromkeys(re.findall(r"\w+", start[1]), about.strip())
    for name in {field.name for field in fields(config)} - set(found):
        mentions = (
            about for about in found.values() if re.search(rf"\b{name}\b", about)
        )
        found[name] = next(mentions, "")
    return found


class Parser(argparse.ArgumentParser):
    """
    ### Parser

    argparse with errors raised instead of printed, the nearest match of a misspelt
    flag, `--d_model` for `--d-model`, and numbers such as `-1e-2` as values.
    """

    def __init__(self, about: str, command: str) -> None:
        width = min(shutil.get_terminal_size().columns, 100) - 2
        super().__init__(
            prog=f"{program()} {command}",
            description=about,
            allow_abbrev=False,
            formatter_class=lambda prog: argparse.HelpFormatter(
                prog, max_help_position=28, width=width
            ),
        )

    def read(self, words: Sequence[str]) -> argparse.Namespace:
        """What was typed. Raises `UsageError`."""
        values, rest = self.parse_known_args(normalised(words))
        if rest:
            word = rest[0].partition("=")[0]
            if not word.startswith("-"):
                self.error(f"unexpected word {word!r}")
            known = [name for name in self._option_string_actions if name != "-h"]
            close = get_close_matches(word, known, n=1)
            meant = f"; did you mean {close[0]}?" if close else ""
            self.error(f"there is no flag {word}{meant}")
        return values

    def error(self, message: str) -> NoReturn:
        """Raises `UsageError` instead of ending the program."""
        message = message.removeprefix("argument ")
        message = message.replace("expected one argument", "a value must follow")
        raise UsageError(f"{message}\n`{self.prog} --help` explains all flags")


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


def typed(values: argparse.Namespace, flags: Iterable[Flag]) -> dict[str, Any]:
    """The fields of `flags` that were on the command line."""
    return {
        f.field: getattr(values, f.field) for f in flags if hasattr(values, f.field)
    }


# ## Main program
#
COMMANDS = {
    "train": "train a model, or continue a run (--resume)",
    "generate": "generate text with a trained model",
    "evaluate": "compute the loss of a trained model on a text",
    "attention": "draw the attention weights of a trained model",
    "list": "show the experiments that can be trained",
}


def main(words: Sequence[str] | None = None) -> int:
    """
    Runs the command line `words`, by default that of the process. Returns the exit
    code; nothing is raised.
    """
    words = sys.argv[1:] if words is None else list(words)
    debug = "--debug" in words or bool(os.environ.get("LABML_NN_DEBUG"))
    try:
        return run([word for word in words if word != "--debug"])
    except SystemExit as done:
        return done.code if isinstance(done.code, int) else 0
    except BrokenPipeError:  # as in `generate ... | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except BaseException as error:
        if debug:
            traceback.print_exc()
        code, text = explained(error)
        try:
            world = World.announced()
        except ValueError:
            world = World()

        # All processes see a wrong flag, and the first one reports it.
        if world.main or code not in (REFUSED, INTERRUPTED):
            who = f"process {world.rank}: " if world.size > 1 else ""
            shown = text if code == INTERRUPTED else f"{who}error: {text}"
            print(shown, file=sys.stderr)
        return code


def run(words: list[str]) -> int:
    """Runs a command, and raises what it raises."""
    if not words or words[0] in ("-h", "--help", "help"):
        listed = "\n".join(f"  {name:<11}{about}" for name, about in COMMANDS.items())
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
    if words[0] == "list":
        Parser("Show the experiments.", "list").read(words[1:])
        print(experiments())
        return 0
    command = {"train": train, "generate": generate_text}
    command |= {"evaluate": evaluate, "attention": attention}
    return command[words[0]](words[1:])


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
        gpu = " of the GPU" if isinstance(error, torch.OutOfMemoryError) else ""
        return FAILED, (
            f"the memory{gpu} is full; use a smaller --batch-size, --seq-len or model "
            "(--d-model, --n-layers), or accumulate gradients (--accumulate)"
        )
    if isinstance(error, RunError):
        return FAILED, str(error)
    if isinstance(error, OSError):
        where = f": {error.filename}" if error.filename else ""
        if error.errno is None:
            return REFUSED, str(error)
        if error.errno == errno.ENOSPC:
            advice = "free some space, or write elsewhere with --out"
            return FAILED, f"the disk is full{where}; {advice}"
        return REFUSED, f"{(error.strerror or str(error)).lower()}{where}"
    if isinstance(error, ValueError | TypeError):
        return REFUSED, str(error) or type(error).__name__
    if isinstance(error, ImportError) and error.name:
        return FAILED, f"{error.name} is missing; pip install 'labml-nn[train]'"
    fault = "this is a fault of the library; --debug shows where it happened"
    return FAILED, f"{type(error).__name__}: {error}\n{fault}"


# ## Train
#
@dataclass(frozen=True)
class Order:
    """
    ### Order

    * `experiment` and `preset` are what to train; `variant` is one of its variants, and
      `None` means all of them
    * `out` is the folder, `text` a file to train on
    * `resume` continues the run in the folder, `quiet` prints only the end
    * `model` and `training` are the fields that were typed
    """

    experiment: Experiment
    preset: str
    variant: str | None
    out: Path
    text: str | None
    resume: bool
    quiet: bool
    model: Mapping[str, Any]
    training: Mapping[str, Any]

    @property
    def variants(self) -> list[str | None]:
        """All variants to train."""
        if self.variant is not None or not self.experiment.variants:
            return [self.variant]
        return list(self.experiment.variants)

    def folder(self, variant: str | None) -> RunFolder:
        """The run folder of a variant."""
        return RunFolder(self.out / variant if variant != self.variant else self.out)  # type: ignore[operator]

    def config(self, folder: RunFolder) -> TrainingConfig:
        """The hyperparameters, on resuming those of the run."""
        if self.resume and folder.run_file.is_file():
            known = load_run(folder.path).training.values()
            return TrainingConfig.of({**known, **self.training})
        return self.experiment.training(self.preset, self.training)


def train(words: Sequence[str]) -> int:
    """
    ### Train a model

    Everything that can be refused is refused before the first training starts.
    """
    order = read_order(words)
    if order is None:
        return 0
    folders = [order.folder(variant) for variant in order.variants]
    known = (folder for folder in folders if folder.run_file.is_file())
    config = order.config(next(known, folders[0]))
    World.announced().share(config.batch_size, config.accumulate)
    world = World.join(pick_device(config.device))
    if world.main and not order.resume:
        for folder in folders:
            folder.check_new()
    code = 0
    for variant in order.variants:
        result = train_one(order, variant, world)
        if result is not None and result.stopped == "interrupted":
            code = INTERRUPTED
            break
    if world.main and len(folders) > 1 and not code:
        print(compared(order))
    world.leave()
    return code


def read_order(words: Sequence[str]) -> Order | None:
    """From words to an order; `None` if the help was printed."""
    names = experiments().names
    if words and not words[0].startswith("-"):
        check_known("experiment", words[0], names)
    name = next((word for word in words if word in names), None)
    if name is None:
        if {"-h", "--help"} & set(words):
            print(
                f"usage: {program()} train NAME [FLAGS]\n\n{experiments()}\n\n"
                f"`{program()} train NAME --help` shows the flags of an experiment."
            )
            return None
        raise UsageError(
            f"the name of an experiment is missing; known: {', '.join(names)}\n"
            f"`{program()} list` describes them"
        )
    experiment = experiments()[name]
    varied = {one for changed in experiment.variants.values() for one in changed}
    for word in normalised(words):
        flag = word.partition("=")[0]
        if flag.startswith("--") and flag[2:].replace("-", "_") in varied:
            raise UsageError(
                f"{flag} is what the variants of {name} differ in; choose one with "
                f"--variant: {', '.join(experiment.variants)}"
            )

    # The preset is read first, since the help shows its hyperparameters.
    first = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    first.add_argument("--preset", nargs="?", default=default_preset())
    preset = first.parse_known_args(words)[0].preset or default_preset()
    numbers = experiment.preset(preset)
    parser = Parser(f"{experiment.title}: {experiment.summary}.", f"train {name}")
    parser.usage = f"{parser.prog} [FLAGS]"
    parser.add_argument("experiment", help=argparse.SUPPRESS)
    _add_run_flags(parser, experiment, preset)
    task = TASKS[experiment.task](None, vocabulary=Vocabulary("a"))
    model = flags_of(
        models()[experiment.model].load_class().Config,
        {"max_len": "seq_len", **numbers.model},
        leave_out=varied | {"padding_token", *task.model_fields},
    )
    training = flags_of(TrainingConfig, numbers.training)
    for title, flags in (("the model", model), ("the training", training)):
        group = parser.add_argument_group(title)
        for one in flags:
            one.add_to(group)
    values = parser.read(words)
    if values.variant is not None:
        experiment.model_fields(preset, values.variant)
    return Order(
        experiment,
        preset,
        values.variant,
        values.out or RUNS.joinpath(name, *filter(None, [values.variant])),
        values.text,
        values.resume,
        values.quiet,
        typed(values, model),
        typed(values, training),
    )


def _add_run_flags(parser: Parser, experiment: Experiment, preset: str) -> None:
    group = parser.add_argument_group("the run")
    presets = "; ".join(f"{name}: {p.about}" for name, p in experiment.presets.items())
    about = f"hyperparameters. {presets} (default: {preset})".replace("%", "%%")
    group.add_argument("--preset", metavar="WORD", help=about)
    about = "a text in UTF-8 to train on (default: Tiny Shakespeare)"
    group.add_argument("--text", metavar="FILE", help=about)
    parser.set_defaults(variant=None)
    if experiment.variants:
        listed = ", ".join(experiment.variants)
        about = f"one of {listed}; without it all, each in a folder of its own"
        group.add_argument("--variant", metavar="WORD", help=about)
    about = f"the run folder (default: {RUNS / experiment.name})"
    group.add_argument("--out", type=Path, metavar="FOLDER", help=about)
    about = "continue the run in the folder, with its own hyperparameters"
    group.add_argument("--resume", action="store_true", help=about)
    group.add_argument("--quiet", action="store_true", help="print only the result")


def train_one(order: Order, variant: str | None, world: World) -> Result | None:
    """One training; `None` for a variant that was finished before."""
    folder, several = order.folder(variant), len(order.variants) > 1
    resume = order.resume and (folder.run_file.is_file() or not several)
    if several and resume and folder.result.is_file():
        stopped = load_run(folder.path).result()["result"]["stopped"]
        if stopped == "finished" and world.main:
            print(f"{folder.path} is finished")
        if stopped == "finished":
            return None
    trainer = (_resumed if resume else _new)(order, variant, world)
    trainer.reporters += _reporters(order, folder) if world.main else []
    if world.main and not order.quiet:
        count = sum(parameter.numel() for parameter in trainer.model.parameters())
        corpus, step = trainer.task.corpus, trainer.history.step
        print(
            f"{_names(trainer.about)}: a model with {count:,} parameters on "
            f"{f'{world.size} x ' if world.size > 1 else ''}{trainer.device}\n"
            f"{corpus.name}: {len(corpus.train_text):,} characters for training, "
            f"{len(corpus.validation_text):,} for validation"
            + (f"\nresuming after {step:,} updates" if step else "")
        )
    result = trainer.train()
    if result.stopped == "not finite":
        raise RunError(
            f"the run in {folder.path} has ended after {result.step:,} of "
            f"{trainer.config.steps:,} updates; start a new one (--out), with what the "
            "warning suggests"
        )
    if world.main:
        print(_ending(order, trainer, result))
    return result


def _names(about: Mapping[str, Any]) -> str:
    named = (about[part] for part in ("experiment", "variant", "preset"))
    return ", ".join(name for name in named if name)


def _new(order: Order, variant: str | None, world: World) -> Trainer:
    built = order.experiment.build(
        order.preset,
        corpus=read_corpus(order.text),
        variant=variant,
        model=order.model,
        training=order.training,
    )
    name = order.experiment.name
    about = {"experiment": name, "variant": variant, "preset": order.preset}
    return Trainer(*built, order.folder(variant).path, world=world, about=about)


def _resumed(order: Order, variant: str | None, world: World) -> Trainer:
    """
    ### Resume

    What was typed is compared with the run: another model would not fit. Raises
    `RunError` for a run that is missing, or of another experiment or model.
    """
    folder = order.folder(variant)
    if not folder.run_file.is_file():
        raise RunError(
            f"there is no run in {folder.path} to continue; name its folder (--out), "
            "or leave out --resume to start one"
        )
    run = load_run(folder.path)
    known = {**run.about["model"]["config"], **run.about}
    typed_ = {"experiment": order.experiment.name, "variant": variant, **order.model}
    if differ := [
        f"{name}: {known.get(name)} there, {value} here"
        for name, value in typed_.items()
        if known.get(name) != value
    ]:
        listed = "\n  ".join(differ)
        raise RunError(
            f"the run in {folder.path} is another one:\n  {listed}\n"
            "leave out what differs, or start a new run in another folder (--out)"
        )
    task, config = run.task(order.text), order.config(folder)
    trainer = Trainer(run.new_model(), task, config, folder.path, world=world)
    trainer.resume()
    return trainer


class Warnings(Reporter):
    """Only warnings, on the standard error."""

    def warned(self, text: str) -> None:
        """The warning."""
        print(f"warning: {text}", file=sys.stderr)


def _reporters(order: Order, folder: RunFolder) -> list[Reporter]:
    shown = Warnings() if order.quiet else Progress()
    return [shown, LabmlRecord(folder.path / "labml")]


def _ending(order: Order, trainer: Trainer, result: Result) -> str:
    # The result, and the next command as a line to copy.
    folder = str(trainer.folder.path)  # type: ignore[union-attr]
    if result.stopped == "interrupted":
        chosen = [] if order.variant is None else ["--variant", order.variant]
        words = ["train", order.experiment.name, *chosen, "--out", str(order.out)]
        caller = program()
        if trainer.world.size > 1:
            here = os.environ.get("LOCAL_WORLD_SIZE", str(trainer.world.size))
            caller = f"torchrun --nproc-per-node {here} -m labml_nn"
        return (
            f"interrupted after {result.step:,} updates, and saved; continue with\n"
            f"  {caller} {shlex.join(words)} --resume"
        )
    several, seconds = len(order.variants) > 1, result.seconds
    ending = (
        f"{f'{Path(folder).name}: ' if several else ''}{result.step:,} updates in "
        f"{seconds:,.{int(seconds < 10)}f} s; validation loss "
        f"{result.validation_loss:.4f} nats per character, at best "
        f"{result.best_validation_loss:.4f}"
    )
    if several:
        return ending
    task, words = trainer.task, ["generate", folder]
    if task.replies:
        words += ["--prompt", task.sample_prompt.splitlines()[0]]
    return f"{ending}\ngenerate text with it:\n  {program()} {shlex.join(words)}"


def compared(order: Order) -> str:
    """The best losses of all variants, lowest first, and a picture of their curves."""
    results = {str(v): load_run(order.folder(v).path).result() for v in order.variants}
    lines = [
        line
        for i, (variant, result) in enumerate(results.items())
        for line in lines_of(result, variant, colour=i, train=False)
    ]
    picture = order.out / "curves.svg"
    drawn = curve_svg(lines, title=order.experiment.title)
    picture.write_text(drawn + "\n", encoding="utf-8", newline="\n")
    best = {v: r["result"]["best_validation_loss"] for v, r in results.items()}
    width = max(map(len, best)) + 2
    table = [f"  {v:<{width}}{best[v]:.4f}" for v in sorted(best, key=best.__getitem__)]
    return "\n".join(["best validation loss:", *table, f"curves: {picture}"])


# ## Generate
#
@dataclass(frozen=True, kw_only=True)
class Generation:
    """
    ### Settings

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
        if self.seed is not None and not 0 <= self.seed < 2**63:
            raise ValueError(f"`seed` ({self.seed}) must be from 0 to 2**63 - 1")
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
    ### Generate text

    A character is printed as soon as it is drawn.
    """
    parser = Parser("Generate text with a trained model.", "generate")
    parser.add_argument("run", metavar="RUN", help=FOLDER)
    flags = flags_of(Generation, {})
    for flag in flags:
        flag.add_to(parser)
    values = parser.read(words)
    settings = Generation(**typed(values, flags))
    device = pick_device(TrainingConfig(device=settings.device).device)
    trained = find_run(values.run)
    prompt = _prompt(trained, settings.prompt)
    model, task = trained.model(device), trained.wording
    tokens = task.prompt(prompt).to(device)

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


def find_run(folder: str) -> Run:
    """
    ### Find the run

    An experiment with variants has a run in each subfolder: the error names them.
    """
    path = Path(folder)
    if not RunFolder(path).run_file.is_file():
        below = sorted(str(file.parent) for file in path.glob("*/run.json"))
        if below:
            listed = ", ".join(below)
            raise RunError(f"{path} is not a run, but contains some: {listed}")
    return load_run(path)


def _prompt(trained: Run, prompt: str) -> str:
    # The empty prompt is a new line, but not for a model that replies.
    characters = trained.vocabulary.characters
    if not prompt and trained.wording.replies:
        raise ValueError(
            'this model replies to a text; try --prompt "What is your name?"'
        )
    if not prompt and "\n" not in characters:
        raise ValueError(
            "the text of this model had no new line to start from; choose a first "
            f'character: --prompt "{characters[0]}"'
        )
    return prompt or "\n"


# ## Evaluate
#
def evaluate(words: Sequence[str]) -> int:
    r"""
    ### Evaluate a model

    The mean loss $\mathcal{L}$ in nats, in bits ($\mathcal{L} / \ln 2$), and as the
    perplexity $e^{\mathcal{L}}$, of the validation split of the text of the training,
    or of the last tenth of another text.
    """
    parser = Parser("Compute the validation loss of a trained model.", "evaluate")
    parser.add_argument("run", metavar="RUN", help=FOLDER)
    about = "a text in UTF-8, whose last tenth is read (default: that of the training)"
    parser.add_argument("--text", metavar="FILE", help=about)
    parser.add_argument("--device", default="auto", metavar="TEXT", help=DEVICE)
    values = parser.read(words)
    device = pick_device(TrainingConfig(device=values.device).device)
    trained = find_run(values.run)
    task = trained.task(values.text)
    loss = validation_loss(trained.model(device), task, device)
    corpus, which = task.corpus, _names(trained.about)
    target = "character of a reply" if task.replies else "character"
    print(f"run         {trained.folder.path} ({which})")
    held_out, whole = len(corpus.validation_text), len(corpus.text)
    print(f"text        {corpus.name}, the last {held_out:,} of {whole:,} characters")
    print(f"loss        {loss:.4f} nats per {target}")
    print(f"            {loss / math.log(2):.4f} bits")
    print(f"perplexity  {math.exp(min(loss, 700)):.2f}")
    if corpus.sha256 != trained.corpus["sha256"]:
        print(f"The model was trained on another text: {trained.corpus['name']}.")
    return 0


# ## Attention
#
# The maps of a model that replies, by the words at the start and end of their titles.
PARTS = {
    "source": ("decoder", "source"),
    "encoder": ("encoder", "self"),
    "decoder": ("decoder", "self"),
}


def attention(words: Sequence[str]) -> int:
    """
    ### Draw attention maps

    Draws the [attention weights](../attention_maps/__init__.py) of one layer as SVG.
    """
    values = _attention_parser().read(words)
    path = Path(values.out)
    if path.suffix.lower() != ".svg":
        raise ValueError(f"--out ({path}) must end in .svg")
    if not path.parent.is_dir():
        raise FileNotFoundError(
            f"there is no folder {path.parent}; create it, or choose another (--out)"
        )
    trained = find_run(values.run)
    task, model = trained.wording, trained.model()
    inputs = _inputs(trained, model, values.text, values.reply)
    special = ("padding", "start", "end") if task.replies else ()
    labels = [*trained.vocabulary.characters, *special]
    maps = attention_maps(model, *inputs, vocabulary=labels)
    one = _pick(maps, values.layer, values.part)
    if values.head is not None and not 0 <= values.head < one.sizes["head"]:
        last = one.sizes["head"] - 1
        raise ValueError(f"there is no head {values.head}; expected 0 to {last}")
    chosen = None if values.head is None else [values.head]
    save_picture(one, values.out, heads=chosen)
    print(f"{values.out}: {one.title}")
    return 0


def _attention_parser() -> Parser:
    parser = Parser("Draw the attention weights of a trained model.", "attention")
    parser.add_argument("run", metavar="RUN", help=FOLDER)
    text = parser.add_argument("--text", metavar="TEXT", help="the input of the model")
    text.required = True
    about = "the reply (default: generated by the model)"
    parser.add_argument("--reply", metavar="TEXT", help=about)
    picture = {"default": "attention.svg", "help": "the picture"}
    parser.add_argument("--out", metavar="FILE", **picture)  # type: ignore[arg-type]
    about = "from 1 on (default: the last)"
    parser.add_argument("--layer", metavar="N", type=int, help=about)
    about = "from 0 on (default: all)"
    parser.add_argument("--head", metavar="N", type=int, help=about)
    about = (
        'of a model that replies: "source" for cross-attention, "encoder" or "decoder" '
        "for self-attention (default: source)"
    )
    parser.add_argument("--part", choices=PARTS, metavar="WORD", help=about)
    return parser


def _inputs(
    trained: Run, model: LanguageModel[Any], text: str, reply: str | None
) -> tuple[Tensor, ...]:
    """The tokens of the text, and of the reply if the model replies."""
    task, config = trained.wording, model.config
    if not task.replies and reply is not None:
        raise ValueError("this model does not reply; leave --reply out")
    tokens = task.prompt(text)
    longest: int = getattr(config, "max_len", None) or sys.maxsize

    whole: tuple[Tensor, ...] = (tokens,)
    if task.replies:
        start = torch.tensor([[config.start_token]])  # type: ignore[attr-defined]
        if reply is None:
            written = generate(model, tokens, min(longest - 1, 80))
            written = written[written[:, 0] != model.end_token]
        else:
            written = task.prompt(reply)
        whole = tokens, torch.cat([start, written])
    if (length := max(map(len, whole[-1:]))) > longest:
        raise ValueError(
            f"the text has {length} tokens, and the context of this model is {longest}"
        )
    return whole


def _pick(
    maps: list[AttentionMap], layer: int | None, part: str | None
) -> AttentionMap:
    replies = any(one.title.startswith("decoder") for one in maps)
    if replies:
        start, end = PARTS[part or "source"]
        maps = [m for m in maps if m.title.startswith(start) and m.title.endswith(end)]
    elif part is not None:
        raise ValueError("--part is for models that reply; leave it out")
    if layer is None:
        return maps[-1]
    if not 1 <= layer <= len(maps):
        raise ValueError(f"there is no layer {layer}; expected 1 to {len(maps)}")
    return maps[layer - 1]
