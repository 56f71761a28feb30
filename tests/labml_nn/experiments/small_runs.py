"""Small texts, tasks, models and trainings, for the tests of this folder."""

import os
import random
import signal

import torch
from small_models import small

import labml_nn
from labml_nn.experiments.data import Corpus
from labml_nn.experiments.presets import TASKS, TrainingConfig
from labml_nn.experiments.reporters import Reporter
from labml_nn.experiments.trainer import Trainer

#: Models of all kinds, as small as they can be, with dropout.
MODELS = {name: small(name, max_len=9, dropout_prob=0.1) for name in labml_nn.models()}
SPEAKERS = ("ROMEO:", "JULIET:", "NURSE:")
WORDS = ("but", "soft", "what", "light", "through", "yonder", "window", "breaks", "it", "is")


def play(speeches=60):
    """Speeches of names and words, the same every time."""
    draw = random.Random(3)
    return "\n\n".join(
        f"{draw.choice(SPEAKERS)}\n{' '.join(draw.choices(WORDS, k=draw.randint(1, 7)))}."
        for _ in range(speeches)
    )


CORPUS = Corpus.of("a play", play())


def settings(**changes):
    """A configuration of a few quick updates."""
    every = dict.fromkeys(("evaluate_every", "sample_every", "save_every"), 3)
    sizes = {"steps": 6, "batch_size": 4, "seq_len": 7, "sample_tokens": 5, "warmup_steps": 2}
    return TrainingConfig(**{"learning_rate": 0.01, "device": "cpu", **every, **sizes, **changes})


def task_for(name="elman", config=None, corpus=CORPUS, vocabulary=None):
    config = config or settings()
    sizes = {one: getattr(config, one) for one in ("batch_size", "seq_len", "seed")}
    kind = TASKS["replies" if name == "encoder_decoder" else "text"]
    return kind(corpus, vocabulary=vocabulary, **sizes)


def model_for(name="elman", task=None, seed=5, **fields):
    task = task or task_for(name)
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return labml_nn.create(name, **{**MODELS[name], **task.model_fields, **fields})


def training(name="elman", folder=None, *, model=None, **changes):
    """A trainer of a new model; what is not for it goes into the configuration."""
    given = {key: changes.pop(key) for key in ("reporters", "world", "about") if key in changes}
    vocabulary = changes.pop("vocabulary", None)
    config = settings(**changes)
    task = task_for(name, config, vocabulary=vocabulary)
    return Trainer(model or model_for(name, task), task, config, folder, **given)


def resumed(name, folder, **changes):
    """A trainer that has read the checkpoint of the folder."""
    trainer = training(name, folder, **changes)
    trainer.resume()
    return trainer


class Interrupts(Reporter):
    """Sends a signal at a step."""

    def __init__(self, step, number=signal.SIGINT, times=1):
        self.step, self.number, self.times = step, number, times

    def update(self, step, loss, learning_rate, tokens_per_second, **more):
        if step == self.step:
            for _ in range(self.times):
                os.kill(os.getpid(), self.number)
