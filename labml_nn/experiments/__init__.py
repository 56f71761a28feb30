r"""
---
title: Experiments
summary: >
  From a text to a trained model: data, one update, many updates, and the runs that this
  site reports on, each with its numbers and the reasons for them.
---

A model is a function with many parameters, and nothing in its file says what they
should be. This room finds them. It has a text, a way to cut it into questions, a way to
change parameters so that the answers get better, and a place to keep what came out:

```text
   text ──► corpus ──► task ──► batch ──► loss ──► gradient ──► update
            read,      asks     of step   of the   clipped      AdamW
            split      for      k         model                 or Muon
            in two     what?       ▲                              │
                                   └────────── k + 1 ◄────────────┘
                                               now and then: validate,
                                               write a sample, save
```

An **experiment** says which model, which task and which numbers. There are six, and
each explains its own on its page:

- [`autoregressive`](autoregressive.py): what follows?
- [`encoder_decoder`](../encoder_decoder.py): what is the reply?
- [`feedback`](../transformers/feedback/experiment.py): does it help the lowest layer to
  see what the highest worked out?
- [`elman`](../recurrent/elman/experiment.py): is one vector enough of a memory?
- [`mha`](heads.py): how many heads, at equal width?
- [`positional_encoding`](positions.py): how should a model know where it is?

The shortest way through all of it:

```text
python -m labml_nn train feedback --preset tiny
python -m labml_nn generate runs/feedback --prompt "ROMEO:"
```

and the same in Python, where each piece can be exchanged. Here it is with a text of
one line and a model that fits it; without those two it reads Tiny Shakespeare and takes
a minute:

```python
from labml_nn.experiments import Corpus, Trainer, experiments

corpus = Corpus.of("a proverb", "the course of true love never did run smooth. " * 40)
model, task, config = experiments()["feedback"].build(
    "tiny",
    corpus=corpus,
    model={"d_model": 24, "heads": 2, "n_layers": 1},
    training={"steps": 30, "batch_size": 4, "seq_len": 12, "grow_steps": 10},
)
result = Trainer(model, task, config).train()  # a folder as well, and it is kept
assert result.stopped == "finished"
print(f"{result.validation_loss:.2f} nats per letter after {result.seconds:.1f} s")
```
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from labml_nn.experiments.data import Corpus, read_corpus
    from labml_nn.experiments.experiment import Experiment, Preset, experiments
    from labml_nn.experiments.training.config import TrainingConfig
    from labml_nn.experiments.training.folder import load_run
    from labml_nn.experiments.training.trainer import Trainer

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

PLACES = {
    "Corpus": "data",
    "Experiment": "experiment",
    "Preset": "experiment",
    "Trainer": "training.trainer",
    "TrainingConfig": "training.config",
    "experiments": "experiment",
    "load_run": "training.folder",
    "read_corpus": "data",
}


def __getattr__(name: str) -> Any:
    """
    ## Names, fetched when somebody asks for them

    `import labml_nn.experiments` is light: who only wants to read a text does not wait
    for the trainer and the models.
    """
    if name not in PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{PLACES[name]}"), name)
