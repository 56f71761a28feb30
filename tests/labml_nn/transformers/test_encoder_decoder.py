"""The sequence-to-sequence language model: batches, state, padding, configuration, errors."""

from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from labml_nn.sampling import generate
from labml_nn.transformers.encoder_decoder import (
    EncoderDecoderConfig,
    EncoderDecoderLanguageModel,
    collate,
    shift,
    to_front,
)
from labml_nn.transformers.utils import subsequent_mask

MODULE = "labml_nn.transformers.encoder_decoder"
TRAINED = Path(__file__).parents[3] / "docs_src" / "results" / "encoder_decoder"
S, T, B, C, H, FF, V, W = 7, 5, 2, 12, 3, 28, 19, 6
PAD, START, END = 0, 1, 2
SPECIAL = {"padding_token": PAD, "start_token": START, "end_token": END}
kinds = pytest.mark.parametrize("positions", ["sinusoidal", "learned"])
FIELDS = {"n_vocab": V, "d_model": C, "heads": H, "d_ff": FF, "max_len": 20}
LAYERS = {"n_encoder_layers": 2, "n_decoder_layers": 3}


def model(**changes) -> EncoderDecoderLanguageModel:
    made = EncoderDecoderLanguageModel(EncoderDecoderConfig(**{**FIELDS, **LAYERS, **changes}))
    for name, parameter in made.named_parameters():
        # Learned positions start close to zero, and biases at zero: both would hide mistakes.
        if "positional" in name or parameter.dim() == 1:
            parameter.data += 0.3 * torch.randn_like(parameter)
    return made.eval()


def words(length: int, batch: int = B) -> Tensor:
    return torch.randint(3, V, (length, batch))


def target(length: int, batch: int = B) -> Tensor:
    """Tokens for `forward`: the start token, and others."""
    return torch.cat([torch.full((1, batch), START), words(length - 1, batch)])


def same(ours: Tensor, theirs: Tensor) -> bool:
    return ours.shape == theirs.shape and torch.allclose(ours, theirs, rtol=1e-5, atol=1e-5)


# Batches.

PAIRS = [([3, 4, 5], [6]), ([7], [8, 9]), (torch.tensor([3, 5]), [])]


def test_collate():
    batch = collate((pair for pair in PAIRS), PAD)
    assert batch.source.T.tolist() == [[3, 4, 5], [7, 0, 0], [3, 5, 0]]
    assert batch.target.T.tolist() == [[6, 0], [8, 9], [0, 0]]
    assert batch.source.dtype == batch.target.dtype == torch.long
    assert collate([([0, 1], []), ([2], [])], 3).target.T.tolist() == [[3], [3]]


def test_padding_goes_to_the_end():
    tokens = torch.tensor([[0, 3, 0, 0], [0, 4, 0, 7], [5, 0, 0, 0], [6, 0, 0, 0]])
    moved = to_front(tokens, PAD)
    assert moved.T.tolist() == [[5, 6, 0, 0], [3, 4, 0, 0], [0, 0, 0, 0], [7, 0, 0, 0]]


def test_shift():
    inputs, labels = shift(torch.tensor([[7, 8, 0], [9, 0, 0]]).int(), **SPECIAL)
    assert inputs.T.tolist() == [[1, 7, 9], [1, 8, 0], [1, 0, 0]]
    assert labels.T.tolist() == [[7, 9, 2], [8, 2, 0], [2, 0, 0]]
    assert inputs.dtype == labels.dtype == torch.int32


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"pairs": []}, ValueError, "`pairs` is empty.*at least one"),
        ({"pairs": [1]}, ValueError, r"`pairs\[0\]` \(1\) must be a pair"),
        ({"pairs": [([1], [2], [3])]}, ValueError, r"`pairs\[0\]` .*must be a pair"),
        ({"pairs": [([1], [2]), ([], [2])]}, ValueError, r"`pairs\[1\]` .*at least one token"),
        ({"pairs": [([1], [2]), ([1], [2, 0])]}, ValueError, r"`pairs\[1\]` holds 0.* padding tok"),
        ({"padding_token": "0"}, TypeError, r"`padding_token` \('0'\) must be a whole number"),
    ],
)
def test_errors_of_collate(unhooked, change, error, message):
    with pytest.raises(error, match=message):
        unhooked(MODULE).collate(**{"pairs": PAIRS, "padding_token": PAD, **change})


# Logits, loss, probabilities.
@kinds
@pytest.mark.parametrize("norm_first", [True, False])
def test_logits_are_those_of_the_encoder_decoder(positions, norm_first):
    made = model(positions=positions, norm_first=norm_first).double()
    source, tokens = words(S), target(T)
    logits, _ = made(tokens, made.encode(source))
    expected = made.transformer.logits(source, tokens, None, subsequent_mask(T))
    torch.testing.assert_close(logits, expected)


def test_loss_is_the_mean_over_the_target_and_its_end():
    made = model()
    pairs = [([3, 4, 5], [6, 7]), ([8], [])]
    batch, total = collate(pairs, PAD), 0.0
    for source, labels in pairs:
        inputs = torch.tensor([[START, *labels]]).T
        logits, _ = made(inputs, made.encode(torch.tensor([source]).T))
        total += F.cross_entropy(logits[:, 0], torch.tensor([*labels, END]), reduction="sum")
    loss = made.loss(batch.source, batch.target)
    torch.testing.assert_close(loss, total / 4)
    left = torch.tensor([[3, 4, 5], [PAD, PAD, 8]]).T  # padding may come first
    torch.testing.assert_close(made.loss(left, batch.target), loss)


def test_loss_of_long_targets_slides_as_generation_does():
    made, source, labels = model(max_len=W), words(S), words(2 * W)
    tokens = torch.cat([torch.full((1, B), START), labels])
    labels_and_end = torch.cat([labels, torch.full((1, B), END)])
    state, total = made.encode(source), 0.0
    for row, label in zip(tokens, labels_and_end, strict=True):
        logits, state = made(row[None], state)
        total += F.cross_entropy(logits[0], label).item() / len(tokens)
    assert made.loss(source, labels).item() == pytest.approx(total, abs=1e-5)


# The state.
@kinds
def test_steps_equal_full_recomputation(positions, length=13):
    made = model(positions=positions, max_len=W)
    source, tokens = words(W), target(length)
    source[4:, 0] = PAD
    state = made.encode(source)
    for t in range(length):
        logits, state = made(tokens[t : t + 1], state)
        begin = W // 2 * max(0, (t - W) // (W // 2) + 1)
        context, real = tokens[begin : t + 1], (source != PAD)[None]
        expected = made.transformer.logits(source, context, real, subsequent_mask(len(context)))
        assert same(logits[0], expected[-1]), t
        assert len(state.target.tokens) <= W


# Causality and padding.
def test_a_source_of_padding_leaves_finite_results_and_order_matters():
    made, source, tokens = model(), words(S), target(T)
    logits, _ = made(tokens, made.encode(source))
    assert not same(logits, made(tokens, made.encode(source.flip(0)))[0])
    source[:, 0] = PAD
    made.loss(source, words(T)).backward()
    assert all(p.grad.isfinite().all() for p in made.parameters())


def test_only_learned_positions_limit_the_source():
    short, long = model(max_len=W), model(max_len=3 * W)
    long.load_state_dict(short.state_dict())
    source, tokens = words(2 * W + 1), target(W)
    assert same(short(tokens, short.encode(source))[0], long(tokens, long.encode(source))[0])
    learned, source = model(max_len=W, positions="learned"), words(5)
    with pytest.raises(ValueError, match="needs 7 positions, but only max_len = 6"):
        learned.encode(words(S))
    padded = torch.cat([source, torch.full((4, B), PAD)])
    assert same(
        learned(tokens, learned.encode(padded))[0], learned(tokens, learned.encode(source))[0]
    )


# Configuration and initialisation.
def test_fields_reach_the_modules():
    made = model(
        n_source_vocab=11,
        d_k=5,
        bias=False,
        activation="gelu",
        dropout_prob=0.1,
        embedding_dropout_prob=0.2,
        attention_dropout_prob=0.3,
        feed_forward_dropout_prob=0.4,
    ).transformer
    assert (len(made.encoder.layers), len(made.decoder.layers)) == (2, 3)
    for layer in [*made.encoder.layers, *made.decoder.layers]:
        network = layer.feed_forward
        assert isinstance(network.activation, nn.GELU)
        assert network.layer1.bias is None and network.layer2.bias is None
        assert (layer.dropout.p, network.dropout.p) == (0.1, 0.4)
        for each in filter(None, (layer.self_attn, layer.src_attn)):
            assert (each.d_k, each.dropout.p, each.query.linear.bias) == (5, 0.3, None)
    assert made.src_embed.positions.dropout.p == made.tgt_embed.positions.dropout.p == 0.2
    assert made.src_embed.tokens.weight.shape == (11, C)
    for norm_first, norm in ((True, nn.LayerNorm), (False, nn.Identity)):
        stacks = model(norm_first=norm_first).transformer
        assert type(stacks.encoder.norm) is type(stacks.decoder.norm) is norm
    both = model(n_layers=1, n_encoder_layers=None, n_decoder_layers=None, d_ff=None).transformer
    assert len(both.encoder.layers) == len(both.decoder.layers) == 1
    assert both.encoder.layers[0].feed_forward.layer1.out_features == 4 * C
    assert both.encoder.layers[0].dropout.p == both.src_embed.positions.dropout.p == 0.1


def test_two_vocabularies_train_and_generate():
    made = model(n_source_vocab=11)
    made.loss(torch.randint(3, 11, (S, B)), words(T)).backward()
    assert generate(made, torch.randint(3, 11, (S, B)), 4, stop=()).shape == (4, B)
    with pytest.raises(ValueError, match="`source` holds 18; expected numbers from 0 to 10"):
        made.encode(torch.full((S, B), 18))


def test_tied_is_one_matrix_and_untied_are_three():
    for tied in (True, False):
        made = model(tied=tied).transformer
        parts = made.generator.projection, made.src_embed.tokens, made.tgt_embed.tokens
        assert len({part.weight for part in parts}) == (1 if tied else 3)


def test_the_saved_model_loads_and_has_its_loss():
    """The value is that of the first implementation, with whose weights it was saved."""
    made = EncoderDecoderLanguageModel.load(TRAINED / "model").eval()
    source = (torch.arange(30)[:, None] * torch.tensor([7, 11])) % 65
    labels = (torch.arange(80)[:, None] * torch.tensor([3, 5]) + 1) % 65
    source[20:, 1], labels[:5, 0] = 65, 65
    assert made.loss(source, labels).item() == pytest.approx(7.593656, abs=2e-5)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"heads": 5}, r"`d_model` \(128\) must be divisible by `heads` \(5\)"),
        ({"n_vocab": 2}, r"`end_token` \(2\) must be three.* from 0 to 1;.*add 3"),
        ({"padding_token": 50, "n_source_vocab": 50}, r"must be below `n_source_vocab` \(50\)"),
    ],
)
def test_errors_of_a_configuration(change, message):
    with pytest.raises(ValueError, match=message):
        EncoderDecoderConfig(**{"n_vocab": 65, **change})


# Errors.

HOLE = torch.tensor([[7, 8, 9], [5, PAD, 6]]).T


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        ((torch.zeros(S, B),), TypeError, r"`source` has dtype torch.float32.*source\.long\(\)"),
        ((torch.full((S, B), V),), ValueError, "`source` holds 19; expected numbers from 0 to 18"),
        ((HOLE,), ValueError, "`source` have the padding token.* in sequence 1; expected"),
        ((words(S), torch.tensor([7])), ValueError, "`lengths` has 1 numbers for 2 seq"),
        ((words(S), torch.tensor([7, 8])), ValueError, "`lengths` go from 7 to 8"),
    ],
)
def test_errors_of_the_source(unhooked, call, error, message):
    made = unhooked(MODULE).EncoderDecoderLanguageModel.from_config(FIELDS)
    for method in (made.encode, made.prepare_prompt):
        with pytest.raises(error, match=message):
            method(*call)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda m, s: m(words(T), s), ValueError, r"`tokens` begin with \[.*start_token \(1\)"),
        (lambda m, s: m(target(T), None), TypeError, r"no source.*state = model\.encode\(source\)"),
        (lambda m, s: m(target(T), tuple(s)), TypeError, "no source"),
        (lambda m, s: m.loss(HOLE, words(T)), ValueError, "`source` have the padding token"),
        (lambda m, s: m.loss(words(S), HOLE), ValueError, "`targets` have the padding token"),
        (lambda m, s: m.loss(words(S), target(T)), ValueError, "`targets` hold 1, the start_token"),
        (lambda m, s: m.loss(words(S), words(T) * 0 + END), ValueError, "hold 2, the end_token"),
        (lambda m, s: m.loss(words(S), words(T).float()), TypeError, "`targets` has dtype torch"),
        (lambda m, s: m.loss(words(S), words(T), s), ValueError, "`state` must be None: the loss"),
    ],
)
def test_errors_of_the_target_and_the_state(unhooked, call, error, message):
    made = unhooked(MODULE).EncoderDecoderLanguageModel.from_config(FIELDS)
    with pytest.raises(error, match=message):
        call(made, made.encode(words(S)))
