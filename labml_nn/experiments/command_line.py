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
`torchrun`. `--help` explains the flags of a command.

Every field of a dataclass is a flag. Its type, default and help come from the class and
from the list in its docstring, so that the command line knows what the library knows:

| Field | Flag |
|:--|:--|
| `d_model: int = 128` | `--d-model N` |
| `tied: bool = True` | `--tied` and `--no-tied` |
| `norm: Literal["layer", "rms"]` | `--norm WORD` |
| `d_ff: int \| None = None` | `--d-ff N`, or `--d-ff none` |
| `run: str` | a word without a flag |

An error is one sentence and an exit code: 1 for a run that failed, 2 for a value that
is not possible, 130 for Ctrl-C. `--debug` shows the traceback.
"""

import argparse
import errno
import inspect
import io
import logging
import math
import os
import re
import shlex
import sys
import traceback
from collections.abc import Collection, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields
from difflib import get_close_matches
from functools import partial
from importlib.metadata import version
from pathlib import Path
from types import NoneType
from typing import Annotated, Any, Literal, NoReturn, get_args, get_type_hints

import torch

from labml_nn.attention_maps import attention_maps, save_picture
from labml_nn.checks import check_known
from labml_nn.experiments.checkpoint import Run, RunError, RunFolder, load_run
from labml_nn.experiments.data import ReplyTask, TextTask, Words, read_corpus
from labml_nn.experiments.distributed import World
from labml_nn.experiments.presets import (
    Device,
    Experiment,
    Rule,
    Setup,
    Size,
    TrainingConfig,
    check_fields,
    default_preset,
    experiments,
)
from labml_nn.experiments.reporters import (
    LabmlRecord,
    Progress,
    Reporter,
    Result,
)
from labml_nn.experiments.trainer import (
    Trainer,
    is_memory,
    pick_device,
    validation_loss,
)
from labml_nn.registry import models
from labml_nn.sampling import Chain, Greedy, Nucleus, Temperature, TopK, generate
from labml_nn.saving import user_path

__all__ = ["add_model_flags", "main"]

PROGRAM = "python -m labml_nn"  # also installed as labml-nn
FAILED, REFUSED, INTERRUPTED = 1, 2, 130


# ## Flags from dataclasses
#
class Parser(argparse.ArgumentParser):
    """
    ### Parser

    argparse with errors raised as `ValueError`, the nearest match of a misspelt flag,
    `--d_model` for `--d-model`, and numbers such as `-1e-2` as values. The result holds
    only what was typed, so that a preset or the run that continues determines the rest.
    """

    def __init__(self, command: str, about: str, *, epilog: str = "") -> None:
        super().__init__(
            prog=f"{PROGRAM} {command}",
            usage="%(prog)s [FLAGS]",
            description=about,
            epilog=epilog,
            allow_abbrev=False,
            argument_default=argparse.SUPPRESS,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        self._negative_number_matcher = re.compile(r"-[\d.]|-inf")

    def read(self, words: Sequence[str]) -> dict[str, Any]:
        flags = [re.sub("^--[^=]+", lambda m: m[0].replace("_", "-"), w) for w in words]
        values, rest = self.parse_known_args(flags)
        if rest:
            word = rest[0].partition("=")[0]
            if not word.startswith("-"):
                self.error(f"unexpected word {word!r}")
            close = get_close_matches(word, self._option_string_actions, n=1)
            meant = f"; did you mean {close[0]}?" if close else ""
            self.error(f"there is no flag {word}{meant}")
        return vars(values)

    def error(self, message: str) -> NoReturn:
        message = message.removeprefix("argument ")
        message = message.replace("expected one argument", "a value must follow")
        raise ValueError(f"{message}\n`{self.prog} --help` explains all flags")


def add_fields(
    parser: argparse.ArgumentParser,
    title: str,
    config: type,
    leave_out: Collection[str] = (),
    **defaults: Any,
) -> None:
    """
    ### A flag for each field

    Of the dataclass `config` but for those in `leave_out`. The help shows `defaults` in
    place of those of the class. Only what was typed is in the result.
    """
    defaults = {one.name: one.default for one in fields(config)} | defaults
    group, about = parser.add_argument_group(title), meanings(config)
    for name, kind in get_type_hints(config).items():
        if name in leave_out or name not in defaults:
            continue
        flag, default = "--" + name.replace("_", "-"), defaults[name]
        more: dict[str, Any] = {"action": argparse.BooleanOptionalAction}
        if kind is bool:
            default = flag if default else flag.replace("--", "--no-", 1)
        else:
            kinds = get_args(kind) or (kind,)
            word = "N" if int in kinds else "X" if float in kinds else "TEXT"
            word = "WORD" if isinstance(kinds[0], str) else word
            more = {"metavar": word, "type": partial(value_of, kinds=kinds)}
        if default is MISSING:
            group.add_argument(name, metavar=name.upper(), help=about[name])
        else:
            shown = "none" if default is None else default
            help_ = f"{about[name]} (default: {shown})".replace("%", "%%")
            more["default"] = argparse.SUPPRESS
            group.add_argument(flag, help=help_, **more)


def add_model_flags(
    parser: argparse.ArgumentParser, model: str, leave_out: Collection[str] = ()
) -> None:
    """
    ### A model's flags in a program of your own

    Adds to `parser` a flag for each hyperparameter of `model`, a name of
    `labml_nn.models()`, but for `n_vocab` and the fields in `leave_out`. The parsed
    result has only those that were typed:

    ```python
    import argparse
    import labml_nn
    from labml_nn.experiments.command_line import add_model_flags

    parser = argparse.ArgumentParser()
    add_model_flags(parser, "lstm")
    typed = vars(parser.parse_args(["--d-model", "24", "--dropout-prob", "0.2"]))
    model = labml_nn.create("lstm", n_vocab=65, **typed)
    ```

    Raises `ValueError` if there is no such model, and argparse's error if `parser` has
    one of the flags already; name its field in `leave_out`.
    """
    config = models()[model].load_class().Config
    add_fields(parser, "the model", config, {"n_vocab", *leave_out})


def value_of(text: str, kinds: Sequence[Any]) -> Any:
    """
    ### A value

    `text` as one of `kinds`, which are types, or the words to choose from. argparse
    adds the name of the flag to an error.
    """
    if text.lower() == "none" and NoneType in kinds:
        return None
    kind = int if int in kinds else float if float in kinds else str
    try:
        if isinstance(kinds[0], str):
            check_known("choice", text, kinds)
        return kind(text)
    except ValueError as error:
        number = "a whole number" if kind is int else "a number"
        said = str(error) if kind is str else f"{text!r} is not {number}"
        raise argparse.ArgumentTypeError(said) from None


# An item of a docstring's list, and the names of fields at its start.
ITEM = re.compile(
    r"^\* ((?:`\w+`(?:, | and )?)+)(?::| is| are)?\s+(.+(?:\n  .*)*)", re.M
)
# Citations, links and TeX, as a terminal shows them.
PLAIN = (
    (re.compile(r" ?\(?\[-?@[^\]]*\](?:\([^)]*\))?\)?| \(§[\d.]+\)"), ""),
    (re.compile(r"`None`"), "none"),
    (re.compile(r"\\varepsilon"), "ε"),
    (re.compile(r"\[([^\]]*)\]\([^)]*\)"), r"\1"),
    (re.compile(r"\\sqrt\{?(\w+)\}?"), r"√\1"),
    (re.compile(r"\\(\w+)|[${}`]|\\[;,]"), r"\1"),
)


def meanings(config: type) -> dict[str, str]:
    """
    ### Help from docstrings

    Returns for each field the item of the list in the docstring of the class, or of its
    base class, in plain text: the one that begins with its name, or else mentions it.
    """
    found: dict[str, str] = {}
    for one in reversed(config.__mro__):
        for names, about in ITEM.findall(inspect.cleandoc(one.__doc__ or "")):
            mentioned, about = re.findall(r"`(\w+)`", about), " ".join(about.split())
            for pattern, plain in PLAIN:
                about = pattern.sub(plain, about)
            found = dict.fromkeys(mentioned, about) | found
            found |= dict.fromkeys(re.findall(r"\w+", names), about)
    return found


@dataclass(frozen=True, kw_only=True)
class Command:
    """
    ### Commands

    A command is a dataclass that is called. Its fields are its flags, the heading of
    its docstring is the help, and a field without a default is a word without a flag.
    """

    @classmethod
    def about(cls) -> str:
        return inspect.cleandoc(cls.__doc__ or "").partition("\n")[0].lstrip("# ")

    @classmethod
    def read(cls, words: Sequence[str]) -> "Command":
        words_ = [one.name.upper() for one in fields(cls) if one.default is MISSING]
        command = " ".join([cls.__name__.lower(), *words_])
        parser = Parser(command, f"{cls.about()}.")
        add_fields(parser, "flags", cls)
        return cls(**parser.read(words))

    def __call__(self) -> int:
        """Returns the exit code, and raises an error if it fails."""
        raise NotImplementedError


# ## Main program
#
def main(words: Sequence[str] | None = None) -> int:
    """
    Runs the command line `words`, by default that of the process. Returns the exit
    code; nothing is raised.
    """
    words = sys.argv[1:] if words is None else list(words)
    # What a terminal of another encoding cannot show is shown as \xe9; nothing fails.
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    # Without a home folder Matplotlib has a temporary one for its caches, and works.
    logging.getLogger("matplotlib").setLevel(logging.ERROR)
    debug = "--debug" in words
    try:
        return run([word for word in words if word != "--debug"])
    except SystemExit:  # argparse has printed the help
        return 0
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
    if not words or words[0] in ("-h", "--help", "help"):
        print(f"usage: {PROGRAM} COMMAND ...\n")
        for name, command in COMMANDS.items():
            print(f"  {name:<11}{command.about()}")
        print(f"\n`{PROGRAM} COMMAND --help` explains a command.")
    elif words[0] == "--version":
        print(f"labml-nn {version('labml-nn')}")
    else:
        check_known("command", words[0], COMMANDS)
        return COMMANDS[words[0]].read(words[1:])()
    return 0


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
Address = Annotated[
    str,
    Rule(
        re.compile(r"https?://[^\s/?#]+[^\s?#]*").fullmatch,
        "an address without a query, such as http://localhost:5005/api/v1/default",
    ),
]


@dataclass(frozen=True, kw_only=True)
class Train(Command):
    """
    ### Train a model, or continue a run

    * `preset` is the set of hyperparameters
    * `task` is what to learn: none is the experiment's own; recall, overwrite and
      parity test the memory of a model
    * `text` is a text file to train on, in UTF-8 or with a byte order mark; none is
      Tiny Shakespeare
    * `tokenizer` splits it into characters or words
    * `min_count` is how often a word occurs at least; other words are unknown
    * `max_words` is the largest number of words
    * `out` is the run folder; none is the one in `runs` with the experiment's name
    * `resume` is whether to continue the run in the folder, with its hyperparameters
    * `quiet` is whether to print only the result
    * `tracking_url` is the address of a labml server, such as
      http://localhost:5005/api/v1/default, that receives the losses too

    `experiment` is what to train, and `model` and `training` are the fields of their
    configurations that were typed. The fields of both are flags too.
    """

    experiment: Experiment
    model: Mapping[str, Any]
    training: Mapping[str, Any]
    preset: str
    task: str | None = None
    text: str | None = None
    tokenizer: Literal["characters", "words"] = "characters"
    min_count: Size = 1
    max_words: Size | None = None
    out: str | None = None
    resume: bool = False
    quiet: bool = False
    tracking_url: Address | None = None

    def __post_init__(self) -> None:
        check_fields(self)

    @classmethod
    def read(cls, words: Sequence[str]) -> "Train":
        """
        The experiment and the preset are read first, since they determine the flags and
        their defaults.
        """
        known = experiments()
        first = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
        first.add_argument("--preset", nargs="?")
        first.add_argument("--task", nargs="?")
        typed = first.parse_known_args(words)[0]
        preset = typed.preset or default_preset()
        name = next((word for word in words if word in known), "")
        if not name:
            parser = Parser("train NAME", f"{cls.about()}.", epilog=str(known))
            parser.add_argument("NAME", help=argparse.SUPPRESS)
            name = parser.parse_known_args(words)[0].NAME
            check_known("experiment", name, known)
        experiment = known[name]
        chosen = experiment.preset(preset)
        suits = experiment.task_class(typed.task).training
        lines = [f"  {each:<7}{one.about}" for each, one in experiment.presets.items()]
        about = f"{experiment.title}: {experiment.summary}."
        parser = Parser(f"train {name}", about, epilog="\n".join(["presets:", *lines]))
        parser.add_argument("experiment", choices=[name], help=argparse.SUPPRESS)
        parts = {"experiment", "model", "training"}
        add_fields(parser, "the run", cls, parts, preset=preset)
        config = models()[experiment.model].load_class().Config
        shown = {"max_len": "seq_len", **chosen.model}
        # What the text determines is no flag.
        tokens = {"n_vocab", *ReplyTask.special}
        add_fields(parser, "the model", config, tokens, **shown)
        add_fields(
            parser, "the training", TrainingConfig, **{**chosen.training, **suits}
        )
        values = {"preset": preset, **parser.read(words), "experiment": experiment}
        for part, kind in (("model", config), ("training", TrainingConfig)):
            names = values.keys() & {one.name for one in fields(kind)}
            values[part] = {one: values.pop(one) for one in names}
        return cls(**values)

    @property
    def folder(self) -> RunFolder:
        name = "-".join(filter(None, (self.experiment.name, self.task)))
        return RunFolder(self.out or Path("runs", name))

    @property
    def config(self) -> TrainingConfig:
        if self.resume:
            known = load_run(self.folder.path).training.values()
            return TrainingConfig.of({**known, **self.training})
        return self.experiment.training(self.preset, self.training, task=self.task)

    def __call__(self) -> int:
        """Everything that can be refused is refused before the training starts."""
        World.announced().share(self.config.batch_size, self.config.accumulate)
        world = World.join(pick_device(self.config.device))
        if world.main and not self.resume:
            self.folder.check_new()
        stopped = self.train(world).stopped
        world.leave()
        return INTERRUPTED if stopped == "interrupted" else 0

    def setup(self) -> Setup:
        """
        Model, task and hyperparameters of a new run, or of one that continues. Raises
        `RunError` if that is missing, or is another one.
        """
        if not self.resume:
            corpus = vocabulary = None
            if self.experiment.task_class(self.task).reads_text:
                corpus = read_corpus(self.text)
            if corpus and self.tokenizer == "words":
                vocabulary = Words.from_text(
                    corpus.train, min_count=self.min_count, max_words=self.max_words
                )
            return self.experiment.build(
                self.preset,
                corpus=corpus,
                vocabulary=vocabulary,
                model=self.model,
                training=self.training,
                task=self.task,
            )
        run = load_run(self.folder.path)
        if run.about["experiment"] != self.experiment.name:
            raise RunError(
                f"the run in {run.folder.path} is another one ({title_of(run.about)}); "
                "continue that, or start a new run in another folder (--out)"
            )
        return Setup(run.new_model(**self.model), run.task(self.text), self.config)

    def train(self, world: World) -> Result:
        path = self.folder.path
        trainer = Trainer(
            *self.setup(),
            path,
            world=world,
            reporters=[
                Warnings() if self.quiet else Progress(),
                LabmlRecord(path / "labml", self.tracking_url),
            ],
            about={"experiment": self.experiment.name, "preset": self.preset},
        )
        if self.resume:
            trainer.resume()
        task, step = trainer.task, trainer.history.step
        if world.main and not self.quiet:
            count = sum(parameter.numel() for parameter in trainer.model.parameters())
            source = f"sequences of the task {task.name}, such as {task.sample_prompt}"
            if task.reads_text:
                source = (
                    f"{task.corpus.name}: {len(task.corpus.train):,} characters for "
                    f"training, {len(task.corpus.validation):,} for validation"
                )
            if task.reads_text and self.tokenizer == "words":
                source += f"; {len(task.vocabulary):,} words"
            print(
                f"{title_of(trainer.about)}: a model with {count:,} parameters on "
                f"{f'{world.size} x ' if world.size > 1 else ''}{trainer.device}\n"
                + source
                + (f"\nresuming after {step:,} updates" if step else "")
            )
        result = trainer.train()
        if result.stopped == "not finite":
            raise RunError(
                f"the run in {path} has ended after {result.step:,} of "
                f"{trainer.config.steps:,} updates; start a new one (--out), with what "
                "the warning suggests"
            )
        said = (
            f"interrupted after {result.step:,} updates, and saved; continue with the "
            "same command and --resume"
        )
        if result.stopped == "finished":
            asks = task.replies or not task.reads_text
            example = task.sample_prompt.splitlines()[0] if asks else ""
            more = ["--prompt", example] if example else []
            right = ""
            if result.accuracy is not None:
                right = f"; {result.accuracy:.1%} of the answers are right"
            said = (
                f"{result.step:,} updates in {result.seconds:,.1f} s; validation loss "
                f"{result.validation_loss:.4f} nats per {task.vocabulary.unit}, at "
                f"best {result.best_validation_loss:.4f}{right}\n"
                "generate text with it:\n"
                f"  {PROGRAM} {shlex.join(['generate', str(path), *more])}"
            )
        if world.main:
            print(said)
        return result


def title_of(about: Mapping[str, Any]) -> str:
    parts = (about[part] for part in ("experiment", "preset"))
    return ", ".join(part for part in parts if part)


class Warnings(Reporter):
    def warned(self, text: str) -> None:
        print(f"warning: {text}", file=sys.stderr)


# ## Commands for trained models
#
@dataclass(frozen=True, kw_only=True)
class RunCommand(Command):
    """
    ### A trained model

    * `run` is the folder of a run, such as runs/feedback
    * `device` is `"cpu"`, `"cuda"`, `"cuda:1"`, `"mps"`, or `"auto"` for a GPU if there
      is one
    """

    run: str
    device: Device = "auto"

    def __post_init__(self) -> None:
        check_fields(self)

    def load(self) -> tuple[Run, torch.device]:
        return load_run(self.run), pick_device(self.device)


@dataclass(frozen=True, kw_only=True)
class Generate(RunCommand):
    """
    ### Generate text with a trained model

    * `prompt` is the text to continue, or to reply to; without one, a text starts after
      a new line
    * `tokens` is the number of characters to generate, at most
    * `temperature` divides the logits: below 1 probable characters become more
      probable, above 1 less; 0 is greedy decoding
    * `top_k` samples from that many of the most probable characters only
    * `top_p` samples from the smallest set of characters with this total probability
    * `seed` makes the text repeatable
    * `count` is the number of texts
    """

    prompt: str = ""
    tokens: Size = 300
    temperature: float = 0.8
    top_k: int | None = None
    top_p: float | None = None
    seed: int | None = None
    count: Size = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        _ = self.sampler  # which checks its numbers

    @property
    def sampler(self) -> Chain:
        first = Temperature(self.temperature) if self.temperature else Greedy()
        more = [] if self.top_k is None else [TopK(self.top_k)]
        last = [] if self.top_p is None else [Nucleus(self.top_p)]
        return Chain(first, *more, *last)

    def __call__(self) -> int:
        """
        A character is printed as soon as it is drawn, and the prompt with the first
        one: reading it may compile a kernel, which says so on the terminal. The empty
        prompt is a new line, but not for a model that replies.
        """
        run, device = self.load()
        task = run.wording
        if task.replies and not self.prompt:
            example = 'try --prompt "What is your name?"'
            raise ValueError(f"this model replies to a text; {example}")
        prompt = self.prompt or "\n"
        tokens, model = task.prompt(prompt).to(device), run.model(device)
        shown, last = "", 0

        def show(_: int, token: int) -> None:
            nonlocal shown, last  # the space before a word depends on the last token
            text = task.decode([last, token])[len(task.decode([last])) :]
            sys.stdout.write(shown + text)
            sys.stdout.flush()
            shown, last = "", token

        for i in range(self.count):
            if i:
                print(f"\n--- {i + 1} of {self.count} ---")
            shown, last = "" if task.replies else prompt, int(tokens[-1])
            seed = None if self.seed is None else self.seed + i
            sampler = self.sampler
            generate(model, tokens, self.tokens, sampler, seed=seed, on_token=show)
            print()
        return 0


@dataclass(frozen=True, kw_only=True)
class Evaluate(RunCommand):
    r"""
    ### Compute the validation loss of a trained model

    * `text` is a text file, whose last tenth is read; none is the text of the training

    Prints the mean loss $\mathcal{L}$ in nats, in bits ($\mathcal{L} / \ln 2$), and as
    the perplexity $e^{\mathcal{L}}$; of a text also the perplexity per word, which the
    literature reports. Of characters it is $e^{n \mathcal{L}}$, with $n$ characters for
    each word, punctuation mark and line end.
    """

    text: str | None = None

    def __call__(self) -> int:
        run, device = self.load()
        task = run.task(self.text)
        model = run.model(device)
        loss = validation_loss(model, task, device)
        accuracy = task.accuracy(model, device)
        corpus, known = task.corpus, run.about["corpus"]
        target = task.vocabulary.unit + " of a reply" * task.replies
        held_out, whole = len(corpus.validation), len(corpus.text)
        source = (
            f"text        {corpus.name}, the last {held_out:,} of {whole:,} characters"
        )
        if accuracy is not None:
            source = f"task        {task.name}\naccuracy    {accuracy:.1%}"
        print(
            f"run         {run.folder.path} ({title_of(run.about)})\n{source}\n"
            f"loss        {loss:.4f} nats per {target}\n"
            f"            {loss / math.log(2):.4f} bits\n"
            f"perplexity  {math.exp(min(loss, 700)):.2f}"
        )
        if isinstance(task, TextTask):
            per_word = math.exp(min(loss * task.length_of_words, 700))
            print(f"            {per_word:,.2f} per word")
        if task.reads_text and isinstance(task.vocabulary, Words):
            tokens = task.vocabulary.encode(corpus.validation)
            print(f"unknown     {(tokens == 0).double().mean():.1%} of the words")
        if corpus.sha256 != known["sha256"]:
            print(f"The model was trained on another text: {known['name']}.")
        return 0


@dataclass(frozen=True, kw_only=True)
class Attention(RunCommand):
    """
    ### Draw the attention weights of a trained model

    * `text` is the input of the model, and must be given
    * `out` is the picture, an SVG
    * `layer` is its number, from 1 on, and none is the last; a model that replies has
      cross-attention too
    * `head` is its number, from 0 on; none draws all
    """

    text: str = ""
    out: str = "attention.svg"
    layer: int | None = None
    head: int | None = None

    def __call__(self) -> int:
        path = user_path(self.out)
        if path.suffix.lower() != ".svg" or not path.parent.is_dir():
            raise ValueError(
                f"--out ({path}) must end in .svg, in a folder that exists"
            )
        run, device = self.load()
        task, model = run.wording, run.model(device)
        tokens = task.prompt(self.text).to(device)
        inputs = [tokens]
        if task.replies:
            start = tokens.new_tensor([[task.model_fields["start_token"]]])
            reply = generate(model, tokens, 80)
            inputs.append(torch.cat([start, reply[reply[:, 0] != model.end_token]]))
        labels = [*run.vocabulary, *task.special]
        maps = attention_maps(model, *inputs, vocabulary=labels)
        layer = len(maps) if self.layer is None else self.layer
        if not 1 <= layer <= len(maps):
            raise ValueError(f"there is no layer {layer}; expected 1 to {len(maps)}")
        one, head = maps[layer - 1], self.head
        if head is not None and not 0 <= head < (heads := one.weights.shape[3]):
            raise ValueError(f"there is no head {head}; expected 0 to {heads - 1}")
        save_picture(one, path, heads=None if head is None else [head])
        print(f"{path}: {one.title}")
        return 0


class List(Command):
    """### Show the experiments that can be trained"""

    def __call__(self) -> int:
        print(experiments())
        return 0


CLASSES: tuple[type[Command], ...] = (Train, Generate, Evaluate, Attention, List)
COMMANDS = {one.__name__.lower(): one for one in CLASSES}
