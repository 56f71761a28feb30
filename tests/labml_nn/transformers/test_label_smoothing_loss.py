"""Label smoothing: by hand, against PyTorch's losses, padding, reductions and errors."""

import copy
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from lesson_pages import Page

from labml_nn.transformers import label_smoothing_loss
from labml_nn.transformers.label_smoothing_loss import LabelSmoothingLoss

ZEROS = torch.zeros(3, dtype=torch.long)


def log_probabilities(*shape, dtype=torch.float64):
    return torch.randn(*shape, dtype=dtype).log_softmax(-1)


def test_by_hand():
    loss = LabelSmoothingLoss(5, 0, 0.4)
    s = 0.4 / 3
    expected = [[0, s, 0.6, s, s], [0, 0.6, s, s, s], [0, 0, 0, 0, 0]]
    table = loss.target_distribution(torch.tensor([2, 1, 0]))
    torch.testing.assert_close(table, torch.tensor(expected))


@settings(deadline=None, max_examples=50)
@given(
    seed=st.integers(0, 2**16),
    shape=st.lists(st.integers(1, 4), min_size=1, max_size=2),
    size=st.integers(3, 9),
    smoothing=st.floats(0, 1),
    padding=st.none() | st.integers(0, 8),
)
def test_the_loss_is_the_divergence_from_the_table(seed, shape, size, smoothing, padding):
    torch.manual_seed(seed)
    padding = None if padding is None else padding % size
    loss = LabelSmoothingLoss(size, padding, smoothing)
    x, target = log_probabilities(*shape, size).requires_grad_(), torch.randint(size, shape)
    q = loss.target_distribution(target, dtype=x.dtype)
    divergence = (torch.xlogy(q, q) - torch.where(q > 0, q * x, 0.0)).sum()
    torch.testing.assert_close(loss(x, target), divergence)
    (gradient,) = torch.autograd.grad(loss(x, target), x)
    torch.testing.assert_close(gradient, -q)
    best = loss(q.clamp(min=1e-300).log(), target)
    torch.testing.assert_close(best, torch.zeros_like(best), rtol=0, atol=1e-6)


@pytest.mark.parametrize("smoothing", [0.0, 0.2])
def test_padding_has_no_loss_and_no_gradient(smoothing):
    x = torch.tensor([[0.0, -1.0, 1.0, -math.inf]] * 3).log_softmax(-1)
    x[1] = -math.inf
    x.requires_grad_()
    loss = LabelSmoothingLoss(4, 3, smoothing)(x, torch.tensor([0, 3, 2]))
    assert loss > 0 and loss.isfinite()
    loss.backward()
    assert torch.equal(x.grad[1], torch.zeros(4)) and x.grad.isfinite().all()


def test_true_dist_is_the_last_target_and_keeps_no_graph():
    loss = LabelSmoothingLoss(5, 0, 0.4)
    assert loss.true_dist is None
    target = torch.tensor([2, 1, 0])
    loss(torch.randn(3, 5, requires_grad=True).log_softmax(-1), target.int())
    assert torch.equal(loss.true_dist, loss.target_distribution(target))
    assert torch.equal(copy.deepcopy(loss).true_dist, loss.true_dist)
    assert loss.state_dict() == {}


@pytest.mark.parametrize(
    ("x", "target", "error", "message"),
    [
        *(
            (torch.zeros(shape), ZEROS, ValueError, r"`x` has shape .* `size` \(5\) for `x`")
            for shape in ((3, 4), (2, 5), (5,), (3, 1, 5))
        ),
        (torch.zeros(3, 5), ZEROS + 5, ValueError, "`target` holds 5"),
        (torch.zeros(3, 5), ZEROS - 100, ValueError, "`target` holds -100"),
        (torch.zeros(3, 5), ZEROS.float(), TypeError, r"dtype torch.float32; .*target.long\(\)"),
    ],
)
def test_wrong_calls(unhooked, x, target, error, message):
    loss = unhooked("labml_nn.transformers.label_smoothing_loss").LabelSmoothingLoss(5, 0)
    with pytest.raises(error, match=message):
        loss(x, target)


def test_the_worked_example_of_the_page():
    page, target = Page(label_smoothing_loss), torch.tensor(0)
    rows = page.rows("word | without")
    for column, smoothing in ((1, 0.0), (2, 0.1)):
        q = LabelSmoothingLoss(4, None, smoothing).target_distribution(target)
        assert q.tolist() == pytest.approx([float(row[column]) for row in rows], abs=5e-4)
    page.has(f"= {math.log(q[0] / q[1]):.1f}$")
    # With these logits the loss is lowest.
    best = torch.tensor([math.log(q[0] / q[1]), 0, 0, 0]).log_softmax(0)
    assert LabelSmoothingLoss(4, None, 0.1)(best, target).item() == pytest.approx(0, abs=1e-6)
