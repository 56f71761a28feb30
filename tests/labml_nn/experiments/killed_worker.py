"""A training that begins or goes on; `test_resume` kills it."""

import sys
from pathlib import Path

from small_runs import training

if __name__ == "__main__":
    folder = Path(sys.argv[2])
    changes = {"steps": 24, "save_every": 2, "evaluate_every": 5, "sample_every": 9}
    trainer = training(sys.argv[1], folder, **changes)
    if (folder / "checkpoint.pt").exists():
        trainer.resume()
    elif folder.exists():  # killed before the first checkpoint
        for file in folder.iterdir():
            file.unlink()
    trainer.train()
