r"""
---
title: How many heads?
summary: >
  One head of full width, or many narrow ones? The same model, the same work, cut into
  1, 2, 4 and 8.
---

A head makes one set of weights for each position: it can look at one place at a time,
or blur several ([multi-head attention](../transformers/mha.py)). Two heads can look at
two. They cost nothing: with $H$ heads of $d_k = C / H$ features the matrices have the
same size, whatever $H$ is, and as many multiplications are made. So it is a fair
question what one should buy for the same price, many heads that judge by few features,
or few that judge by many.

This experiment asks it on the [autoregressive
transformer](../transformers/autoregressive.py). Everything else is equal: the
width, the layers, the batches and their order, the seed. Even the number of parameters
is the same to the last one.

```text
python -m labml_nn train mha --preset tiny
```

trains all four variants, one after the other, and draws their curves in one picture.

| Heads | Features of each | Validation loss, `tiny`, one seed |
|--:|--:|--:|
| 1 | 64 | 2.169 |
| 2 | 32 | 2.046 |
| 4 | 16 | 2.033 |
| 8 | 8 | 2.055 |

A run takes some 12 seconds of one processor core: two layers of 64 features, 600
updates of 16 windows of 64 letters. A second head is worth a tenth of a nat. Between 2,
4 and 8 there is little, and nothing that one seed could tell.

**How to read it.** Differences between runs have two sources, what was changed and
luck: another seed draws other parameters, and gives another loss. Before believing a
difference, train with several seeds (`--seed 2`) and see how far runs of the *same*
variant lie apart. The [results](../../results.md) do that.

**What goes wrong.** More heads are not better for ever. At 64 features eight heads have
eight features each. A score is then a product of eight numbers, and rotary positions
take pairs of them to tell distances.

```python
from labml_nn.experiments import experiments

mha = experiments()["mha"]
sizes = set()
for variant in mha.variants:
    fields = mha.model_fields("tiny", variant)
    sizes.add(fields["d_model"] // fields["heads"])
assert sizes == {64, 32, 16, 8}  # features of a head
```
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
        "precision": "float16",
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
