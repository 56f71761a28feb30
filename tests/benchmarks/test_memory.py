"""The most that tensors take."""

import pytest
import torch

from benchmarks.memory import peak

MIB = 2**18  # float32 numbers


def test_the_most_at_any_moment():
    def run():
        first = torch.ones(3 * MIB)
        del first
        second, third = torch.ones(MIB), torch.ones(MIB)
        return second.sum() + third.sum()

    assert peak(run) == pytest.approx(3, rel=0.01)


def test_what_was_there_before_does_not_count():
    before = torch.ones(5 * MIB)
    assert peak(lambda: before.mul_(2)) < 0.01


def test_what_a_backward_pass_keeps():
    x = torch.ones(2 * MIB, requires_grad=True)
    # The sine, and its argument's gradient: cos(x) and the gradient of its outcome beside it.
    assert peak(lambda: x.sin().sin().sum().backward()) > 4
