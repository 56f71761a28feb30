r"""
---
title: Train a feedback transformer
summary: >
  A model that learns slowly because it reads in turn, and two ways to make it learn
  sooner: short texts first, and the weights of an ordinary transformer.
paper: https://arxiv.org/abs/2002.09402
---

The [model](language_model.py) lets its lowest layer see what the highest worked out one
step before. The price is time. An ordinary transformer learns from all 64 letters of a
window at once, and this one from one after the other, forwards, and then backwards once
more. So the first question of its training is how to spend the time well. The paper
discusses two ways ([@fan2020feedback]).

**Short texts first.** What there is to learn at first lies near: letters, pairs of
letters, short words. A window of 8 letters shows them as well as one of 64, and takes
an eighth of the steps in turn. So windows begin short and grow with the model's
understanding, from `initial_seq_len` to `seq_len` over `grow_steps` updates:

$$T_k = T_0 + \frac{k}{n} \, (T - T_0) \qquad \text{in update } k < n$$

| Symbol | Field | Meaning |
|:--|:--|:--|
| $T_0$ | `initial_seq_len` | letters of a window at first |
| $T$ | `seq_len` | letters of a window in the end |
| $n$ | `grow_steps` | updates until then |

In 600 updates from 8 to 32 letters, half of them while growing, the model took 34
seconds of one core to a validation loss of 1.995; with 32 from the start, 49 seconds to
1.970. (One run each, AdamW, two layers of 96 features, batches of 32.) A third of the
time is saved, and little is lost. Windows that are long from the start do worst: of 64
letters, 240 updates took 41 seconds, and came to 2.15.

**An ordinary transformer first.** It learns from all positions at once, and most of
what it learns is of use [here as well](warm_start.py):

```text
python -m labml_nn train autoregressive --out runs/first \
    --preset tiny --n-layers 2
python -m labml_nn train feedback --preset tiny --start-from runs/first
```

The sizes must agree, and the vocabulary; a run that does not fit is refused, and the
message says in what.

```python
import tempfile
from labml_nn.experiments import Corpus, Trainer, experiments

corpus = Corpus.of("a proverb", "men of few words are the best men. " * 40)
sizes = {"d_model": 24, "heads": 2, "n_layers": 1}
numbers = {"batch_size": 4, "seq_len": 12, "warmup_steps": 2, "learning_rate": 0.02}
numbers["sample_tokens"] = 10

def train(name, folder, **more):
    experiment = experiments()[name]
    model, task, config = experiment.build(
        "tiny", corpus=corpus, model=sizes, training={**numbers, **more}
    )
    return Trainer(model, task, config, folder).train().validation_loss

with tempfile.TemporaryDirectory() as place:
    train("autoregressive", f"{place}/first", steps=40)
    cold = train("feedback", f"{place}/cold", steps=8)
    warm = train("feedback", f"{place}/warm", steps=8, start_from=f"{place}/first")
assert warm < cold - 0.5
```

**What goes wrong.** Memory that is not normalised may grow from step to step, until
nothing is finite any more ([there](language_model.py) is how that looks). And texts
that grow late or to little: a distance that no window ever showed has parameters that
nothing ever moved, and the model meets it when it writes.
"""

from labml_nn.experiments.experiment import Experiment, Preset
from labml_nn.transformers.feedback.warm_start import take_weights

# ## A minute on two cores
#
# 224,000 parameters. [Muon](../../optimizers/muon.py) and small batches do as much for
# this model as for others: with AdamW and batches of 32, growing from 8 to 32 letters,
# the validation loss was 1.939 after 750 updates and 56 seconds of one core; with both,
# 1.814 after 800 and 20 seconds. So there is time for windows of 64. The preset took 32
# seconds to 1.686. That is a little below the 1.722 of the
# [ordinary transformer](../../experiments/autoregressive.py) in its minute, which has half
# as many parameters more.
TINY = Preset(
    about="two layers of 96 features: a minute on two cores",
    model={"d_model": 96, "heads": 4, "n_layers": 2, "dropout_prob": 0.0},
    training={
        "steps": 900,
        "batch_size": 16,
        "seq_len": 64,
        "initial_seq_len": 16,
        "grow_steps": 450,
        "optimizer": "muon",
        "muon_learning_rate": 0.03,
        "learning_rate": 0.006,
        "final_learning_rate": 0.0,
        "warmup_steps": 20,
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

# ## A GPU
#
# Batches are large, for there is little to do at once in a step of this model. Neither
# preset has been run: there was no GPU.
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

# ## Exercises
#
# **1.** How many steps in turn does growing save? Count them for the preset `tiny`, and
# for a training that has the full length from the start.
#
# <details><summary>Answer</summary>
#
# Nearly a fifth: in the first 450 of 900 updates windows are 40 letters long on
# average, not 64.
#
# ```python
# from labml_nn.experiments import experiments
# from labml_nn.experiments.training.schedule import seq_len_at
#
# config = experiments()["feedback"].training("tiny")
# steps = sum(seq_len_at(update, config) for update in range(config.steps))
# saved = 1 - steps / (config.steps * config.seq_len)
# assert 0.18 < saved < 0.2
# ```
#
# </details>
#
# **2.** Try to start from an Elman network, and from a transformer that is too wide.
# What do you get to read?
#
# <details><summary>Answer</summary>
#
# ```python
# import tempfile
# import labml_nn
# from labml_nn.experiments import Corpus, experiments
#
# feedback = experiments()["feedback"]
# corpus = Corpus.of("a proverb", "men of few words are the best men. " * 40)
# size = len(corpus.vocabulary)
#
# def refused(other):
#     with tempfile.TemporaryDirectory() as folder:
#         other.save(folder)
#         try:
#             feedback.build("tiny", corpus=corpus, training={"start_from": folder})
#         except ValueError as error:
#             return str(error)
#
# elman = labml_nn.create("elman", n_vocab=size)
# assert "cannot start from 'elman'" in refused(elman)
# wide = labml_nn.create("autoregressive", n_vocab=size, n_layers=2, d_model=128)
# assert "`d_model` is 128 there and 96 here" in refused(wide)
# ```
#
# </details>
#
# **3.** After training on windows of 12 letters, which distances have been learned?
# Look at the parameters of a memory of 20 rows.
#
# <details><summary>Answer</summary>
#
# Those from 1 to 11: the last letter of a window looks back at eleven rows. The tables
# begin with zeros and end with distance 1, so that what was never moved is still zero.
#
# ```python
# from labml_nn.experiments import Corpus, Trainer, experiments
#
# corpus = Corpus.of("a proverb", "men of few words are the best men. " * 40)
# model, task, config = experiments()["feedback"].build(
#     "tiny",
#     corpus=corpus,
#     model={"d_model": 12, "heads": 2, "n_layers": 1, "max_len": 20},
#     training={"steps": 3, "batch_size": 4, "seq_len": 12, "initial_seq_len": 12},
# )
# Trainer(model, task, config).train()
# bias = model.transformer.layers[0].attn.key_pos_bias.detach()  # [max_len, H]
# moved = bias.flip(0).abs().sum(1) > 0
# assert moved.nonzero().flatten().tolist() == list(range(11))  # distances 1 to 11
# ```
#
# </details>
