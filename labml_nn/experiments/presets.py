r"""
---
title: "Experiments and presets"
summary: >
  Six experiments on Tiny Shakespeare, each with a model, a task and the hyperparameters
  of four presets, from a minute on two CPU cores to a large GPU.
---

An **experiment** names a model, a task and four **presets** of hyperparameters:

| Preset | Machine | Time |
|:--|:--|:--|
| `tiny` | two CPU cores | about a minute |
| `cpu` | a laptop without a GPU | two to five minutes |
| `colab` | a free GPU, a T4 | under ten minutes, by estimate |
| `gpu` | a large GPU | as long as it takes |

The presets for GPUs have not been run: there was no GPU. **Variants** are the same
experiment with one field of the model changed, for ablations.

The validation loss shows what a model of characters has learned:

| Nats per character | The model knows |
|:--|:--|
| 4.17 | nothing: $\ln 65$ |
| 3.35 | how frequent each character is |
| 2.48 | which character follows which |
| 2.0 | short words, names with a colon, the length of lines |
| 1.7 | most words; lines that sound like a play and mean nothing |

```python
from labml_nn.experiments import Corpus, Trainer, experiments

corpus = Corpus.of("a proverb", "all that glisters is not gold; " * 60)
model, task, config = experiments()["autoregressive"].build(
    "tiny",
    corpus=corpus,
    model={"d_model": 24, "n_layers": 1},
    training={"steps": 60, "batch_size": 4, "seq_len": 12, "learning_rate": 0.02},
)
result = Trainer(model, task, config).train()
assert result.validation_loss < 1.5  # ln 14 = 2.6 at the start
```

If a run goes wrong, suspect the learning rate first: a loss that falls does not prove a
good one. Of three rates for the model of `tiny` under AdamW, 0.003 had a loss of 2.31
after 100 updates, and 0.03 and 0.1 had 2.41 and 2.86 after 120.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import torch

from labml_nn.checks import check_known
from labml_nn.experiments.checkpoint import load_run
from labml_nn.experiments.config import TrainingConfig
from labml_nn.experiments.data import Corpus, read_corpus
from labml_nn.experiments.tasks import TASKS, Task
from labml_nn.language_model import LanguageModel
from labml_nn.registry import load, models

__all__ = ["Experiment", "Preset", "default_preset", "experiments"]

PRESETS = ("tiny", "cpu", "colab", "gpu")


@dataclass(frozen=True)
class Preset:
    """
    ## Preset

    * `about` describes it in a line
    * `model` are fields of the model's configuration, by name
    * `training` are fields of `TrainingConfig`, by name
    """

    about: str
    model: Mapping[str, Any] = field(default_factory=dict)
    training: Mapping[str, Any] = field(default_factory=dict)


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
    * `task` is `"text"` or `"replies"`
    * `presets` are its four presets
    * `variants` are fields of the model, by the name of the variant
    * `notebook` trains the same model cell by cell
    """

    name: str
    title: str
    summary: str
    model: str
    task: str
    presets: Mapping[str, Preset]
    notebook: str
    variants: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    def preset(self, name: str | None = None) -> Preset:
        """The preset `name`; `None` is the one for this machine."""
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
        The fields of the model: those of the preset, overridden by the variant and by
        `model`. Raises `ValueError` for unknown names, and for a field in `model` that
        the variant determines otherwise.
        """
        fields = dict(self.preset(preset).model)
        decided: Mapping[str, Any] = {}
        if variant is not None:
            if not self.variants:
                raise ValueError(
                    f"there is no variant {variant!r}: {self.name} has none; set "
                    "fields of the model instead"
                )
            check_known(f"variant of {self.name}", variant, self.variants)
            decided = self.variants[variant]
        fields |= decided
        for name, value in (model or {}).items():
            if decided.get(name, value) != value:
                raise ValueError(
                    f"`{name}` ({value!r}) is {decided[name]!r} in the variant "
                    f"{variant}; leave one of the two out"
                )
            fields[name] = value
        return fields

    def training(
        self, preset: str | None = None, training: Mapping[str, Any] | None = None
    ) -> TrainingConfig:
        """
        The hyperparameters of the preset, overridden by `training`. Warm-up and
        curriculum of the preset are shortened where `training` shortens the run.
        """
        given = dict(training or {})
        fields = {**self.preset(preset).training, **given}
        for limit, name in (("steps", "warmup_steps"), ("seq_len", "initial_seq_len")):
            most, value = fields.get(limit), fields.get(name)
            if isinstance(most, int) and isinstance(value, int) and value > most:
                if name not in given:
                    fields[name] = most
                elif name == "warmup_steps":
                    raise ValueError(
                        f"`warmup_steps` ({value}) must be at most `steps` ({most}): "
                        "the learning rate would never reach its highest value"
                    )
        return TrainingConfig.of(fields)

    def build(
        self,
        preset: str | None = None,
        *,
        corpus: Corpus | None = None,
        variant: str | None = None,
        model: Mapping[str, Any] | None = None,
        training: Mapping[str, Any] | None = None,
        model_class: type[LanguageModel[Any]] | None = None,
    ) -> Setup:
        """
        ### Build model, task and configuration

        * `preset` is one of the four; `None` is the one for this machine
        * `corpus` is the text; `None` reads Tiny Shakespeare
        * `variant` is one of `variants`
        * `model`, `training` override fields by name
        * `model_class` replaces the class of the registry

        Raises `ValueError` for unknown names, with the nearest match, and for values
        out of range.
        """
        config = self.training(preset, training)
        task = TASKS[self.task](
            read_corpus() if corpus is None else corpus,
            batch_size=config.batch_size,
            seq_len=config.seq_len,
            seed=config.seed,
        )
        fields = self.model_fields(preset, variant, model)
        for name, value in task.model_fields.items():
            if fields.get(name, value) != value:
                raise ValueError(
                    f"`{name}` ({fields[name]!r}) is determined by the text, which "
                    f"needs {value}; leave it out"
                )
        fields |= task.model_fields
        model_class = model_class or models()[self.model].load_class()

        # The context is as long as the sequences, and one start token more for replies.
        if "max_len" in model_class.Config.__dataclass_fields__:
            fields.setdefault("max_len", config.seq_len + task.replies)

        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(config.seed)
            built = model_class.from_config(fields)
        if config.start_from is not None:
            self._start(built, task, config.start_from)
        return Setup(built, task, config)

    def _start(self, model: LanguageModel[Any], task: Task, path: str) -> None:
        """
        ### Warm start

        A [feedback transformer](../transformers/feedback/warm_start.py) can start with
        the weights of an ordinary one. The vocabularies must be equal: the weights
        would fit either way, and mean other characters.
        """
        if self.model != "feedback":
            raise ValueError(
                f"`start_from` ({path!r}) is not for the experiment {self.name!r}, "
                "which starts with random parameters; leave it out. It is for: feedback"
            )
        from labml_nn.transformers.feedback.warm_start import take_weights

        trained: LanguageModel[Any]
        if (Path(path) / "run.json").exists():
            run = load_run(path)
            if run.vocabulary != task.vocabulary:
                raise ValueError(
                    f"the model in {path} was trained on {run.corpus['name']}, with "
                    f"{len(run.vocabulary)} characters {run.vocabulary.characters!r}; "
                    f"{task.corpus.name} has {len(task.vocabulary)}, "
                    f"{task.vocabulary.characters!r}. Start from a model that was "
                    "trained on a text with the same characters"
                )
            trained = run.model()
        else:
            trained = load(path)
        take_weights(model, trained)  # type: ignore[arg-type]


def default_preset() -> str:
    """The preset for this machine: `colab` with a GPU, else `tiny`."""
    return "colab" if torch.cuda.is_available() else "tiny"


class ExperimentTable(tuple[Experiment, ...]):
    """
    ## Table of experiments

    A tuple that is indexed by name too, and prints a line for each experiment.
    """

    @property
    def names(self) -> list[str]:
        """The names, in order."""
        return [experiment.name for experiment in self]

    def __contains__(self, which: object) -> bool:
        return which in self.names or super().__contains__(which)

    def __getitem__(self, which: Any) -> Any:
        """Raises `ValueError` for an unknown name, with the nearest match."""
        if isinstance(which, str):
            check_known("experiment", which, self.names)
            which = self.names.index(which)
        return super().__getitem__(which)

    def __repr__(self) -> str:
        width = max(map(len, self.names)) + 2
        lines = []
        for one in self:
            lines.append(f"{one.name:<{width}}{one.summary}")
            if one.variants:
                lines.append(" " * width + "variants: " + ", ".join(one.variants))
        return "\n".join(lines)


def experiments() -> ExperimentTable:
    """
    ## All experiments

    `print(experiments())` shows them, `experiments()["mha"]` is one of them.
    """
    return EXPERIMENTS


# ## Autoregressive transformer
#
# The `cpu` preset is compared with nanoGPT's recipe for CPUs (4 layers of 128 features,
# AdamW, 2,000 updates), given the same time on one thread. In a short training a model
# should be small, so that it reads more in the same time, and updates should be many,
# each from a small batch with a good direction, which Muon provides. Means of three
# seeds (`python -m benchmarks training`):
#
# | | Updates | Time, of the recipe's | Validation loss |
# |:--|--:|--:|--:|
# | nanoGPT's recipe | 2,000 | 1.00 | 1.903 |
# | the preset, for a third of the time | 625 | 0.34 | 1.712 |
# | the preset | 1,852 | 1.01 | **1.567** |
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


def _sizes(d_model: int, heads: int, n_layers: int, **more: Any) -> dict[str, Any]:
    return {"d_model": d_model, "heads": heads, "n_layers": n_layers, **more}


def _adamw(
    steps: int, batch_size: int, seq_len: int, rate: float, warmup: int, **more: Any
) -> dict[str, Any]:
    return {
        "steps": steps,
        "batch_size": batch_size,
        "seq_len": seq_len,
        "learning_rate": rate,
        "warmup_steps": warmup,
        **more,
    }


HALF = {"precision": "float16"}  # a T4 has no bfloat16
NANO_GPT = _sizes(384, 6, 6, positions="rotary", dropout_prob=0.2)

AUTOREGRESSIVE = Experiment(
    name="autoregressive",
    title="Character-level GPT",
    summary="a decoder-only transformer that predicts the next character",
    model="autoregressive",
    task="text",
    presets={
        "tiny": Preset(
            "three layers of 96 features: a minute on two cores",
            _sizes(96, 4, 3, positions="rotary", dropout_prob=0.0),
            {"steps": 700, **SHORT_MUON},
        ),
        "cpu": Preset(
            "three layers of 96 features: two minutes on two cores",
            _sizes(
                *(96, 4, 3),
                positions="rotary",
                qk_norm=True,
                activation="gelu",
                bias=False,
                dropout_prob=0.0,
            ),
            {
                **SHORT_MUON,
                "steps": 1850,
                "batch_size": 8,
                "seq_len": 128,
                "muon_learning_rate": 0.04,
                "learning_rate": 0.01,
            },
        ),
        "colab": Preset(
            "six layers of 384 features, context of 256: a free T4",
            NANO_GPT,
            _adamw(2500, 64, 256, 1e-3, 100, **HALF),
        ),
        "gpu": Preset(
            "the same model for 5,000 updates, nanoGPT's recipe",
            NANO_GPT,
            _adamw(5000, 64, 256, 1e-3, 100),
        ),
    },
    notebook="notebooks/autoregressive.ipynb",
)

# ## Encoder–decoder
#
# A speech is the source and the [reply](replies.py) the target. What can be learned is
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
        "tiny": Preset(
            "two layers in each half, 96 features: a minute on two cores",
            _sizes(96, 4, 2, dropout_prob=0.0),
            {"steps": 450, **SHORT_MUON},
        ),
        "cpu": Preset(
            "three layers in each half, 128 features: five minutes on a laptop",
            _sizes(128, 4, 3, dropout_prob=0.1),
            _adamw(1000, 32, 96, 2e-3, 100),
        ),
        "colab": Preset(
            "four layers in each half, 256 features: a free T4",
            _sizes(256, 4, 4, dropout_prob=0.2),
            _adamw(2000, 64, 256, 1e-3, 100, **HALF),
        ),
        "gpu": Preset(
            "six layers in each half, 384 features, as deep as the paper's",
            _sizes(384, 6, 6, dropout_prob=0.3),
            _adamw(4000, 128, 256, 1e-3, 200),
        ),
    },
    notebook="notebooks/encoder_decoder.ipynb",
)

# ## Feedback Transformer
#
# The model processes a sequence step by step, so its training time is spent best on
# short sequences first ([curriculum](config.py)) and, as the paper discusses
# [@fan2020feedback], on a warm start from an ordinary transformer of the same sizes:
#
# ```text
# python -m labml_nn train autoregressive --out runs/first --preset tiny --n-layers 2
# python -m labml_nn train feedback --preset tiny --start-from runs/first
# ```
#
# `tiny` reached 1.686 after 32 CPU seconds.
FEEDBACK = Experiment(
    name="feedback",
    title="Feedback memory",
    summary="a transformer whose lowest layer attends to what its highest computed",
    model="feedback",
    task="text",
    presets={
        "tiny": Preset(
            "two layers of 96 features: a minute on two cores",
            _sizes(96, 4, 2, dropout_prob=0.0),
            {"steps": 900, **SHORT_MUON, "initial_seq_len": 16, "grow_steps": 450},
        ),
        "cpu": Preset(
            "four layers of 128 features: five minutes on a laptop",
            _sizes(128, 4, 4, dropout_prob=0.0),
            _adamw(800, 32, 64, 2e-3, 100, initial_seq_len=16, grow_steps=400),
        ),
        "colab": Preset(
            "four layers of 256 features: a free T4",
            _sizes(256, 8, 4, dropout_prob=0.1),
            _adamw(600, 128, 128, 2e-3, 100, initial_seq_len=16, grow_steps=300),
        ),
        "gpu": Preset(
            "six layers of 384 features, context of 256",
            _sizes(384, 6, 6, dropout_prob=0.2),
            _adamw(3000, 128, 256, 1e-3, 200, initial_seq_len=32, grow_steps=1500),
        ),
    },
    notebook="notebooks/feedback.ipynb",
)

# ## Elman network
#
# A recurrent network has the last characters in its hidden state from the start, where
# a transformer has to learn how to attend to them: `tiny` reached 1.687 after 48 CPU
# seconds, before the transformers under AdamW. The gradient comes back through every
# time step and may explode, so `clip_norm` must not be 0.


def _elman(n_layers: int, d_hidden: int, **more: Any) -> dict[str, Any]:
    return {"n_layers": n_layers, "d_hidden": d_hidden, **more}


ELMAN = Experiment(
    name="elman",
    title="Elman network",
    summary="a recurrent network with one hidden state per layer",
    model="elman",
    task="text",
    presets={
        "tiny": Preset(
            "two layers of 256 units: a minute on two cores",
            _elman(2, 256, d_model=128, dropout_prob=0.0),
            _adamw(750, 32, 64, 3e-3, 50),
        ),
        "cpu": Preset(
            "two layers of 512 units: five minutes on a laptop",
            _elman(2, 512, d_model=128, dropout_prob=0.1),
            _adamw(1500, 32, 64, 2e-3, 100),
        ),
        "colab": Preset(
            "three layers of 1,024 units: a free T4",
            _elman(3, 1024, d_model=256, dropout_prob=0.3),
            _adamw(3000, 128, 128, 1e-3, 100),
        ),
        "gpu": Preset(
            "three layers of 1,024 units, and twice as many updates",
            _elman(3, 1024, d_model=256, dropout_prob=0.4),
            _adamw(6000, 128, 256, 1e-3, 200),
        ),
    },
    notebook="notebooks/elman.ipynb",
)


# ## Ablations: heads and positions
#
# The same transformer with 1, 2, 4 and 8 heads, and with four kinds of positions;
# `python -m labml_nn train mha` trains all variants and draws their curves in one
# picture. Differences smaller than those between seeds mean nothing, so the
# [results](../../docs_src/pages/results.md) have three seeds.
def _ablation(**model: Any) -> dict[str, Preset]:
    def sizes(d_model: int, n_layers: int, dropout_prob: float) -> dict[str, Any]:
        width = {"d_model": d_model, "n_layers": n_layers}
        return {**width, "dropout_prob": dropout_prob, **model}

    return {
        "tiny": Preset(
            "two layers of 64 features: a quarter of a minute for each variant",
            sizes(64, 2, 0.0),
            _adamw(600, 16, 64, 3e-3, 50),
        ),
        "cpu": Preset(
            "three layers of 96 features: five minutes for all variants",
            sizes(96, 3, 0.0),
            _adamw(800, 32, 64, 3e-3, 50),
        ),
        "colab": Preset(
            "four layers of 256 features: a free T4",
            sizes(256, 4, 0.1),
            _adamw(1500, 64, 128, 1e-3, 100, **HALF),
        ),
        "gpu": Preset(
            "six layers of 384 features, context of 256",
            sizes(384, 6, 0.2),
            _adamw(5000, 64, 256, 1e-3, 100),
        ),
    }


HEADS = Experiment(
    name="mha",
    title="Number of heads",
    summary="the same transformer with 1, 2, 4 and 8 heads at equal width",
    model="autoregressive",
    task="text",
    presets=_ablation(positions="rotary"),
    variants={f"heads-{heads}": {"heads": heads} for heads in (1, 2, 4, 8)},
    notebook="notebooks/mha.ipynb",
)
POSITIONS = Experiment(
    name="positional_encoding",
    title="Positional encodings",
    summary="the same transformer with sinusoidal, learned, rotary and no positions",
    model="autoregressive",
    task="text",
    presets=_ablation(),
    variants={
        positions: {"positions": positions}
        for positions in ("sinusoidal", "learned", "rotary", "none")
    },
    notebook="notebooks/positional_encoding.ipynb",
)

EXPERIMENTS = ExperimentTable(
    (AUTOREGRESSIVE, ENCODER_DECODER, FEEDBACK, ELMAN, HEADS, POSITIONS)
)
