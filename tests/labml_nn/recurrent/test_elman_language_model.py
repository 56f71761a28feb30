"""The Elman language model: its doors, states, padding anywhere, and what it refuses."""

import copy
import dataclasses
import math
import pickle

import hypothesis.strategies as st
import pytest
import torch
from elman_tools import COMPILED, B, C, L, N, T, V
from hypothesis import given, settings
from torch.nn import functional as F

from labml_nn.recurrent.elman.language_model import ElmanConfig, ElmanLanguageModel
from labml_nn.sampling import generate

MODULE = "labml_nn.recurrent.elman.language_model"
PADDING = 0


def build(package=None, **fields):
    """A model with random numbers wherever a new one has zeros, in evaluation."""
    torch.manual_seed(0)
    cls = package.ElmanLanguageModel if package else ElmanLanguageModel
    sizes = {"n_vocab": V, "d_model": C, "d_hidden": N, "n_layers": L}
    model = cls.from_config(sizes | fields).eval()
    with torch.no_grad():
        for parameter in [*model.parameters(), *model.buffers()]:
            parameter.add_(torch.randn_like(parameter) / 8)
    return model


def text(*shape, seed=0):
    return torch.randint(1, V, shape, generator=torch.Generator().manual_seed(seed))


# What it computes.


@pytest.mark.parametrize("tied", [True, False])
def test_the_model_line_by_line(tied):
    model, tokens = build(tied=tied), text(T, B)
    x = model.input_projection(model.embedding(tokens) * math.sqrt(C))
    states, last = model.elman(x)
    matrix = model.embedding.weight if tied else model.output_weight
    expected = model.output_projection(states) @ matrix.T + model.output_bias
    logits, state = model(tokens)
    torch.testing.assert_close(logits, expected)
    torch.testing.assert_close(state, last)
    assert state.shape == (L, B, N)


def test_projections_are_there_where_widths_differ():
    model = build()
    assert tuple(model.input_projection.weight.shape) == (N, C)
    assert tuple(model.output_projection.weight.shape) == (C, N)
    equal = build(d_model=N)
    assert not list(equal.input_projection.parameters())
    assert not list(equal.output_projection.parameters())
    assert equal(text(T, B))[0].shape == (T, B, V)


def test_tied_embeddings_learn_from_both_ends():
    """A token that is never read learns from the output, if tied, and not at all if not."""
    tokens = torch.ones(T, B, dtype=torch.long)
    for tied in (True, False):
        model = build(tied=tied)
        model.loss(tokens, tokens).backward()
        unread = model.embedding.weight.grad[5].abs().max()
        assert (unread > 0) == tied
    own = {name for name, _ in build(tied=False).named_parameters()}
    assert own - {name for name, _ in build().named_parameters()} == {"output_weight"}


@pytest.mark.parametrize("tied", [True, False])
def test_it_begins_by_betting_almost_evenly(tied):
    torch.manual_seed(0)
    model = ElmanLanguageModel.from_config({"n_vocab": 65, "tied": tied})
    tokens = torch.randint(65, (101, 8))
    loss = model.loss(tokens[:-1], tokens[1:]).item()
    assert abs(loss - math.log(65)) < 0.1
    torch.testing.assert_close(model.embedding.weight.std().item(), 128**-0.5, rtol=0.05, atol=0.0)
    assert sum(p.numel() for p in model.parameters()) // 1000 in (336, 345)


def test_dropout_and_label_smoothing_in_training_only():
    tokens = text(T + 1, B)
    for field in ("dropout_prob", "embedding_dropout_prob"):
        model = build(**{"dropout_prob": 0.0} | {field: 0.5})
        model.train()
        assert not torch.equal(model(tokens)[0], model(tokens)[0])
        model.eval()
        assert torch.equal(model(tokens)[0], model(tokens)[0])
    smoothed = build(label_smoothing=0.3, dropout_prob=0.0)
    logits, _ = smoothed(tokens[:-1])
    expected = F.cross_entropy(logits.flatten(0, 1), tokens[1:].flatten())
    torch.testing.assert_close(smoothed.loss(tokens[:-1], tokens[1:]), expected)
    smoothed.train()
    expected = F.cross_entropy(logits.flatten(0, 1), tokens[1:].flatten(), label_smoothing=0.3)
    torch.testing.assert_close(smoothed.loss(tokens[:-1], tokens[1:]), expected)


# States.


@settings(deadline=None, max_examples=20)
@given(cuts=st.sets(st.integers(1, 10)), seed=st.integers(0, 99), padded=st.booleans())
def test_any_cut_into_calls(cuts, seed, padded):
    model, tokens = build(padding_token=PADDING), text(11, B, seed=seed)
    if padded:
        tokens = tokens * (text(11, B, seed=seed + 100) > V // 3)
    state, outputs = None, []
    for piece in torch.tensor_split(tokens, sorted(cuts)):
        logits, state = model(piece, state)
        outputs.append(logits)
    whole, end = model(tokens)
    torch.testing.assert_close(torch.cat(outputs), whole, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(state, end, rtol=1e-5, atol=1e-5)


def test_token_by_token_equals_the_whole_at_every_position():
    model, tokens, state = build(), text(300, B), None
    whole, _ = model(tokens)
    for t in range(300):
        logits, state = model(tokens[t : t + 1], state)
        torch.testing.assert_close(logits[0], whole[t], rtol=1e-5, atol=1e-5)


def test_a_state_is_a_value_without_gradients():
    model, tokens = build(dropout_prob=0.0).train(), text(9, B)
    _, state = model(tokens[:6])
    assert not state.requires_grad
    before = state.clone()
    first, _ = model.eval()(tokens[6:], state)
    model(tokens[:3], state)
    again, _ = model(tokens[6:], state)
    assert torch.equal(state, before)
    assert torch.equal(first, again)
    torch.testing.assert_close(first, model(tokens)[0][6:], rtol=1e-5, atol=1e-5)


def test_truncated_backpropagation():
    """The loss of a piece trains that piece alone: as if its state had come from elsewhere."""
    model, tokens = build(), text(10, B)
    _, state = model(tokens[:4])
    parameters = list(model.parameters())
    got = torch.autograd.grad(model.loss(tokens[4:9], tokens[5:], state), parameters)
    elsewhere = state.clone()
    expected = torch.autograd.grad(model.loss(tokens[4:9], tokens[5:], elsewhere), parameters)
    torch.testing.assert_close(got, expected)


# Padding.


@settings(deadline=None, max_examples=25)
@given(
    left=st.integers(0, 4),
    middle=st.integers(0, 3),
    right=st.integers(0, 4),
    seed=st.integers(0, 99),
)
def test_padding_anywhere_changes_nothing(left, middle, right, seed):
    model, tokens = build(padding_token=PADDING), text(T, 1, seed=seed)
    expected, end = model(tokens)
    parts = [torch.full((n, 1), PADDING) for n in (left, middle, right)]
    padded = torch.cat([parts[0], tokens[:2], parts[1], tokens[2:], parts[2]])
    # Beside another text, so that the padding has something to disturb.
    logits, state = model(torch.cat([padded, text(len(padded), 1, seed=seed + 1)], dim=1))
    real = padded[:, 0] != PADDING
    torch.testing.assert_close(logits[real, :1], expected, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(state[:, :1], end, rtol=1e-5, atol=1e-5)


def test_padding_changes_no_loss_and_no_gradient():
    model, tokens = build(padding_token=PADDING), text(T + 1, 1)
    parameters = list(model.parameters())
    expected = model.loss(tokens[:-1], tokens[1:])
    expected_gradients = torch.autograd.grad(expected, parameters)
    filler = torch.full((3, 1), PADDING)
    for read, asked in (
        (torch.cat([filler, tokens[:-1]]), torch.cat([filler, tokens[1:]])),
        (torch.cat([tokens[:-1], filler]), torch.cat([tokens[1:], filler])),
    ):
        loss = model.loss(read, asked)
        torch.testing.assert_close(loss, expected)
        torch.testing.assert_close(
            torch.autograd.grad(loss, parameters), expected_gradients, rtol=1e-4, atol=1e-6
        )


def test_nothing_but_padding_leaves_the_beginning():
    model = build(padding_token=PADDING)
    _, state = model(torch.full((4, B), PADDING))
    torch.testing.assert_close(state, model.elman.initial(B))


def test_without_a_padding_token_zero_is_a_token():
    model, tokens = build(), torch.zeros(2, B, dtype=torch.long)
    _, once = model(tokens[:1])
    _, twice = model(tokens)
    assert not torch.allclose(once, twice)


# Properties.


def test_the_future_has_no_influence():
    model, tokens = build(), text(T, B)
    before, _ = model(tokens)
    for t in range(1, T):
        changed = tokens.clone()
        changed[t:] = tokens[t:] % (V - 1) + 1
        after, _ = model(changed)
        assert torch.equal(after[:t], before[:t])
        assert not torch.equal(after[t], before[t])


def test_texts_of_a_batch_are_strangers():
    model, tokens = build(), text(T, 3)
    order = torch.tensor([1, 2, 0])
    logits, state = model(tokens)
    shuffled, shuffled_state = model(tokens[:, order])
    torch.testing.assert_close(shuffled, logits[:, order])
    torch.testing.assert_close(shuffled_state, state[:, order])
    torch.testing.assert_close(model(tokens[:, 1:2])[0], logits[:, 1:2])


# In use.


def test_it_learns_and_writes():
    torch.manual_seed(0)
    model = build(dropout_prob=0.0).train()
    cycle = torch.arange(60) % (V - 1) + 1
    tokens = torch.stack([cycle, cycle.roll(-3)], dim=1)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    for _ in range(40):
        optimizer.zero_grad()
        model.loss(tokens[:-1], tokens[1:]).backward()
        optimizer.step()
    written = generate(model, tokens[:7], 12)
    assert torch.equal(written, tokens[7:19])
    lengths = torch.tensor([7, 4])
    assert torch.equal(generate(model, tokens[:7], 12, lengths=lengths)[:, 1], tokens[4:16, 1])


def test_predict_is_the_softmax_of_the_last_logits():
    model, tokens = build(dropout_prob=0.5).train(), text(T, B)
    probabilities = model.predict(tokens)
    assert model.training
    expected = model.eval()(tokens)[0][-1].softmax(-1)
    torch.testing.assert_close(probabilities, expected)


@pytest.mark.parametrize("tied", [True, False])
def test_saved_and_loaded(tmp_path, tied):
    model, tokens = build(tied=tied, padding_token=PADDING, learn_h_0=True), text(T, B)
    model.save(tmp_path)
    loaded = ElmanLanguageModel.load(tmp_path).eval()
    assert loaded.config == model.config
    assert torch.equal(loaded(tokens)[0], model(tokens)[0])


def test_copies_pickles_and_precisions():
    model, tokens = build(), text(T, B)
    expected, _ = model(tokens)
    for copied in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert torch.equal(copied(tokens)[0], expected)
    assert torch.equal(model(tokens.int())[0], expected)
    logits, state = model.double()(tokens)
    assert (logits.dtype, state.dtype) == (torch.float64, torch.float64)
    torch.testing.assert_close(logits.float(), expected, rtol=1e-5, atol=1e-5)


def test_autocast():
    model, tokens = build(padding_token=PADDING), text(T, B)
    expected, _ = model(tokens)
    with torch.autocast("cpu", torch.bfloat16):
        first, state = model(tokens[:2])
        second, _ = model(tokens[2:], state)
        loss = model.loss(tokens[:-1], tokens[1:])
    got = torch.cat([first, second]).float()
    torch.testing.assert_close(got, expected, rtol=0.1, atol=0.1)
    loss.backward()
    assert all(parameter.grad.isfinite().all() for parameter in model.parameters())


@COMPILED
@pytest.mark.parametrize("padding", [None, PADDING])
def test_compiled_in_one_graph(unhooked, padding):
    model, tokens = build(unhooked(MODULE), padding_token=padding), text(T, B)
    compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
    logits, state = compiled(tokens)
    torch.testing.assert_close((logits, state), model(tokens))
    torch.testing.assert_close(compiled(tokens, state), model(tokens, state))
    parameters = list(model.parameters())
    torch.testing.assert_close(
        torch.autograd.grad(model.loss_of(logits, tokens), parameters),
        torch.autograd.grad(model.loss(tokens, tokens), parameters),
    )


@COMPILED
def test_exported_for_any_length(unhooked):
    model = build(unhooked(MODULE), padding_token=PADDING)
    tokens, state = text(T, B), torch.zeros(L, B, N)
    steps = torch.export.Dim("steps", min=2)
    exported = torch.export.export(model, (tokens, state), dynamic_shapes=({0: steps}, None))
    for length in (T, 13):
        tokens = text(length, B, seed=1)
        torch.testing.assert_close(exported.module()(tokens, state), model(tokens, state))


# Errors.


@pytest.mark.parametrize(
    ("fields", "error", "message"),
    [
        ({"d_model": 0}, ValueError, r"`d_model` \(0\) must be at least 1"),
        ({"d_hidden": 0}, ValueError, r"`d_hidden` \(0\) must be at least 1"),
        ({"n_layers": -1}, ValueError, r"`n_layers` \(-1\) must be at least 1"),
        ({"dropout_prob": 2.0}, ValueError, r"`dropout_prob` \(2.0\) must be from 0 to 1"),
        ({"embedding_dropout_prob": -0.1}, ValueError, r"`embedding_dropout_prob` \(-0.1\)"),
        ({"nonlinearity": "rely"}, ValueError, r"no nonlinearity 'rely'; did you mean 'relu'\?"),
        ({"tied": 1}, TypeError, r"`tied` \(1\) must be True or False, not a int"),
        ({"learn_h_0": "no"}, TypeError, r"`learn_h_0` \('no'\) must be True or False"),
        ({"padding_token": 11}, ValueError, r"`padding_token` \(11\)"),
        ({"hidden": 3}, ValueError, "hidden"),
    ],
)
def test_impossible_configurations(unhooked, fields, error, message):
    with pytest.raises(error, match=message):
        unhooked(MODULE).ElmanLanguageModel.from_config({"n_vocab": V} | fields)


def test_a_configuration_is_frozen():
    with pytest.raises(dataclasses.FrozenInstanceError):
        ElmanConfig(n_vocab=V).d_model = 3


def test_texts_and_states_that_cannot_be(unhooked):
    model, tokens = build(unhooked(MODULE)), text(T, B)
    with pytest.raises(ValueError, match=r"`tokens` holds 11; expected numbers from 0 to 10"):
        model(tokens * 0 + 11)
    with pytest.raises(TypeError, match=r"`tokens` has dtype torch.float32"):
        model(tokens.float())
    with pytest.raises(ValueError, match="the sequence is empty"):
        model(tokens[:0])
    with pytest.raises(TypeError, match="`state` is a tuple; expected the tensor that"):
        model(tokens, (torch.zeros(L, B, N),))
    with pytest.raises(ValueError, match=r"`state` has shape \[3, 1, 7\].*here \[3, 2, 7\]"):
        model(tokens, torch.zeros(L, 1, N))
