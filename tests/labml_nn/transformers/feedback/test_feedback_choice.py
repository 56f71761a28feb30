"""Which form of the feedback transformer runs: by hand only where it knows everything."""

import copy

import pytest
import torch
from feedback_tools import C, build, tokens
from torch import nn

from labml_nn.transformers import feedback
from labml_nn.transformers.feedback import FeedbackTransformerKV
from labml_nn.transformers.feedback.by_hand import choice

N, T = 3, 6


def chosen(model, x=None, **options):
    """The form that ran, seen from inside."""
    forms = []
    original = feedback.by_hand.scan

    def spy(*args):
        forms.append("by_hand")
        return original(*args)

    feedback.by_hand.scan = spy
    try:
        model.scan(tokens(T, N, C) if x is None else x, **options)
    finally:
        feedback.by_hand.scan = original
    return "by_hand" if forms else "plain"


def test_by_hand_unless_something_speaks_against_it():
    model = build(True)
    assert choice.objection(model, FeedbackTransformerKV) is None
    assert chosen(model) == "by_hand"
    assert chosen(model, tokens(choice.SHORTEST - 1, N, C)) == "plain"
    model.backend = "plain"
    assert chosen(model) == "plain"
    assert chosen(build(False)) == "plain"
    model = build(True)
    model.backend = "by_hand"
    assert chosen(model, tokens(2, N, C)) == "by_hand"
    assert chosen(model, tokens(1, N, C)) == "plain"
    real = torch.ones(T, N, dtype=torch.bool)
    real[4:, 1] = False
    assert chosen(model, real=real) == "by_hand"


class Louder(feedback.FeedbackAttention):
    def get_scores(self, query, key, positions=None):
        return 2 * super().get_scores(query, key, positions)


class Other(FeedbackTransformerKV):
    pass


def louder(model):
    model.layers[1].attn.__class__ = Louder


def other(model):
    model.__class__ = Other


def with_hook(model):
    model.layers[0].norm_ff.register_forward_hook(lambda *_: None)


def with_pre_hook(model):
    model.key.register_forward_pre_hook(lambda *_: None)


def with_own_forward(model):
    layer = model.layers[0]
    layer.forward = type(layer).forward.__get__(layer)


def storing(model):
    model.layers[0].attn.store_attn = True


class Halved(nn.Linear):
    def forward(self, x):
        return super().forward(x) / 2


def halved(model):
    model.value.linear.__class__ = Halved


def in_place(model):
    model.layers[0].feed_forward.activation = nn.ReLU(inplace=True)


def softmax(model):
    model.layers[0].feed_forward.activation = nn.Softmax(-1)


def function(model):
    for layer in model.layers:
        del layer.feed_forward.activation
        layer.feed_forward.activation = lambda z: z.cos()


def unlike(model):
    model.layers[1].dropout.p = 0.5


def epsilon(model):
    model.layers[1].norm_ff.eps = 1e-3


def no_gain(model):
    for layer in model.layers:
        layer.norm_ff = nn.LayerNorm(C, elementwise_affine=False)


def normed(model):
    torch.nn.utils.parametrizations.spectral_norm(model.layers[0].attn.output)


CHANGES = [
    (louder, r"`layers.1.attn` is a Louder"),
    (other, r"the model is a Other, not a FeedbackTransformerKV"),
    (with_hook, r"`layers.0.norm_ff` has hooks"),
    (with_pre_hook, r"`key` has hooks"),
    (with_own_forward, r"`layers.0` has a `forward` of its own"),
    (storing, r"`layers.0.attn` has `store_attn`"),
    (halved, r"`value.linear` is a Halved"),
    (in_place, r"`layers.0.feed_forward.activation` works in place"),
    (softmax, r"`layers.0.feed_forward.activation` is a Softmax"),
    (function, r"`layers.0.feed_forward` has an activation that is not known"),
    (unlike, r"layers that differ in more than their parameters"),
    (epsilon, r"norms of more than one epsilon"),
    (no_gain, r"a norm without gain or bias"),
    (normed, r"`layers.0.attn.output` is a ParametrizedLinear"),
]


@pytest.mark.parametrize(
    ("change", "message"), CHANGES, ids=lambda value: getattr(value, "__name__", "")
)
def test_what_the_loop_by_hand_does_not_know(change, message):
    model = build(True)
    change(model)
    plain = copy.deepcopy(model)
    plain.backend, model.backend = "plain", "auto"
    assert chosen(model) == "plain"
    model.eval(), plain.eval()
    torch.testing.assert_close(model(tokens(T, N, C)), plain(tokens(T, N, C)))
    model.backend = "by_hand"
    with pytest.raises(ValueError, match=rf"backend = 'by_hand' cannot run.*{message}.*'auto'"):
        model(tokens(T, N, C))


def test_a_hook_is_called():
    model, seen = build(True), []
    model.layers[0].register_forward_hook(lambda *call: seen.append(call[-1]))
    model(tokens(T, N, C))
    assert len(seen) == T


def test_stored_weights_are_there():
    model = build(True, store_attn=True)
    model(tokens(T, N, C))
    assert model.layers[0].attn.attn.shape == (T - 1, N, 3)


def test_unknown_names(unhooked):
    package = unhooked("labml_nn.transformers.feedback")
    model = build(True, package=package)
    arguments = (model.layers[0], 2, C, 3)
    with pytest.raises(ValueError, match=r"no backend 'by-hand'; did you mean 'by_hand'"):
        package.FeedbackTransformerKV(*arguments, backend="by-hand")
    with pytest.raises(ValueError, match=r"no backend 'by_hand'; known: auto, plain"):
        own = build(False, package=package).layers[0]
        package.FeedbackTransformer(own, 2, backend="by_hand")


def test_traced_models_take_the_plain_form():
    model = build(True)
    parameters = dict(model.named_parameters())
    x = tokens(T, N, C)

    def loss(given):
        return torch.func.functional_call(model, given, (x,)).square().sum()

    got = torch.func.grad(loss)(parameters)
    expected = torch.autograd.grad(loss(parameters), list(parameters.values()))
    torch.testing.assert_close(tuple(got.values()), expected, rtol=1e-4, atol=1e-4)


def test_models_pickled_before_there_was_a_choice():
    model = build(True)
    del model.__dict__["backend"]
    assert chosen(model) == "by_hand"
