"""Dropout of the feedback transformer by hand: the plain form with the same masks."""

import copy

import pytest
import torch
from feedback_tools import C, F, H, build, tokens
from torch import nn

from labml_nn.transformers.feedback.by_hand import form as forms
from labml_nn.transformers.feedback.by_hand import form_of

N, T, L = 3, 7, 2


@pytest.fixture(autouse=True)
def short_spans(monkeypatch):
    monkeypatch.setattr(forms, "STEPS", 3)


def model_of(attention, branch, hidden, **options):
    model = build(True, n_layers=L, **options).double().train()
    model.backend = "by_hand"
    for layer in model.layers:
        layer.attn.dropout.p, layer.dropout.p, layer.feed_forward.dropout.p = (
            attention,
            branch,
            hidden,
        )
    return model


def start(model):
    """A memory of two rows, read without dropout."""
    model.eval()
    _, memory = model.scan(tokens(2, N, C, seed=5, dtype=torch.float64))
    model.train()
    return memory.detach()


class Given(nn.Module):
    """Multiplies with masks that were drawn elsewhere, one a call."""

    def __init__(self, masks):
        super().__init__()
        self.masks = list(masks)

    def forward(self, x):
        return x * self.masks.pop(0).view_as(x)


def with_masks(model, form, before):
    """The plain form, which takes the masks that the form by hand draws."""
    plain = copy.deepcopy(model)
    plain.backend = "plain"
    found = {(kind, number): [] for kind in ("attn", "branch", "hidden") for number in range(L)}
    like = torch.empty(C, dtype=torch.float64)
    for span in forms.spans(T, before, form.horizon):
        masks = forms.draw(form, span, like, L, N, F)
        for step in range(span.steps):
            end = span.old + step
            seen = end if form.horizon is None else min(end, form.horizon)
            for number in range(L):
                attention = masks.attention[:, step * L + number, end - seen : end]
                by_text = attention.view(H, N, seen).transpose(0, 1)
                found["attn", number].append(by_text.reshape(-1))
                found["branch", number].append(masks.attended[number, step])
                found["branch", number].append(masks.concluded[number, step])
                found["hidden", number].append(masks.hidden[number, step])
    for number, layer in enumerate(plain.layers):
        layer.attn.dropout = Given(found["attn", number])
        layer.dropout = Given(found["branch", number])
        layer.feed_forward.dropout = Given(found["hidden", number])
    return plain


@pytest.mark.parametrize("horizon", [None, 4])
def test_equals_the_plain_form_with_the_same_masks(horizon):
    model = model_of(0.3, 0.4, 0.2, horizon=horizon)
    memory = start(model)
    torch.manual_seed(3)
    plain = with_masks(model, form_of(model), len(memory))
    x = tokens(T, N, C, dtype=torch.float64)
    torch.manual_seed(3)
    results = []
    for each in (model, plain):
        y, _ = each.scan(x, memory)
        weight = tokens(T, N, C, seed=9, dtype=torch.float64)
        results.append([y, *torch.autograd.grad((y * weight).sum(), list(each.parameters()))])
    torch.testing.assert_close(*results, rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("kind", range(3))
def test_gradients_numerically(kind):
    """The way back draws the masks that the way there had, or this would not hold."""
    model = model_of(*(0.5 if kind == other else 0.0 for other in range(3)))
    memory = start(model)

    def call(x):
        torch.manual_seed(1)
        return model.scan(x, memory)[0]

    x = tokens(T, N, C, dtype=torch.float64).requires_grad_()
    assert torch.autograd.gradcheck(call, (x,), fast_mode=True)


@pytest.mark.parametrize("kind", range(3))
def test_everything_dropped(kind):
    model = model_of(*(1.0 if kind == other else 0.0 for other in range(3)))
    plain = copy.deepcopy(model)
    plain.backend = "plain"
    x = tokens(T, N, C, dtype=torch.float64)
    torch.testing.assert_close(model(x), plain(x))
    gradients = [
        torch.autograd.grad(m(x).pow(2).sum(), m.key.linear.weight) for m in (model, plain)
    ]
    torch.testing.assert_close(*gradients)


def test_masks_are_as_probable_as_they_should_be():
    form = form_of(model_of(0.25, 0.5, 0.0))
    like = torch.empty(C)
    span = forms.Span(0, 3, before=40, low=0)
    masks = forms.draw(form, span, like, L, 50, F)
    assert masks.hidden is None
    assert masks.attention.shape == (H * 50, 3 * L, 42)
    for mask, kept in ((masks.attention, 0.75), (masks.attended, 0.5), (masks.concluded, 0.5)):
        values = mask.unique()
        torch.testing.assert_close(values, torch.tensor([0.0, 1 / kept]))
        assert abs(mask.count_nonzero() / mask.numel() - kept) < 0.02
    assert not torch.equal(masks.attended, masks.concluded)
    again = forms.draw(form, span, like, L, 50, F)
    assert torch.equal(masks.attention, again.attention)
    later = forms.draw(form, forms.Span(3, 6, before=37, low=0), like, L, 50, F)
    assert not torch.equal(masks.attended, later.attended)


def test_each_pass_drops_something_else_and_none_when_it_counts():
    model, x = model_of(0.1, 0.1, 0.1), tokens(T, N, C, dtype=torch.float64)
    assert not torch.equal(model(x), model(x))
    torch.manual_seed(2)
    first = model(x)
    torch.manual_seed(2)
    assert torch.equal(model(x), first)
    model.eval()
    assert form_of(model).dropout is None
    assert torch.equal(model(x), model(x))
