"""Encoder, decoder and the two together: what they compute, and what they must not let through."""

import copy
import math
import pickle
from collections.abc import Callable
from types import ModuleType

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from labml_nn.transformers.feed_forward import FeedForward
from labml_nn.transformers.mha import MultiHeadAttention
from labml_nn.transformers.models import (
    Decoder,
    EmbeddingsWithLearnedPositionalEncoding,
    EmbeddingsWithPositionalEncoding,
    Encoder,
    EncoderDecoder,
    Generator,
    TransformerLayer,
)
from labml_nn.transformers.utils import subsequent_mask

MODULE = "labml_nn.transformers.models"
T, S, B, C, H, F, V, U = 5, 7, 2, 12, 3, 28, 19, 17
seeds = st.integers(0, 2**16)


def layer(decoder: bool = False, norm_first: bool = True) -> TransformerLayer:
    return TransformerLayer(
        d_model=C,
        self_attn=MultiHeadAttention(H, C, 0.0),
        src_attn=MultiHeadAttention(H, C, 0.0) if decoder else None,
        feed_forward=FeedForward(C, F, 0.0),
        dropout_prob=0.0,
        norm_first=norm_first,
    )


def model(norm_first: bool = True) -> EncoderDecoder:
    """One that reads U tokens and writes V, and whose learned positions are not zero."""
    made = EncoderDecoder(
        Encoder(layer(False, norm_first), 2),
        Decoder(layer(True, norm_first), 3),
        EmbeddingsWithPositionalEncoding(C, U),
        EmbeddingsWithLearnedPositionalEncoding(C, V, max_len=20),
        Generator(V, C),
    )
    nn.init.normal_(made.tgt_embed.positional_encodings)
    return made.eval()


def texts(batch: int = B) -> tuple[Tensor, Tensor]:
    return torch.randint(U, (S, batch)), torch.randint(V, (T, batch))


def same(ours: Tensor, theirs: Tensor) -> bool:
    return torch.allclose(ours, theirs, rtol=1e-5, atol=1e-5)


# What the whole computes.


def test_old_call_stops_before_the_generator_and_the_new_one_does_not():
    transformer, (src, tgt) = model(), texts()
    rows = transformer(src, tgt, None, subsequent_mask(T))
    assert rows.shape == (T, B, C)
    logits = transformer.logits(src, tgt, None, subsequent_mask(T))
    assert logits.shape == (T, B, V)
    torch.testing.assert_close(logits, transformer.generator(rows))


def test_generator_is_trained_through_the_door_to_logits():
    transformer, (src, tgt) = model(), texts()
    transformer.logits(src, tgt, None, subsequent_mask(T)).sum().backward()
    assert all(p.grad is not None for p in transformer.generator.parameters())


def test_stack_is_its_layers_and_one_norm():
    encoder, x, mask = Encoder(layer(), 3), torch.randn(T, B, C), subsequent_mask(T)
    rows = x
    for each in encoder.layers:
        rows = each(x=rows, mask=mask)
    torch.testing.assert_close(encoder(x, mask), encoder.norm(rows))

    bare = Encoder(layer(), 3, final_norm=False)
    bare.load_state_dict(encoder.state_dict(), strict=False)
    torch.testing.assert_close(bare(x, mask), rows)


def test_generator_returns_logits_for_any_leading_axes():
    generator = Generator(V, C)
    for axes in ((T, B), (B,), ()):
        x = torch.randn(*axes, C)
        expected = x @ generator.projection.weight.T + generator.projection.bias
        torch.testing.assert_close(generator(x), expected)


# How it starts.


@pytest.mark.parametrize("stack", [Encoder, Decoder])
def test_layers_start_independently(stack):
    made = stack(layer(decoder=True), 3)
    for name in ("self_attn.query.linear.weight", "src_attn.output.weight"):
        weights = [each.get_parameter(name) for each in made.layers]
        assert not torch.equal(weights[0], weights[1])
        assert not torch.equal(weights[1], weights[2])
        # From the same distribution: uniform, with the same bound.
        bounds = [weight.abs().max().item() for weight in weights]
        assert max(bounds) <= 1 / math.sqrt(C)
        assert min(bounds) > 0.9 / math.sqrt(C)


def test_first_layer_keeps_the_pattern_and_shares_nothing_with_it():
    pattern = layer()
    encoder = Encoder(pattern, 2)
    for name, parameter in pattern.named_parameters():
        copied = encoder.layers[0].get_parameter(name)
        assert torch.equal(copied, parameter)
        assert copied is not parameter


def test_matrices_of_the_whole_start_after_glorot():
    transformer = EncoderDecoder(
        Encoder(layer(), 1),
        Decoder(layer(True), 1),
        EmbeddingsWithPositionalEncoding(C, U),
        EmbeddingsWithPositionalEncoding(C, V),
        Generator(V, C),
    )
    for name, parameter in transformer.named_parameters():
        if parameter.dim() == 2:
            bound = math.sqrt(6 / sum(parameter.shape))
            assert 0.9 * bound < parameter.abs().max() <= bound, name
    assert torch.equal(transformer.encoder.norm.weight, torch.ones(C))


# What must not come through.


@settings(deadline=None, max_examples=20)
@given(seed=seeds, t=st.integers(1, T - 1), norm_first=st.booleans())
def test_no_position_sees_the_future(seed, t, norm_first):
    torch.manual_seed(seed)
    transformer, (src, tgt) = model(norm_first), texts()
    other = tgt.clone()
    other[t:] = (other[t:] + torch.randint(1, V, (T - t, B))) % V
    before, after = (
        transformer.logits(src, text, None, subsequent_mask(T)) for text in (tgt, other)
    )
    assert same(before[:t], after[:t])
    assert not same(before[t], after[t])


def test_without_a_mask_positions_do_see_the_future():
    torch.manual_seed(0)
    transformer, (src, tgt) = model(), texts()
    other = tgt.clone()
    other[-1] = (other[-1] + 1) % V
    before, after = (transformer.logits(src, text, None, None) for text in (tgt, other))
    assert not same(before[0], after[0])


@settings(deadline=None, max_examples=20)
@given(seed=seeds, extra=st.integers(1, 4))
def test_padding_of_the_source_changes_nothing(seed, extra):
    torch.manual_seed(seed)
    transformer, (src, tgt) = model(), texts()
    padded = torch.cat([src, torch.randint(U, (extra, B))])
    mask = torch.ones(1, S + extra, 1, dtype=torch.bool)
    mask[:, S:] = False
    causal = subsequent_mask(T)
    expected = transformer.logits(src, tgt, None, causal)
    assert same(transformer.logits(padded, tgt, mask, causal), expected)
    assert not same(transformer.logits(padded, tgt, None, causal), expected)


@settings(deadline=None, max_examples=20)
@given(seed=seeds, lengths=st.tuples(st.integers(1, S), st.integers(1, S)))
def test_text_in_a_batch_is_read_as_if_it_were_alone(seed, lengths):
    torch.manual_seed(seed)
    transformer, (src, tgt) = model(), texts()
    mask = torch.arange(S)[None, :, None] < torch.tensor(lengths)
    together = transformer.logits(src, tgt, mask, subsequent_mask(T))
    for b, length in enumerate(lengths):
        alone = transformer.logits(src[:length, [b]], tgt[:, [b]], None, subsequent_mask(T))
        assert same(together[:, [b]], alone)


@settings(deadline=None, max_examples=20)
@given(seed=seeds, order=st.permutations(range(4)))
def test_order_of_the_batch_does_not_matter(seed, order):
    torch.manual_seed(seed)
    transformer, (src, tgt) = model(), texts(4)
    mask = torch.arange(S)[None, :, None] < torch.tensor([7, 4, 1, 3])
    logits = transformer.logits(src, tgt, mask, subsequent_mask(T))
    moved = transformer.logits(src[:, order], tgt[:, order], mask[..., order], subsequent_mask(T))
    assert same(moved, logits[:, order])


@settings(deadline=None, max_examples=10)
@given(seed=seeds, order=st.permutations(range(T)))
def test_without_positions_an_encoder_sees_a_set(seed, order):
    torch.manual_seed(seed)
    encoder, x = Encoder(layer(), 2), torch.randn(T, B, C)
    assert same(encoder(x, None)[list(order)], encoder(x[list(order)], None))


def test_memory_of_only_padding_leaves_finite_results():
    transformer, (src, tgt) = model(), texts()
    mask = torch.ones(1, S, B, dtype=torch.bool)
    mask[..., 0] = False
    logits = transformer.logits(src, tgt, mask, subsequent_mask(T))
    logits.sum().backward()
    assert logits.isfinite().all()
    assert all(p.grad.isfinite().all() for p in transformer.parameters())


# Copies, other dtypes, compilers.


def test_copies_doubles_and_pickles():
    transformer, (src, tgt) = model().double(), texts()
    arguments = (src, tgt, None, subsequent_mask(T))
    expected = transformer.logits(*arguments)
    assert expected.dtype == torch.float64
    expected.sum().backward()
    assert torch.equal(copy.deepcopy(transformer).logits(*arguments), expected)
    assert torch.equal(pickle.loads(pickle.dumps(transformer)).logits(*arguments), expected)


@pytest.mark.parametrize("norm_first", [True, False])
def test_autocast_to_bfloat16(norm_first):
    transformer, (src, tgt) = model(norm_first), texts()
    arguments = (src, tgt, None, subsequent_mask(T))
    expected = transformer.logits(*arguments)
    with torch.autocast("cpu", torch.bfloat16):
        logits = transformer.logits(*arguments)
    assert logits.dtype == torch.bfloat16
    logits.float().sum().backward()
    torch.testing.assert_close(logits.float(), expected, rtol=0.1, atol=0.1)


def without_hook(unhooked: Callable[[str], ModuleType]) -> nn.Module:
    """A model of the kind that `model` makes, from the library as users import it."""
    names = ("mha", "feed_forward", "models")
    mha, feed_forward, models = (unhooked(f"labml_nn.transformers.{name}") for name in names)

    def make(decoder: bool) -> nn.Module:
        return models.TransformerLayer(
            d_model=C,
            self_attn=mha.MultiHeadAttention(H, C, 0.0),
            src_attn=mha.MultiHeadAttention(H, C, 0.0) if decoder else None,
            feed_forward=feed_forward.FeedForward(C, F, 0.0),
            dropout_prob=0.0,
        )

    return models.EncoderDecoder(
        models.Encoder(make(False), 1),
        models.Decoder(make(True), 1),
        models.EmbeddingsWithPositionalEncoding(C, U),
        models.EmbeddingsWithLearnedPositionalEncoding(C, V, max_len=20),
        models.Generator(V, C),
    )


def test_compiles_whole_with_gradients(unhooked):
    transformer = without_hook(unhooked)
    compiled = torch.compile(transformer.logits, fullgraph=True, backend="aot_eager")
    arguments = (*texts(), None, subsequent_mask(T))
    torch.testing.assert_close(compiled(*arguments), transformer.logits(*arguments))
    gradients = [
        torch.autograd.grad(call(*arguments).cos().sum(), list(transformer.parameters()))
        for call in (compiled, transformer.logits)
    ]
    torch.testing.assert_close(*gradients)


# What it refuses.


def test_decoder_needs_layers_that_read_the_source():
    with pytest.raises(ValueError, match=r"has no `src_attn`.*or use Encoder"):
        Decoder(layer(), 2)


@pytest.mark.parametrize("stack", [Encoder, Decoder])
@pytest.mark.parametrize("n_layers", [0, -1])
def test_stack_needs_layers(stack, n_layers):
    with pytest.raises(ValueError, match=rf"{n_layers}.* at least 1"):
        stack(layer(decoder=True), n_layers)


@pytest.mark.parametrize(("arguments", "name"), [((0, C), "n_vocab"), ((V, 0), "d_model")])
def test_generator_needs_sizes(arguments, name):
    with pytest.raises(ValueError, match=f"`{name}`.*0.* at least 1"):
        Generator(*arguments)


LONG, EMPTY = torch.zeros(21, B, dtype=torch.long), torch.zeros(0, B, dtype=torch.long)


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"src": torch.zeros(S, B)}, TypeError, r"`x` has dtype torch.float32.*x\.long\(\)"),
        ({"src": torch.full((S, B), U)}, ValueError, "`x` holds 17; expected numbers from 0 to 16"),
        ({"src": EMPTY}, ValueError, "the sequence is empty"),
        ({"tgt": torch.full((T, B), -1)}, ValueError, "`x` holds -1"),
        ({"tgt": EMPTY}, ValueError, "the sequence is empty"),
        ({"tgt": LONG, "tgt_mask": None}, ValueError, "needs 21 positions.*max_len = 20"),
        ({"tgt": torch.zeros(T, 3, dtype=torch.long)}, ValueError, "same number of sequences"),
        ({"src_mask": torch.ones(S, S, 1).bool()}, ValueError, r"\[7, 7, 1\].*T = 5, S = 7"),
        ({"src_mask": torch.ones(1, S, B)}, TypeError, "expected torch.bool"),
        ({"tgt_mask": torch.ones(T, T).bool()}, ValueError, r"mask\[:, :, None\]"),
        ({"tgt_mask": torch.ones(T, S, 1).bool()}, ValueError, r"\[5, 7, 1\]"),
    ],
)
def test_what_the_whole_refuses(unhooked, change, error, message):
    transformer = without_hook(unhooked)
    src, tgt = texts()
    call = {"src": src, "tgt": tgt, "src_mask": None, "tgt_mask": subsequent_mask(T)}
    transformer(**call)
    with pytest.raises(error, match=message):
        transformer(**{**call, **change})
    with pytest.raises(error, match=message):
        transformer.logits(**{**call, **change})


def test_masks_of_integers_from_old_code_are_read_as_booleans(unhooked):
    transformer, (src, tgt), causal = without_hook(unhooked), texts(), subsequent_mask(T)
    expected = transformer(src, tgt, None, causal)
    assert torch.equal(transformer(src, tgt, None, causal.to(torch.uint8)), expected)


def test_shapes_and_types_without_numbers():
    """On the device `meta`, where large models are laid out before they are loaded."""
    with torch.device("meta"):
        transformer = model()
        src, tgt = texts()
    logits = transformer.logits(src, tgt, None, subsequent_mask(T, device="meta"))
    assert logits.is_meta
    assert logits.shape == (T, B, V)


@pytest.mark.filterwarnings("ignore:While compiling, we found certain side effects")
@pytest.mark.parametrize("strict", [True, False])
def test_exported_for_any_length(unhooked, strict):
    """`torch.export` puts a symbol where a length would be, and our checks let it pass."""
    mha = unhooked("labml_nn.transformers.mha")
    masks = unhooked("labml_nn.transformers.utils")

    class Causal(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.attn = mha.MultiHeadAttention(H, C, 0.0)

        def forward(self, x: Tensor) -> Tensor:
            mask = masks.subsequent_mask(x.shape[0])
            return self.attn(query=x, key=x, value=x, mask=mask)

    module, lengths = Causal().eval(), {0: torch.export.Dim("T", min=2, max=100)}
    exported = torch.export.export(
        module, (torch.randn(T, B, C),), dynamic_shapes=(lengths,), strict=strict
    )
    x = torch.randn(9, B, C)
    torch.testing.assert_close(exported.module()(x), module(x))


def test_generator_refuses_what_does_not_fit(unhooked):
    generator = unhooked(MODULE).Generator(V, C)
    with pytest.raises(ValueError, match=rf"`x` has shape \[5, 7\]; .* d_model = {C}"):
        generator(torch.zeros(5, 7))
    with pytest.raises(TypeError, match=r"float64 but the parameters have torch\.float32"):
        generator(torch.zeros(5, C, dtype=torch.float64))
