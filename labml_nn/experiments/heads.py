r"""
---
title: How many heads?
summary: >
  One head of full width, or many narrow ones? The same model, the same work, cut
  into 1, 2, 4 and 8.
---

The model is an [autoregressive transformer](../transformers/autoregressive/__init__.py)
in which only the number of [heads](../transformers/mha.py) changes.
"""

from labml_nn.experiments.experiment import Experiment, Preset

TINY = Preset(
    about="two layers of 64 features: a quarter of a minute for each variant",
    model={"d_model": 64, "n_layers": 2, "positions": "rotary", "dropout_prob": 0.0},
    training={
        "steps": 600,
        "batch_size": 16,
        "seq_len": 64,
        "learning_rate": 3e-3,
        "warmup_steps": 50,
    },
)

CPU = Preset(
    about="three layers of 96 features: five minutes for all variants",
    model={"d_model": 96, "n_layers": 3, "positions": "rotary", "dropout_prob": 0.0},
    training={
        "steps": 800,
        "batch_size": 32,
        "seq_len": 64,
        "learning_rate": 3e-3,
        "warmup_steps": 50,
    },
)

COLAB = Preset(
    about="four layers of 256 features: a free T4",
    model={"d_model": 256, "n_layers": 4, "positions": "rotary", "dropout_prob": 0.1},
    training={
        "steps": 1500,
        "batch_size": 64,
        "seq_len": 128,
        "learning_rate": 1e-3,
        "warmup_steps": 100,
    },
)

GPU = Preset(
    about="six layers of 384 features, 256 letters of context",
    model={"d_model": 384, "n_layers": 6, "positions": "rotary", "dropout_prob": 0.2},
    training={
        "steps": 5000,
        "batch_size": 64,
        "seq_len": 256,
        "learning_rate": 1e-3,
        "warmup_steps": 100,
    },
)

EXPERIMENT = Experiment(
    name="mha",
    title="How many heads?",
    summary="the same transformer with 1, 2, 4 and 8 heads at equal width",
    model="autoregressive",
    task="text",
    presets={"tiny": TINY, "cpu": CPU, "colab": COLAB, "gpu": GPU},
    variants={f"heads-{heads}": {"heads": heads} for heads in (1, 2, 4, 8)},
    page="labml_nn/experiments/heads.html",
    notebook="notebooks/mha.ipynb",
)
