"""Weights of the trained models as scripts that a page can load: `make live`.

A matrix is rounded to int8 with a scale for each of its rows, a vector stays in float32. The models
are those of `docs_src/results`; how each was trained stands in its `run.json` and `result.json`.

A run of another text is exported by its folder, ``python -m docs_src.live.export FOLDER NAME``. Its
matrices are rounded to six bits, a character for each number, because the embeddings of thousands
of characters are most of such a model. `poems` says how those that ship were trained.
"""

import base64
import json
import sys
from functools import cache
from pathlib import Path
from typing import Any

import numpy
import torch
from torch import Tensor

from labml_nn.experiments.checkpoint import Run, load_run
from labml_nn.experiments.data import Vocabulary
from labml_nn.experiments.trainer import validation_loss
from labml_nn.language_model import LanguageModel
from labml_nn.registry import create

HERE = Path(__file__).parent
RESULTS = HERE.parent / "results"
#: The trained models that ship.
NAMES = sorted(file.parent.name for file in RESULTS.glob("*/run.json"))


def rounded(tensor: Tensor, bits: int = 8) -> tuple[Tensor, Tensor]:
    """The rows of a matrix as integers, `[N, M]`, and the scale of each row, `[N]`."""
    rows, most = tensor.reshape(len(tensor), -1), 2 ** (bits - 1) - 1
    scales = (rows.abs().amax(1) / most).clamp(min=1e-12)
    return (rows / scales[:, None]).round().to(torch.int8), scales


@torch.no_grad()
def round_model(model: torch.nn.Module, bits: int = 8) -> dict[str, dict[str, Any]]:
    """Rounds the parameters of `model` in place, and returns them as they are delivered."""
    tensors: dict[str, dict[str, Any]] = {}
    for name, parameter in model.named_parameters():
        value = parameter.detach()
        entry: dict[str, Any] = {"shape": list(value.shape)}
        if value.dim() > 1:
            integers, scales = rounded(value, bits)
            packed = _letters(integers) if bits == 6 else _packed(integers)
            entry |= {f"int{bits}": packed, "scale": _packed(scales)}
            value.copy_((integers * scales[:, None]).view_as(value))
        else:
            entry["float32"] = _packed(value)
        tensors[name] = entry
    return tensors


def _packed(tensor: Tensor) -> str:
    return base64.b64encode(tensor.contiguous().numpy().tobytes()).decode()


def _letters(integers: Tensor) -> str:
    """A character for each number from -31 to 31; none of them is escaped in a script."""
    return "".join(chr(n + 79 + (n > 12)) for n in integers.flatten().tolist())


def _numbers(entry: dict[str, Any]) -> Tensor:
    """A tensor as a page computes with it."""

    def read(text: str, kind: str) -> Tensor:
        return torch.from_numpy(numpy.frombuffer(base64.b64decode(text), kind).astype("float32"))

    if "float32" in entry:
        return read(entry["float32"], "<f4").view(entry["shape"])
    if "int6" in entry:
        codes = numpy.frombuffer(entry["int6"].encode(), "int8").astype("float32")
        integers = torch.from_numpy(codes - 79 - (codes > 92))
    else:
        integers = read(entry["int8"], "int8")
    rows = integers.view(entry["shape"][0], -1)
    return (rows * read(entry["scale"], "<f4")[:, None]).view(entry["shape"])


def delivered(name: str) -> dict[str, Any]:
    """What is delivered for a model."""
    script = (HERE / "weights" / f"{name}.js").read_text(encoding="utf-8")
    data: dict[str, Any] = json.loads(script[script.index("{") : script.rindex("}") + 1])
    return data


@cache
def model_as_delivered(name: str, kind: str) -> tuple[LanguageModel[Any], Vocabulary]:
    """A model of a kind as its page runs it, and its characters."""
    data = delivered(name)
    weights = {key: _numbers(entry) for key, entry in data["tensors"].items()}
    model = create(kind, **data["config"])
    # Buffers, such as the initial state of the Elman network, are not delivered.
    model.load_state_dict({**model.state_dict(), **weights})
    return model.eval(), Vocabulary(data["characters"])


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


def export(name: str, run: Run, bits: int = 8) -> None:
    """Writes the weights of a model, and prints its loss before and after rounding."""
    model, task = run.model().eval(), run.task()
    before = validation_loss(model, task, "cpu")
    tensors = round_model(model, bits)
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
    if sys.argv[1:]:
        export(sys.argv[2], load_run(sys.argv[1]), bits=6)
    else:
        for name in NAMES:
            export(name, read_run(name))
