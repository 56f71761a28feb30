"""The feedback transformer by hand: against the plain form, in every way it can be asked."""

import copy

import pytest
import torch
from feedback_tools import B, C, build, tokens
from torch import nn

from labml_nn.transformers.feedback.by_hand import form as forms
from labml_nn.transformers.feedback.by_hand.desk import Desk

N, T = 3, 9


@pytest.fixture(autouse=True)
def short_spans(monkeypatch):
    """Spans of four steps, so that a text of nine tokens has a first, a middle and a last."""
    monkeypatch.setattr(forms, "STEPS", 4)


def pair(**options):
    """The same model twice: by hand, and plain."""
    by_hand = build(True, **options).double()
    by_hand.backend = "by_hand"
    plain = copy.deepcopy(by_hand)
    plain.backend = "plain"
    return by_hand, plain


def double(*shape, seed=0):
    return tokens(*shape, seed=seed, dtype=torch.float64)


def total(y, memory):
    """A lopsided sum of all that a scan gives back."""
    outputs = (y, memory.keys.rows, memory.values.rows)
    return sum((x * double(*x.shape, seed=i)).sum() for i, x in enumerate(outputs))


def everything(model, x, read=None):
    """Outputs, memory, and gradients of the input and of all parameters."""
    x = x.clone().requires_grad_()
    y, memory = (read or type(model).scan)(model, x)
    found = torch.autograd.grad(total(y, memory), [x, *model.parameters()], allow_unused=True)
    return [y, memory.keys.rows, memory.values.rows, *found]


def assert_equal_pair(by_hand, plain, x, read=None):
    got, expected = everything(by_hand, x, read), everything(plain, x, read)
    torch.testing.assert_close(got, expected, rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("length", [2, 4, T, 14])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"norm_memory": True, "n_layers": 3},
        {"horizon": 3},
        {"horizon": 1, "norm_memory": True},
        {"horizon": 6, "max_distance": 2},
        {"max_distance": 4, "n_layers": 1},
    ],
    ids=str,
)
def test_equals_the_plain_form(options, length):
    assert_equal_pair(*pair(**options), double(length, N, C))


@pytest.mark.parametrize("horizon", [None, 5])
def test_goes_on_from_a_memory_with_its_gradients(horizon):
    def in_pieces(model, x):
        y, memory = model.scan(x[:6])
        z, memory = model.scan(x[6:8], memory)
        last, memory = model.step(x[8], memory)
        return torch.cat([y, z, last[None]]), memory

    by_hand, plain = pair(horizon=horizon)
    assert_equal_pair(by_hand, plain, double(T, N, C), in_pieces)
    torch.testing.assert_close(
        everything(by_hand, double(T, N, C), in_pieces), everything(plain, double(T, N, C))
    )


@pytest.mark.parametrize("horizon", [None, 4])
def test_padding(horizon):
    """Texts that end early, begin late, have gaps, and one that goes on from a ragged memory."""
    real = torch.ones(T, N, dtype=torch.bool)
    real[:3, 0] = real[5:, 1] = real[4, 2] = False

    def padded(model, x):
        y, memory = model.scan(x, real=real)
        z, memory = model.scan(x.flip(0), memory)
        return torch.cat([y, z]), memory

    by_hand, plain = pair(horizon=horizon)
    assert_equal_pair(by_hand, plain, double(T, N, C), padded)


@pytest.mark.parametrize("is_gated", [False, True])
@pytest.mark.parametrize(
    "activation",
    [
        nn.ReLU(),
        nn.GELU(),
        nn.SiLU(),
        nn.Sigmoid(),
        nn.Tanh(),
        nn.Identity(),
        nn.ELU(),
        nn.LeakyReLU(0.2),
        nn.Mish(),
        nn.Softplus(),
        torch.relu,
        torch.nn.functional.gelu,
    ],
    ids=lambda activation: getattr(activation, "__name__", str(activation)),
)
def test_every_activation(activation, is_gated):
    models = pair()
    for model in models:
        for layer in model.layers:
            network = layer.feed_forward
            del network.activation
            network.activation, network.is_gated = activation, is_gated
            if is_gated:
                torch.manual_seed(7)
                network.linear_v = nn.Linear(C, network.layer1.out_features).double()
    assert_equal_pair(*models, double(6, N, C))


def test_networks_without_biases():
    models = pair()
    for model in models:
        for layer in model.layers:
            layer.feed_forward.layer1.bias = layer.feed_forward.layer2.bias = None
    assert_equal_pair(*models, double(6, N, C))


@pytest.mark.parametrize("options", [{"norm_memory": True}, {"horizon": 2}], ids=str)
def test_gradients_numerically(options):
    model, _ = pair(d_model=2, heads=1, n_layers=2, max_distance=3, **options)
    x = double(6, 1, 2).requires_grad_()
    assert torch.autograd.gradcheck(model, (x,))
    names = [name for name, _ in model.named_parameters() if "feed_forward" not in name]

    def call(*chosen):
        named = dict(zip(names, chosen, strict=True))
        return torch.func.functional_call(model, named, (x.detach(),))

    chosen = tuple(model.get_parameter(name) for name in names)
    assert torch.autograd.gradcheck(call, chosen, fast_mode=True)


def test_single_precision():
    by_hand, plain = pair()
    by_hand, plain, x = by_hand.float(), plain.float(), tokens(T, N, C)
    got, expected = by_hand(x), plain(x)
    torch.testing.assert_close(got, expected, rtol=1e-5, atol=1e-5)


def test_without_gradients_and_with_strides():
    by_hand, plain = pair()
    x = double(N, C, T).permute(2, 0, 1)
    with torch.no_grad():
        torch.testing.assert_close(by_hand(x), plain(x))
        same = x[:, :1].expand(-1, N, -1)
        torch.testing.assert_close(by_hand(same), plain(x)[:, :1].expand_as(same))
    with torch.inference_mode():
        torch.testing.assert_close(by_hand(x), plain(x))
    assert_equal_pair(by_hand, plain, x)


def test_some_parameters_do_not_learn():
    models = pair()
    for model in models:
        model.layers[0].requires_grad_(False)
        model.key.requires_grad_(False)
    x, expected = double(T, N, C), []
    for model in models:
        learned = [p for p in model.parameters() if p.requires_grad]
        expected.append(torch.autograd.grad(model(x).pow(2).sum(), learned))
    torch.testing.assert_close(*expected)


def test_only_memory_is_asked_for():
    models, x, found = pair(), double(T, N, C), []
    for model in models:
        _, memory = model.scan(x)
        found.append(torch.autograd.grad(memory.keys.rows.pow(2).sum(), model.weights)[0])
    torch.testing.assert_close(*found)


def test_outputs_are_no_part_of_what_was_kept():
    """Outputs may be changed in place, as any tensor may, without harm to the way back."""
    models, x, found = pair(), double(T, N, C), []
    for model in models:
        y, memory = model.scan(x)
        loss = y.mul_(2).pow(2).sum() + memory.values.rows.sum()
        found.append(torch.autograd.grad(loss, list(model.parameters()), allow_unused=True))
    torch.testing.assert_close(*found)


def test_gradients_of_gradients_are_refused():
    by_hand, plain = pair()
    x = double(5, N, C).requires_grad_()
    torch.autograd.grad(plain(x).sum(), x, create_graph=True)
    with pytest.raises(RuntimeError, match=r"gradients of gradients.*`backend = 'plain'`"):
        torch.autograd.grad(by_hand(x).sum(), x, create_graph=True)


def test_a_span_reaches_exactly_as_far_as_its_steps():
    spans = list(forms.spans(T, before=2, horizon=3))
    ends = [(span.start, span.stop, span.low) for span in spans]
    assert ends == [(0, 4, 0), (4, 8, 3), (8, 9, 7)]
    middle = spans[1]
    assert (middle.steps, middle.old, middle.rows) == (4, 3, 6)
    distances = middle.distances(torch.device("cpu")).tolist()
    assert distances[0] == [3, 2, 1, 0, -1, -2]
    assert distances[3] == [6, 5, 4, 3, 2, 1]
    assert B < N


def test_longer_spans_where_nobody_draws_masks():
    spans = forms.spans(T, before=2, horizon=3, longer=2)
    assert [(span.start, span.stop, span.low) for span in spans] == [(0, 8, 0), (8, 9, 7)]


def test_a_desk_has_the_same_numbers_in_all_shapes():
    batch, heads, d_k = 5, 3, 2
    desk = Desk.of(double(1), batch, heads, d_k)
    x = double(batch, heads * d_k)
    desk.maps.copy_(x)
    by_head = desk.by_head()
    assert by_head is desk.heads
    assert torch.equal(by_head, x.view(batch, heads, d_k).transpose(0, 1))
    assert torch.equal(desk.rows.flatten(), by_head.flatten())
    desk.rows.mul_(3)
    assert desk.side_by_side() is desk.maps
    assert torch.equal(desk.maps, 3 * x)
