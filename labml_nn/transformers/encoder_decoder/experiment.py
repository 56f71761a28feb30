r"""
---
title: Train a model that replies
summary: >
  Someone speaks, someone answers: pairs of speeches from Tiny Shakespeare for an
  encoder and a decoder.
---

The model is on [its page](__init__.py); here are the numbers that it is trained with.
"""

from labml_nn.experiments.experiment import Experiment, Preset

TINY = Preset(
    about="two layers in each half, 96 features: a minute on two cores",
    model={"d_model": 96, "heads": 4, "n_layers": 2, "dropout_prob": 0.0},
    training={
        "steps": 350,
        "batch_size": 32,
        "seq_len": 64,
        "learning_rate": 3e-3,
        "warmup_steps": 50,
    },
)

CPU = Preset(
    about="three layers in each half, 128 features: five minutes on a laptop",
    model={"d_model": 128, "heads": 4, "n_layers": 3, "dropout_prob": 0.1},
    training={
        "steps": 1000,
        "batch_size": 32,
        "seq_len": 96,
        "learning_rate": 2e-3,
        "warmup_steps": 100,
    },
)

COLAB = Preset(
    about="four layers in each half, 256 features: a free T4",
    model={"d_model": 256, "heads": 4, "n_layers": 4, "dropout_prob": 0.2},
    training={
        "steps": 2000,
        "batch_size": 64,
        "seq_len": 256,
        "learning_rate": 1e-3,
        "warmup_steps": 100,
    },
)

GPU = Preset(
    about="six layers in each half, 384 features, as deep as the paper's",
    model={"d_model": 384, "heads": 6, "n_layers": 6, "dropout_prob": 0.3},
    training={
        "steps": 4000,
        "batch_size": 128,
        "seq_len": 256,
        "learning_rate": 1e-3,
        "warmup_steps": 200,
    },
)

EXPERIMENT = Experiment(
    name="encoder_decoder",
    title="What was said, and a reply",
    summary="two transformers: one reads what was said, one writes the reply",
    model="encoder_decoder",
    task="replies",
    presets={"tiny": TINY, "cpu": CPU, "colab": COLAB, "gpu": GPU},
    page="labml_nn/transformers/encoder_decoder/experiment.html",
    notebook="notebooks/encoder_decoder.ipynb",
)
