r"""
---
title: Comparisons
summary: >
  Which runs answer which question, why they are fair, and one command that makes them
  all.
---

A run says how well a model did. A **study** asks a question that takes several runs to
answer, and says beforehand which ones. All the runs behind the [page of
results](../../../docs_src/pages/results.md) are declared here, and

```text
python -m labml_nn.experiments.studies
```

[makes those that are missing](runner.py). What they measured is kept in
`docs_src/results`, and the tables and curves of that page are computed from there.

| Study | Question |
|:--|:--|
| `rates` | how large may steps be, for each model? |
| `models` | which model, at equal parameters? |
| `feedback_depth` | does feedback help, and less where there are more layers? |
| `heads` | how many heads, at equal width? |
| `positions` | how should a model know where it is? |
| `shipped` | models that are small enough to come along |

A comparison is fair when the answer would have been the same for another choice of what
was not asked about. That is never quite so. What is done about it:

- **One text, one cut, one order.** All runs read the same windows at the same update:
  batches are drawn with the seed of the run, and every model gets the same three seeds.
- **A learning rate of its own.** The best step for one model makes another diverge.
  `rates` tries four for each, on a seed that is not used again.
- **Equal parameters**, within 2 %, where models of different kinds meet.
- **Equal updates and equal time.** An update costs one model more than another, and how
  much depends on how it was written. Both comparisons are made.
- **No dropout.** A run reads less than the whole text once, and has no chance to learn
  it by heart. Only the encoder–decoder, for which the text is 6,282 pairs of speeches,
  reads each about twice.

They are small: widths of 64, contexts of 64 letters, 800 updates on one core of a
processor. Small runs answer questions about small models.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from labml_nn.checks import check_known
from labml_nn.experiments.experiment import Preset, experiments
from labml_nn.experiments.results import RunResult, read_result


@dataclass(frozen=True)
class Run:
    """
    ## A run

    * `experiment` is a name of the [table of experiments](../experiment.py)
    * `model` and `training` are fields by name
    * `cost` is about how many milliseconds of one core an update takes, for plans
    * `preset` is where the other fields come from. Without one they have the defaults
      of their configurations: presets are tuned now and then, and a study would
      silently become another
    """

    experiment: str
    model: Mapping[str, Any]
    training: Mapping[str, Any]
    cost: float = 40.0
    preset: str | None = None

    @property
    def minutes(self) -> float:
        """Of one core, about."""
        return float(self.cost * self.training["steps"]) / 60_000


@dataclass(frozen=True)
class Study:
    """
    ## A study

    * `question` is what the runs shall answer
    * `runs` are those that are compared, by a label for tables and files
    * `seeds` are those that each of them is made with
    * `ships` is whether the trained models are kept too, and not only what was measured
    """

    question: str
    runs: Mapping[str, Run]
    seeds: Sequence[int] = (1, 2, 3)
    ships: bool = False


# ## Numbers that all share
#
# 16 windows of 64 letters make 1,024 letters per update, and 800 updates read four
# fifths of as many letters as the training split has. The learning rate rises for 50
# updates and falls to a tenth along a cosine.

COMMON: dict[str, Any] = {
    "steps": 800,
    "batch_size": 16,
    "seq_len": 64,
    "learning_rate": 4e-3,
    "warmup_steps": 50,
    "evaluate_every": 200,
    "sample_every": 0,
    "save_every": 200,
    "device": "cpu",
    "precision": "float32",
    "compile": "no",
}
WIDTH: dict[str, Any] = {"d_model": 64, "heads": 4, "dropout_prob": 0.0}


def transformer(cost: float = 36.0, **fields: Any) -> Run:
    """
    The transformer that several studies begin from: four layers of 64 features, four
    heads, and positions that are told by [turning queries and
    keys](../../transformers/rotary.py). `fields` are what is different.
    """
    model = {**WIDTH, "n_layers": 4, "positions": "rotary", **fields}
    return Run("autoregressive", model, COMMON, cost)


# ## At equal parameters
#
# 204,289 for the transformer, and as many as widths allow for the others. The
# encoder–decoder has two layers in each half. It answers another question, what is the
# reply?, and its loss stands beside the others without a rank.
#
# Here the learning rate does *not* fall. With one that falls, the middle of a long run
# is worse than the end of a short one, since its steps are still large, and a slow
# model would be judged at equal time in the middle of its run. With a constant rate
# each point of the curve is where a run of this length ends.

MODELS: dict[str, Run] = {
    "autoregressive": transformer(),
    "encoder_decoder": Run(
        "encoder_decoder", {**WIDTH, "d_ff": 192, "n_layers": 2}, COMMON, 47.0
    ),
    "feedback": Run("feedback", {**WIDTH, "d_ff": 271, "n_layers": 4}, COMMON, 125.0),
    "elman": Run(
        "elman",
        {"d_model": 64, "d_hidden": 208, "n_layers": 2, "dropout_prob": 0.0},
        COMMON,
        25.0,
    ),
}
STEADY = {"final_learning_rate": 1.0, "evaluate_every": 100}
SHORT = {"steps": 300, "evaluate_every": 0}
BEST_RATE = {
    "autoregressive": 4e-3,
    "encoder_decoder": 4e-3,
    "feedback": 4e-3,
    "elman": 4e-3,
}
RATES = (1e-3, 2e-3, 4e-3, 8e-3)


def changed(run: Run, **training: Any) -> Run:
    """The same run with other fields of the training."""
    return replace(run, training={**run.training, **training})


# ## Feedback and depth
#
# Fan et al. found that a shallow feedback transformer does what an ordinary one needs
# more layers for ([@fan2020feedback, abstract]). So we train both with 1, 2, 4 and 8
# layers of the same width, on the same windows, for as many updates, and look at the
# difference. Parameters cannot be equal at the same time: a feedback layer has vectors
# for distances, and all of them share one projection to keys and values. The table
# shows how many there are.
#
# Feedback attention knows how far back a letter stands. So must the ordinary
# transformer, or the study would compare positions and call it feedback: both know
# distances, one by rotation and one by vectors.

DEPTHS = (1, 2, 4, 8)
ORDINARY_COST = {1: 11.0, 2: 18.0, 4: 36.0, 8: 69.0}
FEEDBACK_COST = {1: 45.0, 2: 73.0, 4: 125.0, 8: 245.0}


def _depths() -> dict[str, Run]:
    found = {}
    for layers in DEPTHS:
        found[f"transformer-{layers}"] = transformer(
            ORDINARY_COST[layers], n_layers=layers
        )
        found[f"feedback-{layers}"] = Run(
            "feedback", {**WIDTH, "n_layers": layers}, COMMON, FEEDBACK_COST[layers]
        )
    return found


# ## Models that come along
#
# Four trained models are part of the project, at most 2 MB each, so that one can write
# with a model and look into it before one has trained any:
#
# ```text
# python -m labml_nn generate docs_src/results/feedback --prompt "ROMEO:"
# ```
#
# They are the presets for two cores with more updates. The encoder–decoder is a little
# narrower than its preset, to stay below the limit.

ALONE: dict[str, Any] = {
    **{name: COMMON[name] for name in ("device", "precision", "compile")},
    "evaluate_every": 250,
    "sample_every": 0,
}

# ## All of them
#
# A run that stands in two studies is made once: four heads, rotation and four layers
# are the same transformer.

STUDIES: dict[str, Study] = {
    "rates": Study(
        "How large may steps be, for each model?",
        {
            f"{name}-{rate:g}": changed(run, **(STEADY | SHORT), learning_rate=rate)
            for name, run in MODELS.items()
            for rate in RATES
        },
        seeds=(0,),
    ),
    "models": Study(
        "Which model, at equal parameters?",
        {
            name: changed(run, **STEADY, learning_rate=BEST_RATE[name])
            for name, run in MODELS.items()
        },
    ),
    "feedback_depth": Study(
        "Does feedback help, and less where there are more layers?", _depths()
    ),
    "heads": Study(
        "How many heads, at equal width?",
        {str(heads): transformer(heads=heads) for heads in (1, 2, 4, 8)},
    ),
    "positions": Study(
        "How should a model know where it is?",
        {
            positions: transformer(positions=positions)
            for positions in ("rotary", "sinusoidal", "learned", "none")
        },
    ),
    "shipped": Study(
        "Which models come along?",
        {
            "autoregressive": Run(
                "autoregressive", {}, {"steps": 1500, **ALONE}, 100.0, "tiny"
            ),
            "encoder_decoder": Run(
                "encoder_decoder",
                {"d_model": 88},
                {"steps": 1000, **ALONE},
                150.0,
                "tiny",
            ),
            "feedback": Run("feedback", {}, {"steps": 2400, **ALONE}, 35.0, "tiny"),
            "elman": Run("elman", {}, {"steps": 2000, **ALONE}, 60.0, "tiny"),
        },
        seeds=(1,),
        ships=True,
    ),
}


class Job(NamedTuple):
    """
    ## A run with a seed

    Written `heads/2/seed1`, which is how a process is told what to do.
    """

    study: str
    label: str
    seed: int

    def __str__(self) -> str:
        return f"{self.study}/{self.label}/seed{self.seed}"

    @classmethod
    def of(cls, name: str) -> "Job":
        """Raises `ValueError` for what is not declared."""
        study, _, rest = name.partition("/")
        label, _, seed = rest.partition("/seed")
        check_known("study", study, STUDIES)
        check_known(f"run of {study}", label, STUDIES[study].runs)
        seeds = STUDIES[study].seeds
        if seed not in map(str, seeds):
            raise ValueError(
                f"there is no seed {seed!r} in {study}; its seeds are "
                f"{', '.join(map(str, seeds))}"
            )
        return cls(study, label, int(seed))

    @property
    def run(self) -> Run:
        """What is to be run."""
        return STUDIES[self.study].runs[self.label]

    @property
    def first(self) -> "Job":
        """The job that makes the same run: this one, or one of a study before it."""
        for name, study in STUDIES.items():
            for label, run in study.runs.items():
                same = (run, study.ships) == (self.run, STUDIES[self.study].ships)
                if same and self.seed in study.seeds:
                    return Job(name, label, self.seed)
        return self

    def describes(self, about: Mapping[str, Any]) -> bool:
        """
        Whether a run that says this of itself is the one that is declared now. A number
        of a study may have changed since it was made; then it is another run.
        """
        preset = experiments()[self.run.experiment].preset(self.run.preset or "tiny")
        known = preset if self.run.preset else Preset("as a study says")
        model = {**known.model, **self.run.model}
        training = {**known.training, **self.run.training, "seed": self.seed}
        config, said = about["model"]["config"], about["training"]
        return (
            about["experiment"] == self.run.experiment
            and {name: config.get(name) for name in model} == model
            and {name: said.get(name) for name in training} == training
        )

    def kept(self, results: Path) -> Path:
        """Where its result is kept, under the folder of `results`."""
        job = self.first
        if STUDIES[job.study].ships:
            return results / job.label / "result.json"
        return results / job.study / f"{job.label}-seed{job.seed}.json"


def jobs(only: Sequence[str] = ()) -> Iterator[Job]:
    """All jobs, or those of some studies; each run once."""
    for name in only:
        check_known("study", name, STUDIES)
    found = {
        Job(name, label, seed).first: None
        for name, study in STUDIES.items()
        if name in (only or STUDIES)
        for label in study.runs
        for seed in study.seeds
    }
    yield from found


def results_of(study: str, results: Path) -> dict[str, list[RunResult]]:
    """
    ## What a study has found

    * `study` is its name, and `results` the folder in which results are kept

    Returns the results by label, in the order of the study. A label without results has
    an empty list: a study that is half done can be looked at. Raises `ValueError` for
    files that are damaged.
    """
    check_known("study", study, STUDIES)
    found: dict[str, list[RunResult]] = {}
    for label in STUDIES[study].runs:
        paths = [Job(study, label, seed).kept(results) for seed in STUDIES[study].seeds]
        found[label] = [result for path in paths if (result := _if_there(path))]
    return found


def _if_there(path: Path) -> RunResult | None:
    # To open is to ask: a page with this result's number knows that it needs the file,
    # and is made anew on the day that there is one.
    try:
        return read_result(path)
    except FileNotFoundError:
        return None
