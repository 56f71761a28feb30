r"""
---
title: Train an Elman network
summary: >
  The smallest and fastest of the four, on Tiny Shakespeare: how large a batch it needs,
  and where one vector is not enough.
---

The model is on [its page](language_model.py); here are the numbers that it is trained
with.
"""

from labml_nn.experiments.experiment import Experiment, Preset

TINY = Preset(
    about="two layers of 256 units: a minute on two cores",
    model={"d_model": 128, "d_hidden": 256, "n_layers": 2, "dropout_prob": 0.0},
    training={
        "steps": 750,
        "batch_size": 32,
        "seq_len": 64,
        "learning_rate": 3e-3,
        "warmup_steps": 50,
    },
)

CPU = Preset(
    about="two layers of 512 units: five minutes on a laptop",
    model={"d_model": 128, "d_hidden": 512, "n_layers": 2, "dropout_prob": 0.1},
    training={
        "steps": 1500,
        "batch_size": 32,
        "seq_len": 64,
        "learning_rate": 2e-3,
        "warmup_steps": 100,
    },
)

COLAB = Preset(
    about="three layers of 1,024 units: a free T4",
    model={"d_model": 256, "d_hidden": 1024, "n_layers": 3, "dropout_prob": 0.3},
    training={
        "steps": 3000,
        "batch_size": 128,
        "seq_len": 128,
        "learning_rate": 1e-3,
        "warmup_steps": 100,
    },
)

GPU = Preset(
    about="three layers of 1,024 units, and twice as many updates",
    model={"d_model": 256, "d_hidden": 1024, "n_layers": 3, "dropout_prob": 0.4},
    training={
        "steps": 6000,
        "batch_size": 128,
        "seq_len": 256,
        "learning_rate": 1e-3,
        "warmup_steps": 200,
    },
)

EXPERIMENT = Experiment(
    name="elman",
    title="Memory in a vector",
    summary="a recurrent network that keeps the text so far in one vector per layer",
    model="elman",
    task="text",
    presets={"tiny": TINY, "cpu": CPU, "colab": COLAB, "gpu": GPU},
    page="labml_nn/recurrent/elman/experiment.html",
    notebook="notebooks/elman.ipynb",
)
