"""The checks that other tests do not reach through a module."""

import pytest
import torch

from labml_nn import checks


def test_what_is_right_passes():
    checks.check_sizes(d_model=1, heads=1)
    checks.check_probability(dropout=0.0, dropout_prob=1.0)
    checks.check_heads(3, 12)
    checks.check_features("x", torch.zeros(12), 12)
    checks.check_sequence("x", torch.zeros(1, 0, 12), 12, torch.zeros(1))
    checks.check_integers("x", torch.zeros(2, dtype=torch.int32), "B")
    checks.check_lengths(torch.tensor([0, 3]), 3)
    checks.check_tokens(torch.tensor([[0, 4]]), 5)
    checks.check_vocabulary(torch.empty(0, dtype=torch.int64), 5)


def test_types_may_differ_under_autocast():
    x, weight = torch.zeros(5, 2, 12, dtype=torch.bfloat16), torch.zeros(1)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        checks.check_sequence("x", x, 12, weight)
    with pytest.raises(TypeError, match=r"x\.to\(torch\.float32\) or module\.to\(torch\.bfloat16"):
        checks.check_sequence("x", x, 12, weight)


@pytest.mark.parametrize(
    ("tokens", "error", "message"),
    [
        (torch.zeros(5, 2), TypeError, r"`src` has dtype torch\.float32; expected integers"),
        (torch.zeros(5).long(), ValueError, r"`src` has shape \[5\]; .* src\[:, None\]"),
        (torch.zeros(0, 2).long(), ValueError, r"`src` has shape \[0, 2\].* is empty"),
        (torch.tensor([[3, 9], [2, 1]]), ValueError, r"`src` holds 9; .* from 0 to 4, .* \(5\)"),
        (torch.tensor([[3, -1], [2, 9]]), ValueError, r"`src` holds -1; expected .* 0 to 4"),
    ],
)
def test_tokens(tokens, error, message):
    with pytest.raises(error, match=message):
        checks.check_tokens(tokens, 5, name="src")
