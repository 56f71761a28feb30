"""Trainings that begin or go on, each in a process that `test_resume` kills.

The processes are forks of this one, which has imported PyTorch and done nothing with it.
"""

import os
import sys
import traceback
from pathlib import Path

from small_runs import training


def train(name: str, folder: Path) -> None:
    changes = {"steps": 24, "save_every": 2, "evaluate_every": 5, "sample_every": 9}
    trainer = training(name, folder, **changes)
    if (folder / "checkpoint.pt").exists():
        trainer.resume()
    elif folder.exists():  # killed before the first checkpoint
        for file in folder.iterdir():
            file.unlink()
    trainer.train()


def fork(name: str, folder: Path) -> int:
    """The identifier of a new process that trains, and then ends."""
    if (child := os.fork()) == 0:
        status = 1
        try:
            train(name, folder)
            status = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(status)
    return child


if __name__ == "__main__":
    for line in sys.stdin:
        given = line.rstrip("\n").split("\t")
        child = fork(given[0], Path(given[1]))
        print(child, flush=True)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
