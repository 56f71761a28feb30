r"""
---
title: Train a model that replies
summary: >
  Someone speaks, someone answers: pairs of speeches from Tiny Shakespeare for an
  encoder and a decoder.
---

A play is made of speeches, and each of them answers the one before. That is as good as
a translation from one language to another: the [model](../transformers/encoder_decoder.py) reads what was
said, whole, and is asked for the reply, letter by letter, up to its end. How speeches
become pairs is told [there](data/replies.py).

It is a hard task, and much of it cannot be learned at all. Nobody could guess from
"Good-morrow, cousin" that Romeo will ask whether the day is so young. What can be
learned is how replies are written, as in any other language model, and a few threads
that lead from the one half to the other: a question gets an answer, a name comes back,
a short speech is followed by a short one. The loss stays higher than that of a model
that continues a text, because each reply is a new beginning.

```python
from labml_nn.experiments import Trainer, experiments
from labml_nn.experiments.data import Corpus

play = "Cat:\nWho is there?\n\nMouse:\nNobody, my lord.\n\n" * 60
model, task, config = experiments()["encoder_decoder"].build(
    "tiny",
    corpus=Corpus.of("a play", play),
    model={"d_model": 24, "n_layers": 1},
    training={"steps": 40, "batch_size": 4, "seq_len": 24, "learning_rate": 0.02},
)
result = Trainer(model, task, config).train()
assert result.validation_loss < 2  # and ln 25 = 3.2 at first
```

**What goes wrong.** A good loss does not say that the model listens: what it has
written so far tells it most of what it needs. So give it what was said to somebody
else, and see whether the loss rises. And replies that are cut too short teach it that a
speech ends in the middle of a word; `seq_len` counts for both sides.
"""

from labml_nn.experiments.experiment import Experiment, Preset

# ## A minute on two cores
#
# 529,000 parameters, which is more than the model that continues has at the same width:
# there are two stacks, and a layer of the decoder has two attentions. So batches are
# small, and [Muon](../optimizers/muon.py) makes the most of each. One run each, the
# loss on the whole validation split:
#
# | | Pairs in a batch | Updates | Seconds of one core | Loss |
# |:--|--:|--:|--:|--:|
# | AdamW, learning rate 0.003 | 32 | 350 | 51 | 2.143 |
# | Muon | 16 | 350 | 35 | 1.957 |
# | the preset | 16 | 450 | 44 | 1.888 |
#
# The loss in training is much lower, 1.43 in the end, and that is not only learning by
# heart. Some of what is asked for are the names of those who speak. In training they
# come back, and in the plays of the validation split there are others.
TINY = Preset(
    about="two layers in each half, 96 features: a minute on two cores",
    model={"d_model": 96, "heads": 4, "n_layers": 2, "dropout_prob": 0.0},
    training={
        "steps": 450,
        "batch_size": 16,
        "seq_len": 64,
        "optimizer": "muon",
        "muon_learning_rate": 0.03,
        "learning_rate": 0.006,
        "final_learning_rate": 0.0,
        "warmup_steps": 20,
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

# ## A free GPU, and a large one
#
# Longer speeches and more layers; dropout grows with the model, for there are only some
# 6,300 pairs. Neither preset has been run: there was no GPU.
COLAB = Preset(
    about="four layers in each half, 256 features: a free T4",
    model={"d_model": 256, "heads": 4, "n_layers": 4, "dropout_prob": 0.2},
    training={
        "steps": 2000,
        "batch_size": 64,
        "seq_len": 256,
        "learning_rate": 1e-3,
        "warmup_steps": 100,
        "precision": "float16",
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
    page="labml_nn/experiments/encoder_decoder.html",
    notebook="notebooks/encoder_decoder.ipynb",
)
