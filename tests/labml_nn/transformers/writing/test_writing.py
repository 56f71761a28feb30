"""A writer says what `forward` says, whatever the model, the batch and the step."""

import copy
import pickle

import pytest
import torch
from torch import nn
from writing_tools import CHOICES, PAD, CompiledStep, Step, V, W, compare, gpt, replier, said

from labml_nn.sampling import Temperature, generate
from labml_nn.transformers.autoregressive import AutoregressiveTransformer
from labml_nn.transformers.writing import DecoderWriter, compiled

STEPS = [
    pytest.param(torch.float64, Step, 1e-10, id="lean, double"),
    pytest.param(torch.float32, Step, 1e-5, id="lean"),
    pytest.param(torch.float32, CompiledStep, 1e-5, id="compiled"),
]


@pytest.fixture(autouse=True)
def chosen(request, monkeypatch):
    """Without a compiler the lean step is what there is to test; it can also be asked for."""
    step = getattr(request.node, "callspec", None) and request.node.callspec.params.get("step")
    if step is Step:
        monkeypatch.setenv("LABML_NN_KERNEL", "0")
    elif step is CompiledStep and compiled.KERNEL.find() is None:
        pytest.skip("no C++ compiler")


def read(model, length, batch):
    """Some text, the state after it, and what follows."""
    text = torch.randint(1, V, (length + 3 * min(model.config.max_len, 9) + 2, batch))
    with torch.no_grad():
        _, state = model(text[:length])
    return state, text[length:]


@pytest.mark.parametrize(("dtype", "step", "tolerance"), STEPS)
@pytest.mark.parametrize("choice", CHOICES)
def test_says_what_forward_says(choice, dtype, step, tolerance):
    model = gpt(**CHOICES[choice]).to(dtype)
    compare(model, *read(model, 3, 2), step, tolerance)


@pytest.mark.parametrize(("dtype", "step", "tolerance"), STEPS)
@pytest.mark.parametrize("batch", [1, 3, 4, 7])
def test_any_batch_after_any_prompt(batch, dtype, step, tolerance):
    model = gpt().to(dtype)
    for length in (1, W, W + 2):
        compare(model, *read(model, length, batch), step, tolerance)


@pytest.mark.parametrize(("dtype", "step", "tolerance"), STEPS)
@pytest.mark.parametrize("changes", [{}, {"positions": "learned", "norm_first": False}])
def test_replies_are_what_forward_says(changes, dtype, step, tolerance):
    model, text = replier(**changes).to(dtype), torch.randint(3, V, (2 * W + 1, 4))
    with torch.no_grad():
        state, start, _ = model.prepare_prompt(said())
        _, state = model(start, state)
    compare(model, state, text, step, tolerance)


@pytest.mark.parametrize(("dtype", "step", "tolerance"), STEPS)
def test_gives_up_at_padding_and_goes_on(dtype, step, tolerance):
    model = gpt(padding_token=PAD).to(dtype)
    state, text = read(model, 3, 2)
    text[5, 1] = text[12, 0] = PAD
    compare(model, state, text, step, tolerance)


@pytest.mark.parametrize(("dtype", "step", "tolerance"), STEPS)
def test_two_writers_do_not_meet(dtype, step, tolerance):
    """And the state from which both go on is what it was."""
    model = gpt().to(dtype)
    state, text = read(model, 3, 2)
    before = copy.deepcopy(state)
    one, other = model.decoding_step(state), model.decoding_step(state)
    first = [one(token).clone() for token in text]
    for token in text.flip(0):
        other(token)
    again = model.decoding_step(state)
    assert torch.equal(torch.stack([again(token) for token in text]), torch.stack(first))
    assert torch.equal(state.tokens, before.tokens)
    assert torch.equal(state.layers[1].keys, before.layers[1].keys)


@pytest.mark.parametrize(("dtype", "step", "tolerance"), STEPS)
def test_logits_are_the_callers_to_keep(dtype, step, tolerance):
    model = gpt().to(dtype)
    state, text = read(model, 3, 2)
    writer = model.decoding_step(state)
    first = writer(text[0])
    kept = first.clone()
    writer(text[1])
    assert torch.equal(first, kept)
    assert not first.requires_grad


@pytest.mark.parametrize(("dtype", "step", "tolerance"), STEPS)
def test_another_default_precision(dtype, step, tolerance):
    """The precision is that of the model, whatever new tensors would have."""
    model = gpt().to(dtype)
    state, text = read(model, 3, 2)
    want = model.decoding_step(state)(text[0])
    torch.set_default_dtype(torch.float64)
    try:
        got = model.decoding_step(state)(text[0])
    finally:
        torch.set_default_dtype(torch.float32)
    assert got.dtype == dtype
    torch.testing.assert_close(got, want, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize(("dtype", "step", "tolerance"), STEPS)
def test_copies_write_the_same(dtype, step, tolerance):
    model = gpt().to(dtype)
    state, text = read(model, 3, 2)
    expected = model.decoding_step(state)(text[0])
    for other in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert torch.equal(other.decoding_step(state)(text[0]), expected)


@pytest.mark.parametrize(("dtype", "step", "tolerance"), STEPS)
def test_a_new_writer_knows_new_parameters(dtype, step, tolerance):
    model = gpt().to(dtype)
    text = torch.randint(V, (4, 2))
    before = generate(model, text, 5)
    with torch.no_grad():
        model.generator.projection.bias[11] += 100
    assert (before != 11).any()
    assert (generate(model, text, 5) == 11).all()


@pytest.mark.parametrize(("dtype", "step", "tolerance"), STEPS)
def test_a_writer_sees_that_parameters_change(dtype, step, tolerance):
    """What is in memory was made by the old ones; a state for each token has that, too."""
    model = gpt(qk_norm=True).to(dtype)
    state, text = read(model, 3, 2)
    writer = model.decoding_step(state)
    for number, token in enumerate(text[:3]):
        if number == 1:
            with torch.no_grad():
                for parameter in model.parameters():
                    parameter.mul_(1.5)
        logits, state = model(token[None], state)
        torch.testing.assert_close(writer(token), logits[0], rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize(("dtype", "step", "tolerance"), STEPS)
def test_in_and_out_of_inference_mode(dtype, step, tolerance):
    """A writer is made in one and used in the other, and slides in both."""
    model = gpt().to(dtype)
    state, text = read(model, 3, 2)
    with torch.inference_mode():
        inside = model.decoding_step(state)
    outside = model.decoding_step(state)
    for token in text:
        logits = inside(token)
        with torch.inference_mode():
            torch.testing.assert_close(outside(token), logits)


def test_memory_does_not_grow():
    model = gpt()
    state, text = read(model, 3, 2)
    writer = model.decoding_step(state)
    places = [kept.keys.data_ptr() for kept in writer.memory.layers]
    for token in text:
        writer(token)
    assert [kept.keys.data_ptr() for kept in writer.memory.layers] == places


# Where it does not apply.
def other_linear(model):
    class Linear(nn.Linear):
        pass

    model.stack.layers[1].feed_forward.layer1.__class__ = Linear


def other_forward(model):
    part = model.stack.layers[0].self_attn
    part.forward = part.forward


UNUSUAL = {
    "in training": lambda model: model.train(),
    "with a hook": lambda model: model.stack.layers[0].register_forward_hook(lambda *_: None),
    "with a hook before": lambda model: model.generator.register_forward_pre_hook(lambda *_: None),
    "watched": lambda model: setattr(model.stack.layers[1].self_attn, "store_attn", True),
    "keeping inputs": lambda model: setattr(model.stack.layers[1], "is_save_ff_input", True),
    "a part of another class": other_linear,
    "a method hidden by another": other_forward,
    "half precision": lambda model: model.bfloat16(),
}


@pytest.mark.parametrize("unusual", [name for name in UNUSUAL if name != "half precision"])
def test_the_plain_way_for_models_that_are_not_as_made(unusual):
    model = gpt(dropout_prob=0.0)
    state, text = read(model, 3, 2)
    UNUSUAL[unusual](model)
    compare(model, state, text, None, 1e-6)


def test_the_plain_way_for_a_class_of_ones_own():
    class Mine(AutoregressiveTransformer):
        pass

    model = gpt()
    state, text = read(model, 3, 2)
    model.__class__ = Mine
    compare(model, state, text, None, 1e-6)


def test_the_plain_way_after_padding():
    model = gpt(padding_token=PAD)
    text = torch.randint(1, V, (9, 2))
    text[0, 1] = PAD
    _, state = model(text[:4])
    compare(model, state, text[4:], None, 1e-6)


def test_the_plain_way_under_autocast():
    model = gpt()
    text = torch.randint(V, (9, 2))
    with torch.autocast("cpu", torch.bfloat16):
        _, state = model(text[:4])
        compare(model, state, text[4:], None, 1e-6)


def test_the_lean_step_for_half_precision():
    model = gpt().bfloat16()
    state, text = read(model, 3, 2)
    compare(model, state, text, Step, 0.1)


def test_the_lean_step_for_large_models(monkeypatch):
    monkeypatch.setattr(compiled, "LARGE", 100)
    model = gpt()
    compare(model, *read(model, 3, 2), Step, 1e-5)


def test_the_lean_step_where_there_is_no_compiler(monkeypatch, tmp_path):
    """One warning, on the first writer."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("CXX", "/nowhere/c++")
    monkeypatch.setattr(compiled.KERNEL, "found", None)
    monkeypatch.setattr(compiled.KERNEL, "told", set())
    model = gpt()
    state, text = read(model, 3, 2)
    with pytest.warns(RuntimeWarning, match="step of a decoder is not used: there is no") as told:
        compare(model, state, text, Step, 1e-5)
        compare(model, state, text, Step, 1e-5)
    assert len(told) == 1


@pytest.mark.parametrize(
    ("tokens", "error", "message"),
    [
        ([3, V], ValueError, "holds 19; expected numbers from 0 to 18"),
        ([-1, 3], ValueError, "holds -1"),
        ([3], ValueError, "that of 2 sequences"),
        ([0.5, 1.0], TypeError, "dtype torch.float32"),
    ],
)
def test_tokens_that_cannot_be_read(unhooked, tokens, error, message):
    gpts = unhooked("labml_nn.transformers.autoregressive")
    config = gpts.AutoregressiveConfig(n_vocab=V, d_model=12, heads=3, n_layers=1)
    model = gpts.AutoregressiveTransformer(config).eval()
    _, state = model(torch.randint(V, (4, 2)))
    with pytest.raises(error, match=message):
        model.decoding_step(state)(torch.tensor(tokens))


def test_tokens_of_32_bits():
    model = gpt()
    text = torch.randint(V, (9, 2), dtype=torch.int32)
    _, state = model(text[:4])
    compare(model, state, text[4:], (Step, CompiledStep), 1e-5)


def test_generation_takes_it(monkeypatch):
    """And writes what it would have written in the plain way."""
    model, prompt = gpt(), torch.randint(V, (4, 3))
    made = []
    init = DecoderWriter.__init__
    monkeypatch.setattr(
        DecoderWriter, "__init__", lambda *args, **kwargs: made.append(1) or init(*args, **kwargs)
    )
    text = generate(model, prompt, 3 * W, Temperature(2.0), seed=5)
    assert made == [1]
    model.generator.register_forward_hook(lambda *_: None)
    assert torch.equal(generate(model, prompt, 3 * W, Temperature(2.0), seed=5), text)
    assert made == [1]
