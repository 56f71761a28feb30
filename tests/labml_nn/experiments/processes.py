"""Processes that train: forks of one that has imported PyTorch and done nothing with it.

A test says `processes.start("train_or_resume", name, folder)`, the name of a job below with its
arguments, and gets the process.
"""

import multiprocessing
import os
import shutil
import socket
import sys
from pathlib import Path
from unittest import mock

from small_runs import model_for, resumed, settings, task_for, training

ROOT = Path(__file__).parents[3]


# Jobs.
def train_or_resume(name, folder):
    """A training that begins or goes on, and may be killed."""
    folder = Path(folder)
    changes = {"steps": 24, "save_every": 2, "evaluate_every": 5, "sample_every": 9}
    if not (folder / "checkpoint.pt").exists():  # it may have been killed before
        shutil.rmtree(folder, ignore_errors=True)
        training(name, folder, **changes).train()
    else:
        resumed(name, folder, **changes).train()


def command_line(*words):
    from labml_nn.experiments.command_line import main

    return main(words)


def train_together(path, *names):
    """Models in one of several processes; what it saw is written to the path with its rank."""
    import torch

    from labml_nn.experiments.distributed import World

    torch.set_num_threads(1)
    world = World.join(torch.device("cpu"), patience=60.0)
    assert World.join(torch.device("cpu")) == world
    # With micro-batches, where one process has none.
    seen = {name: train(world, name, f"{path}-{name}", accumulate=3) for name in names}
    assert (world.size, world.main) == (2, world.rank == 0)
    assert world.sum(1.0 + world.rank, 10.0) == (3.0, 20.0)
    world.barrier()
    torch.save(seen, f"{path}{world.rank}")
    world.leave()


SHORT = {"batch_size": 6, "seq_len": 5, "steps": 4, "precision": "float32", "sample_tokens": 3}
SHORT |= {"evaluate_every": 2, "sample_every": 2, "save_every": 2}


def new_task(name):
    return task_for(name, settings(**SHORT))


def new_model(name, seed=0):
    more = {"positions": "learned"} if name == "autoregressive" else {}
    return model_for(name, new_task(name), seed, dropout_prob=0.0, **more).double()


def train(world, name, folder, **changes):
    """Both curves, all parameters and how it ended; the first process decides how all begin."""
    model = new_model(name, world.rank)
    trainer = training(name, Path(folder), model=model, world=world, **SHORT | changes)
    result = trainer.train()
    kept = [parameter.detach().clone() for parameter in model.parameters()]
    return trainer.history.train, trainer.history.validation, kept, result.stopped


# The process whose forks do them.
def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def environment(rank, size, port):
    """What torchrun would set."""
    numbers = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": size, "MASTER_PORT": port}
    return {"MASTER_ADDR": "127.0.0.1", **{name: str(n) for name, n in numbers.items()}}


PATHS = {"PYTHONPATH": os.pathsep.join([str(ROOT), *map(str, Path(__file__).parents[:2])])}
FORKS = multiprocessing.get_context("forkserver")
FORKS.set_forkserver_preload(["processes", "torch._dynamo", "pytest"])


def start(job, *words, said=os.devnull, **variables):
    """A new process, whose output goes to the file `said`."""
    child = FORKS.Process(target=do, args=(job, words, said, variables))
    with mock.patch.dict(os.environ, PATHS):
        child.start()
    return child


def start_two(job, *words, said):
    """Two that train together; their output goes to files that end with their ranks."""
    port = free_port()
    return [
        start(job, *words, said=f"{said}{rank}", **environment(rank, 2, port)) for rank in range(2)
    ]


def codes(*children):
    for child in children:
        child.join()
    return [child.exitcode for child in children]


def do(job, words, said, variables):
    with Path(said).open("w") as file:
        for stream in (sys.stdout, sys.stderr):
            os.dup2(file.fileno(), stream.fileno())
    os.environ.update(variables)
    sys.exit(globals()[job](*words))
