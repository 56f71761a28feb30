"""What the pages claim: their exercises run and print what they say, their numbers are right."""

import importlib
import re
from pathlib import Path

import torch

from labml_nn.transformers.feedback import (
    FeedbackAttention,
    FeedbackTransformerKV,
    FeedbackTransformerLayer,
    FeedForward,
)

FOLDER = Path(__file__).parents[4] / "labml_nn" / "transformers" / "feedback"


def run_exercise(file):
    """Run the one block of Python among a page's closing notes, with the page's own names."""
    page = (FOLDER / file).read_text(encoding="utf-8")
    (block,) = re.findall(r"^# ```python\n(.*?)^# ```$", page, re.MULTILINE | re.DOTALL)
    name = "labml_nn.transformers.feedback"
    if file != "__init__.py":
        name += "." + file.removesuffix(".py")
    torch.manual_seed(0)
    exec(re.sub(r"^# ?", "", block, flags=re.MULTILINE), dict(vars(importlib.import_module(name))))


def test_training_piece_by_piece(capsys):
    run_exercise("__init__.py")
    assert capsys.readouterr().out == "20\n"


def test_brackets(capsys):
    run_exercise("attention.py")
    difference = re.match(r"tensor\((.*), grad_fn", capsys.readouterr().out)
    assert float(difference[1]) < 1e-6


def test_gradients_of_a_stack(capsys):
    run_exercise("stack.py")
    assert capsys.readouterr().out == "tensor([2., 2., 2.]) tensor([1., 1., 1.])\n"


def millions(**options):
    """Parameters of the model that the page speaks of, and those of its tables of distances."""
    with torch.device("meta"):
        layer = FeedbackTransformerLayer(
            d_model=512,
            attn=FeedbackAttention(8, 512, is_kv_precomputed=True, **options),
            feed_forward=FeedForward(512, 2048),
            dropout_prob=0.1,
        )
        model = FeedbackTransformerKV(layer, 6, 512, 8)
    named = dict(model.named_parameters())
    tables = sum(p.numel() for name, p in named.items() if "key_pos" in name)
    return sum(p.numel() for p in named.values()) / 1e6, tables / 1e6


def test_size_of_the_tables_of_distances():
    total, tables = millions()
    assert (round(total, 1), round(tables, 1), round(tables / total, 2)) == (29.1, 12.8, 0.44)
    assert round(millions(max_distance=127)[0], 1) == 16.7


def test_multiplications_of_the_two_forms():
    rows, width, heads = 128, 256, 8
    readable = 2 * rows * width**2 + 2 * rows * width
    fast = 2 * width**2 + 2 * rows * heads * width
    assert (round(readable / 1e6, 1), round(fast / 1e6, 2)) == (16.8, 0.66)
