"""A training, written out as a plain loop that shares no line with the trainer's."""

import math
from hashlib import blake2b

import numpy
import pytest
import torch
from small_runs import CORPUS, MODELS, model_for, settings, task_for
from torch import nn

from labml_nn.experiments.training.trainer import Trainer


def batch_of(step, config, task):
    length = config.seq_len
    if config.initial_seq_len is not None and step < config.grow_steps:
        grown = (config.seq_len - config.initial_seq_len) * step // config.grow_steps
        length = config.initial_seq_len + grown
    if task.name == "replies":
        batch = task.batch(step, length)
        return batch.tokens, batch.targets
    text = CORPUS.train
    draw = numpy.random.default_rng([config.seed, step])
    starts = draw.integers(len(text) - length, size=config.batch_size)
    tokens = torch.stack([text[i : i + length] for i in starts], 1)
    return tokens, torch.stack([text[i + 1 : i + length + 1] for i in starts], 1)


def share_of(step, config):
    if step < config.warmup_steps:
        return (step + 1) / config.warmup_steps
    done = (step - config.warmup_steps + 1) / (config.steps - config.warmup_steps)
    final = config.final_learning_rate
    return final + (1 - final) * 0.5 * (1 + math.cos(math.pi * done))


def orthogonal(matrix):
    x = matrix.T if matrix.shape[0] > matrix.shape[1] else matrix
    x = x / x.norm()
    for _ in range(5):
        gram = x @ x.T
        x = 3.4445 * x + (-4.7750 * gram + 2.0315 * gram @ gram) @ x
    return x.T if matrix.shape[0] > matrix.shape[1] else x


def move(parameter, name, is_map, memory, step, config):
    """Muon for maps if asked for, AdamW for all others; vectors are not drawn to zero."""
    share, gradient = share_of(step, config), parameter.grad
    if config.optimizer == "muon" and is_map:
        rate = config.muon_learning_rate * share
        mean = memory[name] = 0.95 * memory.get(name, 0) + 0.05 * gradient
        rows, columns = parameter.shape
        way = orthogonal(0.05 * gradient + 0.95 * mean) * math.sqrt(max(1, rows / columns))
    else:
        rate = config.learning_rate * share
        old, square = memory.get(name, (0, 0))
        old = config.beta1 * old + (1 - config.beta1) * gradient
        square = config.beta2 * square + (1 - config.beta2) * gradient**2
        memory[name] = old, square
        size = (square / (1 - config.beta2 ** (step + 1))).sqrt() + 1e-8
        way = old / (1 - config.beta1 ** (step + 1)) / size
    if parameter.dim() > 1 and "bias" not in name.rpartition(".")[2]:
        way = way + config.weight_decay * parameter
    parameter.sub_(rate * way)


def written_out(model, task, config):
    outer = ("generator.projection", "output")
    maps = {
        id(module.weight)
        for name, module in model.named_modules()
        if isinstance(module, nn.Linear) and not (name.endswith(outer[0]) or name == outer[1])
    }
    losses, memory = [], {}
    for step in range(config.steps):
        tokens, targets = batch_of(step, config, task)
        digest = blake2b(f"{config.seed} {step} 0".encode(), digest_size=8).digest()
        torch.manual_seed(int.from_bytes(digest, "little", signed=True))
        model.zero_grad()
        loss = model.loss(tokens, targets)
        loss.backward()
        losses.append(loss.item())
        with torch.no_grad():
            length = math.sqrt(sum(float(p.grad.square().sum()) for p in model.parameters()))
            for name, parameter in model.named_parameters():
                if config.clip_norm:
                    parameter.grad *= min(1.0, config.clip_norm / length)
                move(parameter, name, id(parameter) in maps, memory, step, config)
    return losses


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize(
    "changes",
    [
        {"optimizer": "muon", "weight_decay": 0.4, "seed": 9},
        {"initial_seq_len": 3, "grow_steps": 4, "clip_norm": 0.3, "beta2": 0.95},
    ],
    ids=["muon", "adamw"],
)
def test_the_trainer_does_what_the_loop_does(name, changes):
    """In 64 bits, with dropout, so that only a mistake could make a difference."""
    config = settings(steps=5, evaluate_every=0, sample_every=0, **changes)
    task = task_for(name, config)
    ours, theirs = (model_for(name, task).double() for _ in range(2))
    trainer = Trainer(ours, task, config)
    trainer.train()
    with torch.random.fork_rng():
        expected = written_out(theirs, task, config)
    assert [point[1] for point in trainer.history.train] == pytest.approx(expected, rel=1e-6)
    for one, other in zip(ours.parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-6)
