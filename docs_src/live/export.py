"""Weights of the trained models as scripts that a page can load: `make live`.

A matrix is rounded to int8 with a scale for each of its rows, a vector stays in float32. The models
are those of `docs_src/results`; how each was trained stands in its `run.json` and `result.json`.
"""

import base64
import json
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from labml_nn.experiments.checkpoint import Run, load_run
from labml_nn.experiments.data import Vocabulary
from labml_nn.experiments.trainer import validation_loss
from labml_nn.language_model import LanguageModel

HERE = Path(__file__).parent
RESULTS = HERE.parent / "results"
#: The trained models that ship.
NAMES = sorted(file.parent.name for file in RESULTS.glob("*/run.json"))


def rounded(tensor: Tensor) -> tuple[Tensor, Tensor]:
    """The rows of a matrix as int8, `[N, M]`, and the scale of each row, `[N]`."""
    rows = tensor.reshape(len(tensor), -1)
    scales = (rows.abs().amax(1) / 127).clamp(min=1e-12)
    return (rows / scales[:, None]).round().to(torch.int8), scales


@torch.no_grad()
def round_model(model: torch.nn.Module) -> dict[str, dict[str, Any]]:
    """Rounds the parameters of `model` in place, and returns them as they are delivered."""
    tensors: dict[str, dict[str, Any]] = {}
    for name, parameter in model.named_parameters():
        value = parameter.detach()
        entry: dict[str, Any] = {"shape": list(value.shape)}
        if value.dim() > 1:
            integers, scales = rounded(value)
            entry |= {"int8": _packed(integers), "scale": _packed(scales)}
            value.copy_((integers * scales[:, None]).view_as(value))
        else:
            entry["float32"] = _packed(value)
        tensors[name] = entry
    return tensors


def _packed(tensor: Tensor) -> str:
    return base64.b64encode(tensor.contiguous().numpy().tobytes()).decode()


def read_run(name: str) -> Run:
    """The run that trained the model of a panel."""
    return load_run(RESULTS / name)


@cache
def rounded_model(name: str) -> tuple[LanguageModel[Any], Vocabulary]:
    """The model as its page runs it, and its characters."""
    run = read_run(name)
    model = run.model().eval()
    round_model(model)
    return model, run.vocabulary


def export(name: str) -> None:
    """Writes the weights of a model, and prints its loss before and after rounding."""
    run = read_run(name)
    model, task = run.model().eval(), run.task()
    before = validation_loss(model, task, "cpu")
    tensors = round_model(model)
    after = validation_loss(model, task, "cpu")
    data = {
        "config": run.about["model"]["config"],
        "characters": run.vocabulary.texts,
        "parameters": sum(p.numel() for p in model.parameters()),
        "loss": {"before": round(before, 4), "after": round(after, 4)},
        "tensors": tensors,
    }
    text = f'pylit.live.weights("{name}", {json.dumps(data, ensure_ascii=False)});\n'
    path = HERE / "weights" / f"{name}.js"
    path.parent.mkdir(exist_ok=True)
    path.write_text(text, encoding="utf-8")
    print(f"{name}: {data['parameters']:,} parameters, {path.stat().st_size:,} bytes,", end=" ")
    print(f"loss {before:.4f} nats, rounded {after:.4f}")


if __name__ == "__main__":
    for name in NAMES:
        export(name)
