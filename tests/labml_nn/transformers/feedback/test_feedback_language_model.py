"""The language model: its doors, its window, padding anywhere, and what it refuses."""

import copy
import dataclasses
import math
import pickle

import pytest
import torch
from feedback_tools import COMPILED
from hypothesis import given, settings
from hypothesis import strategies as st

from labml_nn.transformers.feedback import FeedbackTransformer, FeedbackTransformerKV
from labml_nn.transformers.feedback.language_model import FeedbackConfig, FeedbackLanguageModel

V, B, C, H, F, L, HORIZON = 11, 2, 12, 3, 28, 2, 4
PADDING = 0
KINDS = pytest.mark.parametrize("shared", [False, True], ids=["own", "shared"])


def build(shared, *, package=None, **fields):
    """A model with random parameters everywhere, in evaluation."""
    torch.manual_seed(0)
    cls = package.FeedbackLanguageModel if package else FeedbackLanguageModel
    config = {"n_vocab": V, "d_model": C, "heads": H, "d_ff": F, "n_layers": L, "max_len": HORIZON}
    model = cls.from_config(config | {"shared_kv": shared} | fields).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) / 8)
    return model


def text(*shape, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(1, V, shape, generator=generator)


@KINDS
def test_the_model_line_by_line(shared):
    model, tokens = build(shared), text(3, B)
    kind = FeedbackTransformerKV if shared else FeedbackTransformer
    assert type(model.transformer) is kind
    y = model.transformer(model.embed(tokens) * math.sqrt(C))
    torch.testing.assert_close(model(tokens)[0], y @ model.embed.weight.T)
    assert model.output is None


@KINDS
@pytest.mark.parametrize("length", [1, HORIZON - 1, HORIZON, HORIZON + 1, 11])
def test_token_by_token_equals_the_whole(shared, length):
    """For texts shorter and longer than the horizon, at every position."""
    model, tokens, state = build(shared), text(length, B), None
    whole, end = model(tokens)
    for t in range(length):
        logits, state = model(tokens[t : t + 1], state)
        torch.testing.assert_close(logits[0], whole[t], rtol=1e-5, atol=1e-5)
        again, _ = model(tokens[: t + 1])
        torch.testing.assert_close(again[-1], whole[t], rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(state.keys.rows, end.keys.rows)
    assert len(state) == min(length, HORIZON)


@KINDS
@settings(deadline=None, max_examples=10)
@given(cuts=st.sets(st.integers(1, 10)), seed=st.integers(0, 99))
def test_any_cut_into_calls(shared, cuts, seed):
    model, tokens, state, outputs = build(shared), text(11, B, seed=seed), None, []
    for piece in torch.tensor_split(tokens, sorted(cuts)):
        logits, state = model(piece, state)
        outputs.append(logits)
    torch.testing.assert_close(torch.cat(outputs), model(tokens)[0], rtol=1e-5, atol=1e-5)


@KINDS
def test_a_state_is_a_value_without_gradients(shared):
    model, tokens = build(shared), text(9, B)
    _, state = model(tokens[:6])
    assert not state.keys.rows.requires_grad
    before = state.keys.rows.clone()
    for end in ([6, 7], [8]):
        logits, _ = model(tokens[end], state)
        torch.testing.assert_close(logits, model(tokens[[*range(6), *end]])[0][6:])
    assert torch.equal(state.keys.rows, before)
    copied = pickle.loads(pickle.dumps(copy.deepcopy(state)))
    assert torch.equal(model(tokens[6:], copied)[0], model(tokens[6:], state)[0])


@KINDS
@settings(deadline=None, max_examples=10)
@given(position=st.integers(0, 6))
def test_no_position_sees_the_future(shared, position):
    model, tokens = build(shared), text(7, B)
    changed = tokens.clone()
    changed[position] = changed[position] % (V - 1) + 1
    before, after = model(tokens)[0], model(changed)[0]
    torch.testing.assert_close(before[:position], after[:position])
    assert (before[position:] - after[position:]).abs().amax((1, 2)).min() > 1e-6


# Padding.


@KINDS
@settings(deadline=None, max_examples=15)
@given(
    holes=st.lists(st.lists(st.booleans(), min_size=3, max_size=3), min_size=7, max_size=7),
    cuts=st.sets(st.integers(1, 6)),
)
def test_padding_anywhere_and_any_cut(shared, holes, cuts):
    model = build(shared, padding_token=PADDING)
    tokens = text(7, 3).masked_fill(torch.tensor(holes), PADDING)
    state, outputs = None, []
    for piece in torch.tensor_split(tokens, sorted(cuts)):
        logits, state = model(piece, state)
        outputs.append(logits)
    logits = torch.cat(outputs)
    for b in range(3):
        real = tokens[:, b] != PADDING
        assert logits[~real, b].count_nonzero() == 0
        if real.any():
            alone, _ = model(tokens[real, b : b + 1])
            torch.testing.assert_close(logits[real, b], alone[:, 0], rtol=1e-5, atol=1e-5)


@KINDS
def test_loss_of_padded_texts_is_that_of_each_alone(shared):
    model = build(shared, padding_token=PADDING)
    one, other = text(8, 1, seed=1), text(5, 1, seed=2)
    padded = torch.cat([one, torch.cat([other, torch.full((3, 1), PADDING)])], dim=1)
    together = model.loss(padded[:-1], padded[1:])
    sums = [model.loss(x[:-1], x[1:]) * (len(x) - 1) for x in (one, other)]
    torch.testing.assert_close(together, sum(sums) / (7 + 4))
    expected = torch.autograd.grad(sum(sums) / 11, list(model.parameters()))
    got = torch.autograd.grad(together, list(model.parameters()))
    torch.testing.assert_close(got, expected, rtol=1e-4, atol=1e-6)


def test_a_padding_token_in_the_text_of_a_model_without_one_is_a_token():
    model, tokens = build(True), text(5, B)
    tokens[2] = PADDING
    assert model(tokens)[0][2].count_nonzero() > 0


# In use.


@KINDS
def test_trains(shared):
    """A text of one sentence is learnt by heart, over two pieces with the state between them."""
    torch.manual_seed(0)
    model = build(shared, max_len=16).train()
    tokens = text(9, 1).expand(-1, B)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    for _ in range(100):
        logits, state = model(tokens[:4])
        loss = model.loss_of(logits, tokens[1:5]) + model.loss(tokens[4:-1], tokens[5:], state)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    model.eval()
    assert model.loss(tokens[:-1], tokens[1:]) < 0.3


@KINDS
@pytest.mark.parametrize("tied", [False, True])
def test_start(shared, tied):
    """Near even bets: a first loss close to that of knowing nothing."""
    torch.manual_seed(0)
    config = FeedbackConfig(n_vocab=65, shared_kv=shared, tied=tied, n_layers=2)
    model = FeedbackLanguageModel(config)
    tokens = torch.randint(65, (20, 3))
    assert abs(model.loss(tokens[:-1], tokens[1:]) - math.log(65)) < 0.2
    assert (model.output is None) == tied
    first, second = model.transformer.layers
    assert not torch.equal(first.attn.query.linear.weight, second.attn.query.linear.weight)


@KINDS
@pytest.mark.parametrize("tied", [False, True])
def test_saved_and_loaded(shared, tied, tmp_path):
    model, tokens = build(shared, tied=tied), text(6, B)
    model.save(tmp_path / "model")
    loaded = FeedbackLanguageModel.load(tmp_path / "model").eval()
    assert loaded.config == model.config
    assert torch.equal(loaded(tokens)[0], model(tokens)[0])
    torch.testing.assert_close(loaded.predict(tokens).sum(-1), torch.ones(B))


@KINDS
def test_copies_precisions_and_autocast(shared):
    model, tokens = build(shared), text(9, B)
    expected, _ = model(tokens)
    for copied in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert torch.equal(copied(tokens)[0], expected)
    with torch.autocast("cpu", torch.bfloat16):
        first, state = model(tokens[:5])
        second, _ = model(tokens[5:], state)
    got = torch.cat([first, second]).float()
    torch.testing.assert_close(got, expected, rtol=0.1, atol=0.2)
    double, _ = model.double()(tokens)
    torch.testing.assert_close(double.float(), expected, rtol=1e-4, atol=1e-4)


@KINDS
@COMPILED
def test_compiled_in_one_graph(unhooked, shared):
    package = unhooked("labml_nn.transformers.feedback.language_model")
    model, tokens = build(shared, package=package), text(6, B)
    torch._dynamo.reset()
    compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
    logits, state = compiled(tokens[:4])
    torch.testing.assert_close(logits, model(tokens[:4])[0])
    torch.testing.assert_close(compiled(tokens[4:], state)[0], model(tokens)[0][4:])


@COMPILED
@pytest.mark.filterwarnings("ignore:Graph break:UserWarning")
def test_compiled_with_padding(unhooked):
    """Where the padding stands cannot be known beforehand, so it takes more than one graph."""
    package = unhooked("labml_nn.transformers.feedback.language_model")
    model, tokens = build(True, package=package, padding_token=PADDING), text(4, B)
    tokens[2:, 1] = PADDING
    torch._dynamo.reset()
    compiled = torch.compile(model, backend="eager")
    with torch.no_grad():
        torch.testing.assert_close(compiled(tokens)[0], model(tokens)[0])


@KINDS
def test_shapes_without_numbers(shared):
    with torch.device("meta"):
        model = build(shared, padding_token=PADDING)
    logits, state = model(torch.zeros(6, B, dtype=torch.long, device="meta"))
    assert logits.shape == (6, B, V)
    assert len(state) == HORIZON


# Errors.


def test_configuration():
    config = FeedbackConfig(n_vocab=V)
    assert (config.d_model, config.heads, config.n_layers, config.max_len) == (128, 4, 4, 256)
    assert FeedbackLanguageModel.from_config(dataclasses.asdict(config)).config == config


@pytest.mark.parametrize(
    ("field", "value", "error", "message"),
    [
        ("heads", 5, ValueError, r"`d_model` \(12\) must be divisible by `heads` \(5\)"),
        ("d_ff", 0, ValueError, r"`d_ff` \(0\) must be at least 1"),
        ("n_layers", 0, ValueError, r"`n_layers` \(0\) must be at least 1"),
        ("max_len", 2.5, TypeError, r"`max_len` \(2.5\) must be a whole number"),
        ("dropout_prob", 1.5, ValueError, r"`dropout_prob` \(1.5\) must be from 0 to 1"),
        ("shared_kv", "yes", TypeError, r"`shared_kv` \('yes'\) must be True or False"),
        ("tied", 1, TypeError, r"`tied` \(1\) must be True or False"),
        ("n_vocab", 0, ValueError, r"`n_vocab` \(0\) must be at least 1"),
    ],
)
def test_impossible_configurations(unhooked, field, value, error, message):
    package = unhooked("labml_nn.transformers.feedback.language_model")
    fields = {"n_vocab": V, "d_model": C, "heads": H} | {field: value}
    with pytest.raises(error, match=message):
        package.FeedbackConfig(**fields)


def test_wrong_tokens_and_states(unhooked):
    package = unhooked("labml_nn.transformers.feedback.language_model")
    model, tokens = build(True, package=package), text(5, B)
    with pytest.raises(ValueError, match=r"`tokens` has shape \[5\]; expected \[T, B\]"):
        model(tokens[:, 0])
    with pytest.raises(ValueError, match=r"`tokens` holds 11; expected numbers from 0 to 10"):
        model(tokens + 10 - tokens.max() + 1)
    with pytest.raises(TypeError, match=r"`state` is a Tensor; expected the FeedbackMemory"):
        model(tokens, torch.zeros(3))
    _, state = model(text(5, B + 1))
    with pytest.raises(ValueError, match=r"`memory` has rows of shape \[3, .*a batch of 2"):
        model(tokens, state)
