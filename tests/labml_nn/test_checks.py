"""The checks that other tests do not reach through a module."""

import numpy as np
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


@pytest.mark.parametrize("whole", [np.int64(12), np.int32(12), np.uint8(12)])
def test_numbers_of_numpy_are_numbers(unhooked, whole):
    checks = unhooked("labml_nn.checks")
    checks.check_sizes(d_model=whole)
    checks.check_heads(3, whole)
    checks.check_probability(dropout=np.float32(0.1))
    for wrong in (np.float32(12), torch.tensor(12), "12", True):
        with pytest.raises(TypeError, match=r"`d_model` .* must be a whole number"):
            checks.check_sizes(d_model=wrong)


def test_autocast_is_asked_for_the_device_of_the_tensor():
    x = torch.zeros(5)
    assert not checks.autocast_is_on(x)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert checks.autocast_is_on(x)
        assert not checks.autocast_is_on(x.to("meta"))


def test_devices_without_numbers_are_taken_at_their_word():
    checks.check_lengths(torch.zeros(2, dtype=torch.int64, device="meta"), 3)
    checks.check_tokens(torch.zeros(5, 2, dtype=torch.int64, device="meta"), 7)


def test_names_that_are_known():
    checks.check_known("model", "elman", ["elman", "feedback"])
    for name, message in [
        ("fedback", "no model 'fedback'; did you mean 'feedback'? known: elman, feedback"),
        ("xyz", "no model 'xyz'; known: elman, feedback"),
    ]:
        with pytest.raises(ValueError, match=message.replace("?", r"\?")):
            checks.check_known("model", name, ["elman", "feedback"])
