r"""
---
title: What a run has measured
summary: >
  A run leaves a file of numbers behind. Here such files are read, checked, and put side
  by side: at equal updates, at equal time, and over several seeds.
---

"Model A reaches 1.71 and model B 1.74, so A is better." Perhaps. Before the sentence
means anything, four questions need an answer:

| Question | What can go wrong |
|:--|:--|
| Was it the same text? | another edition, or another cut, is another question |
| Did both read as much? | who trained longer has the lower loss |
| Did both get as much time? | an update of one may cost five of the other |
| Is it luck? | another seed gives another number |

The [trainer](training/trainer.py) writes what is needed to answer them into
`result.json`: the corpus with its checksum, the configuration, and the validation loss
along the way, with updates, tokens and processor seconds beside each. This page reads
such files. Whatever does not fit together is refused, and whatever is reported comes
with its spread.

| Symbol | Code | Meaning |
|:--|:--|:--|
| $L_i$ | `loss` | validation loss at point $i$ of a run, nats per token |
| $x_i$ | | what had been spent by then: updates, tokens or seconds |
| $n$ | `n` | runs that differ in the seed only |
| $\bar{L}$ | `mean` | their mean |
"""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from statistics import fmean
from typing import Any, Literal, NamedTuple

#: What can be held equal when two runs are compared.
Spent = Literal["step", "seconds", "process_seconds", "tokens"]


class Point(NamedTuple):
    """
    ## A point of a curve

    * `step` is how many updates had been made
    * `loss` is in nats per token
    * `seconds` and `process_seconds` are what training had taken until then, by the
      clock on the wall and by that of the processor. The second does not run while
      other programs have the machine, so it is the one to compare
    * `tokens` is how many had been learned from
    """

    step: int
    loss: float
    seconds: float
    process_seconds: float
    tokens: int


@dataclass(frozen=True)
class RunResult:
    """
    ## A result

    * `source` is the file that it was read from
    * `run` says everything that was decided before the run: experiment, model,
      training, corpus, versions, commit, hardware
    * `parameters` is how many numbers were trained
    * `result` is where it ended: losses, time, tokens, and why it `stopped`
    * `train` and `validation` are curves
    * `samples` are texts that the model wrote, with the `step` of each
    """

    source: str
    run: Mapping[str, Any]
    parameters: int
    result: Mapping[str, Any]
    train: tuple[Point, ...]
    validation: tuple[Point, ...]
    samples: tuple[Mapping[str, Any], ...] = ()

    @property
    def loss(self) -> float:
        """The loss on the whole validation split, after the last update."""
        return self.validation[-1].loss

    @property
    def last(self) -> Point:
        """What was spent in all, and where it led."""
        return self.validation[-1]

    @property
    def finished(self) -> bool:
        """Whether it came to its end, and was not interrupted before."""
        return bool(self.result["stopped"] == "finished")

    @property
    def corpus(self) -> str:
        """The name of the text, with its edition."""
        return str(self.run["corpus"]["name"])

    def loss_at(self, amount: int | float, spent: Spent) -> float:
        r"""
        ### The loss after so much

        * `amount` is how much may be spent, of what `spent` says

        The curve has points at some updates only. Between the two around $x$ it is
        taken to be straight:

        $$L(x) = L_i + (L_{i+1} - L_i) \frac{x - x_i}{x_{i+1} - x_i},
            \qquad x_i \le x \le x_{i+1}$$

        A loss curve sags between its points, so this errs upwards, by little where the
        points are close. Raises `ValueError` before the first point and after the last:
        what a run would have done is not known.
        """
        first, last = (getattr(p, spent) for p in (self.validation[0], self.last))
        if not first <= amount <= last:
            raise ValueError(
                f"{self.source} knows losses between {first:g} and {last:g} {spent}, "
                f"and none at {amount:g}"
            )
        for left, right in pairwise(self.validation):
            x0, x1 = getattr(left, spent), getattr(right, spent)
            if x0 <= amount <= x1 and x0 < x1:
                part = float((amount - x0) / (x1 - x0))
                return left.loss + (right.loss - left.loss) * part
        return self.loss


def read_result(path: Path | str) -> RunResult:
    """
    ## Read a result

    * `path` is a `result.json`

    Raises `FileNotFoundError` if it is not there, and `ValueError` with the place of
    what is missing or cannot be. A file from elsewhere is read like any other.
    """
    path = Path(path)
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise FileNotFoundError(
            f"there is no result {path}; a run writes one when it ends"
        ) from None
    except (OSError, ValueError) as error:
        raise ValueError(f"{path} is no JSON that can be read: {error}") from None
    try:
        return _result(data, str(path))
    except KeyError as error:
        raise ValueError(f"{path} is no result of a run: it has no {error}") from None
    except TypeError:
        raise ValueError(
            f"{path} is no result of a run: something in it is of another kind than "
            "the trainer writes"
        ) from None


def _result(data: Any, source: str) -> RunResult:
    run, result = data["run"], data["result"]
    for name in ("experiment", "model", "training", "corpus", "hardware"):
        run[name]
    for name in ("stopped", "process_seconds"):
        result[name]
    found = RunResult(
        source,
        run,
        int(data["parameters"]),
        result,
        _curve(data["curve"]["train"], source),
        _curve(data["curve"]["validation"], source),
        tuple(data.get("samples", ())),
    )
    if not found.validation:
        raise ValueError(
            f"{source} has no validation loss; a run that was interrupted before the "
            "first one has no result to compare"
        )
    return found


def _curve(rows: Any, source: str) -> tuple[Point, ...]:
    """What was spent can only grow: a curve that goes back was put together wrongly."""
    points = tuple(_point(*row) for row in rows)
    for before, after in pairwise(points):
        if any(getattr(after, s) < getattr(before, s) for s in ("step", "tokens")):
            raise ValueError(
                f"{source} goes back from update {before.step} to {after.step}; a "
                "curve is written in the order of its updates"
            )
    return points


def _point(step: Any, loss: Any, wall: Any, process: Any, tokens: Any) -> Point:
    if not all(isinstance(x, int | float) for x in (step, loss, wall, process, tokens)):
        raise TypeError
    return Point(int(step), float(loss), float(wall), float(process), int(tokens))


class Spread(NamedTuple):
    r"""
    ## What several seeds say

    The mean of $n$ losses, the lowest and the highest. With three seeds a standard
    deviation is a guess from three numbers, which looks exact and is not. The range
    says no more than was seen: where the ranges of two models overlap, do not believe
    their order.
    """

    mean: float
    low: float
    high: float
    n: int

    @classmethod
    def of(cls, values: Iterable[float]) -> "Spread":
        """Raises `ValueError` if there are none."""
        found = list(values)
        if not found:
            raise ValueError("no values: a mean needs one at least")
        return cls(fmean(found), min(found), max(found), len(found))

    def apart(self, other: "Spread") -> bool:
        """Whether the ranges do not touch."""
        return self.high < other.low or other.high < self.low


def final(results: Iterable[RunResult]) -> Spread:
    """The losses at the end, of runs that can be compared."""
    found = comparable(results)
    return Spread.of(result.loss for result in found)


def at_equal(results: Iterable[RunResult], amount: int | float, spent: Spent) -> Spread:
    """The losses after so much, of runs that can be compared."""
    found = comparable(results)
    return Spread.of(result.loss_at(amount, spent) for result in found)


def comparable(results: Iterable[RunResult]) -> list[RunResult]:
    r"""
    ## Can these be compared?

    Returns them as a list. Raises `ValueError` if there are none, if one did not come
    to its end, or if they were asked different questions. A question is the text, its
    cut, and the task: a reply is not a text that goes on, and their losses have nothing
    to say to each other.
    """
    found = list(results)
    if not found:
        raise ValueError("no results: there is nothing to compare")
    for result in found:
        if not result.finished:
            raise ValueError(
                f"{result.source} was stopped before its end "
                f"({result.result['stopped']}); go on with that run first"
            )
        for what, of in QUESTION.items():
            here, there = of(result), of(found[0])
            if here != there:
                raise ValueError(
                    f"{result.source} and {found[0].source} are of another {what} "
                    f"({here} and {there}), so their losses cannot be compared"
                )
    return found


QUESTION: dict[str, Callable[[RunResult], str]] = {
    "text": lambda result: f"{result.corpus}, {result.run['corpus']['sha256'][:12]}",
    "task": lambda result: str(result.run["task"]),
}


# ## Small enough to keep
#
# Results are kept beside the pages that show them, so they should be short, and say
# nothing of the machine that a reader has no use for: where on its disk the text was is
# nobody's business.

LONGEST_CURVE = 60


def small(data: Mapping[str, Any]) -> dict[str, Any]:
    """
    * `data` is the content of a `result.json`

    Returns the same with rounded numbers, with at most 60 points of the training curve,
    the last sample, and without the path of the text.
    """
    curve = data["curve"]
    run = {**data["run"], "corpus": {**data["run"]["corpus"], "path": None}}
    return {
        **data,
        "run": run,
        "result": {name: rounded(value) for name, value in data["result"].items()},
        "curve": {
            "train": [[rounded(x) for x in row] for row in thinned(curve["train"])],
            "validation": [[rounded(x) for x in row] for row in curve["validation"]],
        },
        "samples": list(data.get("samples", ()))[-1:],
    }


def rounded(value: Any) -> Any:
    """Four digits after the point: a loss is not known better than that."""
    return round(value, 4) if isinstance(value, float) else value


def thinned(rows: Sequence[Any]) -> list[Any]:
    """Every $k$-th row and the last, so that there are no more than the longest."""
    if len(rows) <= LONGEST_CURVE:
        return list(rows)
    every = -(-len(rows) // (LONGEST_CURVE - 1))
    return [*rows[: len(rows) - 1 : every], rows[-1]]


# ## Exercises
#
# **1.** Two runs end at 1.71 and 1.74. The first took 100 seconds and the second 40.
# Which one is better? Say what else you need to know, and ask for it.
#
# <details><summary>Answer</summary>
#
# Neither, yet. Ask what the first had reached when the second was done. Here it was
# behind, and so would win a race without a clock and lose one with it.
#
# ```python
# from labml_nn.experiments.results import Point, RunResult
#
# def run(*curve):
#     points = tuple(Point(step, loss, s, s, step * 1024) for step, loss, s in curve)
#     result = {"stopped": "finished"}
#     corpus = {"name": "a text", "sha256": "0" * 64}
#     about = {"corpus": corpus, "task": "text"}
#     return RunResult("a file", about, 1000, result, (), points)
#
# slow = run((0, 4.17, 0.0), (500, 1.9, 50.0), (1000, 1.71, 100.0))
# fast = run((0, 4.17, 0.0), (500, 2.0, 20.0), (1000, 1.74, 40.0))
# assert slow.loss_at(1000, "step") < fast.loss_at(1000, "step")
# assert slow.loss_at(40.0, "process_seconds") > fast.loss_at(40.0, "process_seconds")
# ```
#
# </details>
#
# **2.** Models A and B are equally good, and each is trained with three seeds. How
# often do the ranges not touch, although there is nothing to see?
#
# <details><summary>Answer</summary>
#
# All six numbers come from one distribution, so each order of them is as likely as
# another. Of the 20 ways to choose which three are A's, two have all of A on one side:
# one time in ten. Three seeds are few.
#
# ```python
# import random
# from labml_nn.experiments.results import Spread
#
# random.seed(0)
# def three():
#     return Spread.of(random.gauss(1.7, 0.01) for _ in range(3))
#
# apart = sum(three().apart(three()) for _ in range(4000)) / 4000
# assert abs(apart - 2 / 20) < 0.02
# ```
#
# </details>
#
# **3.** With a learning rate that falls to zero over the run, the points in the middle
# of a curve are not what a shorter run would have reached. Which way do they err?
#
# <details><summary>Answer</summary>
#
# They are too high. While the learning rate is high, parameters jump about the place
# where they would come to rest; a shorter run would have let them. So to compare at
# equal time, either every model gets a run of its own that ends there, or the learning
# rate stays where it is. Below, a parameter that is pulled towards zero with noise.
#
# ```python
# import torch
#
# def distance(steps, at):
#     "How far 2000 parameters are from their best, on average, at a step of a run."
#     torch.manual_seed(0)
#     x = torch.full((2000,), 2.0)
#     for step in range(at):
#         rate = 0.3 * (1 - step / steps)
#         x = x - rate * (x + torch.randn(2000))
#     return x.square().mean()
#
# assert distance(400, at=200) > 2 * distance(200, at=200)
# ```
#
# </details>
