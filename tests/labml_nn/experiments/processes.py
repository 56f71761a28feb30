"""Processes that train: forks of one that has imported PyTorch and done nothing with it.

A test says `forks.start("train_or_resume", name, folder)`, the name of a job below with its
arguments, and gets the number of the process.
"""

import json
import os
import socket
import subprocess
import sys
import time
import traceback
from pathlib import Path

from small_runs import model_for, settings, task_for, training

ROOT = Path(__file__).parents[3]


# Jobs.
def train_or_resume(name, folder):
    """A training that begins or goes on, and may be killed."""
    folder = Path(folder)
    trainer = training(name, folder, steps=24, save_every=2, evaluate_every=5, sample_every=9)
    if (folder / "checkpoint.pt").exists():
        trainer.resume()
    elif folder.exists():  # killed before the first checkpoint
        for file in folder.iterdir():
            file.unlink()
    trainer.train()


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
    return {
        "RANK": str(rank),
        "LOCAL_RANK": str(rank),
        "WORLD_SIZE": str(size),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
    }


class Forks:
    """Starts the jobs, and waits for them."""

    def __enter__(self):
        self.codes: dict[int, int | None] = {}
        paths = os.pathsep.join([str(ROOT), str(ROOT / "tests/labml_nn")])
        self.process = subprocess.Popen(
            [sys.executable, "-W", "error", __file__],
            env=os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": paths},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            bufsize=1,
        )
        return self

    def __exit__(self, *_):
        self.process.communicate()

    def ask(self, **order):
        self.process.stdin.write(f"{json.dumps(order, default=str)}\n")
        return json.loads(self.process.stdout.readline())

    def start(self, job, *words, said=os.devnull, **variables):
        """The number of a new process, whose output goes to the file `said`."""
        return self.ask(job=job, words=list(words), said=said, variables=variables)

    def start_two(self, job, *words, said):
        """Two that train together; their output goes to files that end with their ranks."""
        port = free_port()
        return [
            self.start(job, *words, said=f"{said}{rank}", **environment(rank, 2, port))
            for rank in range(2)
        ]

    def poll(self, child):
        """The exit code of a process that was started, or none while it runs."""
        if self.codes.get(child) is None:
            self.codes[child] = self.ask(child=child)
        return self.codes[child]

    def wait(self, child):
        while (code := self.poll(child)) is None:
            time.sleep(0.01)
        return code


def fork(job, words, said, variables):
    if child := os.fork():
        return child
    status = 1
    with Path(said).open("w") as file:
        for stream in (sys.stdout, sys.stderr):
            os.dup2(file.fileno(), stream.fileno())
    try:
        os.environ.update(variables)
        status = globals()[job](*words) or 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        os._exit(status)


def main():
    import torch._dynamo  # which training in several processes needs

    torch.set_num_threads(1)
    for line in sys.stdin:
        order = json.loads(line)
        if child := order.get("child"):
            ended, status = os.waitpid(child, os.WNOHANG)
            answer = os.waitstatus_to_exitcode(status) if ended else None
        else:
            answer = fork(**order)
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
