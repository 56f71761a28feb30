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
from typing import Any, Literal, NoReturn, Union, get_args, get_origin, get_type_hints

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

    The `field` of a configuration with its annotation `kind`, the `default` that the
    help shows, and its `meaning`.
    """

    field: str
    kind: Any
    default: Any
    meaning: str

    @property
    def name(self) -> str:
        """`--d-model`."""
        return "--" + self.field.replace("_", "-")

    @property
    def kinds(self) -> tuple[Any, ...]:
        """The types that the annotation allows."""
        several = get_origin(self.kind) in (Union, UnionType)
        return get_args(self.kind) if several else (self.kind,)

    @property
    def words(self) -> tuple[str, ...]:
        """The values of a `Literal`."""
        literals = [kind for kind in self.kinds if get_origin(kind) is Literal]
        return tuple(word for kind in literals for word in get_args(kind))

    def value(self, text: str) -> Any:
        """Parses `text`; argparse adds the name of the flag to the error."""
        if text.lower() == "none" and NoneType in self.kinds:
            return None
        if self.words:
            return choice("value", self.words)(text)
        if str in self.kinds:
            return text
        kind = int if int in self.kinds else float
        try:
            return kind(text)
        except ValueError:
            what = "a whole number, such as 64" if kind is int else "a number, like 0.1"
            or_none = ', and not "none"' if NoneType in self.kinds else ""
            raise argparse.ArgumentTypeError(
                f"{text!r} is not {what}{or_none}"
            ) from None

    def add_to(self, group: Any) -> None:
        """
        Adds the flag to a parser without a default: the result holds only what was
        typed, so that a preset or the run that continues determines the rest.
        """
        default = "none" if self.default is None else self.default
        kwargs: dict[str, Any]
        if bool in self.kinds:
            default = self.name if default else self.name.replace("--", "--no-", 1)
            kwargs = {"action": argparse.BooleanOptionalAction}
        else:
            letters = {int: "N", float: "X"}
            number = next((kind for kind in letters if kind in self.kinds), None)
            metavar = "WORD" if self.words else letters.get(number, "TEXT")  # type: ignore[arg-type]
            kwargs = {"type": self.value, "metavar": metavar}
        shown = "" if self.default is MISSING else f" (default: {default})"
        help_ = (self.meaning + shown).replace("%", "%%")
        group.add_argument(self.name, default=argparse.SUPPRESS, help=help_, **kwargs)


def choice(what: str, known: Iterable[str]) -> Any:
    """A parser of one of the words `known`, for argparse."""

    def parse(text: str) -> str:
        try:
            check_known(what, text, known)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from None
        return text

    return parse


def flags_of(
    config: type, defaults: Mapping[str, Any], leave_out: Iterable[str] = ()
) -> list[Flag]:
    """
    ### Flags of a configuration

    `defaults` are shown in place of those of the class, and the fields in `leave_out`
    have no flag. Raises `TypeError` for a field whose type no flag can have.
    """
    kinds, meaning, flags = get_type_hints(config), meanings(config), []
    for field in fields(config):
        if field.name in leave_out:
            continue
        default = defaults.get(field.name, field.default)
        flag = Flag(field.name, kinds[field.name], default, meaning[field.name])
        for kind in flag.kinds:
            simple = kind in (int, float, str, bool, NoneType)
            if not simple and get_origin(kind) is not Literal:
                raise TypeError(
                    f"`{field.name}` of {config.__name__} is a {flag.kind}; expected "
                    "int, float, str, bool, a Literal, or one of these or None"
                )
        flags.append(flag)
    return flags


# An item of a docstring's list, and the names of fields at its start.
ITEM = re.compile(r"^\* (.+(?:\n  .*)*)", re.MULTILINE)
NAMES = re.compile(r"((?:`\w+`(?:, | and |, and )?)+)(:| is| are)?\s+(?=\S)")
# Citations, links and TeX, as a terminal shows them.
PLAIN = (
    (re.compile(r" ?\(?\[-?@[^\]]*\](?:\([^)]*\))?\)?| \(§[\d.]+\)"), ""),
    (re.compile(r"`None`"), "none"),
    (re.compile(r"\[([^\]]*)\]\([^)]*\)"), r"\1"),
    (re.compile(r"\\(?:var)?epsilon"), "ε"),
    (re.compile(r"\\tau"), "τ"),
    (re.compile(r"\\times"), "×"),
    (re.compile(r"\\cdot"), "·"),
    (re.compile(r"\\sqrt\{?(\w+)\}?"), r"√\1"),
    (re.compile(r"\\(\w+)|[${}`]|\\[;,]"), r"\1"),
)


def meanings(config: type) -> dict[str, str]:
    """
    ### Help from docstrings

    Returns for each field the item of the list in the docstring of the class, or of the
    base class that declares it, in plain text; empty if there is none.
    """
    return {field.name: _meaning(config, field.name) for field in fields(config)}


def _meaning(config: type, name: str) -> str:
    family = [one for one in config.__mro__ if one is not object]
    declared = [one for one in family if name in inspect.get_annotations(one)]
    items = []
    for one in [*declared, *family]:
        for item in ITEM.findall(inspect.cleandoc(one.__doc__ or "")):
            if start := NAMES.match(text := " ".join(item.split())):
                said = text[start.end() :]
                for pattern, other in PLAIN:
                    said = pattern.sub(other, said)
                items.append((re.findall(r"\w+", start[1]), said.strip()))
    named = (said for names, said in items if name in names)
    mentioned = (said for _, said in items if re.search(rf"\b{name}\b", said))
    return next(named, next(mentioned, ""))


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
        gpu = isinstance(error, torch.OutOfMemoryError)
        return FAILED, (
            f"the memory{' of the GPU' if gpu else ''} is full; use a smaller "
            "--batch-size, --seq-len or model (--d-model, --n-layers), or accumulate "
            "gradients (--accumulate)"
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
    if isinstance(error, ImportError) and "labml_nn" not in str(
        error.name or "labml_nn"
    ):
        return FAILED, (
            f"{error.name} is not installed; pip install 'labml-nn[train]' brings all "
            "that training needs"
        )
    return FAILED, (
        f"{type(error).__name__}: {error}\nthis is a fault of the library; --debug "
        "shows where it happened"
    )


# ## Train
#
@dataclass(frozen=True)
class Order:
    """
    ### What was ordered

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

    def folder(self, variant: str | None) -> Path:
        """The run folder of a variant."""
        several = self.variant is None and variant is not None
        return self.out / str(variant) if several else self.out


def train(words: Sequence[str]) -> int:
    """
    ### Train a model

    Everything that can be refused is refused before the first training starts.
    """
    order = read_order(words)
    if order is None:
        return 0
    config = order.experiment.training(order.preset, order.training)
    for variant in order.variants if order.resume else []:
        if RunFolder(folder := order.folder(variant)).run_file.is_file():
            known = load_run(folder).training.values()
            config = TrainingConfig.of({**known, **order.training})
            break
    World.announced().share(config.batch_size, config.accumulate)
    world = World.join(pick_device(config.device))
    if world.main and not order.resume:
        for variant in order.variants:
            RunFolder(order.folder(variant)).check_new()
    for variant in order.variants:
        result = train_one(order, variant, world)
        if result is not None and result.stopped == "interrupted":
            world.leave()
            return INTERRUPTED
    if world.main and len(order.variants) > 1:
        print(compared(order))
    world.leave()
    return 0


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
    _check_flags(experiment, words)
    preset = _preset(words)
    experiment.preset(preset)
    parser = Parser(f"{experiment.title}: {experiment.summary}.", f"train {name}")
    parser.usage = f"{parser.prog} [FLAGS]"
    parser.add_argument("experiment", help=argparse.SUPPRESS)
    _add_run_flags(parser, experiment, preset)
    model, training = flags_of_experiment(experiment, preset)
    for title, flags in (("the model", model), ("the training", training)):
        group = parser.add_argument_group(title)
        for flag in flags:
            flag.add_to(group)
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


def _preset(words: Sequence[str]) -> str:
    # Known before the rest is parsed, since the help shows its numbers.
    preset = default_preset()
    for word, after in zip(words, [*words[1:], ""], strict=True):
        if word == "--preset" and after:
            preset = after
        elif word.startswith("--preset="):
            preset = word.partition("=")[2]
    return preset


def _check_flags(experiment: Experiment, words: Sequence[str]) -> None:
    # Flags that one could expect, and why they do not exist.
    for word in normalised(words):
        flag = word.partition("=")[0]
        field = flag.removeprefix("--").replace("-", "_")
        if not word.startswith("--"):
            continue
        if field in _varied(experiment):
            raise UsageError(
                f"{flag} is what the variants of {experiment.name} differ in; choose "
                f"one with --variant: {', '.join(experiment.variants)}"
            )
        if field == "variant" and not experiment.variants:
            raise UsageError(f"{experiment.name} has no variants; leave --variant out")
        if field in _decided(experiment):
            raise UsageError(f"{flag} is determined by the text; leave it out")


def _add_run_flags(parser: Parser, experiment: Experiment, preset: str) -> None:
    group = parser.add_argument_group("the run")
    presets = "; ".join(f"{name}: {p.about}" for name, p in experiment.presets.items())
    for name, metavar, about in (
        ("--preset", "WORD", f"hyperparameters. {presets} (default: {preset})"),
        ("--text", "FILE", "a text in UTF-8 to train on (default: Tiny Shakespeare)"),
    ):
        group.add_argument(name, metavar=metavar, help=about.replace("%", "%%"))
    parser.set_defaults(variant=None)
    if experiment.variants:
        listed = ", ".join(experiment.variants)
        all_ = "without it all of them, each in a folder of its own"
        about = f"one of {listed}; {all_}"
        group.add_argument("--variant", metavar="WORD", help=about)
    out = f"the run folder (default: {RUNS / experiment.name})"
    group.add_argument("--out", type=Path, metavar="FOLDER", help=out)
    again = "continue the run in the folder, with its own hyperparameters"
    group.add_argument("--resume", action="store_true", help=again)
    group.add_argument("--quiet", action="store_true", help="print only the result")


def flags_of_experiment(
    experiment: Experiment, preset: str
) -> tuple[list[Flag], list[Flag]]:
    """The flags of the model and of the training, with the defaults of the preset."""
    config = models()[experiment.model].load_class().Config
    numbers = experiment.preset(preset)
    shown: dict[str, Any] = {"max_len": "seq_len", **numbers.model}
    leave_out = _varied(experiment) | _decided(experiment)
    return (
        flags_of(config, shown, leave_out),
        flags_of(TrainingConfig, numbers.training),
    )


def _decided(experiment: Experiment) -> set[str]:
    task = TASKS[experiment.task](None, vocabulary=Vocabulary("a"))
    return {"padding_token", *task.model_fields}


def _varied(experiment: Experiment) -> set[str]:
    return {name for changed in experiment.variants.values() for name in changed}


def train_one(order: Order, variant: str | None, world: World) -> Result | None:
    """One training; `None` for a variant that was finished before."""
    folder = order.folder(variant)
    several = len(order.variants) > 1
    there = RunFolder(folder).run_file.is_file()
    resume = order.resume and (there or not several)
    if several and resume and _is_finished(folder):
        if world.main:
            print(f"{folder} is finished")
        return None
    trainer = (_resumed if resume else _new)(order, variant, world)
    if world.main and not order.quiet:
        print(_heading(trainer))
    result = trainer.train()
    if result.stopped == "not finite":
        raise RunError(
            f"the run in {folder} has ended after {result.step:,} of "
            f"{trainer.config.steps:,} updates; start a new one (--out), with what the "
            "warning suggests"
        )
    if world.main:
        print(_ending(order, folder, trainer, result))
    return result


def _is_finished(folder: Path) -> bool:
    result = load_run(folder).result() if RunFolder(folder).result.is_file() else {}
    return bool(result and result["result"]["stopped"] == "finished")


def _new(order: Order, variant: str | None, world: World) -> Trainer:
    model, task, config = order.experiment.build(
        order.preset,
        corpus=read_corpus(order.text),
        variant=variant,
        model=order.model,
        training=order.training,
    )
    name = order.experiment.name
    about = {"experiment": name, "variant": variant, "preset": order.preset}
    return Trainer(
        *(model, task, config, order.folder(variant)),
        world=world,
        reporters=_reporters(order, variant),
        about=about,
    )


def _resumed(order: Order, variant: str | None, world: World) -> Trainer:
    """
    ### Resume

    What was typed is compared with the run: another model would not fit. Raises
    `RunError` for a run that is missing, or of another experiment or model.
    """
    folder = order.folder(variant)
    if not RunFolder(folder).run_file.is_file():
        raise RunError(
            f"there is no run in {folder} to continue; name its folder (--out), or "
            "leave out --resume to start one"
        )
    run = load_run(folder)
    known = {name: run.about[name] for name in ("experiment", "variant")}
    known |= {name: run.about["model"]["config"].get(name) for name in order.model}
    typed_ = {"experiment": order.experiment.name, "variant": variant, **order.model}
    if differ := [
        f"{name}: {known[name]} there, {value} here"
        for name, value in typed_.items()
        if known[name] != value
    ]:
        listed = "\n  ".join(differ)
        raise RunError(
            f"the run in {folder} is another one:\n  {listed}\n"
            "leave out what differs, or start a new run in another folder (--out)"
        )
    config = TrainingConfig.of({**run.training.values(), **order.training})
    trainer = Trainer(
        *(run.new_model(), run.task(order.text), config, folder),
        world=world,
        reporters=_reporters(order, variant),
    )
    trainer.resume()
    return trainer


class Warnings(Reporter):
    """Only warnings, on the standard error."""

    def warned(self, text: str) -> None:
        """The warning."""
        print(f"warning: {text}", file=sys.stderr)


def _reporters(order: Order, variant: str | None) -> list[Reporter]:
    shown = Warnings() if order.quiet else Progress()
    return [shown, LabmlRecord(order.folder(variant) / "labml")]


def _heading(trainer: Trainer) -> str:
    count = sum(parameter.numel() for parameter in trainer.model.parameters())
    corpus, about, size = trainer.task.corpus, trainer.about, trainer.world.size
    named = [about[part] for part in ("experiment", "variant", "preset")]
    where = f"{size} x {trainer.device}" if size > 1 else str(trainer.device)
    step = trainer.history.step
    return (
        f"{', '.join(name for name in named if name)}: a model with {count:,} "
        f"parameters on {where}\n"
        f"{corpus.name}: {len(corpus.train_text):,} characters for training, "
        f"{len(corpus.validation_text):,} for validation"
        + (f"\nresuming after {step:,} updates" if step else "")
    )


def _ending(order: Order, folder: Path, trainer: Trainer, result: Result) -> str:
    # What to do next, as a line to copy.
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
    best, seconds = result.best_validation_loss, result.seconds
    which = f"{folder.name}: " if len(order.variants) > 1 else ""
    lines = [
        f"{which}{result.step:,} updates in {seconds:,.{int(seconds < 10)}f} s; "
        f"validation loss {result.validation_loss:.4f} nats per character"
        + (f", at best {best:.4f}" if best != result.validation_loss else "")
    ]
    if len(order.variants) == 1:
        task, prompt = trainer.task, "ROMEO:"
        if task.replies:
            prompt = "Where is the king?"
        if not set(prompt) <= set(task.vocabulary.characters):
            prompt = task.sample_prompt.splitlines()[0] if task.replies else ""
        words = ["generate", str(folder), *(["--prompt", prompt] if prompt else [])]
        lines += ["generate text with it:", f"  {program()} {shlex.join(words)}"]
    return "\n".join(lines)


def compared(order: Order) -> str:
    """The best losses of all variants, lowest first, and a picture of their curves."""
    results = {v: load_run(order.folder(v)).result() for v in order.variants}
    lines = [
        line
        for i, (variant, result) in enumerate(results.items())
        for line in lines_of(result, variant, colour=i, train=False)
    ]
    picture = order.out / "curves.svg"
    drawn = curve_svg(lines, title=order.experiment.title)
    picture.write_text(drawn + "\n", encoding="utf-8", newline="\n")
    best = {str(v): r["result"]["best_validation_loss"] for v, r in results.items()}
    width = max(map(len, best)) + 2
    ranked = sorted(best.items(), key=lambda item: item[1])
    table = [f"  {variant:<{width}}{loss:.4f}" for variant, loss in ranked]
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
                f"`temperature` ({self.temperature}) must be at least 0 and finite; "
                "0.8 is a good start, 0 is greedy decoding"
            )
        if self.top_k is not None:
            check_sizes(top_k=self.top_k)
        if self.top_p is not None and not 0 < self.top_p <= 1:
            raise ValueError(
                f"`top_p` ({self.top_p}) must be above 0 and at most 1; 0.95 is usual"
            )
        if self.seed is not None and not 0 <= self.seed < 2**63:
            raise ValueError(f"`seed` ({self.seed}) must be from 0 to 2**63 - 1")

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

    def show(text: str) -> None:
        sys.stdout.write(text)
        sys.stdout.flush()

    for i in range(settings.count):
        if i:
            print(f"\n--- {i + 1} of {settings.count} ---")
        if not task.replies:
            show(prompt)
        generate(
            model,
            tokens,
            settings.tokens,
            settings.sampler,
            seed=None if settings.seed is None else settings.seed + i,
            on_token=lambda _, token: show(task.decode([token])),
        )
        print()
    return 0


def find_run(folder: str) -> Run:
    """
    ### Find the run

    Where there is none, the error names the runs nearby: an experiment with variants
    has one in each subfolder.
    """
    path = Path(folder)
    if not RunFolder(path).run_file.is_file():
        files = [*path.glob("*/run.json"), *path.glob("*/*/run.json")]
        below = sorted(str(file.parent) for file in files)
        beside = [str(file.parent) for file in path.parent.glob("*/run.json")]
        if below:
            listed = ", ".join(below[:8]) + (", ..." if len(below) > 8 else "")
            raise RunError(f"{path} is not a run, but contains some: {listed}")
        if RunFolder(path.parent).run_file.is_file():
            raise RunError(f"{path} is a part of a run; use {path.parent}")
        close = get_close_matches(str(path), beside, n=1)
        if close and not path.exists():
            raise RunError(f"there is no {path}; did you mean {close[0]}?")
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
    _check_backslash(trained, prompt)
    return prompt or "\n"


def _check_backslash(trained: Run, text: str) -> None:
    if "\\" in text and "\\" not in trained.vocabulary.characters:
        raise ValueError(
            f"the text ({text!r}) has a backslash, which is not in the vocabulary; for "
            "a new line write $'ROMEO:\\n' in bash or zsh"
        )


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
    corpus, about_ = task.corpus, trained.about
    named = [about_[part] for part in ("experiment", "variant", "preset")]
    which = ", ".join(name for name in named if name)
    target = "character of a reply" if task.replies else "character"
    print(f"run         {trained.folder.path}" + (f" ({which})" if which else ""))
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
        other = path.with_suffix(".svg") if path.name else "attention.svg"
        raise ValueError(
            f"the picture ({values.out}) is an SVG, which browsers open; try --out "
            f"{other}"
        )
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
    heads = one.sizes["head"]
    if values.head is not None and values.head >= heads:
        raise ValueError(
            f"there is no head {values.head}; this model has {heads}, from 0 to "
            f"{heads - 1}"
        )
    chosen = None if values.head is None else [values.head]
    save_picture(one, values.out, heads=chosen)
    print(f"{values.out}: {one.title}")
    return 0


def _attention_parser() -> Parser:
    def number(text: str) -> int:
        if not text.isdecimal():
            raise argparse.ArgumentTypeError(f"{text!r} is not a whole number")
        return int(text)

    parser = Parser("Draw the attention weights of a trained model.", "attention")
    parser.add_argument("run", metavar="RUN", help=FOLDER)
    about: dict[str, Any]
    for name, metavar, about in (
        ("--text", "TEXT", {"required": True, "help": "the input of the model"}),
        ("--reply", "TEXT", {"help": "the reply (default: generated by the model)"}),
        ("--out", "FILE", {"default": "attention.svg", "help": "the picture"}),
        ("--layer", "N", {"type": number, "help": "from 1 on (default: the last)"}),
        ("--head", "N", {"type": number, "help": "from 0 on (default: all)"}),
    ):
        parser.add_argument(name, metavar=metavar, **about)
    parser.add_argument(
        "--part",
        type=choice("part", PARTS),
        metavar="WORD",
        help='of a model that replies: "source" for cross-attention, "encoder" or '
        '"decoder" for self-attention (default: source)',
    )
    return parser


def _inputs(
    trained: Run, model: LanguageModel[Any], text: str, reply: str | None
) -> tuple[Tensor, ...]:
    """The tokens of the text, and of the reply if the model replies."""
    task, config = trained.wording, model.config
    if not task.replies and reply is not None:
        raise ValueError("this model does not reply; leave --reply out")
    _check_backslash(trained, text)
    tokens = task.prompt(text)
    longest: int = getattr(config, "max_len", None) or sys.maxsize

    def check(what: str, length: int) -> None:
        if length > longest:
            raise ValueError(
                f"the text ({what[:20]!r}...) has {length} tokens, and the context of "
                f"this model {longest}; use at most {longest}"
            )

    if not task.replies:
        check(text, len(tokens))
        return (tokens,)
    start = torch.tensor([[config.start_token]])  # type: ignore[attr-defined]
    if reply is None:
        written = generate(model, tokens, min(longest - 1, 80))
        written = written[written[:, 0] != model.end_token]
    else:
        written = task.prompt(reply)
        check(reply, 1 + len(written))
    return tokens, torch.cat([start, written])


def _pick(
    maps: list[AttentionMap], layer: int | None, part: str | None
) -> AttentionMap:
    replies = any(one.title.startswith("decoder") for one in maps)
    if part is not None and not replies:
        raise ValueError("--part is for models that reply; leave it out")
    if replies:
        start, end = PARTS[part or "source"]
        maps = [m for m in maps if m.title.startswith(start) and m.title.endswith(end)]
    if layer is None:
        return maps[-1]
    if not 1 <= layer <= len(maps):
        raise ValueError(f"there is no layer {layer}; expected 1 to {len(maps)}")
    return maps[layer - 1]
