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

- [`autoregressive`](../transformers/autoregressive/experiment.py): what follows?
- [`encoder_decoder`](../transformers/encoder_decoder/experiment.py): what is the reply?
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

and the same in Python, where each piece can be exchanged:

```text
from labml_nn.experiments import Trainer, experiments

model, task, config = experiments()["feedback"].build("tiny")
result = Trainer(model, task, config, "runs/feedback").train()
```

Nothing here is imported before it is asked for.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from labml_nn.experiments.experiment import Experiment, Preset, experiments

__all__ = ["Experiment", "Preset", "experiments"]

PLACES = {
    "Experiment": "labml_nn.experiments.experiment",
    "Preset": "labml_nn.experiments.experiment",
    "experiments": "labml_nn.experiments.experiment",
}


def __getattr__(name: str) -> Any:
    """
    ## Names, fetched when somebody asks for them

    A reader of data does not wait for the trainer.
    """
    if name not in PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(PLACES[name]), name)
