"""A replay with tensors of every kind, and the page of multi-head attention that plays it."""

import ast
import json
import math
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from browser_tools import MHA
from torch import Tensor

from pylit.runs.shapes.recorder import pack

SOURCE = Path("labml_nn/transformers/mha.py").read_text("utf-8")
QUERIES = ["R", "O", " ", "\n", "!"]
KEYS = ["w", "h", "a", "t"]


@dataclass(frozen=True)
class Sample:
    """`tensors` are the values of the replay's tensors as torch has them, by their names."""

    page: str
    script: str
    steps: list[dict[str, Any]]
    tensors: dict[str, Tensor]


def packed(tensor: Tensor, axes: str) -> dict[str, Any]:
    """A tensor as a replay has it, one letter for each axis, `.` where none is known."""
    letters = ["" if letter == "." else letter for letter in axes]
    along = [letter if letter in ("T", "S") else "" for letter in letters]
    return {**(pack(tensor) or {}), "axes": letters, "along": along}


def line_of(code: str, until: str = "") -> dict[str, int]:
    """The lines of the statement that begins with `code`, after the docstring of the module."""
    start, lines = ast.parse(SOURCE).body[0].end_lineno or 0, SOURCE.splitlines()
    numbers = range(start + 1, len(lines) + 1)
    first = next(i for i in numbers if lines[i - 1].strip().startswith(code))
    if not until:
        return {"line": first}
    return {"line": first, "last": next(i for i in numbers if lines[i - 1].strip() == until)}


def make_sample(site: Path) -> Sample:
    """The page of the site with the button of a replay of our own."""
    generator = torch.Generator().manual_seed(7)
    query = torch.randn(5, 1, 3, 2, generator=generator)
    key = torch.randn(4, 1, 3, 2, generator=generator)
    mask = torch.ones(5, 4).tril().bool()[:, :, None, None]
    scores = torch.einsum("tbhd,sbhd->tsbh", query, key)
    scaled = scores / math.sqrt(2)
    masked = scaled.masked_fill(~mask, -math.inf)
    odd = torch.tensor([[0.5, math.inf, -1.5], [math.nan, -math.inf, 2.0]])
    tensors = {
        "query": (query, "TBHD"),
        "key": (key, "SBHD"),
        "mask": (mask, "TSBH"),
        "scores": (scores, "TSBH"),
        "scaled": (scaled, "TSBH"),
        "masked": (masked, "TSBH"),
        "attn": (masked.softmax(dim=1), "TSBH"),
        "odd": (odd, ".."),
        "scale": (torch.tensor(2.5), ""),
        "tiny": (torch.tensor(4.54e-5), ""),
        "tokens": (torch.tensor([17, -3, 0, 1024]), "S"),
        "cache": (torch.empty(0, 1, 3, 2), "SBHD"),
        "features": (torch.linspace(-1, 3, 3 * 160).reshape(3, 160), ".C"),
        "table": (torch.linspace(-2, 1, 30 * 160).reshape(30, 160), ".C"),
    }
    places = {name: place for place, name in enumerate(tensors)} | {"huge": -1, "phase": -2}
    steps: list[dict[str, Any]] = []

    def step(code: str, until: str = "", /, **values: str) -> dict[str, Any]:
        """A step of `attend` with values by their names; `was` is that of scores before it."""
        before = {"before": {"scores": places[values.pop("was")]}} if "was" in values else {}
        stack = ["MultiHeadAttention.forward", "MultiHeadAttention.attend"]
        found = [[name, places[value]] for name, value in values.items()]
        steps.append(line_of(code, until) | {"event": "line", "stack": stack, "loop": []})
        steps[-1] |= {"values": found, **before}
        return steps[-1]

    call = step(
        "def attend(", ') -> Float[Tensor, "T B H Dv"]:', query="query", key="key", mask="mask"
    )
    call["event"] = "call"
    step("scores = self.get_scores", scores="scores")
    step("scores = scores * self.scale", scores="scaled", was="scores")
    step("scores = scores.masked_fill", scores="masked", was="scaled")
    step("attn = self.softmax(scores)", attn="attn")
    step("attn = self.dropout(attn)")
    step('return torch.einsum("tsbh', returns="query")["event"] = "return"
    odd_ones = {name: name for name in ("odd", "scale", "tiny", "tokens", "cache", "huge", "phase")}
    inside = step("self.linear = nn.Linear", **odd_ones)
    inside["stack"] = ["PrepareForMultiHeadAttention.__init__"]
    inside["loop"] = [["t", 3, 8], ["layer", 2, 0]]
    step("self.heads, self.d_k", features="features", table="table")
    replay = {
        "title": "A model reads “RO”",
        "text": "<p>What it reads, in a sentence.</p>",
        "texts": {"T": QUERIES, "S": KEYS},
        "tensors": [packed(*one) for one in tensors.values()],
        "steps": steps,
        "stops": [
            {"step": 3, "name": "Mask", "note": "<p>The mask.</p>"},
            {"step": 4, "name": "Weights", "note": "<p>The weights.</p>"},
        ],
    }
    button = '<button type="button" class="js replay-start" data-replay="sample.js">Step</button>'
    text = (site / MHA).read_text("utf-8")
    page, replaced = re.subn(r'<button[^>]* class="js replay-start".*?</button>', button, text)
    assert replaced == 1
    script = f"pylitReplay({json.dumps(replay, ensure_ascii=False)});\n"
    return Sample(page, script, steps, {name: tensor for name, (tensor, _) in tensors.items()})
