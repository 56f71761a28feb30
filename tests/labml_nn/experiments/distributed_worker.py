"""One of several processes that train together; started by `test_distributed`.

Writes what it saw to the file that is its argument, followed by its rank.
"""

import sys
from pathlib import Path

import torch
from small_models import small

import labml_nn
from labml_nn.experiments.data import Corpus
from labml_nn.experiments.distributed import World
from labml_nn.experiments.presets import TASKS, TrainingConfig
from labml_nn.experiments.trainer import Trainer

B, T = 6, 5
MODELS = {
    # The sequences of an encoder–decoder begin with a token of their own.
    name: small(name, max_len=T + (name == "encoder_decoder"), dropout_prob=0.0)
    for name in labml_nn.models()
}
MODELS["autoregressive"]["positions"] = "learned"
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


def new_task(name):
    kind = "replies" if name == "encoder_decoder" else "text"
    return TASKS[kind](Corpus.of("so be it", TEXT), batch_size=B, seq_len=T, seed=1)


def new_model(name, seed=0):
    torch.manual_seed(seed)
    return labml_nn.create(name, **MODELS[name], **new_task(name).model_fields).double()


def train(world, name, folder, **changes):
    """The trainer, with all that it does beside updates; in double precision."""
    config = TrainingConfig(**{**TRAINING, **changes})
    model = new_model(name, world.rank)  # the first process decides how all begin
    trainer = Trainer(model, new_task(name), config, folder, world=world)
    result = trainer.train()
    kept = [parameter.detach().clone() for parameter in model.parameters()]
    return trainer.history.train, trainer.history.validation, kept, result.stopped


def main(path):
    torch.set_num_threads(1)
    world = World.join(torch.device("cpu"), patience=60.0)
    assert World.join(torch.device("cpu")) == world
    seen = {}
    for name in MODELS:  # with micro-batches, where one process has none
        seen[name] = train(world, name, Path(f"{path}-{name}"), accumulate=3)
    seen["world"] = (world.rank, world.size, world.main)
    seen["sum"] = world.sum(1.0 + world.rank, 10.0)
    world.barrier()
    torch.save(seen, f"{path}{world.rank}")
    world.leave()


if __name__ == "__main__":
    main(sys.argv[1])
