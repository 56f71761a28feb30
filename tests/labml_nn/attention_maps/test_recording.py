"""Watching every attention of every model, and leaving no trace."""

import copy
import pickle

import pytest
import torch
from torch import nn

from labml_nn.attention_maps import AttentionMap, attention_maps, record_attention
from labml_nn.attention_maps.recording import matrix, title
from labml_nn.transformers.autoregressive import AutoregressiveTransformer
from labml_nn.transformers.encoder_decoder import EncoderDecoderLanguageModel
from labml_nn.transformers.feed_forward import FeedForward
from labml_nn.transformers.feedback.language_model import FeedbackLanguageModel
from labml_nn.transformers.mha import KeysValues, MultiHeadAttention
from labml_nn.transformers.models import (
    Decoder,
    EmbeddingsWithPositionalEncoding,
    Encoder,
    EncoderDecoder,
    Generator,
    TransformerLayer,
)
from labml_nn.transformers.utils import subsequent_mask

T, S, B, C, H, L, V = 5, 7, 2, 12, 3, 2, 11
SMALL = {"n_vocab": V, "d_model": C, "heads": H, "n_layers": L, "dropout_prob": 0.0}


def layer(source=False, dropout=0.0):
    return TransformerLayer(
        d_model=C,
        self_attn=MultiHeadAttention(H, C, dropout),
        src_attn=MultiHeadAttention(H, C, dropout) if source else None,
        feed_forward=FeedForward(C, 28, dropout),
        dropout_prob=dropout,
    )


def encoder_decoder(dropout=0.0):
    embed = EmbeddingsWithPositionalEncoding(C, V)
    return EncoderDecoder(
        Encoder(layer(dropout=dropout), L),
        Decoder(layer(True, dropout), L),
        embed,
        EmbeddingsWithPositionalEncoding(C, V),
        Generator(V, C),
    )


def feedback(**fields):
    model = FeedbackLanguageModel.from_config(SMALL | fields)
    with torch.no_grad():  # far from even weights
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) / 4)
    return model


def text(*shape, seed=0):
    return torch.randint(3, V, shape, generator=torch.Generator().manual_seed(seed))


def state_of(model):
    """Everything of a model that recording might leave changed."""
    return {
        name: {key: value for key, value in vars(module).items() if not key.startswith("_")}
        for name, module in model.named_modules()
    }


def sums_to_one(attention, *, but=0):
    total = attention.weights.sum(1)
    torch.testing.assert_close(total[but:], torch.ones_like(total[but:]))
    assert total[:but].count_nonzero() == 0


# What is seen.


def test_one_attention():
    attention, x, memory = MultiHeadAttention(H, C), torch.randn(T, B, C), torch.randn(S, B, C)
    mask = torch.rand(T, S, B) > 0.5
    with record_attention(attention) as maps:
        attention(query=x, key=memory, value=memory, mask=mask)
    attention.store_attn = True
    attention(query=x, key=memory, value=memory, mask=mask)
    (seen,) = maps
    assert torch.equal(seen.weights, attention.attn)
    assert (seen.name, seen.title, seen.call) == ("", "attention", 0)
    assert not seen.weights.requires_grad


def test_encoder_decoder():
    model = encoder_decoder().eval()
    source, target = text(S, B), text(T, B, seed=1)
    maps = attention_maps(model, source, target, None, subsequent_mask(T), vocabulary="abcdefghijk")
    names = [(seen.name, seen.title, *seen.weights.shape[:2]) for seen in maps]
    assert names == [
        ("encoder.layers.0.self_attn", "encoder layer 1, self", S, S),
        ("encoder.layers.1.self_attn", "encoder layer 2, self", S, S),
        ("decoder.layers.0.self_attn", "decoder layer 1, self", T, T),
        ("decoder.layers.0.src_attn", "decoder layer 1, source", T, S),
        ("decoder.layers.1.self_attn", "decoder layer 2, self", T, T),
        ("decoder.layers.1.src_attn", "decoder layer 2, source", T, S),
    ]
    for seen in maps:
        sums_to_one(seen)
    signs = ["abcdefghijk"[token] for token in source[:, 1]]
    assert list(maps[5].keys[1]) == list(maps[0].queries[1]) == signs
    assert maps[5].queries == maps[2].keys
    assert maps[2].weights.triu(1).count_nonzero() > 0  # [T, S] are not its last axes
    future = maps[2].tensor("batch", "head", "query", "key").triu(1)
    assert future.count_nonzero() == 0


def test_autoregressive_whole_and_in_steps():
    model = AutoregressiveTransformer.from_config(SMALL | {"max_len": 16}).eval()
    tokens = text(T, B)
    whole = attention_maps(model, tokens)
    assert [seen.title for seen in whole] == ["layer 1, self", "layer 2, self"]
    assert whole[0].queries[0] == tuple(str(int(token)) for token in tokens[:, 0])
    with record_attention(model) as steps, torch.no_grad():
        state = None
        for t in range(T):
            _, state = model(tokens[t : t + 1], state)
    assert [seen.call for seen in steps[::2]] == list(range(T))
    for t, seen in enumerate(steps[1::2]):
        torch.testing.assert_close(seen.weights, whole[1].weights[t : t + 1, : t + 1])


def test_encoder_decoder_language_model():
    model = EncoderDecoderLanguageModel.from_config(SMALL).eval()
    source, reply = text(S, B), torch.cat([torch.ones(1, B, dtype=torch.long), text(T - 1, B)])
    maps = attention_maps(model, source, reply)
    assert [seen.title for seen in maps] == [
        *(f"encoder layer {n}, self" for n in (1, 2)),
        *(f"decoder layer {n}, {what}" for n in (1, 2) for what in ("self", "source")),
    ]
    assert maps[-1].weights.shape == (T, S, B, H)
    assert maps[-1].keys == maps[0].queries
    assert maps[-1].queries == maps[2].keys
    for seen in maps:
        sums_to_one(seen)


@pytest.mark.parametrize("shared", [False, True])
def test_feedback(shared):
    model, tokens = feedback(shared_kv=shared, max_len=3).eval(), text(T, B)
    maps = attention_maps(model, tokens)
    assert [seen.title for seen in maps] == ["layer 1, memory", "layer 2, memory"]
    for seen in maps:
        assert seen.weights.shape == (T, T, B, H)
        sums_to_one(seen, but=1)
        lower = seen.tensor("batch", "head", "query", "key")
        assert lower.triu(0).count_nonzero() == 0  # row t was not there at step t
        assert lower.tril(-4).count_nonzero() == 0  # nor were those beyond the window
        assert (lower.tril(-1).triu(-3) > 0).sum() == B * H * (1 + 2 + 3 + 3)


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("max_len", [3, 16])
def test_feedback_in_pieces(shared, max_len):
    """Columns of a later piece begin with the rows that memory had."""
    model, tokens = feedback(shared_kv=shared, max_len=max_len).eval(), text(T, B)
    whole = attention_maps(model, tokens)[1].weights
    with record_attention(model) as maps:
        _, state = model(tokens[:3])
        _, state = model(tokens[3:4], state)
        model(tokens[4:], state)
    first, second, third = (seen.weights for seen in maps[1::2])
    kept = min(max_len, 3)
    torch.testing.assert_close(first, whole[:3, :3])
    torch.testing.assert_close(second, whole[3:4, 3 - kept : 4])
    kept = min(max_len, 4)
    torch.testing.assert_close(third, whole[4:, 4 - kept :])


def test_feedback_attention_on_its_own():
    block = feedback(shared_kv=False).transformer.layers[0]
    memory = torch.randn(S, B, C)
    with record_attention(block) as maps:
        block(x=torch.randn(B, C), key=None, value=None)
        block(x=torch.randn(B, C), key=memory, value=memory)
    (seen,) = maps
    assert (seen.title, seen.weights.shape) == ("memory", (1, S, B, H))
    sums_to_one(seen)


def test_padded_feedback_texts_are_recorded_as_they_are_read():
    model, tokens = feedback(padding_token=0).eval(), text(T, B)
    tokens[:2, 1] = 0
    with record_attention(model) as maps:
        model(tokens)
    assert [seen.weights.shape[:2] for seen in maps[::2]] == [(3, 3), (2, 5)]


def test_rows_by_hand():
    rows = [torch.full((n, 1, 1), float(n)) for n in (1, 2, 2)]
    expected = [[0, 0, 0, 0], [1, 0, 0, 0], [2, 2, 0, 0], [0, 2, 2, 0]]
    assert matrix(rows, 4, 0)[..., 0, 0].tolist() == expected
    assert matrix(rows[1:2], 1, 3)[..., 0, 0].tolist() == [[0, 2, 2, 0]]


def test_training_mode_shows_weights_before_dropout():
    model = encoder_decoder(dropout=0.5).train()
    with record_attention(model) as maps:
        model(text(S, B), text(T, B), None, None).sum().backward()
    for seen in maps:
        sums_to_one(seen)
    assert next(model.parameters()).grad is not None


def test_the_convenience_is_without_dropout_and_puts_the_mode_back():
    model = encoder_decoder(dropout=0.5).train()
    model.decoder.eval()
    twice = [attention_maps(model, text(S, B), text(T, B), None, None) for _ in range(2)]
    for one, other in zip(*twice, strict=True):
        assert torch.equal(one.weights, other.weights)
    assert model.training
    assert not model.decoder.training


def test_a_module_used_twice():
    class Twice(nn.Module):
        def __init__(self):
            super().__init__()
            self.one = MultiHeadAttention(H, C)
            self.other = self.one

        def forward(self, x):
            return self.other(query=x, key=x, value=self.one(query=x, key=x, value=x))

    with record_attention(Twice()) as maps:
        list(map(Twice(), []))
    assert maps == []
    model = Twice()
    with record_attention(model) as maps:
        model(torch.randn(T, B, C))
    assert [(seen.name, seen.call) for seen in maps] == [("one", 0), ("one", 1)]


def test_no_labels_where_positions_are_uncertain():
    """A context that has slid calls each attention more than once."""
    model = AutoregressiveTransformer.from_config(SMALL | {"max_len": 4}).eval()
    assert all(seen.queries is None for seen in attention_maps(model, text(S, B)))
    model, tokens = feedback().eval(), text(T, B)
    _, state = model(tokens[:2])
    assert all(seen.keys is None for seen in attention_maps(model, tokens[2:], state))
    assert attention_maps(Encoder(layer(), 1), torch.randn(T, B, C), None)[0].keys is None


def test_vocabularies():
    model, tokens = feedback(), torch.tensor([[3, 4]]).T
    for vocabulary in ("abcde", list("abcde"), {3: "d", 4: "e"}, "abcde".__getitem__):
        seen = attention_maps(model, tokens, vocabulary=vocabulary)[0]
        assert seen.keys == (("d", "e"),)


def test_autocast_and_half():
    model = encoder_decoder().eval().bfloat16()
    assert (
        attention_maps(model, text(S, B), text(T, B), None, None)[0].weights.dtype == torch.bfloat16
    )


# No trace.


@pytest.mark.parametrize("build", [encoder_decoder, feedback])
def test_everything_is_as_it_was(build):
    model = build()
    inputs = (text(S, B), text(T, B), None, None) if build is encoder_decoder else (text(T, B),)
    attention = next(part for part in model.modules() if hasattr(part, "store_attn"))
    attention.store_attn, attention.attn = True, torch.zeros(1)
    before = state_of(model)
    with record_attention(model):
        model(*inputs)
    assert state_of(model) == before

    with pytest.raises(KeyboardInterrupt), record_attention(model):
        model(*inputs)
        raise KeyboardInterrupt
    assert state_of(model) == before
    copied = pickle.loads(pickle.dumps(copy.deepcopy(model)))
    assert copied.state_dict().keys() == model.state_dict().keys()


def test_an_exception_in_the_middle_of_a_scan():
    model = feedback()
    block = model.transformer.layers[1]

    def fail(*_):
        raise RuntimeError("in the middle")

    before = state_of(model)
    with record_attention(model) as maps:
        handle = block.register_forward_hook(fail)
        with pytest.raises(RuntimeError, match="in the middle"):
            model(text(T, B))
        handle.remove()
        model(text(T, B))
    assert [seen.weights.shape[0] for seen in maps] == [T, T]
    assert state_of(model) == before


def test_watching_while_watching():
    attention, x = MultiHeadAttention(H, C), torch.randn(T, B, C)
    with record_attention(attention) as outer:
        with record_attention(attention) as inner:
            attention(query=x, key=x, value=x)
        attention(query=x, key=x, value=x)
    assert (len(outer), len(inner)) == (2, 1)
    assert torch.equal(outer[0].weights, inner[0].weights)
    assert "attend_to" not in vars(attention)


def test_a_method_that_somebody_put_there_comes_back():
    attention, x, calls = MultiHeadAttention(H, C), torch.randn(T, B, C), []
    real = attention.attend_to

    def own(**given):
        calls.append(given["query"].shape)
        return real(**given)

    attention.attend_to = own
    with record_attention(attention) as maps:
        attention(query=x, key=x, value=x)
    assert (len(maps), calls) == (1, [(T, B, C)])
    assert attention.attend_to is own


def test_results_do_not_change():
    model, tokens = feedback().eval(), text(T, B)
    expected, _ = model(tokens)
    with record_attention(model):
        got, _ = model(tokens)
    torch.testing.assert_close(got, expected)


def test_kept_keys_and_values():
    attention, x = MultiHeadAttention(H, C), torch.randn(T, B, C)
    with record_attention(attention) as maps:
        past = attention.project(key=x, value=x)
        attention.attend_to(query=x[:1], past=KeysValues(*past))
    assert maps[0].weights.shape == (1, T, B, H)


# Names and errors.


@pytest.mark.parametrize(
    ("name", "role", "expected"),
    [
        ("", "", "attention"),
        ("", "memory", "memory"),
        ("transformer.decoder.layers.1.src_attn", "", "decoder layer 2, source"),
        ("layers.0.self_attn", "", "layer 1, self"),
        ("transformer.layers.11.attn", "memory", "layer 12, memory"),
        ("reader", "", "reader"),
    ],
)
def test_titles(name, role, expected):
    assert title(name, role) == expected


def test_errors():
    with pytest.raises(ValueError, match=r"Linear has no attention to look at.*an Elman net"):
        attention_maps(nn.Linear(2, 3), torch.zeros(1, 2))
    model = feedback(padding_token=0)
    with pytest.raises(ValueError, match=r"holds padding \(token 0\).*look at one text at a time"):
        attention_maps(model, torch.zeros(T, B, dtype=torch.long))
    with pytest.raises(ValueError, match=r"`vocabulary` has no sign for token 9; it has 3"):
        attention_maps(model, torch.full((T, B), 9), vocabulary="abc")

    replying = EncoderDecoderLanguageModel.from_config(SMALL)
    with pytest.raises(ValueError, match=r"1 texts were given to a model that replies; .* two"):
        attention_maps(replying, torch.full((T, B), 3))

    class Forgetful(MultiHeadAttention):
        def attend(self, query, key, value, mask=None):
            return torch.zeros_like(query)

    x = torch.randn(T, B, C)
    attention = Forgetful(H, C)
    with pytest.raises(ValueError, match=r"kept no weights.*has to set `attn`"):
        attention_maps(attention, query=x, key=x, value=x)
    assert not attention.store_attn


def test_a_compiled_model(unhooked):
    maps, mha = unhooked("labml_nn.attention_maps"), unhooked("labml_nn.transformers.mha")
    compiled = torch.compile(mha.MultiHeadAttention(H, C), backend="eager")
    with (
        pytest.raises(ValueError, match=r"compiled.*give the model that was compiled"),
        maps.record_attention(compiled),
    ):
        pass


def test_a_map_is_a_map():
    assert isinstance(attention_maps(feedback(), text(T, B))[0], AttentionMap)


class OfMyOwn(nn.Module):
    """Averages what it sees: an attention that inherits nothing from those of the library."""

    def __init__(self):
        super().__init__()
        self.store_attn, self.attn = False, None

    def attend_to(self, *, query, past, mask=None):
        weights = torch.ones(len(query), len(past), query.shape[1], 1) / len(past)
        self.attn = weights if self.store_attn else None
        return past.mean(0).expand_as(query)

    def forward(self, x):
        return self.attend_to(query=x, past=x)


def test_an_attention_is_known_by_what_it_can_do():
    """One that was changed in a notebook is a class of its own."""
    module, x = OfMyOwn(), torch.randn(T, B, C)
    with record_attention(module) as maps:
        module(x)
    assert maps[0].sizes == {"query": T, "key": T, "batch": B, "head": 1}
    assert module.attn is None and not module.store_attn
