"""A replay with tensors of every kind, and the page of multi-head attention that plays it."""

import ast
import base64
import json
import math
import re
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from browser_tools import MHA
from torch import Tensor

SOURCE = "labml_nn/transformers/mha.py"
QUERIES = ["R", "O", " ", "\n", "!"]
KEYS = ["w", "h", "a", "t"]
#: Levels of what is not finite.
INFINITE = {-math.inf: 253, math.inf: 254}


@dataclass(frozen=True)
class Sample:
    """`tensors` are the values of the replay's tensors as torch has them."""

    page: Path
    steps: list[dict[str, Any]]
    tensors: list[Tensor]


def packed(tensor: Tensor, axes: str, weights: bool = False) -> dict[str, Any]:
    """A tensor as a replay has it, one letter for each axis, `.` where none is known."""
    letters = ["" if letter == "." else letter for letter in axes]
    along = [letter if letter in ("T", "S") else "" for letter in letters]
    found: dict[str, Any] = {"shape": list(tensor.shape), "axes": letters, "along": along}
    if tensor.dtype == torch.int64:
        return found | {"kind": "int", "data": tensor.flatten().tolist()}
    if tensor.dtype == torch.bool:
        levels = tensor.flatten().int().tolist()
        return found | {"kind": "bool", "data": base64.b64encode(bytes(levels)).decode()}
    values = tensor.flatten().tolist()
    finite = [value for value in values if math.isfinite(value)]
    low, high = min(finite), max(finite)
    step = (high - low) / 252 or 1.0
    levels = [
        round((value - low) / step) if math.isfinite(value) else INFINITE.get(value, 255)
        for value in values
    ]
    data = base64.b64encode(bytes(levels)).decode()
    kind = {"kind": "weights", "one": 1} if weights else {"kind": "real"}
    return found | kind | {"low": low, "high": high, "data": data}


def line_of(code: str, until: str = "") -> dict[str, int]:
    """The lines of the statement that begins with `code`, after the docstring of the module."""
    text = Path(SOURCE).read_text("utf-8")
    start, lines = ast.parse(text).body[0].end_lineno or 0, text.splitlines()
    first = next(
        i for i, line in enumerate(lines, 1) if i > start and line.strip().startswith(code)
    )
    if not until:
        return {"line": first}
    last = next(i for i, line in enumerate(lines, 1) if i > first and line.strip() == until)
    return {"line": first, "last": last}


def write_sample(site: Path, folder: Path) -> Sample:
    """Copy the page into `folder`, with the scripts of `site` and a replay of our own."""
    generator = torch.Generator().manual_seed(7)
    query = torch.randn(5, 1, 3, 2, generator=generator)
    key = torch.randn(4, 1, 3, 2, generator=generator)
    mask = torch.ones(5, 4).tril().bool()[:, :, None, None]
    scores = torch.einsum("tbhd,sbhd->tsbh", query, key)
    scaled = scores / math.sqrt(2)
    masked = scaled.masked_fill(~mask, -math.inf)
    odd = torch.tensor([[0.5, math.inf, -1.5], [math.nan, -math.inf, 2.0]])
    tensors = [
        (query, "TBHD"), (key, "SBHD"), (mask, "TSBH"), (scores, "TSBH"), (scaled, "TSBH"),
        (masked, "TSBH"), (masked.softmax(dim=1), "TSBH"), (odd, ".."), (torch.tensor(2.5), ""),
        (torch.tensor([17, -3, 0, 1024]), "S"), (torch.empty(0, 1, 3, 2), "SBHD"),
        (torch.linspace(-1, 3, 3 * 160).reshape(3, 160), ".C"),
        (torch.linspace(-2, 1, 30 * 160).reshape(30, 160), ".C"), (torch.tensor(4.54e-5), ""),
    ]  # fmt: skip
    recorded = [
        packed(tensor, axes, weights=i == 6) if tensor.numel() else packed_empty(tensor, axes)
        for i, (tensor, axes) in enumerate(tensors)
    ]
    forward, attend = "MultiHeadAttention.forward", "MultiHeadAttention.attend"
    inner: dict[str, Any] = {"event": "line", "stack": [forward, attend], "loop": []}
    steps = [
        line_of("def attend(", until=') -> Float[Tensor, "T B H Dv"]:')
        | {**inner, "event": "call", "values": [["query", 0], ["key", 1], ["mask", 2]]},
        line_of("scores = self.get_scores") | {**inner, "values": [["scores", 3]]},
        line_of("scores = scores * self.scale")
        | {**inner, "values": [["scores", 4]], "before": {"scores": 3}},
        line_of("scores = scores.masked_fill")
        | {**inner, "values": [["scores", 5]], "before": {"scores": 4}},
        line_of("attn = self.softmax(scores)") | {**inner, "values": [["attn", 6]]},
        line_of("attn = self.dropout(attn)") | {**inner, "values": []},
        line_of('return torch.einsum("tsbh')
        | {**inner, "event": "return", "values": [["returns", 0]]},
        line_of("self.linear = nn.Linear")
        | {
            "event": "line",
            "stack": ["PrepareForMultiHeadAttention.__init__"],
            "loop": [["t", 3, 8], ["layer", 2, 0]],
            "values": [
                ["odd", 7],
                ["scale", 8],
                ["tiny", 13],
                ["tokens", 9],
                ["cache", 10],
                ["huge", -1],
                ["phase", -2],
            ],
        },
        line_of("self.heads, self.d_k") | {**inner, "values": [["features", 11], ["table", 12]]},
    ]
    replay = {
        "title": "A model reads “RO”",
        "text": "<p>What it reads, in a sentence.</p>",
        "texts": {"T": QUERIES, "S": KEYS},
        "tensors": recorded,
        "steps": steps,
        "stops": [
            {"step": 3, "name": "Mask", "note": "<p>The mask.</p>"},
            {"step": 4, "name": "Weights", "note": "<p>The weights.</p>"},
        ],
    }
    shutil.copytree(site / "assets", folder / "assets")
    page = folder / MHA
    page.parent.mkdir(parents=True)
    button = '<button type="button" class="js replay-start" data-replay="sample.js">Step</button>'
    html, replaced = re.subn(
        r'<button[^>]* class="js replay-start".*?</button>', button, (site / MHA).read_text("utf-8")
    )
    assert replaced == 1
    page.write_text(html, "utf-8")
    script = f"pylitReplay({json.dumps(replay, ensure_ascii=False)});\n"
    page.with_name("sample.js").write_text(script, encoding="utf-8")
    return Sample(page, steps, [tensor for tensor, _ in tensors])


def packed_empty(tensor: Tensor, axes: str) -> dict[str, Any]:
    """A tensor without elements has no lowest and no highest value."""
    return {
        "shape": list(tensor.shape),
        "axes": list(axes),
        "along": [""] * tensor.dim(),
        "kind": "real",
        "data": "",
    }
