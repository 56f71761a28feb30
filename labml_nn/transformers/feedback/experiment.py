r"""
---
title: Train a feedback transformer
summary: >
  A model that learns slowly because it reads in turn, and two ways to make it learn
  sooner: short texts first, and the weights of an ordinary transformer.
---

The model is on [its page](language_model.py); here are the numbers that it is trained
with.
"""

from labml_nn.experiments.experiment import Experiment, Preset
from labml_nn.transformers.feedback.warm_start import take_weights

TINY = Preset(
    about="two layers of 96 features: a minute on two cores",
    model={"d_model": 96, "heads": 4, "n_layers": 2, "dropout_prob": 0.0},
    training={
        "steps": 300,
        "batch_size": 32,
        "seq_len": 64,
        "learning_rate": 3e-3,
        "warmup_steps": 50,
        "initial_seq_len": 16,
        "grow_steps": 150,
    },
)

CPU = Preset(
    about="four layers of 128 features: five minutes on a laptop",
    model={"d_model": 128, "heads": 4, "n_layers": 4, "dropout_prob": 0.0},
    training={
        "steps": 800,
        "batch_size": 32,
        "seq_len": 64,
        "learning_rate": 2e-3,
        "warmup_steps": 100,
        "initial_seq_len": 16,
        "grow_steps": 400,
    },
)

COLAB = Preset(
    about="four layers of 256 features: a free T4",
    model={"d_model": 256, "heads": 8, "n_layers": 4, "dropout_prob": 0.1},
    training={
        "steps": 600,
        "batch_size": 128,
        "seq_len": 128,
        "learning_rate": 2e-3,
        "warmup_steps": 100,
        "initial_seq_len": 16,
        "grow_steps": 300,
    },
)

GPU = Preset(
    about="six layers of 384 features, 256 letters of context",
    model={"d_model": 384, "heads": 6, "n_layers": 6, "dropout_prob": 0.2},
    training={
        "steps": 3000,
        "batch_size": 128,
        "seq_len": 256,
        "learning_rate": 1e-3,
        "warmup_steps": 200,
        "initial_seq_len": 32,
        "grow_steps": 1500,
    },
)

EXPERIMENT = Experiment(
    name="feedback",
    title="Feedback memory",
    summary="a transformer whose lowest layer sees what its highest worked out",
    model="feedback",
    task="text",
    presets={"tiny": TINY, "cpu": CPU, "colab": COLAB, "gpu": GPU},
    page="labml_nn/transformers/feedback/experiment.html",
    notebook="notebooks/feedback.ipynb",
    start=take_weights,
)
