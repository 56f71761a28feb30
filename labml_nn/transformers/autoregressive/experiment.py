r"""
---
title: Train an autoregressive transformer
summary: >
  A GPT of letters on Tiny Shakespeare: how long its texts are, how fast it learns, and
  what to expect after a minute and after an hour.
---

The model is on [its page](__init__.py); here are the numbers that it is trained with.
"""

from labml_nn.experiments.experiment import Experiment, Preset

TINY = Preset(
    about="three layers of 96 features: a minute on two cores",
    model={
        "d_model": 96,
        "heads": 4,
        "n_layers": 3,
        "positions": "rotary",
        "dropout_prob": 0.0,
    },
    training={
        "steps": 500,
        "batch_size": 32,
        "seq_len": 64,
        "learning_rate": 3e-3,
        "warmup_steps": 50,
    },
)

CPU = Preset(
    about="four layers of 128 features: five minutes on a laptop",
    model={"d_model": 128, "heads": 4, "n_layers": 4, "dropout_prob": 0.0},
    training={
        "steps": 2000,
        "batch_size": 32,
        "seq_len": 64,
        "learning_rate": 2e-3,
        "warmup_steps": 100,
    },
)

COLAB = Preset(
    about="six layers of 384 features, 256 letters of context: a free T4",
    model={"d_model": 384, "heads": 6, "n_layers": 6, "dropout_prob": 0.2},
    training={
        "steps": 2500,
        "batch_size": 64,
        "seq_len": 256,
        "learning_rate": 1e-3,
        "warmup_steps": 100,
    },
)

GPU = Preset(
    about="the same model for 5,000 updates, which is nanoGPT's recipe",
    model={"d_model": 384, "heads": 6, "n_layers": 6, "dropout_prob": 0.2},
    training={
        "steps": 5000,
        "batch_size": 64,
        "seq_len": 256,
        "learning_rate": 1e-3,
        "warmup_steps": 100,
    },
)

EXPERIMENT = Experiment(
    name="autoregressive",
    title="A GPT of letters",
    summary="a transformer that looks back at the text so far",
    model="autoregressive",
    task="text",
    presets={"tiny": TINY, "cpu": CPU, "colab": COLAB, "gpu": GPU},
    page="labml_nn/transformers/autoregressive/experiment.html",
    notebook="notebooks/autoregressive.ipynb",
)
