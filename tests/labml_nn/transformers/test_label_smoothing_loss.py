"""Label smoothing: by hand, against PyTorch's losses, and what padding must not do."""

import copy
import math
import pickle

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional as F

from labml_nn.transformers.label_smoothing_loss import LabelSmoothingLoss

MODULE = "labml_nn.transformers.label_smoothing_loss"


def log_probabilities(*shape: int, dtype: torch.dtype = torch.float64) -> torch.Tensor:
    return torch.randn(*shape, dtype=dtype).log_softmax(-1)


def readable(loss: LabelSmoothingLoss, x: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    """The definition: the divergence from the whole table of targets, for each token."""
    q = loss.target_distribution(target, dtype=x.dtype)
    terms = torch.xlogy(q, q) - torch.where(q > 0, q * x, 0.0)
    return terms.sum(-1)


def test_target_distribution_by_hand():
    loss = LabelSmoothingLoss(5, 0, 0.4)
    expected = torch.tensor(
        [
            [0.0, 0.4 / 3, 0.6, 0.4 / 3, 0.4 / 3],
            [0.0, 0.6, 0.4 / 3, 0.4 / 3, 0.4 / 3],
            [0.0, 0.0, 0.0, 0.0, 0.0],
        ]
    )
    torch.testing.assert_close(loss.target_distribution(torch.tensor([2, 1, 0])), expected)


def test_loss_by_hand():
    # Probabilities 1/2, 1/4, 1/4; q = 0.8, 0.1, 0.1.
    x = torch.tensor([[0.5, 0.25, 0.25]]).log()
    loss = LabelSmoothingLoss(3, None, 0.2)(x, torch.tensor([0]))
    expected = 0.8 * math.log(0.8 / 0.5) + 2 * 0.1 * math.log(0.1 / 0.25)
    torch.testing.assert_close(loss, torch.tensor(expected))


@settings(deadline=None, max_examples=50)
@given(
    seed=st.integers(0, 2**16),
    n=st.integers(1, 6),
    size=st.integers(3, 9),
    smoothing=st.floats(0, 0.9),
    padding=st.none() | st.integers(0, 8),
)
def test_fast_form_is_the_divergence(seed, n, size, smoothing, padding):
    torch.manual_seed(seed)
    padding = None if padding is None else padding % size
    loss = LabelSmoothingLoss(size, padding, smoothing, reduction="none")
    x, target = log_probabilities(n, size).requires_grad_(), torch.randint(size, (n,))
    torch.testing.assert_close(loss(x, target), readable(loss, x, target))
    (fast,) = torch.autograd.grad(loss(x, target).sum(), x)
    torch.testing.assert_close(fast, -loss.target_distribution(target, dtype=x.dtype))


@settings(deadline=None, max_examples=30)
@given(st.integers(0, 2**16), st.integers(3, 9), st.floats(0, 0.9))
def test_best_prediction_costs_nothing_and_any_other_something(seed, size, smoothing):
    torch.manual_seed(seed)
    loss = LabelSmoothingLoss(size, 1, smoothing, reduction="none")
    target = torch.tensor([0, size - 1])
    q = loss.target_distribution(target, dtype=torch.float64)
    torch.testing.assert_close(
        loss(q.log(), target), torch.zeros(2, dtype=torch.float64), rtol=0, atol=1e-6
    )
    assert (loss(log_probabilities(2, size), target) > 1e-6).all()


def test_without_smoothing_it_is_cross_entropy():
    logits, target = torch.randn(7, 5, dtype=torch.float64), torch.randint(5, (7,))
    loss = LabelSmoothingLoss(5, None)(logits.log_softmax(-1), target)
    torch.testing.assert_close(loss, F.cross_entropy(logits, target, reduction="sum"))


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-5), (torch.float64, 1e-10)])
@pytest.mark.parametrize("padding", [None, 0, 3, 5])
def test_agrees_with_pytorch_where_the_mathematics_does(padding, dtype, tolerance):
    """PyTorch spreads its share over all K labels, ours over the K - 1 wrong ones."""
    torch.manual_seed(2)
    smoothing, size, n = 0.3, 6, 11
    logits = torch.randn(n, size, dtype=dtype)
    target = torch.randint(size, (n,))
    labels = size
    if padding is not None:
        # PyTorch has no class that nobody predicts: leave the column out, renumber the rest.
        logits[:, padding] = -math.inf
        target = target.where(target != padding, (padding + 1) % size)
        target[2] = padding
        labels -= 1
    logits.requires_grad_()

    x = logits.log_softmax(-1)
    ours = LabelSmoothingLoss(size, padding, smoothing)(x, target)
    kept = [v for v in range(size) if v != padding]
    renumbered = torch.tensor([kept.index(int(t)) if t != padding else -100 for t in target])
    theirs = F.cross_entropy(
        logits[:, kept],
        renumbered,
        label_smoothing=smoothing * labels / (labels - 1),
        reduction="sum",
    )

    entropy = (1 - smoothing) * math.log(1 - smoothing) + smoothing * math.log(
        smoothing / (labels - 1)
    )
    counted = int((renumbered >= 0).sum())
    assert counted == (n if padding is None else n - 1)
    torch.testing.assert_close(ours - counted * entropy, theirs, rtol=tolerance, atol=tolerance)
    (our_gradient,) = torch.autograd.grad(ours, logits)
    (their_gradient,) = torch.autograd.grad(theirs, logits)
    torch.testing.assert_close(our_gradient, their_gradient, rtol=tolerance, atol=tolerance)


def test_gradient_of_the_logits_is_p_minus_q():
    logits = torch.randn(4, 6, dtype=torch.float64, requires_grad=True)
    target = torch.tensor([1, 5, 2, 0])
    loss = LabelSmoothingLoss(6, 3, 0.2)
    loss(logits.log_softmax(-1), target).backward()
    q = loss.target_distribution(target, dtype=torch.float64)
    torch.testing.assert_close(logits.grad, logits.detach().softmax(-1) - q)


def test_padding_costs_nothing_and_pulls_at_nothing():
    x = log_probabilities(3, 5)
    x[1] = -math.inf
    x.requires_grad_()
    loss = LabelSmoothingLoss(5, 4, 0.1, reduction="none")
    costs = loss(x, torch.tensor([0, 4, 2]))
    assert costs[1] == 0
    assert costs[0] > 0 and costs[2] > 0
    costs.sum().backward()
    assert x.grad is not None
    assert torch.equal(x.grad[1], torch.zeros(5, dtype=torch.float64))


@pytest.mark.parametrize("smoothing", [0.0, 0.2])
def test_token_that_is_never_predicted_may_be_padding(smoothing):
    """A log-probability of minus infinity at padding is no reason for nan."""
    x = torch.tensor([[-math.inf, 0.0, 1.0, 2.0]]).log_softmax(-1).requires_grad_()
    loss = LabelSmoothingLoss(4, 0, smoothing)(x, torch.tensor([2]))
    loss.backward()
    assert loss.isfinite()
    assert x.grad is not None and x.grad.isfinite().all()


def test_reductions():
    x, target = log_probabilities(5, 6), torch.tensor([1, 0, 2, 0, 3])
    each = LabelSmoothingLoss(6, 0, 0.1, reduction="none")(x, target)
    assert each.shape == (5,)
    total = LabelSmoothingLoss(6, 0, 0.1)(x, target)
    torch.testing.assert_close(total, each.sum())
    mean = LabelSmoothingLoss(6, 0, 0.1, reduction="mean")(x, target)
    torch.testing.assert_close(mean, total / 3)
    without = LabelSmoothingLoss(6, None, 0.1, reduction="mean")(x, target)
    assert without > 0


def test_batch_of_nothing_but_padding_has_mean_zero():
    loss = LabelSmoothingLoss(6, 0, 0.1, reduction="mean")
    assert loss(log_probabilities(4, 6), torch.zeros(4, dtype=torch.long)) == 0


def test_any_number_of_axes():
    x, target = log_probabilities(3, 4, 6), torch.randint(6, (3, 4))
    loss = LabelSmoothingLoss(6, 0, 0.1)
    torch.testing.assert_close(loss(x, target), loss(x.reshape(12, 6), target.reshape(12)))
    each = LabelSmoothingLoss(6, 0, 0.1, reduction="none")
    assert each(x, target).shape == (3, 4)
    assert loss.target_distribution(target).shape == (3, 4, 6)


def test_order_of_tokens_does_not_matter():
    x, target = log_probabilities(7, 6), torch.randint(6, (7,))
    order = torch.randperm(7)
    loss = LabelSmoothingLoss(6, 2, 0.1)
    torch.testing.assert_close(loss(x, target), loss(x[order], target[order]))


def test_true_dist_is_the_last_target_and_keeps_no_graph():
    loss = LabelSmoothingLoss(5, 0, 0.4)
    assert loss.true_dist is None
    target = torch.tensor([2, 1, 0])
    logits = torch.randn(3, 5, requires_grad=True)
    loss(logits.log_softmax(-1), target)
    assert torch.equal(loss.true_dist, loss.target_distribution(target))
    assert not loss.true_dist.requires_grad
    copy.deepcopy(loss)
    pickle.dumps(loss)
    assert loss.state_dict() == {}


def test_compiles_whole(unhooked):
    loss = unhooked(MODULE).LabelSmoothingLoss(6, 2, 0.1, reduction="mean")
    x, target = log_probabilities(7, 6), torch.randint(6, (7,))
    compiled = torch.compile(loss, fullgraph=True, backend="eager")
    torch.testing.assert_close(compiled(x, target), loss(x, target))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((5, 5), r"`padding_idx` must be .* from 0 to size - 1 = 4, or None; not 5"),
        ((5, -1), "not -1"),
        ((5, 0, -0.1), r"`smoothing` must be at least 0 and less than 1, not -0.1"),
        ((5, 0, 1.0), "not 1.0"),
        ((2, 0, 0.1), "`size` must be at least 3, not 2"),
        ((1, None, 0.1), "`size` must be at least 2, not 1"),
        ((0, None), "`size`.*0.* at least 1"),
    ],
)
def test_impossible_arguments(arguments, message):
    with pytest.raises(ValueError, match=message):
        LabelSmoothingLoss(*arguments)


def test_unknown_reduction(unhooked):
    with pytest.raises(ValueError, match=r'"sum", "mean" or "none", not \'average\''):
        unhooked(MODULE).LabelSmoothingLoss(5, 0, reduction="average")


@pytest.mark.parametrize(
    ("x", "target", "error", "message"),
    [
        (torch.zeros(3, 4), torch.zeros(3).long(), ValueError, r"size = 5, but `x` .*\[3, 4\]"),
        (torch.zeros(3, 5), torch.zeros(2).long(), ValueError, r"its last axis, \[3\], not \[2\]"),
        (torch.zeros(3, 5).long(), torch.zeros(3).long(), TypeError, "log-probabilities"),
        (torch.zeros(3, 5), torch.zeros(3), TypeError, r"`target` .* not torch.float32"),
        (torch.zeros(2, 5), torch.tensor([1, 5]), ValueError, "`target` holds 5.* 0 to 4"),
        (torch.zeros(2, 5), torch.tensor([-100, 2]), ValueError, "`target` holds -100"),
    ],
)
def test_what_cannot_be_scored(unhooked, x, target, error, message):
    loss = unhooked(MODULE).LabelSmoothingLoss(5, 0, 0.1)
    with pytest.raises(error, match=message):
        loss(x, target)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((5, 0, "0.1"), r"`smoothing` \('0.1'\) must be a number from 0 up to 1, not a str"),
        ((5, 0, None), r"`smoothing` \(None\) must be a number"),
        ((5, 0, True), r"`smoothing` \(True\) must be a number"),
        ((5, 0.5, 0.1), r"`padding_idx` \(0.5\) must be a token, a whole number, or None"),
        ((5, True), r"`padding_idx` \(True\) must be a token"),
    ],
)
def test_another_kind_of_value(unhooked, arguments, message):
    with pytest.raises(TypeError, match=message):
        unhooked(MODULE).LabelSmoothingLoss(*arguments)
