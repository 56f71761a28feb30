"""Stacks that go on from what they read: the same rows, however a text is cut into calls."""

from itertools import pairwise

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from labml_nn.transformers.feed_forward import FeedForward
from labml_nn.transformers.layer import TransformerLayer
from labml_nn.transformers.mha import KeysValues, MultiHeadAttention
from labml_nn.transformers.stacks import Decoder, Encoder
from labml_nn.transformers.utils import subsequent_mask

MODULE = "labml_nn.transformers.stacks"
T, S, B, C, H, K, D, F, L = 7, 5, 2, 12, 3, 6, 5, 28, 2


def layer(decoder: bool = False, norm_first: bool = True) -> TransformerLayer:
    return TransformerLayer(
        d_model=C,
        self_attn=MultiHeadAttention(H, C, 0.0, d_k=K, d_v=D),
        src_attn=MultiHeadAttention(H, C, 0.0, d_k=D, d_v=K) if decoder else None,
        feed_forward=FeedForward(C, F, 0.0),
        dropout_prob=0.0,
        norm_first=norm_first,
    )


def pieces(cuts: list[int]) -> list[slice]:
    edges = [0, *sorted(cuts), T]
    return [slice(a, b) for a, b in pairwise(edges)]


def causal(piece: slice) -> Tensor:
    """The rows of the causal mask that belong to a piece."""
    return subsequent_mask(piece.stop)[piece.start :]


def close(ours: Tensor, theirs: Tensor) -> None:
    torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-5)


cut = st.lists(st.integers(1, T - 1), unique=True, max_size=T - 1)


@settings(deadline=None, max_examples=20)
@given(seed=st.integers(0, 2**16), cuts=cut, norm_first=st.booleans())
def test_encoder_in_pieces_reads_as_if_in_one(seed, cuts, norm_first):
    torch.manual_seed(seed)
    encoder, x = Encoder(layer(norm_first=norm_first), L), torch.randn(T, B, C)
    past, rows = None, []
    for piece in pieces(cuts):
        new, past = encoder.extend(x[piece], causal(piece), past)
        rows.append(new)
        assert [tuple(each.keys.shape) for each in past] == [(piece.stop, B, H, K)] * L
        assert [tuple(each.values.shape) for each in past] == [(piece.stop, B, H, D)] * L
    close(torch.cat(rows), encoder(x, subsequent_mask(T)))


@settings(deadline=None, max_examples=20)
@given(seed=st.integers(0, 2**16), cuts=cut, norm_first=st.booleans())
def test_decoder_in_pieces_writes_as_if_in_one(seed, cuts, norm_first):
    torch.manual_seed(seed)
    decoder, x = Decoder(layer(True, norm_first), L), torch.randn(T, B, C)
    memory, src_mask = torch.randn(S, B, C), torch.ones(1, S, B, dtype=torch.bool)
    src_mask[:, 3:, 1] = False
    past, rows, sources = None, [], decoder.project_source(memory)
    for piece in pieces(cuts):
        new, past = decoder.extend(x[piece], causal(piece), past, sources, src_mask)
        rows.append(new)
    close(torch.cat(rows), decoder(x, memory, src_mask, subsequent_mask(T)))


@pytest.mark.parametrize("decoder", [False, True])
def test_gradients_reach_what_was_read_before(decoder):
    """`extend` keeps the graph; cutting it is up to the model."""
    torch.manual_seed(0)
    stack = (Decoder if decoder else Encoder)(layer(decoder), L)
    x, memory = torch.randn(T, B, C, requires_grad=True), torch.randn(S, B, C, requires_grad=True)
    cotangent = torch.randn(T, B, C)
    if decoder:
        whole = stack(x, memory, None, subsequent_mask(T))
        source = (stack.project_source(memory), None)
    else:
        whole, source = stack(x, subsequent_mask(T)), ()
    past, rows = None, []
    for piece in pieces([2, 3]):
        new, past = stack.extend(x[piece], causal(piece), past, *source)
        rows.append(new)
    wanted = [x, *([memory] if decoder else []), *stack.parameters()]
    gradients = [
        torch.autograd.grad(y, wanted, cotangent, retain_graph=True)
        for y in (torch.cat(rows), whole)
    ]
    torch.testing.assert_close(*gradients, rtol=1e-5, atol=1e-5)


def test_past_is_still_good_after_it_was_used():
    encoder, x = Encoder(layer(), L), torch.randn(T, B, C)
    _, past = encoder.extend(x[:4], causal(slice(0, 4)), None)
    before = [each.clone() for pair in past for each in pair]
    rows = [encoder.extend(x[4:], causal(slice(4, T)), past)[0] for _ in range(2)]
    assert torch.equal(*rows)
    torch.testing.assert_close([each for pair in past for each in pair], before, rtol=0, atol=0)


def keys_values(*shape: int) -> KeysValues:
    return KeysValues(torch.zeros(*shape, K), torch.zeros(*shape, D))


def test_keys_and_values_for_another_number_of_layers():
    encoder, decoder, x = Encoder(layer(), L), Decoder(layer(True), L), torch.zeros(T, B, C)
    past = (keys_values(S, B, H),) * 3
    with pytest.raises(ValueError, match=r"`past` has keys and values for 3 layers.*has 2"):
        encoder.extend(x, None, past)
    with pytest.raises(ValueError, match="`sources` has keys and values for 1 layers"):
        decoder.extend(x, None, None, decoder.project_source(torch.zeros(S, B, C))[:1], None)


def test_source_where_there_is_no_attention_to_it():
    x, source = torch.zeros(T, B, C), keys_values(S, B, H)
    with pytest.raises(ValueError, match="to a layer without `src_attn`"):
        layer().extend(x=x, mask=None, past=None, source=source)
    mask = torch.ones(1, S, B, dtype=torch.bool)
    with pytest.raises(ValueError, match="`src_mask` was given without"):
        layer(True).extend(x=x, mask=None, past=None, src_mask=mask)


@pytest.mark.parametrize(
    ("x", "error", "message"),
    [
        (torch.zeros(T, B, 9), ValueError, "C = d_model = 12"),
        (torch.zeros(T, B, C, dtype=torch.float64), TypeError, "float64 but the parameters"),
    ],
)
def test_rows_that_do_not_fit(unhooked, x, error, message):
    stack = without_hook(unhooked)
    with pytest.raises(error, match=message):
        stack.extend(x, None, None)


def without_hook(unhooked) -> nn.Module:
    names = ("mha", "feed_forward", "layer", "stacks")
    mha, feed_forward, layers, stacks = (unhooked(f"labml_nn.transformers.{n}") for n in names)
    made = layers.TransformerLayer(
        d_model=C,
        self_attn=mha.MultiHeadAttention(H, C, 0.0),
        feed_forward=feed_forward.FeedForward(C, F, 0.0),
        dropout_prob=0.0,
    )
    return stacks.Encoder(made, L)


@torch.no_grad()
def test_compiles_whole(unhooked):
    stack = without_hook(unhooked)
    compiled = torch.compile(stack.extend, fullgraph=True, backend="aot_eager")
    x = torch.randn(T, B, C)
    expected, past = stack.extend(x[:4], causal(slice(0, 4)), None)
    rows, ours = compiled(x[:4], causal(slice(0, 4)), None)
    close(rows, expected)
    close(compiled(x[4:5], None, ours)[0], stack.extend(x[4:5], None, past)[0])
