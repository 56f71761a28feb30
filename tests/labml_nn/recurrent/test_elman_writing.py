"""The writer of an Elman language model: against its forward, token after token."""

import copy
import ctypes
import re
from pathlib import Path

import pytest
import torch
from elman_tools import NONLINEARITIES, B, C, L, N, T, V
from torch import nn

from labml_nn.recurrent.elman import kernel, writing
from labml_nn.recurrent.elman.kernel.write import CompiledWriter, Writing
from labml_nn.recurrent.elman.language_model import ElmanLanguageModel
from labml_nn.recurrent.elman.writing import ElmanWriter
from labml_nn.sampling import generate

STEPS = 6


def build(**fields):
    torch.manual_seed(0)
    sizes = {"n_vocab": V, "d_model": C, "d_hidden": N, "n_layers": L}
    model = ElmanLanguageModel.from_config(sizes | fields).double().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) / 8)
    return model


def texts(length, batch=B):
    return torch.randint(V, (length, batch), generator=torch.Generator().manual_seed(1))


def begun(model, batch=B):
    """A writer after some tokens, and the state that it has."""
    _, state = model(texts(T, batch))
    return model.decoding_step(state), state


def assert_writes_as_it_reads(model, batch=B, kind=ElmanWriter):
    write, state = begun(model, batch)
    assert isinstance(write, ElmanWriter) == (kind is ElmanWriter)
    kept = state.clone()
    for tokens in texts(STEPS, batch):
        got = write(tokens)
        expected, state = model(tokens[None], state)
        torch.testing.assert_close(got, expected[-1].detach(), rtol=1e-10, atol=1e-12)
        assert not got.requires_grad or kind is None
    assert torch.equal(begun(model, batch)[1], kept)


@NONLINEARITIES
@pytest.mark.parametrize("batch", [1, B])
def test_it_is_forward(nonlinearity, batch):
    assert_writes_as_it_reads(build(nonlinearity=nonlinearity), batch)


@pytest.mark.parametrize(
    "fields",
    [
        {"tied": False},
        {"n_layers": 1},
        {"d_model": N},
        {"padding_token": 3},
        {"learn_h_0": True},
        {"dropout_prob": 0.5},
    ],
    ids=str,
)
def test_with_all_fields(fields):
    assert_writes_as_it_reads(build(**fields))


def test_it_has_parameters_and_the_state_to_itself():
    model = build()
    write, state = begun(model)
    other = copy.deepcopy(model).decoding_step(state)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
        state.zero_()
    for tokens in texts(STEPS):
        logits = write(tokens)
        assert torch.equal(logits, other(tokens))
        assert logits.abs().max() > 0
        logits.zero_()


def hooked(model):
    model.elman.layers[0].cell.input.register_forward_hook(lambda *_: None)


def replaced(model):
    model.output_projection = nn.Sequential(model.output_projection)


class Other(type(build().elman.layers[0].cell)):
    pass


def other_cell(model):
    model.elman.layers[1].cell.__class__ = Other


@pytest.mark.parametrize("change", [hooked, replaced, other_cell])
def test_what_it_does_not_know_is_read(change):
    model = build()
    change(model)
    assert_writes_as_it_reads(model, kind=None)


def test_when_it_does_not_write(monkeypatch):
    model = build()
    _, state = model(texts(T))
    assert not isinstance(model.train().decoding_step(state), ElmanWriter)
    model.eval()
    assert not isinstance(model.decoding_step(state[:1]), ElmanWriter)
    assert not isinstance(model.decoding_step(state.float()), ElmanWriter)
    with torch.autocast("cpu", torch.bfloat16):
        assert not isinstance(model.decoding_step(state), ElmanWriter)
    monkeypatch.setattr(writing, "MOST_TOKENS", V - 1)
    assert not isinstance(model.decoding_step(state), ElmanWriter)


@pytest.mark.parametrize("token", [-1, V])
def test_tokens_of_another_vocabulary(token):
    write, _ = begun(build())
    with pytest.raises(ValueError, match=f"`tokens` holds {token}"):
        write(torch.tensor([0, token]))


def test_generation_writes_the_same(monkeypatch):
    model, prompt = build(), texts(T, 3)
    lengths = torch.tensor([2, 5, 3])
    written = generate(model, prompt, 9, lengths=lengths)
    monkeypatch.setattr(writing, "MOST_TOKENS", 0)
    assert torch.equal(generate(model, prompt, 9, lengths=lengths), written)


# Compiled.


@pytest.fixture
def library():
    return kernel.KERNEL.find() or pytest.skip("there is no compiler")


@NONLINEARITIES
@pytest.mark.parametrize("batch", [1, 2, 3, 5])
@pytest.mark.parametrize(
    "fields", [{}, {"n_layers": 1, "d_hidden": 40}, {"padding_token": 3}, {"d_hidden": 33}], ids=str
)
def test_compiled_it_is_forward(library, nonlinearity, batch, fields):
    model = build(nonlinearity=nonlinearity, **fields)
    single = copy.deepcopy(model).float()
    write, _ = begun(single, batch)
    assert isinstance(write, CompiledWriter)
    _, state = model(texts(T, batch))
    for tokens in texts(STEPS, batch):
        expected, state = model(tokens[None], state)
        got = write(tokens).double()
        torch.testing.assert_close(got, expected[-1].detach(), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("token", [-1, V])
def test_tokens_of_another_vocabulary_compiled(library, token):
    write, _ = begun(build().float())
    first, last = texts(2)
    write(first)
    with pytest.raises(ValueError, match=f"`tokens` holds {token}"):
        write(torch.tensor([0, token]))
    with pytest.raises(ValueError, match=r"`tokens` has shape \[1\]; expected .* \[2\]"):
        write(first[:1])
    other, _ = begun(build().float())
    other(first)
    assert torch.equal(write(last.int()), other(last))  # it goes on as if nothing had been


def test_generation_compiled(library, monkeypatch):
    model, prompt = build().float(), texts(T, 3)
    written = generate(model, prompt, 9)
    monkeypatch.setenv("LABML_NN_KERNEL", "0")
    assert torch.equal(generate(model, prompt, 9), written)


def test_both_languages_mean_the_same_structure():
    header = (Path(kernel.__file__).parent / "write.h").read_text()
    body = re.sub(r"//.*", "", header[header.index("struct Writing {") : header.index("};")])
    declared = [
        name
        for line in body.removeprefix("struct Writing {").split(";")
        for name in re.findall(r"\b([a-z_]+)\b(?=,|$)", line.strip())
    ]
    assert declared == [name for name, _ in Writing._fields_]
    assert ctypes.sizeof(Writing) == 8 * len(declared)
