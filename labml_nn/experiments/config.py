r"""
---
title: "Training configuration and learning-rate schedule"
summary: >
  All hyperparameters of a training in one frozen dataclass; linear warm-up and cosine
  decay; sequences that grow.
---

The hyperparameters of a run are one frozen value, checked when it is made and saved
with the result. The flags of the [command line](command_line.py) derive from it. The
learning rate matters most: the best one lies just below the first that diverges.

**Warm-up.** In the first updates AdamW's estimates of the gradient moments rest on a
few batches, and the gradients are at their largest. So the learning rate grows linearly
over $W$ updates. **Cosine decay** [@loshchilov2016sgdr]. Near a minimum a constant step
keeps the parameters jumping; smaller steps average the noise of the batches out.

$$r_s = \begin{cases}
    \dfrac{s + 1}{W} & s < W \\[1.5ex]
    f + (1 - f) \, \dfrac{1 + \cos \pi p_s}{2},
    \quad p_s = \dfrac{s - W + 1}{N - W} & s \ge W
\end{cases}$$

![Warm-up over 50 updates and cosine decay over 450.](figure:schedule.shares)

| Symbol | Code | Meaning |
|:--|:--|:--|
| $s$ | `step` | number of the update, from 0 |
| $N$, $W$ | `config.steps`, `config.warmup_steps` | updates in all, and of the warm-up
|
| $f$ | `config.final_learning_rate` | final learning rate, as a share of the highest |
| $r_s$ | `learning_rate_share` | share of the highest learning rate in update $s$ |
"""

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from numbers import Integral, Real
from typing import Any, Literal, get_args

from labml_nn.checks import check_known, check_sizes

__all__ = ["TrainingConfig", "learning_rate_share", "seq_len_at"]

Optimizer = Literal["adamw", "muon"]
Precision = Literal["auto", "float32", "bfloat16", "float16"]
Compile = Literal["auto", "yes", "no"]
DEVICES = re.compile(r"auto|cpu|cuda(:\d+)?|mps")


@dataclass(frozen=True, kw_only=True)
class TrainingConfig:
    r"""
    ## Hyperparameters

    * `steps` is the number of updates
    * `batch_size` is the number of sequences in a batch, over all processes
    * `seq_len` is the number of tokens in a sequence; longer speeches are truncated
    * `accumulate` is the number of micro-batches whose gradients are accumulated for
      one update, to save memory
    * `optimizer` is `"adamw"`, or `"muon"` for the weight matrices inside the model
      with AdamW for the other parameters
    * `learning_rate` is the highest learning rate of AdamW
    * `muon_learning_rate` is the highest learning rate of Muon
    * `final_learning_rate` is the learning rate at the end, as a share of the highest
    * `warmup_steps` is the number of updates in which the learning rate rises
    * `weight_decay` is the decoupled weight decay of matrices and embedding tables
    * `beta1` is the decay rate of AdamW's mean of the gradients
    * `beta2` is the decay rate of AdamW's mean of the squared gradients
    * `clip_norm` is the largest norm of the gradient; longer ones are scaled down, and
      0 switches clipping off
    * `evaluate_every` is the number of updates between evaluations on the whole
      validation split; 0: only at the end
    * `sample_every` is the number of updates between generated samples; 0: only at the
      end
    * `save_every` is the number of updates between checkpoints; 0: only at the end
    * `sample_tokens` is the number of tokens in a sample
    * `seed` is the seed of parameters, batches, dropout and samples
    * `device` is `"cpu"`, `"cuda"`, `"cuda:1"`, `"mps"`, or `"auto"` for a GPU if there
      is one
    * `precision` is that of matrix products: `"float32"`, `"bfloat16"` or `"float16"`;
      `"auto"` takes bfloat16 on a GPU that supports it, and float32 elsewhere
    * `compile` is whether to use torch.compile, `"yes"` or `"no"`; `"auto"` does on a
      GPU for the autoregressive transformer
    * `initial_seq_len` is the sequence length of the first update, for sequences that
      grow; `None` means constant length
    * `grow_steps` is the number of updates until sequences have grown to `seq_len`; 0
      means constant length
    * `start_from` is the folder of a run or of a model whose weights are taken over
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
        for name, value in self.values().items():  # NumPy's numbers as Python's
            if isinstance(value, Integral) and not isinstance(value, bool):
                object.__setattr__(self, name, int(value))
            elif isinstance(value, Real) and not isinstance(value, Integral):
                object.__setattr__(self, name, float(value))
        self._check_counts()
        self._check_rates()
        check_known("optimizer", self.optimizer, get_args(Optimizer))
        check_known("precision", self.precision, get_args(Precision))
        check_known("choice of `compile`", self.compile, get_args(Compile))
        if not isinstance(self.device, str) or not DEVICES.fullmatch(self.device):
            raise ValueError(
                f"`device` ({self.device!r}) is not known; expected auto, cpu, cuda, "
                "cuda:0 (or another number), or mps"
            )

    def _check_counts(self) -> None:
        sizes = ("steps", "batch_size", "seq_len", "accumulate", "sample_tokens")
        check_sizes(**{name: getattr(self, name) for name in sizes})
        counts = ("warmup_steps", "evaluate_every", "sample_every", "save_every")
        for name in (*counts, "grow_steps", "seed"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int):
                raise TypeError(
                    f"`{name}` ({value!r}) must be a whole number, not a "
                    f"{type(value).__name__}"
                )
            if value < 0:
                raise ValueError(f"`{name}` ({value}) must be at least 0")
        if self.seed >= 2**63:
            raise ValueError(
                f"`seed` ({self.seed}) must be below 2**63 = {2**63}; try a smaller one"
            )
        if self.batch_size % self.accumulate:
            below = self.batch_size - self.batch_size % self.accumulate
            sizes_ = f"{below} or {below + self.accumulate}" if below else "1"
            what = "batch_size" if below else "accumulate"
            raise ValueError(
                f"`batch_size` ({self.batch_size}) must be divisible by `accumulate` "
                f"({self.accumulate}); try {what}={sizes_}"
            )
        if self.initial_seq_len is not None:
            check_sizes(initial_seq_len=self.initial_seq_len)
            if self.initial_seq_len > self.seq_len:
                raise ValueError(
                    f"`initial_seq_len` ({self.initial_seq_len}) must be at most "
                    f"`seq_len` ({self.seq_len}), the length to grow to"
                )

    def _check_rates(self) -> None:
        above, upto = "above 0 and finite; 0.001 is usual for AdamW, 0.02 for Muon", 1
        off = "at least 0 and finite; 0 switches it off"
        share = "a share of the highest learning rate, from 0 to 1; 1 keeps it constant"
        beta = "at least 0 and less than 1; 0.9 and 0.99 are usual"
        infinite = float("inf")
        rules: tuple[tuple[str, Callable[[float], bool], str], ...] = (
            ("learning_rate", lambda x: 0 < x < infinite, above),
            ("muon_learning_rate", lambda x: 0 < x < infinite, above),
            ("weight_decay", lambda x: 0 <= x < infinite, off),
            ("clip_norm", lambda x: 0 <= x < infinite, off),
            ("final_learning_rate", lambda x: 0 <= x <= upto, share),
            ("beta1", lambda x: 0 <= x < upto, beta),
            ("beta2", lambda x: 0 <= x < upto, beta),
        )
        for name, valid, expected in rules:
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int | float):
                raise TypeError(
                    f"`{name}` ({value!r}) must be a number, not a "
                    f"{type(value).__name__}"
                )
            if not valid(value):
                raise ValueError(f"`{name}` ({value}) must be {expected}")

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> "TrainingConfig":
        """From fields by name; an unknown one is an error with the nearest match."""
        known = [field.name for field in fields(cls)]
        for name in values:
            check_known("field of TrainingConfig", name, known)
        return cls(**values)

    def values(self) -> dict[str, Any]:
        """All fields by name."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    @property
    def grows(self) -> bool:
        """Whether sequences grow during the training."""
        return self.initial_seq_len is not None and self.grow_steps > 0


def learning_rate_share(step: int, config: TrainingConfig) -> float:
    r"""
    ## Learning-rate schedule

    Returns $r_s$, which multiplies the learning rates of all optimizers: 1 in the last
    update of the warm-up, $f$ in the last of all.

    ```python
    from labml_nn.experiments.config import TrainingConfig, learning_rate_share

    config = TrainingConfig(steps=100, warmup_steps=10, final_learning_rate=0.1)
    shares = [learning_rate_share(step, config) for step in range(100)]
    assert shares[0] == 0.1 and max(shares) == shares[9] == 1.0
    assert abs(shares[54] - 0.55) < 0.001 and abs(shares[99] - 0.1) < 1e-9
    ```
    """
    warmup, final = config.warmup_steps, config.final_learning_rate
    if step < warmup:
        return (step + 1) / warmup
    done = (step - warmup + 1) / max(config.steps - warmup, 1)
    return final + (1 - final) * (1 + math.cos(math.pi * min(done, 1.0))) / 2


def seq_len_at(step: int, config: TrainingConfig) -> int:
    r"""
    ## Sequence-length curriculum

    A feedback transformer processes a sequence step by step, so short sequences make
    short updates, and what the last few characters determine is learned first anyway.
    The sequence length grows from `initial_seq_len` to `seq_len` over `grow_steps`
    updates [@fan2020feedback].

    ![Windows that grow from 8 characters to 32 in the first 300 of 750
    updates.](figure:schedule.lengths)
    """
    if config.initial_seq_len is None or step >= config.grow_steps:
        return config.seq_len
    longer = config.seq_len - config.initial_seq_len
    return config.initial_seq_len + longer * step // config.grow_steps
