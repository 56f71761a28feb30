"""One of several processes that train together; started by `test_distributed`.

Writes what it saw to the file that is its argument, followed by its rank.
"""

import sys
from pathlib import Path

import torch

import labml_nn
from labml_nn.experiments.config import TrainingConfig
from labml_nn.experiments.data import Corpus
from labml_nn.experiments.distributed import World
from labml_nn.experiments.tasks import TASKS
from labml_nn.experiments.trainer import Trainer

V, B, T, S, STEPS = 7, 6, 5, 4, 3
SIZES = {"d_model": 12, "n_layers": 2, "dropout_prob": 0.0}
MODELS = {
    "autoregressive": {"n_vocab": V, "heads": 3, "positions": "learned", "max_len": T, **SIZES},
    "elman": {"n_vocab": V, "d_model": 12, "d_hidden": 10, "n_layers": 2, "dropout_prob": 0.0},
    "feedback": {"n_vocab": V, "heads": 3, "max_len": T, **SIZES},
    "encoder_decoder": {
        "n_vocab": V + 3,
        "padding_token": V,
        "start_token": V + 1,
        "end_token": V + 2,
        "heads": 3,
        **SIZES,
    },
}


def new_model(name, seed):
    torch.manual_seed(seed)
    return labml_nn.create(name, **MODELS[name]).double()


def batch_of(name, step):
    """Tokens, targets and how many targets count in each column; replies have many lengths."""
    generator = torch.Generator().manual_seed(100 + step)
    tokens = torch.randint(V, (S if name == "encoder_decoder" else T, B), generator=generator)
    targets = torch.randint(V, (T, B), generator=generator)
    if name != "encoder_decoder":
        return tokens, targets, torch.full((B,), T)
    lengths = torch.tensor([5, 3, 4, 1, 1, 2]).roll(step)
    targets[torch.arange(T)[:, None] >= lengths] = V
    return tokens, targets, lengths + 1


def train(world, name, accumulate=1):
    """A few steps of plain gradient descent, written as a trainer would."""
    model = new_model(name, seed=world.rank)
    wrapped = world.wrap(model)
    start, stop = world.share(B, accumulate)
    losses = []
    for step in range(STEPS):
        tokens, targets, counts = batch_of(name, step)
        pieces = torch.arange(start, stop).chunk(accumulate)
        mine = 0.0
        for i, columns in enumerate(pieces):
            weight = int(counts[columns].sum()) / int(counts.sum())
            with world.no_sync(wrapped) if i + 1 < accumulate else world.together():
                loss = wrapped(tokens[:, columns], targets[:, columns])
                (loss * weight * world.size).backward()
            mine += loss.item() * weight
        (total,) = world.sum(mine)
        losses.append(total)
        with torch.no_grad():
            for parameter in model.parameters():
                parameter -= 0.3 * parameter.grad
                parameter.grad = None
    return losses, [parameter.detach().clone() for parameter in model.parameters()]


TEXT = "".join(f"Speaker {'ab'[i % 2]}:\n{'so be it, ' * (i % 5 + 1)}\n\n" for i in range(40))
TRAINING = {
    "steps": 4,
    "batch_size": B,
    "seq_len": T,
    "learning_rate": 0.01,
    "warmup_steps": 2,
    "evaluate_every": 2,
    "sample_every": 2,
    "save_every": 2,
    "sample_tokens": 3,
    "device": "cpu",
    "precision": "float32",
}
TRAINED = {"autoregressive": "text", "encoder_decoder": "replies"}


def train_with_trainer(world, name, folder, **changes):
    """The real trainer, with all that it does beside updates; in double precision."""
    config = TrainingConfig(**{**TRAINING, **changes})
    corpus = Corpus.of("so be it", TEXT)
    task = TASKS[TRAINED[name]](corpus, batch_size=B, seq_len=T, seed=1)
    torch.manual_seed(world.rank)  # the first process decides how all begin
    fields = {**MODELS[name], **task.model_fields, "max_len": T + 1}
    model = labml_nn.create(name, **fields).double()
    trainer = Trainer(model, task, config, folder, world=world)
    result = trainer.train()
    kept = [parameter.detach().clone() for parameter in model.parameters()]
    return trainer.history.train, trainer.history.validation, kept, result.stopped


def main(path):
    torch.set_num_threads(1)
    world = World.join(torch.device("cpu"), patience=60.0)
    assert World.join(torch.device("cpu")) == world
    seen = {name: train(world, name) for name in MODELS}
    seen["accumulate"] = train(world, "encoder_decoder", accumulate=3)
    for name in TRAINED:
        folder = Path(f"{path}-{name}")
        seen[f"trainer {name}"] = train_with_trainer(world, name, folder, accumulate=3)
    seen["world"] = (world.rank, world.size, world.main)
    seen["sum"] = world.sum(1.0 + world.rank, 10.0)
    world.barrier()
    torch.save(seen, f"{path}{world.rank}")
    world.leave()


if __name__ == "__main__":
    main(sys.argv[1])
