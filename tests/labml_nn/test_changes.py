"""Whatever is done to a module has its effect: what kernels cannot do they leave to the reference.

`changes.py` has the changes. Those that were found by chance or by users stand here one by one.
"""

import contextlib
import os
import subprocess
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
import torch
from jaxtyping import TypeCheckError
from kernel_cases import LESSONS, SMALL, B, C, H, V, decode, language_model, random, tensors, texts
from sweeps import swept
from torch import nn

from labml_nn import kernels
from labml_nn.kernels import elman as elman_kernels
from labml_nn.kernels import feedback_cpp
from labml_nn.recurrent import elman as elman_page
from labml_nn.recurrent.elman import Elman
from labml_nn.transformers.feed_forward import FeedForward
from labml_nn.transformers.mha import MultiHeadAttention

#: In the tests shapes are checked at every call, often before PyTorch has a reason to raise.
ERRORS = (AttributeError, IndexError, RuntimeError, TypeCheckError, TypeError, ValueError)


def run(program: str, *words: str) -> subprocess.CompletedProcess[str]:
    """A program of this folder in a process of its own."""
    path = Path(__file__).with_name(program)
    paths = os.pathsep.join([str(path.parent), str(path.parents[2])])
    given = {"PYTHONPATH": paths, "OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore"}
    command = [sys.executable, str(path), *words]
    return subprocess.run(command, capture_output=True, text=True, env=os.environ | given)


OWNERS = {kernel.owner for kernel in kernels.registered()}
WITH_KERNELS = [
    name
    for name, case in LESSONS.items()
    if OWNERS & {type(module) for module in case.make()[0].modules()}
]


class Called(Exception):
    """A hook was called."""


@pytest.mark.parametrize("lesson", WITH_KERNELS)
def test_a_hook_is_called_wherever_it_is(lesson):
    """No kernel computes a submodule that it has not examined."""
    case = LESSONS[lesson]
    model, inputs = case.make()
    calls = {"the call": partial(case.call, model, **inputs)}
    if "language model" in lesson:
        with torch.no_grad():
            state, prompt, _ = model.prepare_prompt(inputs["tokens"])
            _, state = model(prompt, state)
        calls["a step"] = lambda: model.decoding_step(state)(inputs["targets"][0])
    for what, call in calls.items():
        seen: set[str] = set()
        with kernels.disabled(), contextlib.ExitStack() as hooks:
            for path, module in model.named_modules():
                hook = partial(lambda seen, path, *_: seen.add(path), seen, path)
                hooks.enter_context(module.register_forward_hook(hook))
            call()
        assert len(seen) > 4 or "mha" in lesson
        for path in seen:
            hook = Mock(side_effect=Called)
            with model.get_submodule(path).register_forward_hook(hook), contextlib.suppress(Called):
                call()
            assert hook.called, f"{what}: the hook of {path!r}"


@pytest.mark.parametrize("every", swept([False, True], False), ids=["some", "every"])
def test_in_a_fresh_process(every):
    """Models train after they have generated; compiled modules run the reference."""
    models = ("encoder_decoder", "feedback", "lstm", "mamba2")
    some = ["mha", "elman", *(f"{name} language model" for name in models)]
    lessons = list(LESSONS) if every else some
    done = run("fresh_process.py", *lessons)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["training after generation", *lessons]


def test_every_change_of_every_lesson():
    """In another process, since a kernel that reads out of bounds may end it."""
    done = run("changes.py")
    assert done.returncode == 0, done.stdout + done.stderr[-4000:]
    assert "equal" in done.stdout and "raised" in done.stdout


# What was found, by chance or by users.
def result(call: Any) -> Any:
    """What a call returns, or that it raises."""
    try:
        with torch.no_grad():
            return call()
    except ERRORS:
        return "raises"


def assert_as_reference(call: Any) -> None:
    actual = result(call)
    with kernels.disabled():
        expected = result(call)
    if "raises" in (actual, expected):
        assert actual is expected
    else:
        torch.testing.assert_close(actual, expected, rtol=1e-4, atol=1e-4, equal_nan=True)


#: Changes of language models, by the name of the model.
FOUND = {
    "padded vocabulary": ("autoregressive", "generator.projection", nn.Linear(C, 2 * V)),
    "wider layer": ("autoregressive", "stack.layers.1.feed_forward", FeedForward(C, 200, 0.0)),
    "smaller embedding": ("autoregressive", "embedding.tokens", nn.Embedding(4, C)),
    "smaller vocabulary": ("autoregressive", "config", {"n_vocab": 5}),
    "longer than its table": ("autoregressive", "config", {"max_len": 4000}),
    "post-norm in one layer": ("autoregressive", "stack.layers.1.norm_first", False),
    "relu in one layer": ("elman", "elman.layers.1.cell.nonlinearity", "relu"),
    "post-norm below": ("encoder_decoder", "transformer.decoder.layers.1.norm_first", False),
}


@pytest.mark.parametrize("change", FOUND)
def test_a_changed_model_computes_what_its_page_says(change):
    torch.manual_seed(0)
    name, path, value = FOUND[change]
    model = language_model(name, **({"tied": False} if name == "autoregressive" else {})).eval()
    parent, _, attribute = path.rpartition(".")
    if attribute == "config":
        value = replace(model.config, **value)
    setattr(model.get_submodule(parent), attribute, value)
    tokens, targets = torch.randint(3, 5, (2, 5, 2))
    assert_as_reference(lambda: decode(model, tokens, targets))


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


def test_attention_with_other_lengths_heads_and_dtypes(unhooked):
    """PyTorch's fused attention would read values beyond their end."""
    attention, x = random(MultiHeadAttention(H, C, 0.0)), torch.randn(90, B, C)
    for value in (x[:5], x[:1], x[:, :1]):
        assert_as_reference(partial(attention, query=x, key=value, value=value))
        assert_as_reference(partial(attention, query=x, key=x, value=value))
    for part in (attention.query, attention.key, attention.value):
        part.heads, part.d_k = 2, C // 2  # what cuts the outputs are the submodules
    assert_as_reference(partial(attention, query=x, key=x, value=x))
    attention.query.double()
    attention.output.double()
    assert_as_reference(partial(attention, query=x.double(), key=x.double(), value=x.double()))

    # Without the checks of shapes, which would find it first.
    attention = unhooked("labml_nn.transformers.mha").MultiHeadAttention(H, C, 0.0)
    query = torch.randn(9, B, H, 4)
    with pytest.raises(RuntimeError):
        attention.attend(query, query, query[:5])
    with unhooked("labml_nn.kernels").disabled():
        expected = attention.attend(query, query, query[:1])
    torch.testing.assert_close(attention.attend(query, query, query[:1]), expected)


def test_activation_functions_of_the_user(monkeypatch):
    """A new one in the table of the lesson, and one that is replaced."""
    monkeypatch.setitem(elman_page.ACTIVATIONS, "sin", torch.sin)
    monkeypatch.setitem(elman_page.ACTIVATIONS, "relu", nn.functional.leaky_relu)
    x = torch.randn(7, B, C)
    for name in ("sin", "relu"):
        assert_as_reference(partial(random(Elman(C, 10, nonlinearity=name)), x))
    model = language_model("elman", nonlinearity="relu").eval()
    assert_as_reference(partial(decode, model, **texts()))


def test_projections_that_cannot_be_joined():
    """Biases of other dtypes or lengths, which PyTorch would join, and a sparse weight."""
    for path, value in {
        "query.linear": {"bias": torch.randn(C, dtype=torch.bfloat16)},
        "key.linear": {"bias": torch.randn(1)},
        "value.linear": {"weight": torch.randn(C, C).to_sparse()},
        "output": {"weight": torch.randn(C, C).to_sparse()},
    }.items():
        attention, x = MultiHeadAttention(H, C, 0.0), torch.randn(9, B, C, requires_grad=True)
        part = attention.get_submodule(path)
        for name, tensor in value.items():
            setattr(part, name, nn.Parameter(tensor))

        def gradient(attention=attention, x=x):
            with torch.enable_grad():
                return torch.autograd.grad(attention(query=x, key=x, value=x).square().sum(), x)

        assert_as_reference(gradient)


# Gradients.
@pytest.mark.parametrize("name", SMALL)
def test_a_penalty_on_gradients_can_be_trained(name):
    model = language_model(name)
    inputs, parameters = texts(9), list(model.parameters())

    def penalty():
        loss = model.loss(**inputs)
        options = {"create_graph": True, "materialize_grads": True}
        size = sum(grad.square().sum() for grad in torch.autograd.grad(loss, parameters, **options))
        return torch.autograd.grad(size, parameters, materialize_grads=True)

    actual = penalty()
    with kernels.disabled():
        torch.testing.assert_close(actual, penalty(), rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("name", SMALL)
def test_a_model_is_recomputed_in_the_backward_pass(name):
    """For `torch.utils.checkpoint` saved tensors are unpacked once."""
    model = language_model(name)
    inputs, parameters = texts(9), list(model.parameters())
    loss = partial(model.loss, **inputs)
    again = torch.utils.checkpoint.checkpoint(loss, use_reentrant=False)
    expected, found = (
        torch.autograd.grad(each, parameters, allow_unused=True) for each in (loss(), again)
    )
    torch.testing.assert_close(found, expected)


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
    off = kernels.disabled(elman_kernels, feedback_cpp)
    with contextlib.nullcontext() if compiled else off:
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
