r"""
---
title: Training
summary: >
  How a model gets its parameters: one update, and what makes thousands of them come to
  a good end.
---

Guess, be told how wrong it was, change a little. That is one **update**, and training
is thousands of them. Here is all of it in eight lines, for a model and a task that are
there already:

```text
for step in range(steps):
    batch = task.batch(step)
    loss = model.loss(batch.tokens, batch.targets)
    optimizer.zero_grad()
    loss.backward()
    clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    schedule.step()
```

These lines train a model. They do not train it *well*, and nobody who has trained for
longer than a minute leaves it at that. What is missing are answers:

| Question | Page |
|:--|:--|
| What is read, and what is asked? | [Tasks](task.py) |
| In which direction, and how far for each parameter? | [Optimizers](optimizer.py) |
| How far at the beginning, how far at the end? | [Schedule](schedule.py) |
| What if memory is short, or a gradient is infinite? | [One update](update.py) |
| How good is it on text that it has not seen? | [Validation](validation.py) |
| What can it write by now? | [Samples](samples.py) |
| On what does it compute, and how precisely? | [Devices](devices.py) |
| What if the power fails? | [Checkpoints](checkpoint.py), [stopping](stopping.py) |
| Who is told? | [Reporters](reporters.py): [bar](progress.py), [log](log.py) |
| And where can I watch? | [A curve that grows](live.py), [labml](labml_record.py) |
| What is left in the end? | [Folder](folder.py), [curve](curve.py) |
| And all of it together? | [The trainer](trainer.py) |

**What goes wrong most often** is not on this list, since no program notices it. The
learning rate is three times too small, and everything works, slowly. The validation
split was cut by chance, and the number looks good. Two models are compared, one of
which was trained for twice as long. Against the first helps to try three rates that
differ by a factor of three; against the others, to write down everything and to change
one thing at a time.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from labml_nn.experiments.training.config import TrainingConfig
    from labml_nn.experiments.training.folder import Run, RunFolder, load_run
    from labml_nn.experiments.training.reporters import Reporter
    from labml_nn.experiments.training.result import Result
    from labml_nn.experiments.training.task import TASKS, ReplyTask, Task, TextTask
    from labml_nn.experiments.training.trainer import Trainer

__all__ = [
    "TASKS",
    "ReplyTask",
    "Reporter",
    "Result",
    "Run",
    "RunFolder",
    "Task",
    "TextTask",
    "Trainer",
    "TrainingConfig",
    "load_run",
]

PLACES = {
    "config": ("TrainingConfig",),
    "folder": ("Run", "RunFolder", "load_run"),
    "reporters": ("Reporter",),
    "result": ("Result",),
    "task": ("TASKS", "ReplyTask", "Task", "TextTask"),
    "trainer": ("Trainer",),
}


def __getattr__(name: str) -> Any:
    """
    ## Names, fetched when somebody asks for them

    Whoever only reads a configuration does not wait for optimizers.
    """
    for place, names in PLACES.items():
        if name in names:
            return getattr(import_module(f"{__name__}.{place}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


# ## Exercises
#
# **1.** Stop a training when the loss on new text has not fallen for two looks in a
# row. (That is called *early stopping*. With the best model kept anyway, all that it
# saves is time.)
#
# <details><summary>Answer</summary>
#
# A reporter hears of every look, and a signal ends a training in order. A reporter may
# send one.
#
# ```python
# import os
# import signal
# from labml_nn.experiments.data import Corpus
# from labml_nn.experiments.training import Reporter, TextTask, Trainer, TrainingConfig
# from labml_nn.recurrent.elman.language_model import ElmanLanguageModel
#
# class Patience(Reporter):
#     def __init__(self, looks):
#         self.looks, self.best, self.waited = looks, float("inf"), 0
#
#     def validated(self, step, loss):
#         self.waited = 0 if loss < self.best else self.waited + 1
#         self.best = min(loss, self.best)
#         if self.waited == self.looks:
#             os.kill(os.getpid(), signal.SIGINT)
#
# text = "the quick brown fox jumps over the lazy dog. " * 4
# task = TextTask(Corpus.of("a fox", text + "Zz?" * 6), batch_size=4, seq_len=9, seed=1)
# model = ElmanLanguageModel.from_config({**task.model_fields, "d_hidden": 16})
# config = TrainingConfig(
#     steps=400, batch_size=4, seq_len=9, learning_rate=0.03, warmup_steps=0,
#     evaluate_every=5, sample_every=0, sample_tokens=1, device="cpu",
# )
# trainer = Trainer(model, task, config, reporters=[Patience(2)])
# result = trainer.train()
# assert result.stopped == "interrupted" and result.step < 400
# ```
#
# </details>
#
# **2.** Train the same model twice with one seed, and once with another. What is equal?
#
# <details><summary>Answer</summary>
#
# With one seed every loss and every parameter, to the last bit. The seed of the
# training decides batches and dropout; the first parameters are the model's own affair.
#
# ```python
# import torch
# from labml_nn.experiments.data import Corpus
# from labml_nn.experiments.training import TextTask, Trainer, TrainingConfig
# from labml_nn.recurrent.elman.language_model import ElmanLanguageModel
#
# corpus = Corpus.of("a line", "to be, or not to be, that is the question: " * 9)
#
# def trained(seed):
#     task = TextTask(corpus, batch_size=3, seq_len=8, seed=seed)
#     torch.manual_seed(7)
#     model = ElmanLanguageModel.from_config({**task.model_fields, "d_hidden": 16})
#     config = TrainingConfig(
#         steps=5, batch_size=3, seq_len=8, seed=seed, sample_tokens=1, device="cpu"
#     )
#     return Trainer(model, task, config).train().validation_loss
#
# assert trained(1) == trained(1) != trained(2)
# ```
#
# </details>
#
# **3.** A run was interrupted. Go on with it in a program that knows nothing but its
# folder.
#
# <details><summary>Answer</summary>
#
# `load_run` knows the model, the task and the configuration; the checkpoint knows the
# rest. (With a text that lies in a file, `run.task()` finds it by itself.)
#
# ```python
# import tempfile
# from pathlib import Path
# from labml_nn.experiments.data import Corpus
# from labml_nn.experiments.training import TextTask, Trainer, TrainingConfig, load_run
# from labml_nn.recurrent.elman.language_model import ElmanLanguageModel
#
# with tempfile.TemporaryDirectory() as folder:
#     text = Path(folder) / "line.txt"
#     text.write_text("to be, or not to be, that is the question: " * 9)
#     corpus = Corpus.of("a line", text.read_text(), path=text)
#     task = TextTask(corpus, batch_size=3, seq_len=8, seed=1)
#     model = ElmanLanguageModel.from_config({**task.model_fields, "d_hidden": 16})
#     config = TrainingConfig(
#         steps=4, batch_size=3, seq_len=8, sample_tokens=1, device="cpu"
#     )
#     Trainer(model, task, config, Path(folder) / "run").train()
#
#     run = load_run(Path(folder) / "run")
#     trainer = Trainer(run.new_model(), run.task(), run.training, run.folder.path)
#     trainer.resume()
#     assert trainer.history.step == 4 and trainer.train().stopped == "finished"
# ```
#
# </details>
