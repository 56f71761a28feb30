r"""
---
title: Experiments
summary: >
  Training the models of the library on Tiny Shakespeare: data, experiments, training
  loop, checkpoints, distributed training and the command line.
---

| Page | What it explains |
|:--|:--|
| [Data](data.py) | corpus, tokenizers for characters and words, batches, pairs |
| [Tiny Shakespeare](tiny_shakespeare.py) | where the text comes from |
| [Memory tasks](memory.py) | recall, overwriting and parity, which need no text |
| [Presets](presets.py) | experiments, hyperparameters, schedule, curriculum |
| [Training loop](trainer.py) | optimizers, precision, validation, samples, Ctrl-C |
| [Reporters](reporters.py) | progress bar, log, curves, labml |
| [Checkpoints](checkpoint.py) | exact resume, run folders |
| [Distributed](distributed.py) | several processes |
| [Command line](command_line.py) | `python -m labml_nn` |

The shortest way through all of it, here with a text of one line and a model that fits
it; [the command line](command_line.py) does the same:

```python
from labml_nn.experiments import Corpus, Trainer, experiments

corpus = Corpus.of("a proverb", "the course of true love never did run smooth. " * 40)
model, task, config = experiments()["feedback"].build(
    "tiny",
    corpus=corpus,  # without it, Tiny Shakespeare
    model={"d_model": 24, "heads": 2, "n_layers": 1},
    training={"steps": 30, "batch_size": 4, "seq_len": 12, "grow_steps": 10},
)
result = Trainer(model, task, config).train()  # with a folder, a run that is kept
assert result.stopped == "finished"
```
"""

from labml_nn.experiments.checkpoint import load_run
from labml_nn.experiments.data import Corpus, read_corpus
from labml_nn.experiments.presets import (
    Experiment,
    Preset,
    TrainingConfig,
    experiments,
)
from labml_nn.experiments.trainer import Trainer

__all__ = [
    "Corpus",
    "Experiment",
    "Preset",
    "Trainer",
    "TrainingConfig",
    "experiments",
    "load_run",
    "read_corpus",
]
