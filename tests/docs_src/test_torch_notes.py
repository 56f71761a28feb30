"""What our notes on PyTorch's attention state, checked with the PyTorch that is installed."""

import re
from pathlib import Path

import pytest
import torch

NOTES = Path(__file__).parents[2] / "docs_src/notes"
PAGE = (NOTES / "torch/nn/modules/activation.md").read_text(encoding="utf-8")


def test_the_program_of_the_page_runs() -> None:
    programs = re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    assert len(programs) == 1
    exec(compile(programs[0], "activation.md", "exec"), {})


def test_true_hides_and_a_query_without_keys_is_nan() -> None:
    attention, x = torch.nn.MultiheadAttention(4, 2), torch.randn(3, 1, 4)
    hidden = torch.eye(3, dtype=torch.bool)
    _, weights = attention(x, x, x, attn_mask=hidden)
    assert not weights[0][hidden].any() and weights[0][~hidden].all()
    hidden[0] = True
    assert attention(x, x, x, attn_mask=hidden)[0][0].isnan().all()


@pytest.mark.parametrize("features", [4, 6])
def test_the_projections_are_packed_if_keys_have_as_many_features(features: int) -> None:
    attention = torch.nn.MultiheadAttention(4, 2, kdim=features)
    packed = attention.in_proj_weight
    assert (packed is None) == (features != 4)
    assert features != 4 or packed.shape == (12, 4)


def test_batch_first_exchanges_two_axes() -> None:
    first = torch.nn.MultiheadAttention(4, 2, batch_first=True)
    other = torch.nn.MultiheadAttention(4, 2)
    other.load_state_dict(first.state_dict())
    x = torch.randn(3, 5, 4)
    y = x.transpose(0, 1)
    torch.testing.assert_close(first(x, x, x)[0], other(y, y, y)[0].transpose(0, 1))
    assert (first(x, x, x)[0] - other(x, x, x)[0]).abs().max() > 1e-3
