r"""
---
title: An experiment
summary: >
  A model, what it is asked, and all the numbers: enough to run it again and get the
  same result.
---

"We trained a transformer on Shakespeare." Could you do it again? You would need the
text, the model with all its sizes, the length of a window, the size of a batch, the
learning rate and how it changes, the number of updates, the seed. Leave one out, and
what you get is something else.

An **experiment** writes them down. It has a name, the model, the task, and four
**presets**: whole sets of numbers for the same question, from a first look to a run
worth reporting.

| Preset | Where | How long |
|:--|:--|:--|
| `tiny` | two cores of a processor | about a minute |
| `cpu` | a laptop without a GPU | two to five minutes |
| `colab` | a free GPU, a T4 | under ten minutes |
| `gpu` | a large GPU | as long as it takes |

`tiny` was measured, and so was `cpu` for the autoregressive transformer; for the others
its time is worked out from that of an update. `colab` and `gpu` have not been run yet,
and say so.

A **variant** is an experiment with something changed on purpose, one head instead of
four, say. What it changes stands in the experiment, so that the runs which answer a
question differ in that and in nothing else.

```python
from labml_nn.experiments import experiments

print(experiments())
elman = experiments()["elman"]
assert elman.presets["tiny"].training["seq_len"] == 64
```

| Name | Meaning |
|:--|:--|
| `Preset` | numbers for one kind of machine |
| `Experiment` | a model, a task, presets and variants |
| `Experiment.build` | from numbers to a model and what trains it |
| `experiments` | all of them, by name |
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple, cast, overload

import torch

from labml_nn.checks import check_known
from labml_nn.experiments.training.config import TrainingConfig
from labml_nn.language_model import LanguageModel
from labml_nn.registry import load, models

# The data and what trains are imported when a model is built: a list of experiments
# needs neither.
if TYPE_CHECKING:
    from labml_nn.experiments.data import Corpus
    from labml_nn.experiments.training.task import Task

PRESETS = ("tiny", "cpu", "colab", "gpu")
TASK_NAMES = ("text", "replies")


@dataclass(frozen=True)
class Preset:
    """
    ## A preset

    * `about` says in a line what to expect of it
    * `model` are fields of the configuration of the model, by name
    * `training` are fields of `TrainingConfig`, by name

    A field that is not named has the default of its configuration.
    """

    about: str
    model: Mapping[str, Any] = field(default_factory=dict)
    training: Mapping[str, Any] = field(default_factory=dict)


class Setup(NamedTuple):
    """
    ## What a trainer needs

    A new model, the questions that it will be asked, and the numbers of the training.
    """

    model: LanguageModel[Any]
    task: "Task"
    config: TrainingConfig


@dataclass(frozen=True)
class Experiment:
    """
    ## An experiment

    * `name` is what the command line knows it by
    * `title` and `summary` say what it is about
    * `model` is a name of [the table of models](../registry.py)
    * `task` is `"text"`, to go on with one, or `"replies"`, to reply
    * `presets` are its four sets of numbers
    * `variants` are fields of the model that are changed on purpose, by a name for it
    * `start`, if there is one, is a function of a new model and a trained one of
      another kind, and gives the first what fits of the second
    * `page` and `notebook` are where to read about it
    """

    name: str
    title: str
    summary: str
    model: str
    task: str
    presets: Mapping[str, Preset]
    page: str
    notebook: str
    variants: Mapping[str, Mapping[str, Any]] = field(
        default_factory=lambda: MappingProxyType({})
    )
    start: Callable[[Any, Any], object] | None = None

    def __post_init__(self) -> None:
        if tuple(self.presets) != PRESETS:
            raise ValueError(
                f"the experiment {self.name!r} has the presets "
                f"{', '.join(self.presets) or 'of no name'}; expected "
                f"{', '.join(PRESETS)}, in this order"
            )
        check_known("model", self.model, models().names)
        check_known("task", self.task, TASK_NAMES)

    def preset(self, name: str | None = None) -> Preset:
        """
        The preset of this name; `None` is the one that suits this machine, see
        `default_preset`. Raises `ValueError` for a name that is not there.
        """
        name = default_preset() if name is None else name
        check_known(f"preset of {self.name}", name, self.presets)
        return self.presets[name]

    def model_fields(
        self,
        preset: str | None = None,
        variant: str | None = None,
        model: Mapping[str, Any] | None = None,
    ) -> dict[str, Any]:
        """
        ### Which model?

        Fields come from the preset first, then from the variant, then from `model`,
        which is what a user wants otherwise. Each may overrule those before it, with
        one exception: whoever asks for the variant of one head and for four heads asks
        for two things, and the result would carry a wrong name.

        Returns fields by name. Raises `ValueError` for names that are not there, and
        for a field that the variant has decided.
        """
        fields = dict(self.preset(preset).model)
        if variant is not None:
            if not self.variants:
                raise ValueError(
                    f"there is no variant {variant!r}: {self.name} has none; set "
                    "fields of the model instead"
                )
            check_known(f"variant of {self.name}", variant, self.variants)
            fields |= self.variants[variant]
        for name, value in (model or {}).items():
            decided = self.variants[variant] if variant is not None else {}
            if name in decided and decided[name] != value:
                raise ValueError(
                    f"`{name}` ({value!r}) is {decided[name]!r} in the variant "
                    f"{variant}; leave one of the two out"
                )
            fields[name] = value
        return fields

    def build(
        self,
        preset: str | None = None,
        *,
        corpus: "Corpus | None" = None,
        variant: str | None = None,
        model: Mapping[str, Any] | None = None,
        training: Mapping[str, Any] | None = None,
        model_class: type[LanguageModel[Any]] | None = None,
    ) -> Setup:
        r"""
        ### From numbers to a model

        * `preset` is one of the four; `None` is the one for this machine
        * `corpus` is the text; `None` reads Tiny Shakespeare
        * `variant` is one of `variants`, if any
        * `model` and `training` are fields that shall be different, by name
        * `model_class` is a class to use in place of the one in the table: yours, with
          a changed line in it

        Returns the model, the task and the configuration. Raises `ValueError` for
        names that are not there, with the nearest one, and for values that cannot be.
        """
        from labml_nn.experiments.data import read_corpus
        from labml_nn.experiments.training.task import TASKS

        config = self.training(preset, training)
        corpus = read_corpus() if corpus is None else corpus
        task = TASKS[self.task](
            corpus,
            batch_size=config.batch_size,
            seq_len=config.seq_len,
            seed=config.seed,
        )
        fields = self.model_fields(preset, variant, model)
        return Setup(self._new_model(fields, task, config, model_class), task, config)

    def training(
        self, preset: str | None = None, training: Mapping[str, Any] | None = None
    ) -> TrainingConfig:
        """
        The numbers of the training alone: those of the preset, and `training` in place
        of some of them. Sequences that grow begin no longer than they may become.
        """
        fields = {**self.preset(preset).training, **(training or {})}
        if "seq_len" in (training or {}) and "initial_seq_len" not in (training or {}):
            begin = fields.get("initial_seq_len")
            if begin is not None and isinstance(fields["seq_len"], int):
                fields["initial_seq_len"] = min(begin, fields["seq_len"])
        return TrainingConfig.of(fields)

    def _new_model(
        self,
        fields: dict[str, Any],
        task: "Task",
        config: TrainingConfig,
        model_class: type[LanguageModel[Any]] | None,
    ) -> LanguageModel[Any]:
        # The text decides how many tokens there are. Anything else would fail later,
        # with a worse message.
        for name, value in task.model_fields.items():
            if fields.get(name, value) != value:
                raise ValueError(
                    f"`{name}` ({fields[name]!r}) is decided by the text, which needs "
                    f"{value}; leave it out"
                )
        fields |= task.model_fields
        model_class = model_class or models()[self.model].load_class()

        # A model looks back as far as the texts that it learns from are long, if nobody
        # says otherwise. A reply begins with one token more, its start.
        if "max_len" in model_class.Config.__dataclass_fields__:
            longest = config.seq_len + (1 if self.task == "replies" else 0)
            fields.setdefault("max_len", longest)

        # The first parameters are drawn with the seed of the run, and whoever draws
        # random numbers around it gets those that would have come anyway.
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(config.seed)
            model = model_class.from_config(fields)
        if config.start_from is not None:
            self._start(model, task, config.start_from)
        return model

    def _start(self, model: LanguageModel[Any], task: "Task", path: str) -> None:
        """
        ### From a trained model

        `path` is the folder of a run, or of a model alone. A token is a number, and
        only the vocabulary knows of which character. If both are known, they must be
        the same: weights would fit either way, and mean something else.
        """
        if self.start is None:
            able = [entry.name for entry in experiments() if entry.start is not None]
            raise ValueError(
                f"`start_from` ({path!r}) is not for the experiment {self.name!r}, "
                f"which begins with random parameters; leave it out. It is for: "
                f"{', '.join(able)}"
            )
        if not (Path(path) / "run.json").exists():
            self.start(model, load(path))
            return
        from labml_nn.experiments.training.folder import load_run

        run = load_run(path)
        if run.vocabulary != task.vocabulary:
            raise ValueError(
                f"the model in {path} was trained on {run.corpus['name']}, with the "
                f"{len(run.vocabulary)} characters {run.vocabulary.characters!r}; this "
                f"text, {task.corpus.name}, has {len(task.vocabulary)}, "
                f"{task.vocabulary.characters!r}. Start from a model that was trained "
                "on a text of the same characters"
            )
        self.start(model, run.model())


def default_preset() -> str:
    """
    ## Which preset suits this machine?

    With a GPU the one for a small GPU, and without the one that takes a minute: nobody
    should wait for an hour who only wanted to look.
    """
    return "colab" if torch.cuda.is_available() else "tiny"


class ExperimentTable(Sequence[Experiment]):
    """
    ## All experiments

    A sequence, which can also be asked for by name, and which prints well. An
    experiment lives beside its model and is imported when it is asked for; the names
    are known before.
    """

    def __init__(self, **modules: str) -> None:
        """`modules` says for each name which module has its `EXPERIMENT`."""
        self.names = list(modules)
        self._modules = modules

    @overload
    def __getitem__(self, which: int | str) -> Experiment: ...
    @overload
    def __getitem__(self, which: slice) -> Sequence[Experiment]: ...
    def __getitem__(self, which: int | str | slice) -> Any:
        """Raises `ValueError` for a name that is not there, with the one nearest."""
        if isinstance(which, slice):
            return [self[name] for name in self.names[which]]
        if isinstance(which, int):
            which = self.names[which]
        check_known("experiment", which, self.names)
        return cast(Experiment, import_module(self._modules[which]).EXPERIMENT)

    def __contains__(self, which: object) -> bool:
        """For a name, and for an experiment."""
        return which in self.names or any(which is known for known in self)

    def __len__(self) -> int:
        return len(self.names)

    def __iter__(self) -> Iterator[Experiment]:
        return (self[name] for name in self.names)

    def __repr__(self) -> str:
        """A line for each experiment, and one for its variants if it has any."""
        width = max(map(len, self.names)) + 2
        lines = []
        for experiment in self:
            lines.append(f"{experiment.name:<{width}}{experiment.summary}")
            if experiment.variants:
                lines.append(
                    " " * width + "variants: " + ", ".join(experiment.variants)
                )
        return "\n".join(lines)


# In the order in which they are best read.
EXPERIMENTS = ExperimentTable(
    autoregressive="labml_nn.experiments.autoregressive",
    encoder_decoder="labml_nn.experiments.encoder_decoder",
    feedback="labml_nn.transformers.feedback.experiment",
    elman="labml_nn.recurrent.elman.experiment",
    mha="labml_nn.experiments.heads",
    positional_encoding="labml_nn.experiments.positions",
)


def experiments() -> ExperimentTable:
    """
    ## Which experiments are there?

    The table. `print(experiments())` shows it, and `experiments().names` are the names.
    """
    return EXPERIMENTS
