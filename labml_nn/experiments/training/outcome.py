r"""
---
title: What is kept of the numbers
summary: A file with everything that a comparison needs, and a picture of the losses.
---

Results are compared long after the runs are over, by programs that know nothing of
training. So all that they need is in one file: what the run was, what came out, both
curves and the texts. Nothing in it was measured on the way and forgotten.
"""

import math
from typing import Any

from labml_nn.experiments.training.curve import curve_svg, lines_of
from labml_nn.experiments.training.folder import RunFolder, write_json
from labml_nn.experiments.training.record import now
from labml_nn.experiments.training.reporters import Reporter
from labml_nn.experiments.training.result import Result

__all__ = ["Outcome"]


class Outcome(Reporter):
    """
    ## `result.json` and `curve.svg`

    Written when the training is over, in whatever way.
    """

    def __init__(self, folder: RunFolder) -> None:
        """`folder` is that of the run."""
        self.folder = folder
        self.trainer: Any = None

    def begin(self, trainer: Any) -> None:
        """Whose numbers they are."""
        self.trainer = trainer

    def end(self, result: Result) -> None:
        """Raises `OSError` if the disk refuses."""
        trainer = self.trainer
        history = trainer.history
        outcome = {
            "run": trainer.about,
            "parameters": sum(p.numel() for p in trainer.model.parameters()),
            "result": _rounded(result._asdict()),
            "curve": _rounded(
                {"train": history.train, "validation": history.validation}
            ),
            "samples": history.samples,
            "finished": now(),
        }
        write_json(self.folder.result, outcome)
        lines = lines_of(outcome)
        if any(line.points for line in lines):
            title = trainer.about["experiment"] or trainer.model.name
            drawn = curve_svg(lines, title=f"{title} learns {trainer.task.corpus.name}")
            self.folder.curve.write_text(drawn + "\n", encoding="utf-8", newline="\n")


def _rounded(value: Any) -> Any:
    # A loss has no more than seven digits that mean something. JSON has no infinity.
    if isinstance(value, float):
        return float(f"{value:.7g}") if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: _rounded(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_rounded(each) for each in value]
    return value
