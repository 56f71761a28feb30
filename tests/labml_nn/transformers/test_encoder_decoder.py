"""A model that replies: what it computes, what it keeps, and what may not change a result."""

import copy
import functools
import math
import pickle

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.nn import functional as F

from labml_nn.transformers.encoder_decoder import (
    EncoderDecoderConfig,
    EncoderDecoderLanguageModel,
    EncoderDecoderState,
    collate,
)
from labml_nn.transformers.utils import subsequent_mask

S, T, B, C, H, FF, V, W = 7, 5, 2, 12, 3, 28, 19, 6
PAD, START, END = 0, 1, 2
seeds = st.integers(0, 2**16)
kinds = pytest.mark.parametrize("positions", ["sinusoidal", "learned"])


def config(**changes) -> EncoderDecoderConfig:
    fields = {
        "n_vocab": V,
        "d_model": C,
        "heads": H,
        "d_ff": FF,
        "n_encoder_layers": 2,
        "n_decoder_layers": 3,
        "max_len": 20,
    }
    return EncoderDecoderConfig(**{**fields, **changes})


def model(**changes) -> EncoderDecoderLanguageModel:
    made = EncoderDecoderLanguageModel(config(**changes))
    for name, parameter in made.named_parameters():
        # Learned positions start close to zero, and biases at zero: both would hide mistakes.
        if "positional" in name or parameter.dim() == 1:
            parameter.data += 0.3 * torch.randn_like(parameter)
    return made.eval()


@functools.cache
def small(positions: str = "sinusoidal", max_len: int = 20) -> EncoderDecoderLanguageModel:
    """One for the tests that ask many questions."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return model(positions=positions, max_len=max_len, n_encoder_layers=1, n_decoder_layers=1)


def words(length: int, batch: int = B) -> Tensor:
    return torch.randint(3, V, (length, batch))


def reply(length: int, batch: int = B) -> Tensor:
    """Tokens for `forward`: the start, and the rest."""
    return torch.cat([torch.full((1, batch), START), words(length - 1, batch)])


def same(ours: Tensor, theirs: Tensor) -> bool:
    return ours.shape == theirs.shape and torch.allclose(ours, theirs, rtol=1e-5, atol=1e-5)


def leaves(value) -> list[Tensor]:
    if isinstance(value, Tensor):
        return [value]
    return [] if value is None else [leaf for part in value for leaf in leaves(part)]


# What it computes.


@kinds
@pytest.mark.parametrize("norm_first", [True, False])
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-5), (torch.float64, 1e-10)])
def test_logits_are_those_of_the_encoder_decoder(positions, norm_first, dtype, tolerance):
    made = model(positions=positions, norm_first=norm_first).to(dtype)
    source, tokens = words(S), reply(T)
    logits, state = made(tokens, made.encode(source))
    expected = made.transformer.logits(source, tokens, None, subsequent_mask(T))
    torch.testing.assert_close(logits, expected, rtol=tolerance, atol=tolerance)
    assert logits.shape == (T, B, V)
    assert state.real.shape == (S, B)
    assert [pair.keys.shape for pair in state.sources] == 3 * [(S, B, H, C // H)]
    assert [pair.keys.shape for pair in state.reply.layers] == 3 * [(T, B, H, C // H)]


def test_loss_is_the_mean_surprise_of_the_reply_and_its_end():
    made = model()
    pairs = [([3, 4, 5], [6, 7]), ([8], [])]
    batch = collate(pairs, PAD)
    total = 0.0
    for said, answer in pairs:
        tokens = torch.tensor([[START, *answer]]).T
        logits, _ = made(tokens, made.encode(torch.tensor([said]).T))
        for row, asked in zip(logits[:, 0].log_softmax(-1), [*answer, END], strict=True):
            total -= row[asked].item()
    assert made.loss(batch.source, batch.target).item() == pytest.approx(total / 4, abs=1e-5)


def test_loss_teaches_every_parameter():
    made = model()
    made.loss(words(S), words(T)).backward()
    for name, parameter in made.named_parameters():
        if not name.endswith("key.linear.bias"):  # which a softmax does not notice
            assert parameter.grad.abs().max() > 1e-6, name


def test_loss_of_long_replies_is_that_of_what_is_read():
    """Teacher forcing slides as writing does, and its gradients reach the encoder."""
    made, source, target = model(max_len=W), words(S), words(2 * W)
    tokens = torch.cat([torch.full((1, B), START), target])
    asked = torch.cat([target, torch.full((1, B), END)])
    state, total = made.encode(source), 0.0
    for row, answer in zip(tokens, asked, strict=True):
        logits, state = made(row[None], state)
        total += F.cross_entropy(logits[0], answer).item() / len(tokens)
    loss = made.loss(source, target)
    assert loss.item() == pytest.approx(total, abs=1e-5)
    loss.backward()
    assert made.transformer.encoder.layers[0].feed_forward.layer1.weight.grad.abs().max() > 1e-6


def test_prediction_is_made_without_dropout_and_gradients():
    made = model(dropout_prob=0.5).train()
    state = made.eval().encode(words(S))
    tokens = reply(T)
    expected = made(tokens, state)[0][-1].softmax(-1)
    predicted = made.train().predict(tokens, state)
    assert same(predicted, expected)
    assert not predicted.requires_grad
    assert made.training
    assert not same(made(tokens, state)[0][-1].softmax(-1), expected)  # dropout is there


def test_prediction_from_a_source_alone_is_how_a_reply_begins():
    made, source = model(), words(S)
    expected = made.predict(torch.full((1, B), START), made.encode(source))
    assert same(made.predict(source), expected)
    assert same(expected.sum(-1), torch.ones(B))


# What it keeps.


def recomputed(made: EncoderDecoderLanguageModel, source: Tensor, tokens: Tensor) -> Tensor:
    """The last row of the whole model over the context that the last token is read with."""
    t, limit = len(tokens) - 1, made.config.max_len
    half = limit // 2
    begin = half * max(0, (t - limit) // half + 1)
    real = (source != PAD)[None]
    window = tokens[begin:]
    return made.transformer.logits(source, window, real, subsequent_mask(len(window)))[-1]


@kinds
@pytest.mark.parametrize("length", [5, 6, 7, 9, 10, 17])
def test_steps_equal_full_recomputation(positions, length):
    made = model(positions=positions, max_len=W)
    source, tokens = words(W), reply(length)
    source[4:, 0] = PAD
    state = made.encode(source)
    for t in range(length):
        logits, state = made(tokens[t : t + 1], state)
        assert same(logits[0], recomputed(made, source, tokens[: t + 1])), t
        assert state.reply.tokens.shape[0] <= W


@settings(deadline=None, max_examples=15)
@given(seed=seeds, cuts=st.lists(st.integers(1, 8), min_size=1, max_size=5))
def test_it_does_not_matter_how_a_reply_is_cut_into_calls(seed, cuts):
    torch.manual_seed(seed)
    made, tokens = small(max_len=W), reply(sum(cuts))
    state = made.encode(words(S))
    whole, end = made(tokens, state)
    pieces = []
    for piece in tokens.split(cuts):
        logits, state = made(piece, state)
        pieces.append(logits)
    assert same(torch.cat(pieces), whole)
    for ours, theirs in zip(leaves(state), leaves(end), strict=True):
        assert same(ours, theirs)


def test_states_are_values():
    made = model()
    state = made.encode(words(S))
    _, state = made(reply(3), state)
    before = copy.deepcopy(state)
    one, two = words(1), words(2)
    first, _ = made(one, state)
    made(two, state)
    again, _ = made(one, state)
    assert torch.equal(first, again)
    for kept, old in zip(leaves(state), leaves(before), strict=True):
        assert torch.equal(kept, old)
        assert kept.shape[1] == B


def test_states_come_back_detached_and_what_is_encoded_does_not():
    made = model()
    state = made.encode(words(S))
    assert all(pair.keys.requires_grad for pair in state.sources)
    logits, state = made(reply(T), state)
    assert logits.requires_grad
    assert isinstance(state, EncoderDecoderState)
    assert not any(leaf.requires_grad for leaf in leaves(state))


def test_begin_reads_the_prompt_and_starts_a_reply():
    made, source = model(), words(S)
    state, tokens, lengths = made.prepare_prompt(source)
    assert lengths is None
    assert tokens.tolist() == [[START] * B]
    assert not any(leaf.requires_grad for leaf in leaves(state))
    assert same(made(tokens, state)[0], made(tokens, made.encode(source))[0])
    assert made.end_token == END


# What must not come through.


@settings(deadline=None, max_examples=15)
@given(seed=seeds, t=st.integers(1, T - 1))
def test_no_position_of_the_reply_sees_the_future(seed, t):
    torch.manual_seed(seed)
    made, tokens = small(), reply(T)
    state, other = made.encode(words(S)), tokens.clone()
    other[t:] = 3 + (other[t:] - 2) % (V - 3)
    before, after = made(tokens, state)[0], made(other, state)[0]
    assert same(before[:t], after[:t])
    assert not same(before[t], after[t])


@settings(deadline=None, max_examples=15)
@given(
    seed=seeds,
    said=st.tuples(st.integers(1, S), st.integers(1, S)),
    replied=st.tuples(st.integers(0, T), st.integers(0, T)),
    multiple=st.integers(1, 4),
    positions=st.sampled_from(["sinusoidal", "learned"]),
)
def test_neither_side_nor_amount_of_padding_matters(seed, said, replied, multiple, positions):
    torch.manual_seed(seed)
    made = small(positions=positions, max_len=S)
    pairs = [(words(s, 1)[:, 0], words(t, 1)[:, 0]) for s, t in zip(said, replied, strict=True)]
    batches = [
        collate(pairs, PAD),
        collate(pairs, PAD, multiple_of=multiple),
        collate(pairs, PAD, pad="first"),
        collate(pairs, PAD, pad="first", multiple_of=multiple),
    ]
    alone = [made.loss(*collate([pair], PAD)[:2]).item() * (len(pair[1]) + 1) for pair in pairs]
    expected = sum(alone) / (sum(replied) + 2)
    for batch in batches:
        assert made.loss(batch.source, batch.target).item() == pytest.approx(expected, abs=1e-5)


@settings(deadline=None, max_examples=15)
@given(seed=seeds, lengths=st.tuples(st.integers(1, S), st.integers(1, S)))
def test_a_reply_in_a_batch_is_what_it_is_alone(seed, lengths):
    """Whether lengths are given and anything follows, or padding stands first or last."""
    torch.manual_seed(seed)
    made, source, tokens = small(), words(S), reply(T)
    ways = [(source, torch.tensor(lengths))]
    for pad in ("first", "last"):
        pairs = [(source[:n, b], []) for b, n in enumerate(lengths)]
        ways.append((collate(pairs, PAD, pad=pad).source, None))
    for padded, counts in ways:
        together, _ = made(tokens, made.encode(padded, counts))
        for b, n in enumerate(lengths):
            alone, _ = made(tokens[:, [b]], made.encode(source[:n, [b]]))
            assert same(together[:, [b]], alone)


@pytest.mark.parametrize("side", ["first", "last"])
def test_replies_of_different_length_go_on_together(side):
    """Padding in what is read takes no position and is seen by nobody."""
    made, source = model(), words(S)
    long, short = reply(4, 1), reply(2, 1)
    filling = torch.full((2, 1), PAD)
    padded = torch.cat([filling, short] if side == "first" else [short, filling])
    state = made.encode(source)
    logits, state = made(torch.cat([long, padded], 1), state)
    on = words(1)
    after, _ = made(on, state)
    there = slice(2, 4) if side == "first" else slice(2)
    for b, text, rows in ((0, long, slice(4)), (1, short, there)):
        alone, its = made(text, made.encode(source[:, [b]]))
        assert same(logits[rows, b], alone[:, 0])
        assert same(after[:, [b]], made(on[:, [b]], its)[0])


@settings(deadline=None, max_examples=15)
@given(seed=seeds, order=st.permutations(range(4)))
def test_order_of_the_batch_does_not_matter(seed, order):
    torch.manual_seed(seed)
    made, source, tokens = small(), words(S, 4), reply(T, 4)
    source[3:, 1] = PAD
    logits, _ = made(tokens, made.encode(source))
    moved, _ = made(tokens[:, order], made.encode(source[:, order]))
    assert same(moved, logits[:, order])


def test_the_reply_depends_on_what_was_said_and_in_which_order():
    made, source, tokens = model(), words(S), reply(T)
    logits, _ = made(tokens, made.encode(source))
    assert not same(logits, made(tokens, made.encode(words(S)))[0])
    assert not same(logits, made(tokens, made.encode(source.flip(0)))[0])


def test_silence_leaves_finite_results():
    made = model()
    source = words(S)
    source[:, 0] = PAD
    loss = made.loss(source, words(T))
    loss.backward()
    assert loss.isfinite()
    assert all(p.grad.isfinite().all() for p in made.parameters())


def test_sources_may_be_longer_than_a_table_of_sinusoids():
    short, long = model(max_len=W), model(max_len=3 * W)
    long.load_state_dict(short.state_dict())
    source, tokens = words(2 * W + 1), reply(W)
    assert same(short(tokens, short.encode(source))[0], long(tokens, long.encode(source))[0])


# How it is built.


def test_tied_is_one_matrix_and_untied_are_three():
    tied, untied = model(), model(tied=False)
    transformer = tied.transformer
    assert transformer.src_embed.tokens.weight is transformer.generator.projection.weight
    assert transformer.tgt_embed.tokens.weight is transformer.generator.projection.weight
    counts = [sum(p.numel() for p in each.parameters()) for each in (tied, untied)]
    assert counts[1] - counts[0] == 2 * V * C


@pytest.mark.parametrize("duplicate", [copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))])
def test_copies_stay_tied_and_compute_the_same(duplicate):
    made, source, tokens = model(), words(S), reply(T)
    copied = duplicate(made)
    logits, again = (each(tokens, each.encode(source))[0] for each in (made, copied))
    assert torch.equal(logits, again)
    assert sum(p.numel() for p in copied.parameters()) == sum(p.numel() for p in made.parameters())
    assert copied.config == made.config


def test_states_can_be_pickled():
    made = model()
    _, state = made(reply(T), made.encode(words(S)))
    again = pickle.loads(pickle.dumps(state))
    on = words(1)
    assert torch.equal(made(on, state)[0], made(on, again)[0])


def test_sizes_are_those_of_the_configuration():
    made = model()
    assert (len(made.transformer.encoder.layers), len(made.transformer.decoder.layers)) == (2, 3)
    both = model(n_layers=1, n_encoder_layers=None, n_decoder_layers=None)
    assert (len(both.transformer.encoder.layers), len(both.transformer.decoder.layers)) == (1, 1)
    layer = model(d_ff=None).transformer.encoder.layers[0]
    assert layer.feed_forward.layer1.out_features == 4 * C


@pytest.mark.parametrize("d_model", [64, 256])
@pytest.mark.parametrize("norm_first", [True, False])
def test_first_guesses_are_nearly_even(d_model, norm_first):
    """A tied model whose vectors are too long bets on the token that it has just read."""
    torch.manual_seed(0)
    made = EncoderDecoderLanguageModel(
        EncoderDecoderConfig(n_vocab=68, d_model=d_model, n_layers=2, norm_first=norm_first)
    ).eval()
    source, target = torch.randint(3, 68, (S, 16)), torch.randint(3, 68, (T, 16))
    assert made.loss(source, target).item() == pytest.approx(math.log(68), abs=0.15)
    nn.init.xavier_uniform_(made.transformer.generator.projection.weight)
    assert made.loss(source, target).item() > math.log(68) + 0.4


# What it learns.


def test_it_learns_to_turn_words_round():
    """Words of four letters, of which there are six. It has seen each about eight times."""
    torch.manual_seed(0)
    made = EncoderDecoderLanguageModel(
        EncoderDecoderConfig(n_vocab=9, d_model=32, heads=4, n_layers=1, dropout_prob=0.0)
    )
    optimizer = torch.optim.AdamW(made.parameters(), lr=5e-3)
    for _ in range(240):
        source = torch.randint(3, 9, (4, 64))
        loss = made.loss(source, source.flip(0))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    made.eval()
    source = torch.randint(3, 9, (4, 50))
    assert made.loss(source, source.flip(0)) < 0.05

    state, tokens, _ = made.prepare_prompt(source)
    written = []
    with torch.no_grad():
        for _ in range(5):
            logits, state = made(tokens, state)
            tokens = logits.argmax(-1)
            written.append(tokens)
    expected = torch.cat([source.flip(0), torch.full((1, 50), END)])
    assert torch.equal(torch.cat(written), expected)
