r"""
---
title: Where am I?
summary: >
  Sinusoids, a learned table, rotations, or nothing at all: how a transformer gets to
  know in which order it reads.
---

Attention is a mean over a set, and a set has no order. A model that shall tell *dog
bites man* from *man bites dog* must be told where things stand, and there are several
ways to tell it:

| Variant | Where the position enters |
|:--|:--|
| `sinusoidal` | a fixed [wave](../transformers/positional_encoding.py) is added |
| `learned` | a trained vector is added, one for each place |
| `rotary` | queries and keys are [turned by an angle](../transformers/rotary.py) |
| `none` | nowhere; the mask alone lets each position see a past of another length |

The first two say *where* a letter stands, and leave it to the layers to find out how
far it is from there to here. The third says *how far*, in every layer. Spelling is a
matter of distances: what comes after *q* does not depend on the line it stands in.

This experiment trains the same [autoregressive
transformer](../transformers/autoregressive.py) with each of them, everything
else being equal:

```text
python -m labml_nn train positional_encoding --preset tiny
```

| Positions | Validation loss, `tiny`, one seed |
|:--|--:|
| sinusoidal | 2.297 |
| learned | 2.354 |
| rotary | 2.033 |
| none | 2.380 |

A run takes some 12 seconds of one processor core: two layers of 64 features, 600
updates of 16 windows of 64 letters. Rotations are far ahead. The learned table has
hardly begun to help.

**How to read it.** What is slow need not be bad. A learned table starts small and has
to grow before the layers can tell places apart; with ten times the updates the order of
the variants may be another. The preset `cpu` trains longer, and the
[results](../../results.md) have several seeds.

**What goes wrong.** A table that was trained on 64 places knows nothing of the 65th,
and the sinusoids of the 65th mean nothing to layers that have never seen them. So no
model here is asked to look further back than it was trained to: longer texts [slide
through the context](../transformers/sliding_window.py).

```python
from labml_nn.experiments import experiments

positions = experiments()["positional_encoding"]
fields = positions.model_fields("tiny", "rotary")
assert fields["positions"] == "rotary"
assert "max_len" not in fields  # as long as the windows: decided when it is built
```
"""

from labml_nn.experiments.experiment import Experiment, Preset

TINY = Preset(
    about="two layers of 64 features: a quarter of a minute for each variant",
    model={"d_model": 64, "n_layers": 2, "dropout_prob": 0.0},
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
    model={"d_model": 96, "n_layers": 3, "dropout_prob": 0.0},
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
    model={"d_model": 256, "n_layers": 4, "dropout_prob": 0.1},
    training={
        "steps": 1500,
        "batch_size": 64,
        "seq_len": 128,
        "learning_rate": 1e-3,
        "warmup_steps": 100,
        "precision": "float16",
    },
)

GPU = Preset(
    about="six layers of 384 features, 256 letters of context",
    model={"d_model": 384, "n_layers": 6, "dropout_prob": 0.2},
    training={
        "steps": 5000,
        "batch_size": 64,
        "seq_len": 256,
        "learning_rate": 1e-3,
        "warmup_steps": 100,
    },
)

EXPERIMENT = Experiment(
    name="positional_encoding",
    title="Where am I?",
    summary="the same transformer with sinusoidal, learned, rotary and no positions",
    model="autoregressive",
    task="text",
    presets={"tiny": TINY, "cpu": CPU, "colab": COLAB, "gpu": GPU},
    variants={
        positions: {"positions": positions}
        for positions in ("sinusoidal", "learned", "rotary", "none")
    },
    page="labml_nn/experiments/positions.html",
    notebook="notebooks/positional_encoding.ipynb",
)
