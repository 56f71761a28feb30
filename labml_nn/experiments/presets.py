r"""
---
title: "Experiments, presets and hyperparameters"
summary: >
  An experiment on Tiny Shakespeare for each model, with a task and four presets; the
  hyperparameters of a training, its learning-rate schedule and its curriculum.
---

An **experiment** names a model, a task and four **presets** of hyperparameters:

| Preset | Machine | Time |
|:--|:--|:--|
| `tiny` | two CPU cores | about a minute |
| `cpu` | a laptop without a GPU | two to five minutes |
| `colab` | a free GPU, a T4 | under ten minutes, by estimate |
| `gpu` | a large GPU | as long as it takes |

The presets for GPUs have not been run: there was no GPU.

The validation loss shows what a model of characters has learned:

| Nats per character | The model knows |
|:--|:--|
| 4.17 | nothing: $\ln 65$ |
| 3.35 | how frequent each character is |
| 2.48 | which character follows which |
| 2.0 | short words, names with a colon, the length of lines |
| 1.7 | most words; lines that sound like a play and mean nothing |

**If a run goes wrong**, suspect the learning rate first: the best one lies just below
the first that diverges, and a loss that falls does not prove a good one. Of three rates
for the model of `tiny` under AdamW, 0.003 had a loss of 2.31 after 100 updates, and
0.03 and 0.1 had 2.41 and 2.86 after 120.

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
| $N$, $W$ | `config.steps`, `config.warmup_steps` | updates in all, of the warm-up |
| $f$ | `config.final_learning_rate` | final learning rate, as a share of the highest |
| $r_s$ | `learning_rate_share` | share of the highest learning rate in update $s$ |
"""

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from functools import partial
from types import NoneType
from typing import (
    Annotated,
    Any,
    Literal,
    NamedTuple,
    get_args,
    get_origin,
    get_type_hints,
)

import torch

from labml_nn.checks import Table, check_integer, check_known, check_number
from labml_nn.experiments.data import (
    Corpus,
    ReplyTask,
    Task,
    TextTask,
    Vocabulary,
    read_corpus,
)
from labml_nn.experiments.memory import OverwriteTask, ParityTask, RecallTask
from labml_nn.language_model import LanguageModel
from labml_nn.registry import models

__all__ = [
    "TASKS",
    "Experiment",
    "Preset",
    "TrainingConfig",
    "default_preset",
    "experiments",
    "learning_rate_share",
    "seq_len_at",
]

PRESETS = ("tiny", "cpu", "colab", "gpu")
MEMORY_TASKS: tuple[type[Task], ...] = (RecallTask, OverwriteTask, ParityTask)
# By the names that configurations and saved runs use.
ALL_TASKS: tuple[type[Task], ...] = (TextTask, ReplyTask, *MEMORY_TASKS)
TASKS = {task.name: task for task in ALL_TASKS}
DEVICES = re.compile(r"auto|cpu|cuda(:\d+)?|mps")


class Rule(NamedTuple):
    """
    ## Types of fields

    What a value must be besides its type, and the words of the error if it is not.
    """

    holds: Callable[[Any], object]
    words: str


Size = Annotated[int, Rule(lambda n: n >= 1, "at least 1")]
Count = Annotated[int, Rule(lambda n: n >= 0, "at least 0")]
Seed = Annotated[int, Rule(lambda n: 0 <= n < 2**63, "from 0 to 2**63 - 1")]
Rate = Annotated[
    float,
    Rule(
        lambda x: 0 < x < math.inf,
        "above 0 and finite; 0.001 and 0.02 (Muon) are usual",
    ),
]
Decay = Annotated[
    float,
    Rule(lambda x: 0 <= x < 1, "at least 0 and less than 1; 0.9 and 0.99 are usual"),
]
Strength = Annotated[
    float,
    Rule(lambda x: 0 <= x < math.inf, "at least 0 and finite; 0 switches it off"),
]
Share = Annotated[float, Rule(lambda x: 0 <= x <= 1, "a share of the highest, 0 to 1")]
Device = Annotated[
    str, Rule(DEVICES.fullmatch, "auto, cpu, cuda, cuda:0 (or another number), or mps")
]


def check_fields(config: Any) -> None:
    """
    The fields of a dataclass against their annotations: types, choices and rules.
    NumPy's numbers become Python's.
    """
    for name, kind in get_type_hints(type(config), include_extras=True).items():
        value, several = getattr(config, name), get_args(kind)
        if NoneType in several:
            kind, several = several[0], get_args(several[0])
            if value is None:
                continue
        if get_origin(kind) is Literal:
            check_known(f"choice of `{name}`", value, several)
        elif get_origin(kind) is Annotated:
            base, rule = several
            if base is not str:
                (check_integer if base is int else check_number)(name, value)
            if not rule.holds(value):
                raise ValueError(f"`{name}` ({value!r}) must be {rule.words}")
            object.__setattr__(config, name, base(value))


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
    """

    steps: Size = 2000
    batch_size: Size = 32
    seq_len: Size = 64
    accumulate: Size = 1
    optimizer: Literal["adamw", "muon"] = "adamw"
    learning_rate: Rate = 1e-3
    muon_learning_rate: Rate = 0.02
    final_learning_rate: Share = 0.1
    warmup_steps: Count = 100
    weight_decay: Strength = 0.1
    beta1: Decay = 0.9
    beta2: Decay = 0.99
    clip_norm: Strength = 1.0
    evaluate_every: Count = 250
    sample_every: Count = 500
    save_every: Count = 250
    sample_tokens: Size = 200
    seed: Seed = 1
    device: Device = "auto"
    precision: Literal["auto", "float32", "bfloat16", "float16"] = "auto"
    compile: Literal["auto", "yes", "no"] = "auto"
    initial_seq_len: Size | None = None
    grow_steps: Count = 0

    def __post_init__(self) -> None:
        check_fields(self)
        if self.batch_size % self.accumulate:
            raise ValueError(
                f"`batch_size` ({self.batch_size}) must be divisible by `accumulate` "
                f"({self.accumulate}); try "
                f"{-(-self.batch_size // self.accumulate) * self.accumulate}"
            )
        if (self.initial_seq_len or 1) > self.seq_len:
            raise ValueError(
                f"`initial_seq_len` ({self.initial_seq_len}) must be at most `seq_len` "
                f"({self.seq_len}), the length to grow to"
            )

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> "TrainingConfig":
        """From fields by name; an unknown one is an error with the nearest match."""
        for name in values:
            check_known("field of TrainingConfig", name, get_type_hints(cls))
        return cls(**values)

    def values(self) -> dict[str, Any]:
        return asdict(self)

    @property
    def grows(self) -> bool:
        return self.initial_seq_len is not None and self.grow_steps > 0


def learning_rate_share(step: int, config: TrainingConfig) -> float:
    r"""
    ## Learning-rate schedule

    Returns $r_s$, which multiplies the learning rates of all optimizers: 1 in the last
    update of the warm-up, $f$ in the last of all.
    """
    warmup, final = config.warmup_steps, config.final_learning_rate
    if step < warmup:
        return (step + 1) / warmup
    done = (step - warmup + 1) / max(config.steps - warmup, 1)
    return final + (1 - final) * (1 + math.cos(math.pi * min(done, 1.0))) / 2


def seq_len_at(step: int, config: TrainingConfig) -> int:
    r"""
    ## Sequence-length curriculum

    A Feedback Transformer processes a sequence step by step, so short sequences make
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


class Preset(NamedTuple):
    """
    ## Preset

    * `model` are fields of the model's configuration, by name
    * `training` are fields of `TrainingConfig`, by name
    """

    model: Mapping[str, Any] = {}
    training: Mapping[str, Any] = {}

    @property
    def about(self) -> str:
        model, training = self.model, self.training
        width = model.get("d_hidden", model.get("d_model"))
        return (
            f"{model.get('n_layers')} layers of {width} features, "
            f"{training.get('steps')} updates of {training.get('batch_size')} "
            f"sequences of {training.get('seq_len')} characters"
        )


class Setup(NamedTuple):
    """What a trainer needs."""

    model: LanguageModel[Any]
    task: Task
    config: TrainingConfig


@dataclass(frozen=True)
class Experiment:
    """
    ## Experiment

    * `name` is that of the command line
    * `title`, `summary` describe it
    * `model` is a name in the [registry](../registry.py)
    * `task` is `"text"` or `"replies"`; a model that continues a text can be trained on
      a [memory task](memory.py), too
    * `presets` are its four presets
    """

    name: str
    title: str
    summary: str
    model: str
    task: str
    presets: Mapping[str, Preset]

    def preset(self, name: str | None = None) -> Preset:
        """The preset `name`; `None` is the one for this machine."""
        name = default_preset() if name is None else name
        check_known(f"preset of {self.name}", name, self.presets)
        return self.presets[name]

    def task_class(self, task: str | None = None) -> type[Task]:
        """The task `task`; `None` is the one of the experiment."""
        task = self.task if task is None else task
        check_known("task", task, TASKS)
        if task != self.task and (self.task == "replies" or TASKS[task].reads_text):
            possible = [self.task]
            if self.task != "replies":
                possible += [one.name for one in MEMORY_TASKS]
            raise ValueError(
                f"`task` ({task!r}) does not fit {self.name}, which can be trained on "
                f"{', '.join(possible)}"
            )
        return TASKS[task]

    def training(
        self,
        preset: str | None = None,
        training: Mapping[str, Any] | None = None,
        *,
        task: str | None = None,
    ) -> TrainingConfig:
        """
        The hyperparameters of the preset, replaced by those that `task` needs, and by
        `training`. Warm-up and curriculum are shortened where `training` shortens the
        run.
        """
        given = dict(training or {})
        suits = self.task_class(task).training
        values = {**self.preset(preset).training, **suits, **given}
        for limit, name in (("steps", "warmup_steps"), ("seq_len", "initial_seq_len")):
            if (
                values.get(name)
                and name not in given
                and isinstance(values[limit], int)
            ):
                values[name] = min(values[name], values[limit])
        config = TrainingConfig.of(values)
        if config.warmup_steps > config.steps:
            raise ValueError(
                f"`warmup_steps` ({config.warmup_steps}) must be at most `steps` "
                f"({config.steps}): the learning rate would never reach its highest "
                "value"
            )
        return config

    def build(
        self,
        preset: str | None = None,
        *,
        corpus: Corpus | None = None,
        vocabulary: Vocabulary | None = None,
        model: Mapping[str, Any] | None = None,
        training: Mapping[str, Any] | None = None,
        task: str | None = None,
    ) -> Setup:
        """
        ### Build model, task and configuration

        * `preset` is one of the four; `None` is the one for this machine
        * `corpus` is the text; `None` reads Tiny Shakespeare, if the task reads a text
        * `vocabulary` has its tokens; `None` takes all its characters
        * `model`, `training` override fields by name
        * `task` is the name of a memory task; `None` is the task of the experiment

        Raises `ValueError` for unknown names, with the nearest match, and for values
        out of range.
        """
        config = self.training(preset, training, task=task)
        task_class = self.task_class(task)
        if corpus is None and task_class.reads_text:
            corpus = read_corpus()
        built_task = task_class(
            corpus,
            batch_size=config.batch_size,
            seq_len=config.seq_len,
            seed=config.seed,
            vocabulary=vocabulary,
        )
        fields = {**self.preset(preset).model, **(model or {})}
        for name, value in built_task.model_fields.items():
            if fields.setdefault(name, value) != value:
                raise ValueError(
                    f"`{name}` ({fields[name]!r}) is determined by the text, which "
                    f"needs {value!r}; leave it out"
                )
        for name, value in fields.items():
            if name.endswith("dropout_prob") and value == 1:
                raise ValueError(
                    f"`{name}` ({value}) must be below 1, which leaves no activation"
                )
        model_class = models()[self.model].load_class()

        # The context is as long as the sequences, and one start token more for replies.
        if "max_len" in model_class.Config.__dataclass_fields__:
            fields.setdefault("max_len", config.seq_len + built_task.replies)

        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(config.seed)
            built = model_class.from_config(fields)
        return Setup(built, built_task, config)


def default_preset() -> str:
    """The preset for this machine: `colab` with a GPU, else `tiny`."""
    return "colab" if torch.cuda.is_available() else "tiny"


class ExperimentTable(Table[Experiment]):
    """
    ## Table of experiments

    `print(experiments())` shows them, `experiments()["elman"]` is one of them.
    """

    what = "experiment"


def experiments() -> ExperimentTable:
    return EXPERIMENTS


# ## Autoregressive transformer
#
# The `cpu` preset is compared with nanoGPT's recipe for CPUs (4 layers of 128 features,
# AdamW, 2,000 updates), given the same time on one thread. In a short training a model
# should be small, so that it reads more in the same time, and updates should be many,
# each from a small batch with a good direction, which Muon provides. Means of three
# seeds (`python -m benchmarks training --threads 1`):
#
# | | Updates | Time, of the recipe's | Validation loss |
# |:--|--:|--:|--:|
# | nanoGPT's recipe | 2,000 | 1.00 | 1.903 |
# | the preset, for a third of the time | 625 | 0.34 | 1.715 |
# | the preset | 1,850 | 1.00 | **1.557** |
#
# Ours are evaluated on windows of 128 characters, the recipe on 64. The `gpu` preset is
# nanoGPT's [character model](https://github.com/karpathy/nanoGPT), for which it reports
# 1.4697, with rotary positions in place of learned ones.
SHORT_MUON = {
    "batch_size": 16,
    "seq_len": 64,
    "optimizer": "muon",
    "muon_learning_rate": 0.03,
    "learning_rate": 0.006,
    "final_learning_rate": 0.0,
    "warmup_steps": 20,
}


def _named(names: str, *values: Any, **more: Any) -> dict[str, Any]:
    return {**dict(zip(names.split(), values, strict=True)), **more}


# The fields of each, in the order of their values in the presets.
transformer = partial(_named, "d_model heads n_layers dropout_prob")
recurrent = partial(_named, "n_layers d_hidden d_model dropout_prob")
adamw = partial(_named, "steps batch_size seq_len learning_rate warmup_steps")

HALF = {"precision": "float16"}  # a T4 has no bfloat16
ROTARY = {"positions": "rotary"}
NANO_GPT = {**transformer(384, 6, 6, 0.2), **ROTARY}
MODERN = {**ROTARY, "activation": "gelu", "bias": False}
LONGER = {"batch_size": 8, "seq_len": 128, "muon_learning_rate": 0.04}

AUTOREGRESSIVE = Experiment(
    name="autoregressive",
    title="Character-level GPT",
    summary="a decoder-only transformer that predicts the next character",
    model="autoregressive",
    task="text",
    presets={
        "tiny": Preset(
            {**transformer(96, 4, 3, 0.0), **ROTARY}, {**SHORT_MUON, "steps": 700}
        ),
        "cpu": Preset(
            {**transformer(96, 4, 3, 0.0), **MODERN},
            {**SHORT_MUON, **LONGER, "steps": 1850, "learning_rate": 0.015},
        ),
        "colab": Preset(NANO_GPT, adamw(2500, 64, 256, 1e-3, 100, **HALF)),
        "gpu": Preset(NANO_GPT, adamw(5000, 64, 256, 1e-3, 100)),
    },
)

# ## Encoder–decoder
#
# A speech is the source and the [reply](data.py) the target. What can be learned is
# mostly how replies are written, and a few dependencies on the source: a question gets
# an answer, a short speech a short one. The training loss is much lower than the
# validation loss, because the names of the speakers recur in training. `tiny` reached
# 1.888 after 44 CPU seconds.
ENCODER_DECODER = Experiment(
    name="encoder_decoder",
    title="Speech and reply",
    summary="an encoder reads a speech, a decoder writes the reply",
    model="encoder_decoder",
    task="replies",
    presets={
        "tiny": Preset(transformer(96, 4, 2, 0.0), {**SHORT_MUON, "steps": 450}),
        "cpu": Preset(transformer(128, 4, 3, 0.1), adamw(1000, 32, 96, 2e-3, 100)),
        "colab": Preset(
            transformer(256, 4, 4, 0.2), adamw(2000, 64, 256, 1e-3, 100, **HALF)
        ),
        "gpu": Preset(transformer(384, 6, 6, 0.3), adamw(4000, 128, 256, 1e-3, 200)),
    },
)


# ## Feedback Transformer
#
# The model processes a sequence step by step, so its training time is spent best on
# short sequences first ([curriculum](#seq_len_at)) [@fan2020feedback]. `tiny` reached
# 1.686 after 32 CPU seconds.
FEEDBACK = Experiment(
    name="feedback",
    title="Feedback memory",
    summary="a transformer whose lowest layer attends to what its highest computed",
    model="feedback",
    task="text",
    presets={
        "tiny": Preset(
            transformer(96, 4, 2, 0.0),
            {**SHORT_MUON, "steps": 900, "initial_seq_len": 16, "grow_steps": 450},
        ),
        "cpu": Preset(
            transformer(128, 4, 4, 0.0),
            adamw(800, 32, 64, 2e-3, 100, initial_seq_len=16, grow_steps=400),
        ),
        "colab": Preset(
            transformer(256, 8, 4, 0.1),
            adamw(600, 128, 128, 2e-3, 100, initial_seq_len=16, grow_steps=300),
        ),
        "gpu": Preset(
            transformer(384, 6, 6, 0.2),
            adamw(3000, 128, 256, 1e-3, 200, initial_seq_len=32, grow_steps=1500),
        ),
    },
)


# ## Elman network
#
# A recurrent network has the last characters in its hidden state from the start, where
# a transformer has to learn how to attend to them: `tiny` reached 1.687 after 48 CPU
# seconds, before the transformers under AdamW. The gradient comes back through every
# time step and may explode, so `clip_norm` must not be 0.
ELMAN = Experiment(
    name="elman",
    title="Elman network",
    summary="a recurrent network with one hidden state per layer",
    model="elman",
    task="text",
    presets={
        "tiny": Preset(recurrent(2, 256, 128, 0.0), adamw(750, 32, 64, 3e-3, 50)),
        "cpu": Preset(recurrent(2, 512, 128, 0.1), adamw(1500, 32, 64, 2e-3, 100)),
        "colab": Preset(recurrent(3, 1024, 256, 0.3), adamw(3000, 128, 128, 1e-3, 100)),
        "gpu": Preset(recurrent(3, 1024, 256, 0.4), adamw(6000, 128, 256, 1e-3, 200)),
    },
)


# ## LSTM
#
# The sizes of the Elman network, with half as many cells in the small presets: each has
# four sums. Its gates bear a higher learning rate. After 1,500 updates `tiny` reached
# 1.678 with 0.012, and 1.760 with 0.005.
LSTM = Experiment(
    name="lstm",
    title="LSTM",
    summary="a recurrent network with gates",
    model="lstm",
    task="text",
    presets={
        "tiny": Preset(recurrent(2, 128, 64, 0.0), adamw(750, 32, 64, 1.2e-2, 50)),
        "cpu": Preset(recurrent(2, 256, 128, 0.1), adamw(1500, 32, 64, 3e-3, 100)),
        "colab": Preset(recurrent(3, 512, 256, 0.3), adamw(3000, 128, 128, 2e-3, 100)),
        "gpu": Preset(recurrent(3, 1024, 256, 0.4), adamw(6000, 128, 256, 1e-3, 200)),
    },
)


# ## Linear attention
#
# The sizes of the transformers, and no positions. After 1,250 updates `tiny` reached
# 1.761 in 127 CPU seconds.
LINEAR_ATTENTION = Experiment(
    name="linear_attention",
    title="Linear attention",
    summary="a recurrent network whose state is a matrix of keys and values",
    model="linear_attention",
    task="text",
    presets={
        "tiny": Preset(transformer(96, 4, 2, 0.0), adamw(750, 32, 64, 1e-2, 50)),
        "cpu": Preset(transformer(128, 4, 4, 0.1), adamw(1500, 32, 64, 3e-3, 100)),
        "colab": Preset(
            transformer(256, 8, 4, 0.2), adamw(2500, 64, 256, 1e-3, 100, **HALF)
        ),
        "gpu": Preset(transformer(384, 6, 6, 0.2), adamw(5000, 64, 256, 1e-3, 100)),
    },
)


# ## Gated DeltaNet
#
# A small model, with the optimizer of the autoregressive transformer. After 1,500
# updates `tiny` reached 1.693, and 1.740 with AdamW. After 3,000 it reached 1.641.
DELTA_NET = Experiment(
    name="delta_net",
    title="Gated DeltaNet",
    summary="linear attention that corrects its memory, and forgets",
    model="delta_net",
    task="text",
    presets={
        "tiny": Preset(
            {**transformer(64, 4, 2, 0.0), "gated": True}, {**SHORT_MUON, "steps": 700}
        ),
        "cpu": Preset(
            {**transformer(128, 4, 3, 0.1), "gated": True},
            {**SHORT_MUON, "steps": 1000},
        ),
        "colab": Preset(
            {**transformer(256, 4, 6, 0.2), "gated": True},
            adamw(2500, 64, 256, 2e-3, 100, **HALF),
        ),
        "gpu": Preset(
            {**transformer(384, 6, 6, 0.2), "gated": True},
            adamw(5000, 64, 256, 1e-3, 100),
        ),
    },
)


# ## Mamba-2
#
# Wider values than those of linear attention, so a smaller width.
MAMBA2 = Experiment(
    name="mamba2",
    title="Mamba-2",
    summary="a recurrent network that decides from its input how long it remembers",
    model="mamba2",
    task="text",
    presets={
        "tiny": Preset(
            transformer(64, 4, 2, 0.0, d_ff=192), adamw(750, 32, 64, 6e-3, 50)
        ),
        "cpu": Preset(transformer(128, 4, 2, 0.1), adamw(1500, 32, 64, 3e-3, 100)),
        "colab": Preset(
            transformer(256, 8, 4, 0.2), adamw(2500, 64, 256, 1e-3, 100, **HALF)
        ),
        "gpu": Preset(transformer(384, 12, 6, 0.2), adamw(5000, 64, 256, 1e-3, 100)),
    },
)


ALL = (
    AUTOREGRESSIVE,
    ENCODER_DECODER,
    FEEDBACK,
    ELMAN,
    LSTM,
    LINEAR_ATTENTION,
    DELTA_NET,
    MAMBA2,
)


# ## Models without presets
#
# Such a model, for example the GRU, takes the presets of the LSTM if it has a hidden
# state of `d_hidden`, and those of linear attention if not. So a new model of the
# [registry](../registry.py) can be trained at once, and tuned later.
def with_presets_of_another(name: str) -> Experiment:
    """The experiment of a model that has no presets."""
    model = models()[name].load_class()
    fields = model.Config.__dataclass_fields__
    other = LSTM if "d_hidden" in fields else LINEAR_ATTENTION
    title = model.__name__.removesuffix("LanguageModel")
    # Of the fields those that the model has: not all have heads, for example.
    presets = {
        preset: Preset(
            {f: v for f, v in one.model.items() if f in fields}, one.training
        )
        for preset, one in other.presets.items()
    }
    return Experiment(name, title, models()[name].summary, name, other.task, presets)


TUNED = {one.name: one for one in ALL}
EXPERIMENTS = ExperimentTable(
    {name: TUNED.get(name) or with_presets_of_another(name) for name in models()}
)
