r"""
---
title: Train an Elman network
summary: >
  The simplest and fastest of the four models, on Tiny Shakespeare: what it learns in a
  minute, and where one vector is not enough.
---

The [model](language_model.py) reads letter after letter and keeps one vector per layer
in mind. It was proposed in 1990, and is trained here with what was found out since:
Adam, gradients that are cut to a length, a learning rate that rises and falls.

It is no museum piece. If all are trained with AdamW, it is *ahead* of the transformers
after a minute on a processor, at 1.69 where they are above 1.9: letters that follow
each other closely are what there is to learn first, and a recurrent network has the
last letters in its state from the start. A transformer has to find out by training how
to look at them. Where the race ends is another matter: what is 200 letters back has
been overwritten 200 times.

```python
from labml_nn.experiments import Trainer, experiments
from labml_nn.experiments.data import Corpus

corpus = Corpus.of("a proverb", "brevity is the soul of wit. " * 60)
model, task, config = experiments()["elman"].build(
    "tiny",
    corpus=corpus,
    model={"d_model": 16, "d_hidden": 32, "n_layers": 1},
    training={"steps": 60, "batch_size": 4, "seq_len": 12, "learning_rate": 0.02},
)
result = Trainer(model, task, config).train()
assert result.validation_loss < 1  # and ln 16 = 2.8 at first
```

**What goes wrong.** The gradient comes back [through every
step](bptt.py), and may grow at each of them. One such gradient, followed as it is, can
undo the work of a thousand updates; so `clip_norm` must not be 0 here. With learning
rates far above those below the states are driven to the ends of the tangent, to -1 and
1, where nothing changes any more: the loss stays where it is, and no error is raised.
"""

from labml_nn.experiments.experiment import Experiment, Preset

# ## A minute on two cores
#
# 337,000 parameters, and 750 updates of 32 windows. In PyTorch an update cost 64 ms of
# one core, and the validation loss was 1.687 after 48 seconds; a [compiled
# layer](kernel/__init__.py) makes the same updates faster. A single layer of 320 units,
# 296,000 parameters, took 38 seconds of PyTorch for as many and came to 1.72, and two
# layers to 1.67, both on the first quarter of the split: the second layer is worth its
# price.
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

# ## A GPU
#
# A GPU is quick where there is much to do at once, and this model reads letter by
# letter. So batches are large: they are what can be done side by side. Neither preset
# has been run: there was no GPU.
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
