r"""
---
title: Experiments
summary: >
  Training the models of the library on Tiny Shakespeare: data, experiments, training
  loop, checkpoints, distributed training and the command line.
---

| Page | What it explains |
|:--|:--|
| [Data](data.py), [plays](plays.py) | corpus, character tokenizer, batches |
| [Replies](replies.py), [tasks](tasks.py) | pairs for the encoder–decoder; the two
tasks |
| [Presets](presets.py) | the six experiments and their hyperparameters |
| [Configuration](config.py) | hyperparameters, learning-rate schedule, curriculum |
| [Update](update.py) | optimizers, clipping, accumulation, mixed precision |
| [Training loop](trainer.py) | validation, samples, Ctrl-C |
| [Reporters](reporters.py), [curves](curve.py) | progress bar, log, labml, pictures |
| [Checkpoints](checkpoint.py), [files](files.py) | exact resume, run folders |
| [Distributed](distributed.py) | several processes |
| [Command line](command_line.py) | `python -m labml_nn` |

The shortest way through all of it:

```text
python -m labml_nn train feedback --preset tiny
python -m labml_nn generate runs/feedback --prompt "ROMEO:"
```

and the same in Python, here with a text of one line and a model that fits it:

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

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from labml_nn.experiments.checkpoint import load_run
    from labml_nn.experiments.config import TrainingConfig
    from labml_nn.experiments.data import Corpus, read_corpus
    from labml_nn.experiments.presets import Experiment, Preset, experiments
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

# Imported on first use, so that reading a text does not import the trainer.
MODULES = {
    "Corpus": "data",
    "Experiment": "presets",
    "Preset": "presets",
    "Trainer": "trainer",
    "TrainingConfig": "config",
    "experiments": "presets",
    "load_run": "checkpoint",
    "read_corpus": "data",
}


def __getattr__(name: str) -> Any:
    if name not in MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{MODULES[name]}"), name)
