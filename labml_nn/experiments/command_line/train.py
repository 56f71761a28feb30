r"""
---
title: The command train
summary: One command from a name to a trained model, and the same one to go on with it.
---

```text
python -m labml_nn train feedback --preset tiny
python -m labml_nn train feedback --resume
python -m labml_nn train autoregressive --text sonnets.txt --d-model 192 --steps 4000
torchrun --nproc-per-node 2 -m labml_nn train autoregressive
```

An [experiment](../experiment.py) has numbers for everything, in four presets. Every one
of them is a [flag](flags.py) as well. What is trained is the preset, with what was
typed in place of its numbers.

**To go on** is the same command with `--resume`. All numbers come from the folder then,
and need not be typed again.

**Ablations** are experiments with variants: the same model with one thing changed.
Without `--variant` all are trained, one after the other, each in a folder of its own
below `--out`, and a picture shows their curves together. Interrupted, they go on with
`--resume` where they were; variants that are finished are left alone.

This file reads the words. The work is done [elsewhere](training.py).
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from labml_nn.checks import check_known
from labml_nn.experiments.command_line import program
from labml_nn.experiments.command_line.flags import (
    NOTHING,
    Flag,
    Parser,
    UsageError,
    add_flags,
    flags_of,
    given,
    spelt,
)
from labml_nn.experiments.data.vocabulary import Vocabulary
from labml_nn.experiments.experiment import Experiment, default_preset, experiments
from labml_nn.experiments.training.config import TrainingConfig
from labml_nn.experiments.training.task import WORDINGS
from labml_nn.registry import models

RUNS = Path("runs")


@dataclass(frozen=True)
class Order:
    """
    ## What was ordered

    * `experiment` is what to train, with the numbers of `preset`
    * `variant` is one of its variants; `None` means all, if it has some
    * `out` is the folder
    * `text` is a file to learn from; `None` means Tiny Shakespeare
    * `resume` is whether to go on with what is in the folder
    * `quiet` is whether only the end is told
    * `model` and `training` are the fields that were typed, by name
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
        """All that is to be trained."""
        if self.variant is not None or not self.experiment.variants:
            return [self.variant]
        return list(self.experiment.variants)

    def folder(self, variant: str | None) -> Path:
        """Where the run of a variant is; each of several has a folder of its own."""
        several = self.variant is None and variant is not None
        return self.out / str(variant) if several else self.out


def run(words: Sequence[str]) -> int:
    """
    ## The command

    * `words` are those behind `train`
    """
    name = which(words)
    if name is None:
        print(overview())
        return 0
    order = read(experiments()[name], words)
    from labml_nn.experiments.command_line.training import carry_out

    return carry_out(order)


def which(words: Sequence[str]) -> str | None:
    """
    ## Which experiment?

    The first word, or a later one that is the name of an experiment. `None` if help is
    asked for without a name. Raises `ValueError` for a name that is not known.
    """
    names = experiments().names
    for word in words[:1]:
        if not word.startswith("-"):
            check_known("experiment", word, names)
    for word in words:
        if word in names:
            return word
    if {"-h", "--help"} & set(words):
        return None
    raise UsageError(
        f"the name of an experiment is missing; known: {', '.join(names)}\n"
        f"`{program()} list` shows what they are"
    )


def read(experiment: Experiment, words: Sequence[str]) -> Order:
    """
    ## From words to an order

    * `words` are the command line; the name of the experiment is among them

    The preset is looked for first, since the help shows its numbers. Raises
    `UsageError` for flags that are not known, and `ValueError` for a preset or a
    variant that is not there.
    """
    preset = _preset(experiment, words)
    prog = f"{program()} train {experiment.name}"
    colon = "" if experiment.title.endswith("?") else ":"
    parser = Parser(f"{experiment.title}{colon} {experiment.summary}.", prog)
    parser.usage = f"{prog} [FLAGS]"
    parser.add_argument("experiment", help=NOTHING)
    _add_run(parser, experiment, preset)
    model, training = flags_of_experiment(experiment, preset)
    add_flags(parser, "the model", model)
    add_flags(parser, "the training", training)
    _check_free(experiment, words)
    values = parser.read(words)
    variant = values.variant
    if variant is not None:
        experiment.model_fields(preset, variant)  # is it there?
    return Order(
        experiment,
        preset,
        variant,
        values.out or RUNS.joinpath(experiment.name, *([variant] if variant else [])),
        values.text,
        values.resume,
        values.quiet,
        given(values, model),
        given(values, training),
    )


def _check_free(experiment: Experiment, words: Sequence[str]) -> None:
    # Flags that somebody could expect, and why there are none.
    for word in words:
        field = spelt(word).partition("=")[0].removeprefix("--").replace("-", "_")
        if not word.startswith("--"):
            continue
        if field in _varied(experiment, ()):
            raise UsageError(
                f"--{field.replace('_', '-')} is what the variants of "
                f"{experiment.name} differ in; choose one with --variant: "
                f"{', '.join(experiment.variants)}"
            )
        if field == "variant" and not experiment.variants:
            raise UsageError(f"{experiment.name} has no variants; leave --variant out")
        if field in _decided(experiment):
            raise UsageError(
                f"--{field.replace('_', '-')} is no choice: the text decides it"
            )


def _preset(experiment: Experiment, words: Sequence[str]) -> str:
    # The last one counts, as with every flag.
    spelt_words = [spelt(word) for word in words]
    preset = default_preset()
    for i, word in enumerate(spelt_words):
        if word.startswith("--preset="):
            preset = word.partition("=")[2]
        elif word == "--preset" and i + 1 < len(words):
            preset = spelt_words[i + 1]
    experiment.preset(preset)
    return preset


def _add_run(parser: Parser, experiment: Experiment, preset: str) -> None:
    group = parser.add_argument_group("the run")
    presets = "; ".join(f"{name}: {p.about}" for name, p in experiment.presets.items())
    group.add_argument(
        "--preset",
        metavar="WORD",
        help=f"which set of numbers. {presets} (default: {preset})".replace("%", "%%"),
    )
    if experiment.variants:
        group.add_argument(
            "--variant",
            metavar="WORD",
            help=f"one of {', '.join(experiment.variants)}; without it all of them, "
            "each in a folder of its own",
        )
    else:
        parser.set_defaults(variant=None)
    group.add_argument(
        "--out",
        type=Path,
        metavar="FOLDER",
        help=f"where the run is kept (default: {RUNS / experiment.name})",
    )
    group.add_argument(
        "--text",
        metavar="FILE",
        help="a text in UTF-8 to learn from (default: Tiny Shakespeare)",
    )
    group.add_argument(
        "--resume",
        action="store_true",
        help="go on with the run in the folder, with its own numbers",
    )
    group.add_argument(
        "--quiet", action="store_true", help="say only how it ended, without a bar"
    )


def flags_of_experiment(
    experiment: Experiment, preset: str
) -> tuple[list[Flag], list[Flag]]:
    """
    ## Its flags

    Returns those of the model and those of the training, with the numbers of the
    preset. What the text decides is no choice, and has no flag.
    """
    config = models()[experiment.model].load_class().Config
    numbers = experiment.preset(preset)
    shown: dict[str, Any] = {"max_len": "seq_len", **numbers.model}
    return (
        flags_of(config, shown, leave_out=_varied(experiment, _decided(experiment))),
        flags_of(TrainingConfig, numbers.training),
    )


def _decided(experiment: Experiment) -> set[str]:
    fields = WORDINGS[experiment.task](Vocabulary("a")).model_fields
    return {"padding_token", *fields}


def _varied(experiment: Experiment, decided: Iterable[str]) -> set[str]:
    # A field in which all variants differ is chosen by the variant.
    fields = [set(changed) for changed in experiment.variants.values()]
    return set(decided).union(*fields)


def overview() -> str:
    """The help without a name."""
    return (
        f"usage: {program()} train NAME [FLAGS]\n\n"
        "Train a model, or go on with a training (--resume).\n\n"
        f"{experiments()}\n\n"
        f"`{program()} train NAME --help` shows all flags of an experiment."
    )
