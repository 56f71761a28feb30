"""Every language model predicts evenly at first, and refuses wrong tokens in a plain call."""

import math

import pytest
import torch
from small_models import small

import labml_nn

V, B = 13, 3
SMALL = {name: small(name) for name in labml_nn.models()}


@pytest.mark.parametrize(
    ("name", "options"),
    [
        *((name, {}) for name in SMALL),
        ("autoregressive", {"tied": False}),
        ("elman", {"tied": False}),
        ("encoder_decoder", {"norm_first": False}),
        ("feedback", {"shared_kv": False}),
    ],
)
def test_first_predictions_are_nearly_uniform(name, options):
    """Although a tied embedding is larger for a token that was just read."""
    torch.manual_seed(0)
    model = labml_nn.create(name, n_vocab=65, **options).eval()
    tokens = torch.randint(3, 65, (2, 20, 8))
    assert model.loss(*tokens).item() == pytest.approx(math.log(65), abs=0.2)


@pytest.mark.parametrize(
    ("tokens", "error", "message"),
    [
        (torch.full((4, B), V), ValueError, f"`tokens` holds {V}; expected numbers from 0 to 12"),
        (torch.full((4, B), -1), ValueError, "`tokens` holds -1"),
        (torch.ones(4, B), TypeError, r"`tokens` has dtype torch.float32; .*long\(\)"),
        (torch.ones(4).long(), ValueError, r"`tokens` has shape \[4\]; expected \[T, B\]"),
        (torch.ones(0, B).long(), ValueError, "the sequence is empty"),
    ],
)
@pytest.mark.parametrize("name", SMALL)
def test_forward_refuses(unhooked, name, tokens, error, message):
    model = unhooked("labml_nn.registry").create(name, n_vocab=V, **SMALL[name])
    state, _, _ = model.prepare_prompt(torch.full((2, B), 5))
    with pytest.raises(error, match=message):
        model(tokens, state)
