r"""
---
title: Configuration of a training
summary: >
  Every choice that a training makes, with what it is for: how many updates of how many
  texts, how large a step, how often to look, and on what to compute.
---

The model is one half of an experiment; this is the other. As with models, all choices
stand in one frozen value, which is checked when it is made and written beside what came
out of it. The flags of the command line are made from it as well.

Three of the numbers matter more than the others. The **learning rate** decides whether
a model learns at all, and the best one lies close below the first that fails. The
**batch size** decides how sure a step can be of its direction, and **steps** how many
there are. Their product with `seq_len` is what the model reads. From where these three
are good, the rest moves the last few hundredths of a nat.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from numbers import Integral, Real
from typing import Any, Literal, get_args

from labml_nn.checks import check_known, check_sizes

Optimizer = Literal["adamw", "muon"]
Precision = Literal["auto", "float32", "bfloat16", "float16"]
Compile = Literal["auto", "yes", "no"]
DEVICES = re.compile(r"auto|cpu|cuda(:\d+)?|mps")

__all__ = ["TrainingConfig"]


@dataclass(frozen=True, kw_only=True)
class TrainingConfig:
    r"""
    ## Choices

    * `steps` is the number of updates
    * `batch_size` is how many sequences an update learns from, over all processes and
      pieces
    * `seq_len` is how many tokens each of them has; what is said or replied is cut to
      it
    * `accumulate` is the number of pieces in which a batch is read, one after the
      other, where memory does not hold all of it; the update is the same
    * `optimizer` is `"adamw"`, or `"muon"` for the matrices inside the model with AdamW
      for the rest
    * `learning_rate` is the size of AdamW's steps, at its highest
    * `muon_learning_rate` is that of Muon's
    * `final_learning_rate` is the share of the highest that is left at the end
    * `warmup_steps` is the number of updates until the highest is reached
    * `weight_decay` is how strongly matrices are drawn to zero; vectors never are
    * `beta1` is how much AdamW's mean of the gradients keeps of the past at each step
    * `beta2` is how much its mean of their squares keeps
    * `clip_norm` is the longest gradient that is followed as it is; longer ones are
      shortened to it, and 0 leaves all as they are
    * `evaluate_every` is the number of updates between looks at the whole validation
      split; 0: only at the end
    * `sample_every` is the number of updates between texts that the model writes; 0:
      only at the end
    * `save_every` is the number of updates between checkpoints; 0: only at the end
    * `sample_tokens` is the length of those texts
    * `seed` is what all that is drawn depends on: parameters, batches, dropout, texts
    * `device` is `"cpu"`, `"cuda"`, `"cuda:1"`, `"mps"`, or `"auto"` for the fastest
      that there is
    * `precision` is that of matrix products, `"float32"`, `"bfloat16"` or `"float16"`;
      `"auto"` takes bfloat16 on a GPU that computes with it, and float32 elsewhere
    * `compile` is whether the model is compiled first, `"yes"` or `"no"`; `"auto"` does
      so on a GPU and for models that gain by it
    * `initial_seq_len` is the length to begin with, for sequences that grow; not given,
      all updates read `seq_len` tokens
    * `grow_steps` is the number of updates until they have grown to `seq_len`
    * `start_from` is the folder of a run or of a model whose weights are taken over, as
      far as they match

    Raises `ValueError` for a value that cannot be, `TypeError` for one of another kind.
    """

    steps: int = 2000
    batch_size: int = 32
    seq_len: int = 64
    accumulate: int = 1
    optimizer: Optimizer = "adamw"
    learning_rate: float = 1e-3
    muon_learning_rate: float = 0.02
    final_learning_rate: float = 0.1
    warmup_steps: int = 100
    weight_decay: float = 0.1
    beta1: float = 0.9
    beta2: float = 0.99
    clip_norm: float = 1.0
    evaluate_every: int = 250
    sample_every: int = 500
    save_every: int = 250
    sample_tokens: int = 200
    seed: int = 1
    device: str = "auto"
    precision: Precision = "auto"
    compile: Compile = "auto"
    initial_seq_len: int | None = None
    grow_steps: int = 0
    start_from: str | None = None

    def __post_init__(self) -> None:
        self._make_plain()
        sizes = ("steps", "batch_size", "seq_len", "accumulate", "sample_tokens")
        check_sizes(**{name: getattr(self, name) for name in sizes})
        for name in (
            *("warmup_steps", "evaluate_every", "sample_every", "save_every"),
            *("seed", "grow_steps"),
        ):
            _check_count(name, getattr(self, name))
        if self.batch_size % self.accumulate:
            below = self.batch_size - self.batch_size % self.accumulate
            sizes_ = f"{below} or {below + self.accumulate}" if below else "1"
            what = "batch_size" if below else "accumulate"
            raise ValueError(
                f"`batch_size` ({self.batch_size}) must be divisible by `accumulate` "
                f"({self.accumulate}); try {what}={sizes_}"
            )
        self._check_numbers()
        check_known("optimizer", self.optimizer, get_args(Optimizer))
        check_known("precision", self.precision, get_args(Precision))
        check_known("way to compile", self.compile, get_args(Compile))
        if not isinstance(self.device, str) or not DEVICES.fullmatch(self.device):
            raise ValueError(
                f"`device` ({self.device!r}) is not known; expected auto, cpu, cuda, "
                "cuda:0 (or another number), or mps"
            )
        self._check_growth()

    def _make_plain(self) -> None:
        # Numbers of NumPy are numbers, but no JSON file and no checkpoint takes them.
        for name, value in self.values().items():
            if isinstance(value, Integral) and not isinstance(value, bool):
                object.__setattr__(self, name, int(value))
            elif isinstance(value, Real) and not isinstance(value, Integral):
                object.__setattr__(self, name, float(value))

    def _check_numbers(self) -> None:
        for name in ("learning_rate", "muon_learning_rate"):
            _check_number(name, value := getattr(self, name))
            if not 0 < value < float("inf"):
                raise ValueError(
                    f"`{name}` ({value}) must be above 0 and finite; 0.001 is usual "
                    "for AdamW and 0.02 for Muon"
                )
        for name in ("weight_decay", "clip_norm"):
            _check_number(name, value := getattr(self, name))
            if not 0 <= value < float("inf"):
                raise ValueError(
                    f"`{name}` ({value}) must be at least 0 and finite; 0 switches it "
                    "off"
                )
        _check_number("final_learning_rate", share := self.final_learning_rate)
        if not 0 <= share <= 1:
            raise ValueError(
                f"`final_learning_rate` ({share}) is a share of the highest, from 0 to "
                "1; 1 keeps the learning rate where it is"
            )
        for name in ("beta1", "beta2"):
            _check_number(name, value := getattr(self, name))
            if not 0 <= value < 1:
                raise ValueError(
                    f"`{name}` ({value}) must be at least 0 and less than 1; 0.9 and "
                    "0.99 are usual"
                )

    def _check_growth(self) -> None:
        if self.initial_seq_len is None:
            if self.grow_steps:
                raise ValueError(
                    f"`grow_steps` ({self.grow_steps}) needs `initial_seq_len`, the "
                    "length to begin with"
                )
            return
        check_sizes(initial_seq_len=self.initial_seq_len)
        if self.initial_seq_len > self.seq_len:
            raise ValueError(
                f"`initial_seq_len` ({self.initial_seq_len}) must be at most `seq_len` "
                f"({self.seq_len}), the length to grow to"
            )
        if not self.grow_steps:
            raise ValueError(
                f"`initial_seq_len` ({self.initial_seq_len}) needs `grow_steps`, the "
                "number of updates in which it grows"
            )

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> "TrainingConfig":
        """
        * `values` are fields by name, from a file or a command line

        A field that does not exist is a `ValueError`, with the one that was probably
        meant.
        """
        known = [field.name for field in fields(cls)]
        for name in values:
            check_known("field of TrainingConfig", name, known)
        return cls(**values)

    def values(self) -> dict[str, Any]:
        """All fields by name, as `of` takes them."""
        return {field.name: getattr(self, field.name) for field in fields(self)}


# ## Small pieces
def _check_count(name: str, count: int) -> None:
    if isinstance(count, bool) or not isinstance(count, Integral):
        raise TypeError(
            f"`{name}` ({count!r}) must be a whole number, not a {type(count).__name__}"
        )
    if count < 0:
        raise ValueError(f"`{name}` ({count}) must be at least 0")


def _check_number(name: str, number: float) -> None:
    if isinstance(number, bool) or not isinstance(number, Real):
        raise TypeError(
            f"`{name}` ({number!r}) must be a number, not a {type(number).__name__}"
        )
