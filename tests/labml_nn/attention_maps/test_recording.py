"""Recording the attention of every model, and leaving the model as it was."""

import copy

import pytest
import torch
from torch import nn

import labml_nn
from labml_nn.attention_maps import attention_maps, matrix_of, record_attention, title_of
from labml_nn.transformers.feedback import FeedbackAttention
from labml_nn.transformers.mha import KVCache, MultiHeadAttention

T, S, B, C, H, L, V = 5, 7, 2, 12, 3, 2, 11
SMALL = {"n_vocab": V, "d_model": C, "heads": H, "n_layers": L, "dropout_prob": 0.0}


@pytest.fixture(autouse=True)
def seeded():
    torch.manual_seed(0)


def build(name, **fields):
    model = labml_nn.create(name, **SMALL | fields)
    for parameter in model.parameters():
        parameter.data.add_(torch.randn_like(parameter) / 4)
    return model


def text(*shape):
    return torch.randint(3, V, shape)


def sums_to_one(attention, *, but=0):
    total = attention.weights.sum(1)
    torch.testing.assert_close(total[but:], torch.ones_like(total[but:]))
    assert total[:but].count_nonzero() == 0


def test_one_attention():
    attention, x, memory = MultiHeadAttention(H, C), torch.randn(T, B, C), torch.randn(S, B, C)
    mask = torch.rand(T, S, B) > 0.3
    expected = attention.eval()(query=x, key=memory, value=memory, mask=mask)
    with record_attention(attention) as maps:
        got = attention(query=x, key=memory, value=memory, mask=mask)
    torch.testing.assert_close(got, expected)
    (seen,) = maps
    assert (seen.name, seen.title) == ("", "attention")
    assert seen.weights.shape == (T, S, B, H)
    assert seen.weights[~mask].count_nonzero() == 0
    assert not seen.weights.requires_grad


def test_decoder_only_whole_and_in_steps():
    model, tokens = build("autoregressive", max_len=16).eval(), text(T, B)
    whole = attention_maps(model, tokens, vocabulary="abcdefghijk")
    assert [seen.title for seen in whole] == ["layer 1, self", "layer 2, self"]
    for seen in whole:
        sums_to_one(seen)
        assert seen.weights.permute(2, 3, 0, 1).triu(1).count_nonzero() == 0
        assert list(seen.queries[1]) == ["abcdefghijk"[token] for token in tokens[:, 1]]
        assert seen.keys == seen.queries
    state = None
    with record_attention(model) as maps:
        for t in range(T):
            _, state = model(tokens[t : t + 1], state)
    assert len(maps) == T * L
    for t, seen in enumerate(maps[1::2]):
        torch.testing.assert_close(seen.weights[0], whole[1].weights[t, : t + 1])


def test_encoder_decoder():
    model = build("encoder_decoder").eval()
    source, target = text(S, B), text(T, B)
    target[0] = model.config.start_token
    maps = attention_maps(model, source, target)
    assert [(seen.title, *seen.weights.shape[:2]) for seen in maps] == [
        ("encoder layer 1, self", S, S),
        ("encoder layer 2, self", S, S),
        ("decoder layer 1, self", T, T),
        ("decoder layer 1, source", T, S),
        ("decoder layer 2, self", T, T),
        ("decoder layer 2, source", T, S),
    ]
    for seen in maps:
        sums_to_one(seen)
    assert maps[5].keys == maps[0].queries == maps[0].keys
    assert maps[5].queries == maps[2].keys == maps[2].queries
    assert list(maps[5].keys[1]) == [str(int(token)) for token in source[:, 1]]
    with pytest.raises(ValueError, match=r"encoder-decoder needs two texts: .*; 1 given"):
        attention_maps(model, source)


@pytest.mark.parametrize("fields", [{}, {"max_len": 3}], ids=str)
def test_feedback_models(fields):
    model, tokens = build("feedback", **fields).eval(), text(T, B)
    maps = attention_maps(model, tokens)
    assert [seen.title for seen in maps] == ["layer 1, memory", "layer 2, memory"]
    for seen in maps:
        assert seen.weights.shape == (T, T, B, H)
        sums_to_one(seen, but=1)
        assert seen.weights.permute(2, 3, 0, 1).triu(0).count_nonzero() == 0
        horizon = fields.get("max_len", T)
        assert seen.weights.permute(2, 3, 0, 1).tril(-horizon - 1).count_nonzero() == 0
    _, state = model(tokens[:2])
    with record_attention(model) as later:
        model(tokens[2:], state)
    assert later[1].weights.shape == (T - 2, T, B, H)
    torch.testing.assert_close(later[1].weights, maps[1].weights[2:])


def test_rows_become_a_matrix():
    rows = [torch.full((n, 1, 1), 1 / n) for n in (1, 2, 2)]
    expected = [[0, 0, 0, 0], [1, 0, 0, 0], [0.5, 0.5, 0, 0], [0, 0.5, 0.5, 0]]
    torch.testing.assert_close(matrix_of(rows, 4, 0)[..., 0, 0], torch.tensor(expected))
    assert matrix_of(rows, 3, 2)[0, :, 0, 0].tolist() == [0, 1, 0, 0, 0]
    attention = FeedbackAttention(H, C, 0.0)
    with record_attention(attention) as maps:
        attention(query=torch.randn(B, C), key=torch.randn(S, B, C), value=torch.randn(S, B, C))
    assert (maps[0].title, maps[0].weights.shape) == ("memory", (1, S, B, H))


def test_titles():
    assert title_of("") == "attention" and title_of("mine") == "mine"
    assert title_of("transformer.decoder.layers.1.src_attn") == "decoder layer 2, source"


def test_a_cache_and_training():
    """One query each, one key more each time; weights are those before dropout."""
    attention, cache = MultiHeadAttention(H, C, dropout_prob=0.5).train(), KVCache()
    with record_attention(attention) as maps:
        for x in torch.randn(3, 1, B, C):
            attention(query=x, key=x, value=x, cache=cache)
    assert [seen.weights.shape[:2] for seen in maps] == [(1, 1), (1, 2), (1, 3)]
    for seen in maps:
        sums_to_one(seen)


def test_the_model_is_as_it_was():
    model, tokens = build("autoregressive").train(), text(T, B)
    model.stack.layers[0].eval()
    before = {name: dict(vars(module)) for name, module in model.named_modules()}
    with pytest.raises(ZeroDivisionError), record_attention(model):
        model(tokens)
        raise ZeroDivisionError
    attention_maps(model, tokens)
    for name, module in model.named_modules():
        after = dict(vars(module))
        assert after.keys() == before[name].keys()
        assert after["training"] == before[name]["training"]
        assert after.get("attn") is before[name].get("attn")
        assert not module._forward_hooks
    feedback = build("feedback")
    with record_attention(feedback):
        pass
    assert "read" not in vars(feedback.transformer)
    copy.deepcopy(feedback)


def test_a_text_longer_than_the_window_has_maps_without_labels():
    maps = attention_maps(build("autoregressive", max_len=4), text(T, B))
    assert [seen.weights.shape[:2] for seen in maps[::L]] == [(4, 4), (3, 3)]
    assert all(seen.queries is None for seen in maps)


def test_errors():
    with pytest.raises(ValueError, match="has no attention"):
        attention_maps(nn.Linear(2, 2), torch.ones(1, 2))
    with pytest.raises(ValueError, match=r"no text for a token; .* each up to \d"):
        attention_maps(build("autoregressive"), text(T, B), vocabulary="ab")
