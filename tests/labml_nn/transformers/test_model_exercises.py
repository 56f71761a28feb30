"""The code in the exercises of the models' pages runs, and prints what the pages say."""

import importlib
import re
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from labml_nn.transformers.feed_forward import FeedForward
from labml_nn.transformers.mha import MultiHeadAttention
from labml_nn.transformers.utils import subsequent_mask

FOLDER = Path(__file__).parents[3] / "labml_nn" / "transformers"


def run(module: str, *blocks: int, **names: Any) -> dict[str, Any]:
    """Run the numbered blocks of Python in a page's notes, as a reader of that page would."""
    page = (FOLDER / f"{module}.py").read_text(encoding="utf-8")
    found = re.findall(r"^# ```python\n(.*?)^# ```$", page, re.M | re.S)
    library = vars(importlib.import_module(f"labml_nn.transformers.{module}"))
    scope = {**library, "torch": torch, **names}
    for block in blocks:
        exec(re.sub(r"^# ?", "", found[block], flags=re.M), scope)
    return scope


def test_positions_that_look_alike(capsys):
    run("positional_encoding", 0)
    assert re.fullmatch(r"tensor\(6\.0\d+e-05, dtype=torch\.float64\)\n", capsys.readouterr().out)


def test_smaller_embeddings(capsys):
    torch.manual_seed(0)
    run("embeddings", 0)
    assert re.match(r"tensor\((0\.99|1\.00)", capsys.readouterr().out)


def test_the_same_gradient_from_pytorch():
    torch.manual_seed(0)
    assert run("label_smoothing_loss", 0)["a"].any()


def test_layer_that_thinks_first():
    scope = run("layer", 0)
    layer = scope["ThinkFirst"](
        d_model=12,
        self_attn=MultiHeadAttention(3, 12),
        feed_forward=FeedForward(12, 28),
        dropout_prob=0.0,
    ).eval()
    x = torch.randn(5, 2, 12)
    assert not torch.equal(
        layer(x=x, mask=None), scope["TransformerLayer"].forward(layer, x=x, mask=None)
    )


def test_parameters_of_the_base_model(capsys):
    # On the meta device tensors have shapes and no numbers: 100 million parameters for nothing.
    with torch.device("meta"):
        model = run("models", 0, MultiHeadAttention=MultiHeadAttention, FeedForward=FeedForward)
        assert sum(p.numel() for p in model["model"].parameters()) == 101_009_544
        run("models", 1, model=model["model"])
    assert capsys.readouterr().out == "63121544\n"


@pytest.fixture
def model() -> nn.Module:
    """The page's layers, at a size that runs."""
    names = {"MultiHeadAttention": MultiHeadAttention, "FeedForward": FeedForward}
    with torch.device("meta"):
        scope = run("models", 0, **names)
    made = scope["EncoderDecoder"](
        scope["Encoder"](scope["layer"](), 1),
        scope["Decoder"](scope["layer"](scope["attention"]()), 1),
        scope["EmbeddingsWithPositionalEncoding"](512, 17),
        scope["EmbeddingsWithPositionalEncoding"](512, 19),
        scope["Generator"](19, 512),
    )
    return made.eval()


def test_greedy_writing(model):
    write = run("models", 2, subsequent_mask=subsequent_mask)["write"]
    src = torch.randint(17, (7, 2))
    text = write(model, src, 4)
    assert text.shape == (5, 2)
    assert torch.equal(text[0], torch.ones(2, dtype=torch.long))
    # Written token by token, and the best each time when all are read at once.
    logits = model.logits(src, text[:-1], None, subsequent_mask(4))
    assert torch.equal(logits.argmax(-1), text[1:])


def test_language_model_of_an_encoder(model):
    scope = run(
        "models",
        3,
        subsequent_mask=subsequent_mask,
        encoder=model.encoder,
        embed=model.src_embed,
        generator=model.generator,
        tokens=torch.randint(17, (5, 2)),
    )
    assert scope["logits"].shape == (5, 2, 19)
