r"""
---
title: "Memory tasks: recall, overwriting, parity"
summary: >
  Three small tasks without a text, each of which asks one thing of a model's memory: to
  find a value by its key, to replace a value, and to keep a state up to date.
---

How good is the memory of a sequence model? The loss on a text does not tell. Most
characters of Shakespeare follow from the few before them, so a small network with a
poor memory may have a low loss. We need tasks that nothing but memory can solve. Here
are three. Suppose you read the line on the left, and are asked the question on the
right:

| Task | You read | Question | Answer |
|:--|:--|:--|:--|
| `recall` | k3 v5 k8 v1 k2 v5 | k8 ? | v1 |
| `overwrite` | k3 v5 k8 v1 k3 v9 | k3 ? | v9 |
| `parity` | 1 0 1 1 | is the number of ones odd? | 1, for yes |

**Recall.** You read pairs of a key and a value, and are then asked for the value of
each key. The pairs are random and new in each sequence, so no weight can store them. A
model has to keep them in its state, and to find the right one. Language needs this all
the time: who reads *Mr Weasley* once should know him again. The task is *multi-query
associative recall* ([@arora2023zoology]).

**Overwriting.** Each key comes twice, with two values, and the second one counts. Now
it is not enough to add what is new. The old value must go, or lose to the new one.

**Parity.** You read zeros and ones, and say after each whether the number of ones so
far is odd. This needs a single bit of memory. But every 1 must flip it, so each step
depends on the step before. A recurrent network has such a state. A transformer has a
fixed number of layers, and must find the answer with as many steps of computation,
whatever the length.

What does a model score that remembers nothing? There are 64 values, so a guess is right
once in 64 times, which is 1.6 %. For parity it is right half of the time.

```python
from labml_nn.experiments.memory import RecallTask

task = RecallTask(batch_size=2, seq_len=9, seed=1)
batch = task.batch(0)
print(task.decode(batch.tokens[:, 0]))  # three pairs, then the three keys
print(task.decode(batch.targets[:, 0]))  # their values
assert batch.tokens.shape == batch.targets.shape == (9, 2)  # [T, B]
```

The command line trains on them: `python -m labml_nn train elman --task recall`. It
reports the **accuracy**, the share of questions whose answer gets the highest
probability.

| Symbol | Code | Shape | Meaning |
|:--|:--|:--|:--|
| $n$ | `n` | | keys in a sequence |
| | `tokens` | `[T, B]` | pairs, then the keys in another order; or bits |
| | `targets` | `[T, B]` | values at the keys that are asked, padding elsewhere |
"""

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

import numpy
import torch
from jaxtyping import Int
from torch import Tensor

from labml_nn.experiments.data import (
    Corpus,
    Examples,
    Task,
    Vocabulary,
    Words,
    random_numbers,
)
from labml_nn.language_model import LanguageModel, evaluating

__all__ = ["MemoryTask", "OverwriteTask", "ParityTask", "RecallTask"]

# Training draws from streams 0, 1, 2, … of random numbers, one for each step. The
# sequences for validation come from streams that no training reaches.
VALIDATION, VALIDATION_BATCHES = 2**40, 8


class MemoryTask(Task):
    """
    ## A task without a text

    A subclass draws sequences. As each one is new, nothing can be learned by heart, and
    any other sequences can serve for validation.
    """

    reads_text = False
    separator = " → "
    # Hyperparameters that suit the task, in place of those of a preset. Sequences are
    # short at first, and grow. This matters. After 1,000 updates, a transformer that
    # began with all sixteen pairs answered 14 % of the questions. One that began with
    # two pairs answered all of them after 800.
    training: ClassVar[Mapping[str, Any]] = {
        "steps": 800,
        "batch_size": 32,
        "optimizer": "adamw",
        "learning_rate": 3e-3,
        "final_learning_rate": 0.1,
        "warmup_steps": 50,
        "grow_steps": 640,
        "sample_tokens": 1,
    }

    def __init__(
        self,
        corpus: Corpus | None = None,
        *,
        batch_size: int = 1,
        seq_len: int = 1,
        seed: int = 0,
        vocabulary: Vocabulary | None = None,
    ) -> None:
        """
        * `corpus` is ignored: other tasks read a text
        * `batch_size` is $B$, over all processes; `seq_len` is $T$, at most
        * `seed` selects the sequence of batches
        * `vocabulary` is that of a saved model, which equals the one of this task
        """
        super().__init__(
            Corpus.of(self.name, f"the memory task {self.name}"),
            batch_size=batch_size,
            seq_len=seq_len,
            seed=seed,
            vocabulary=vocabulary or self.words(),
        )

    @staticmethod
    def words() -> Vocabulary:
        """All tokens of the task."""
        raise NotImplementedError

    def draw(self, random: numpy.random.Generator, seq_len: int) -> Examples:
        """A batch of sequences of at most `seq_len` tokens."""
        raise NotImplementedError

    def _prepare(self, corpus: Corpus) -> None:
        """There is nothing to prepare: `batch` refuses a length that does not fit."""

    @property
    def sample_prompt(self) -> str:  # type: ignore[override]
        """A short sequence, whose last question a sample answers."""
        short = self.draw(random_numbers(VALIDATION, 0), min(self.seq_len, 10))
        return self.decode(short.tokens[:, 0])

    def batch(self, step: int, seq_len: int | None = None) -> Examples:
        return self.draw(random_numbers(self.seed, step), seq_len or self.seq_len)

    def validation(self) -> Iterator[Examples]:
        """Eight batches, the same for every seed of a training."""
        for i in range(VALIDATION_BATCHES):
            yield self.draw(random_numbers(VALIDATION, i), self.seq_len)

    def accuracy(
        self, model: LanguageModel[Any], device: torch.device | str
    ) -> float | None:
        """
        ### Accuracy

        The share of all questions of the validation batches that the model answers
        right: the right answer has the highest logit.
        """
        right = count = 0
        with evaluating(model), torch.no_grad():
            for batch in self.validation():
                logits, _ = model(batch.tokens.to(device))
                hits = logits.argmax(-1).cpu() == batch.targets
                if batch.padding_token is not None:
                    hits &= batch.targets != batch.padding_token
                right, count = right + int(hits.sum()), count + batch.count
        return right / count


class RecallTask(MemoryTask):
    r"""
    ## Associative recall

    A sequence has $n$ pairs of a key and a value, and then the $n$ keys in another
    order, $T = 3 n$ tokens. The keys of a sequence differ, and two may have the same
    value. At each key that is asked, the target is its value. All other targets are
    padding, which does not enter the loss.
    """

    name = "recall"
    special = ("padding_token",)
    training: ClassVar[Mapping[str, Any]] = {
        **MemoryTask.training,
        "seq_len": 48,
        "initial_seq_len": 6,
    }
    keys, values = 64, 64
    #: How often each key comes before it is asked.
    times = 1

    @classmethod
    def words(cls) -> Words:
        keys = (f"k{i}" for i in range(1, cls.keys + 1))
        values = (f"v{i}" for i in range(1, cls.values + 1))
        return Words(("<unk>", *keys, *values))

    def draw(self, random: numpy.random.Generator, seq_len: int) -> Examples:
        n, shape = seq_len // (2 * self.times + 1), (self.batch_size,)
        if not 1 <= n <= self.keys:
            longest = (2 * self.times + 1) * self.keys
            raise ValueError(
                f"`seq_len` ({seq_len}) must be from {2 * self.times + 1}, for one "
                f"key, to {longest}, for all {self.keys} keys"
            )

        def shuffled(row: Any) -> Any:
            return random.permuted(numpy.tile(row, (*shape, 1)), axis=1)

        # Each sequence has $n$ random keys. A pair has one of them, by its number from
        # 0 to $n - 1$, and a random value.
        keys = shuffled(1 + numpy.arange(self.keys))[:, :n]
        pairs = shuffled(numpy.repeat(numpy.arange(n), self.times))
        values = random.integers(self.values, size=pairs.shape) + 1 + self.keys

        # A later pair replaces an earlier one with the same key.
        last = numpy.empty_like(keys)
        for j in range(pairs.shape[1]):
            numpy.put_along_axis(last, pairs[:, j : j + 1], values[:, j : j + 1], 1)

        asked = shuffled(numpy.arange(n))
        read = numpy.stack([numpy.take_along_axis(keys, pairs, 1), values], axis=2)
        questions = numpy.take_along_axis(keys, asked, 1)
        tokens = numpy.concatenate([read.reshape(*shape, -1), questions], axis=1)
        padding = len(self.vocabulary)
        targets = numpy.full_like(tokens, padding)
        targets[:, -n:] = numpy.take_along_axis(last, asked, 1)
        return Examples.of(_columns(tokens), _columns(targets), padding)


class OverwriteTask(RecallTask):
    """
    ## Overwriting

    The same with two pairs for each key, in any order, and so $T = 5 n$ tokens.
    """

    name = "overwrite"
    training: ClassVar[Mapping[str, Any]] = {
        **MemoryTask.training,
        "seq_len": 80,
        "initial_seq_len": 10,
    }
    times = 2


class ParityTask(MemoryTask):
    r"""
    ## Parity

    Random bits $x_t$, each 1 with probability one half. The target at every position is
    the sum of all bits so far, modulo 2: $y_t = (x_1 + \dots + x_t) \bmod 2$.
    """

    name = "parity"
    training: ClassVar[Mapping[str, Any]] = {
        **MemoryTask.training,
        "steps": 400,
        "grow_steps": 320,
        "seq_len": 64,
        "initial_seq_len": 4,
    }

    @staticmethod
    def words() -> Vocabulary:
        return Vocabulary("01")

    def draw(self, random: numpy.random.Generator, seq_len: int) -> Examples:
        bits = random.integers(2, size=(self.batch_size, seq_len))
        return Examples.of(_columns(bits), _columns(bits.cumsum(1) % 2))


def _columns(rows: Any) -> Int[Tensor, "T B"]:
    return torch.from_numpy(rows).t().contiguous()
