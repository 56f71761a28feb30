"""What kernels leave to the reference: changed models, foreign states, second derivatives.

`random_changes.py` looks for the next case; here stand those that were found.
"""

import contextlib
from dataclasses import replace
from functools import partial

import pytest
import torch
from jaxtyping import TypeCheckError
from kernel_cases import (
    LESSONS,
    SMALL,
    B,
    C,
    H,
    V,
    decode,
    language_model,
    random,
    tensors,
    texts,
)
from sweeps import in_turn
from torch import nn
from torch.overrides import TorchFunctionMode

from labml_nn import kernels
from labml_nn.kernels import elman as elman_kernels
from labml_nn.kernels import feedback_cpp
from labml_nn.kernels.as_built import is_as_configured
from labml_nn.recurrent import elman as elman_page
from labml_nn.recurrent.elman import Elman
from labml_nn.transformers.feed_forward import FeedForward
from labml_nn.transformers.feedback import FeedbackMemory
from labml_nn.transformers.mha import MultiHeadAttention

#: In the tests shapes are checked at every call, often before PyTorch has a reason to raise.
ERRORS = (AttributeError, IndexError, RuntimeError, TypeCheckError, TypeError, ValueError)


def outcome(call):
    """What a call returns, or that it raises."""
    try:
        with torch.no_grad():
            return call()
    except ERRORS:
        return "raises"


def assert_as_reference(call):
    actual = outcome(call)
    with kernels.disabled():
        expected = outcome(call)
    if "raises" in (actual, expected):
        assert actual is expected
    else:
        torch.testing.assert_close(actual, expected, rtol=1e-4, atol=1e-4, equal_nan=True)


def padded_vocabulary(model):
    model.generator.projection = nn.Linear(C, 2 * V)


def wider_layer(model):
    model.stack.layers[1].feed_forward = FeedForward(C, 200, 0.0, nn.ReLU())


def smaller_embedding(model):
    model.embedding.tokens = nn.Embedding(4, C)


def smaller_vocabulary(model):
    model.config = replace(model.config, n_vocab=5)


def longer_than_its_table(model):
    model.config = replace(model.config, max_len=4000)


def post_norm_in_one_layer(model):
    model.stack.layers[1].norm_first = False


def relu_in_one_layer(model):
    model.elman.layers[1].cell.nonlinearity = "relu"


def post_norm_in_the_decoder(model):
    model.transformer.decoder.layers[1].norm_first = False


REPORTED = {
    padded_vocabulary: "autoregressive",
    wider_layer: "autoregressive",
    smaller_embedding: "autoregressive",
    smaller_vocabulary: "autoregressive",
    longer_than_its_table: "autoregressive",
    post_norm_in_one_layer: "autoregressive",
    relu_in_one_layer: "elman",
    post_norm_in_the_decoder: "encoder_decoder",
}


@pytest.mark.parametrize("change", REPORTED)
def test_a_changed_model_computes_what_its_page_says(change):
    torch.manual_seed(0)
    name = REPORTED[change]
    model = language_model(name, **({"tied": False} if name == "autoregressive" else {})).eval()
    change(model)
    tokens, targets = torch.randint(3, 5, (2, 5, 2))
    assert_as_reference(lambda: decode(model, tokens, targets))


@pytest.mark.parametrize(("name", "dtype"), in_turn(SMALL, [torch.float64, torch.bfloat16]))
def test_defaults_of_pytorch_do_not_matter(name, dtype):
    torch.manual_seed(0)
    model = language_model(name).eval()
    inputs = texts()
    expected = decode(model, **inputs)
    torch.set_default_dtype(dtype)
    try:
        actual = decode(model, **inputs)
    finally:
        torch.set_default_dtype(torch.float32)
    torch.testing.assert_close(actual, expected)


@pytest.mark.parametrize("field", ["d_model", "n_layers", "heads", "batch"])
@pytest.mark.parametrize("name", SMALL)
def test_the_state_of_another_model(name, field):
    """A compiled step would read beyond its end."""
    other = {"d_model": 24, "n_layers": 3, "heads": 2}
    config = dict(SMALL[name])
    if field in config:
        config[field] = other[field]
    elif field == "heads" and "d_hidden" in config:
        config["d_hidden"] = 30
    torch.manual_seed(0)
    model, foreign = language_model(name).eval(), language_model(name, **config).eval()
    tokens = torch.randint(3, V, (4, 2))
    following = tokens[0, :1] if field == "batch" else tokens[0]

    def call():
        state, prompt, _ = foreign.prepare_prompt(tokens)
        _, state = foreign(prompt, state)
        return model.decoding_step(state)(following)

    assert_as_reference(call)


@pytest.mark.parametrize("lesson", [name for name in LESSONS if "language model" not in name])
def test_second_derivatives(lesson):
    """Those of finite differences, with kernels."""
    case = replace(LESSONS[lesson], dtype=torch.float64)
    model, inputs = case.make()
    name = next(iter(inputs))

    def call(x):
        return tensors(case.call(model, **{**inputs, name: x}))[0]

    torch.autograd.gradgradcheck(call, inputs[name], nondet_tol=1e-9, fast_mode=True)


@pytest.mark.parametrize("name", SMALL)
def test_a_penalty_on_gradients_can_be_trained(name):
    torch.manual_seed(0)
    model = language_model(name)
    inputs, parameters = texts(9), list(model.parameters())

    def penalty():
        loss = model.loss(**inputs)
        grads = torch.autograd.grad(loss, parameters, create_graph=True, allow_unused=True)
        size = sum(grad.square().sum() for grad in grads if grad is not None)
        found = torch.autograd.grad(size, parameters, allow_unused=True)
        return [torch.zeros(()) if grad is None else grad for grad in found]

    actual = penalty()
    with kernels.disabled():
        torch.testing.assert_close(actual, penalty(), rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("name", SMALL)
def test_saved_tensors_are_unpacked_once(name):
    """`torch.utils.checkpoint` demands it, and a second copy would cost memory elsewhere."""
    torch.manual_seed(0)
    model = language_model(name)
    inputs, parameters = texts(9), list(model.parameters())

    def gradients(loss):
        return torch.autograd.grad(loss, parameters, allow_unused=True)

    expected = gradients(model.loss(**inputs))
    again = torch.utils.checkpoint.checkpoint(lambda: model.loss(**inputs), use_reentrant=False)
    torch.testing.assert_close(gradients(again), expected)
    packed, unpacked = [], []

    def pack(x):
        packed.append(x)
        return len(packed) - 1

    def unpack(index):
        unpacked.append(index)
        return packed[index]

    with torch.autograd.graph.saved_tensors_hooks(pack, unpack):
        loss = model.loss(**inputs)
    torch.testing.assert_close(gradients(loss), expected)
    assert len(unpacked) == len(set(unpacked)) > 5


def test_keys_and_values_of_different_lengths():
    """PyTorch's fused attention would read values beyond their end."""
    attention, x = random(MultiHeadAttention(H, C, 0.0)), torch.randn(9, B, C)
    for value in (x[:5], x[:1]):
        with pytest.raises(ERRORS):
            attention(query=x, key=x, value=value)
    one = x[:, :1]
    assert_as_reference(lambda: attention(query=x, key=one, value=one))


def test_keys_and_values_of_different_lengths_in_attend(unhooked):
    """Without the checks of shapes, which would find it first."""
    attention = unhooked("labml_nn.transformers.mha").MultiHeadAttention(H, C, 0.0)
    query = torch.randn(9, B, H, 4)
    with pytest.raises(RuntimeError):
        attention.attend(query, query, query[:5])
    one = query[:1]
    with unhooked("labml_nn.kernels").disabled():
        expected = attention.attend(query, query, one)
    torch.testing.assert_close(attention.attend(query, query, one), expected)


def test_a_parameter_of_another_shape_is_not_as_configured():
    """C++ would notice it, too, and much later."""
    model = language_model("autoregressive")
    assert is_as_configured(model)
    model.stack.norm.weight = nn.Parameter(torch.ones(2 * C))
    assert not is_as_configured(model)


def test_heads_of_the_projections():
    """The outputs are cut by the submodules, not by the module around them."""
    attention, x = random(MultiHeadAttention(H, C, 0.0)), torch.randn(9, B, C)
    for part in (attention.query, attention.key, attention.value):
        part.heads, part.d_k = 2, C // 2
    assert_as_reference(lambda: attention(query=x, key=x, value=x))


def test_values_of_a_negative_view():
    """What is in memory are their negatives."""
    torch.manual_seed(0)
    model = language_model("autoregressive").eval()
    network = model.stack.layers[0].feed_forward.layer1
    network.weight = nn.Parameter(torch._neg_view(network.weight.detach()))
    assert_as_reference(partial(decode, model, **texts()))


class Louder(TorchFunctionMode):
    def __torch_function__(self, function, types, args=(), kwargs=None):
        result = function(*args, **kwargs or {})
        return 2 * result if function in (torch.tanh, torch.softmax, torch.einsum) else result


@pytest.mark.parametrize("name", SMALL)
def test_a_mode_for_functions_sees_all_of_them(name):
    torch.manual_seed(0)
    model, tokens = language_model(name), torch.randint(3, V, (6, 2))

    def call():
        with Louder():
            return model.loss(tokens[:-1], tokens[1:])

    assert_as_reference(call)


@pytest.mark.parametrize("name", ["feedback_kv", "mha", "elman"])
def test_a_part_of_another_kind(name):
    """Also in all layers alike, where one layer is no different from the next."""
    kinds = nn.Identity(), nn.ReLU(), nn.Dropout(0.0), nn.Softmax(0), lambda x: 2 * x
    for old in {type(module) for module in LESSONS[name].make()[0].modules()}:
        for kind in kinds:
            torch.manual_seed(0)
            model, inputs = LESSONS[name].make()
            for module in list(model.modules()):
                for child in [n for n, m in module.named_children() if type(m) is old]:
                    delattr(module, child)
                    setattr(module, child, kind)
            assert_as_reference(partial(LESSONS[name].call, model, **inputs))


def test_the_memory_of_another_feedback_model():
    """It would be broadcast, or converted, or read beyond its end."""
    torch.manual_seed(0)
    model, inputs = LESSONS["feedback_kv"].make()
    x = inputs["x"].detach()
    given = model.scan(x)[1]
    keys, values = given.keys, given.values

    def call(*slots):
        return model(x, memory=FeedbackMemory(*slots))

    for slots in (
        (keys, values[:1]),
        (keys, values.double()),
        (keys[:, :1], values[:, :1]),
        (keys[..., :1], values[..., :1]),
        (keys, None),
    ):
        assert_as_reference(partial(call, *slots))


def test_inputs_of_another_width():
    torch.manual_seed(0)
    model, inputs = LESSONS["feedback_kv"].make()
    x = inputs["x"].detach()
    for other in (x[..., :-1], torch.cat([x, x], -1), x[0]):
        assert_as_reference(partial(model, other))


def test_activation_functions_of_the_user(monkeypatch):
    """A new one in the table of the lesson, and one that is replaced."""
    monkeypatch.setitem(elman_page.ACTIVATIONS, "sin", torch.sin)
    monkeypatch.setitem(elman_page.ACTIVATIONS, "relu", nn.functional.leaky_relu)
    x = torch.randn(7, B, C)
    for name in ("sin", "relu"):
        layer = random(Elman(C, 10, nonlinearity=name))
        assert_as_reference(partial(layer, x))
    model = language_model("elman", nonlinearity="relu").eval()
    assert_as_reference(partial(decode, model, **texts()))


def test_weights_of_several_types_are_not_converted():
    attention, x = random(MultiHeadAttention(H, C, 0.0)), torch.randn(90, B, C).double()
    attention.query.double()
    attention.output.double()
    assert_as_reference(lambda: attention(query=x, key=x, value=x))


def test_changes_in_place_before_the_backward_pass():
    """Of what no gradient depends on: a result, and a bias."""
    attention = MultiHeadAttention(H, C, 0.0)
    query = torch.randn(9, B, H, 4, requires_grad=True)
    attention.attend(query, query, query).mul_(2).sum().backward()
    layer = Elman(C, 10)
    output, _ = layer(torch.randn(7, B, C))
    with torch.no_grad():
        layer.layers[0].cell.input.bias.zero_()
    output.sum().backward()


@pytest.mark.parametrize("compiled", [True, False])
@pytest.mark.parametrize("lesson", ["elman", "feedback_kv"])
def test_a_backward_pass_under_autocast(lesson, compiled):
    """It computes in the dtype of the forward pass."""
    model, inputs = LESSONS[lesson].make()
    without = () if compiled else (elman_kernels, feedback_cpp)
    with kernels.disabled(*without) if without else contextlib.nullcontext():
        loss = tensors(LESSONS[lesson].call(model, **inputs))[0].square().sum()
    (expected,) = torch.autograd.grad(loss, inputs["x"], retain_graph=True)
    with torch.autocast("cpu"):
        (actual,) = torch.autograd.grad(loss, inputs["x"])
    torch.testing.assert_close(actual, expected, rtol=0.05, atol=0.05 * float(expected.abs().max()))


@pytest.mark.parametrize("name", SMALL)
def test_a_decoding_step_has_no_gradients(name):
    model = language_model(name)
    state, prompt, _ = model.prepare_prompt(torch.randint(3, V, (4, 2)))
    step = model.decoding_step(model(prompt, state)[1])
    assert not step(torch.tensor([3, 4])).requires_grad
