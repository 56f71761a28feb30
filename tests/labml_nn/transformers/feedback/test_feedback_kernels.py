"""Dropout and limits of the feedback kernels; `test_kernels.py` has the comparisons."""

import pytest
import torch

from labml_nn import kernels
from labml_nn.kernels import feedback_by_hand, feedback_cpp, feedback_recurrence
from labml_nn.kernels.build import BuildError
from labml_nn.kernels.feedback_recurrence import Masks, draw_masks, fold_params
from labml_nn.transformers import feedback

B, C, H, L = 3, 12, 3, 2


def build(dropout=0.0, horizon=None):
    torch.manual_seed(0)
    layer = feedback.FeedbackTransformerLayer(
        d_model=C,
        attn=feedback.FeedbackAttention(H, C, dropout, is_kv_precomputed=True, max_distance=50),
        feed_forward=feedback.FeedForward(C, 28, dropout),
        dropout_prob=dropout,
    )
    model = feedback.FeedbackTransformerKV(layer, L, C, H, horizon=horizon, norm_memory=True)
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    return model


def test_a_kernel_that_does_not_run_draws_no_random_numbers(monkeypatch):
    """The same seed gives the same outputs with a compiler and without."""
    if feedback_cpp.EXTENSION.find() is None:
        pytest.skip("no C++ compiler")
    model, x = build(0.3).train(), torch.randn(9, B, C)

    def numbers():
        torch.manual_seed(7)
        return model(x), torch.rand(())

    compiled = numbers()
    with kernels.disabled(feedback_cpp):
        torch.testing.assert_close(numbers(), compiled, rtol=1e-4, atol=1e-4)
    monkeypatch.setattr(feedback_cpp.EXTENSION, "found", BuildError("no compiler"))
    torch.testing.assert_close(numbers(), compiled, rtol=1e-4, atol=1e-4)


def test_masks_keep_the_mean_and_are_drawn_alike_twice():
    model = build()
    params, like = fold_params(model, 40), torch.empty(16, 50, C)
    config = feedback_recurrence.config_of(model)._replace(dropout=(0.2, 0.5, 0.1), seed=3)
    masks, again = (draw_masks(config, params, like, 32, 35) for _ in range(2))
    for mask, same, p in zip(masks, again, (0.2, 0.5, 0.5, 0.1), strict=True):
        assert torch.equal(mask, same)
        torch.testing.assert_close(mask.unique(), torch.tensor([0.0, 1 / (1 - p)]))
        assert mask.mean().item() == pytest.approx(1.0, abs=0.05)
    assert masks.attention.shape == (H * 50, 16 * L, 35)
    assert draw_masks(feedback_recurrence.config_of(model), params, like, 0, 35) == Masks()


@pytest.mark.parametrize("dropped", [0.0, 0.4])
@pytest.mark.parametrize("passes", [feedback_by_hand.BY_HAND, feedback_cpp.COMPILED])
@pytest.mark.parametrize("horizon", [None, 5])
def test_second_derivatives_are_those_of_the_same_recurrence(passes, dropped, horizon):
    """Values and first derivatives too, with the same dropout masks, over several spans."""
    model, x = build(horizon=horizon), torch.randn(40, B, C, requires_grad=True)
    for layer in model.layers:
        for dropout in (layer.attn.dropout, layer.dropout, layer.feed_forward.dropout):
            dropout.p = dropped
    config = feedback_recurrence.config_of(model)
    params = [
        p.detach().requires_grad_() for p in feedback_recurrence.fold_params(model, horizon or 42)
    ]
    older = torch.randn(2, 2, B, model.heads, model.d_k)
    inputs = x, *older, *params
    by_kernel = feedback_recurrence.Recurrence.apply(passes, config, *inputs)
    spans = passes.spans(len(x), len(older[0]), config.horizon)
    slowly = feedback_recurrence.run_differentiably(
        spans, config, x, *older, feedback_recurrence.Params(*params)
    )
    torch.testing.assert_close(by_kernel, tuple(slowly), rtol=1e-3, atol=1e-4)
    losses = [sum(part.sin().sum() for part in parts) for parts in (by_kernel, slowly)]
    first = [torch.autograd.grad(loss, [x, *params], retain_graph=True) for loss in losses]
    torch.testing.assert_close(*first, rtol=1e-3, atol=1e-3)
    (gradient,) = torch.autograd.grad(losses[0], x, create_graph=True)
    assert torch.autograd.grad(gradient.sum(), x)[0].count_nonzero()
