"""The encoder–decoder: its equations, what must not leak, loss, greedy decoding, errors."""

import math

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

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
from labml_nn.transformers.positional_encoding import get_positional_encoding
from labml_nn.transformers.utils import subsequent_mask

T, S, B, C, H, FF, V, U = 5, 7, 2, 12, 3, 28, 19, 17
PAD, START, END = 0, 1, 2
orders = pytest.mark.parametrize("norm_first", [True, False], ids=["pre", "post"])
KINDS = [EmbeddingsWithPositionalEncoding, EmbeddingsWithLearnedPositionalEncoding]


def layer(decoder=False, norm_first=True, dropout_prob=0.0):
    return TransformerLayer(
        d_model=C,
        self_attn=MultiHeadAttention(H, C, 0.0),
        src_attn=MultiHeadAttention(H, C, 0.0) if decoder else None,
        feed_forward=FeedForward(C, FF, 0.0),
        dropout_prob=dropout_prob,
        norm_first=norm_first,
    )


def fresh(norm_first: bool = True) -> EncoderDecoder:
    """One that reads U tokens and writes V."""
    return EncoderDecoder(
        Encoder(layer(False, norm_first), 2, final_norm=norm_first),
        Decoder(layer(True, norm_first), 3, final_norm=norm_first),
        EmbeddingsWithPositionalEncoding(C, U),
        EmbeddingsWithLearnedPositionalEncoding(C, V, max_len=20),
        Generator(V, C),
    )


def model(norm_first: bool = True) -> EncoderDecoder:
    """In evaluation mode, with learned positions that are not zero."""
    made = fresh(norm_first).eval()
    nn.init.normal_(made.tgt_embed.positional_encodings)
    return made


# Embeddings.
def test_fixed_positions_have_no_end_and_learned_ones_do():
    fixed, learned = (kind(6, 11, max_len=3) for kind in KINDS)
    text = torch.randint(11, (5, B))
    expected = fixed.linear(text) * math.sqrt(6) + get_positional_encoding(6, 5)
    torch.testing.assert_close(fixed(text), expected)
    assert [name for name, _ in fixed.named_parameters()] == ["linear.weight"]
    assert fixed.state_dict().keys() == learned.state_dict().keys()
    assert not learned.positional_encodings.any()
    with pytest.raises(ValueError, match="needs 5 positions, but only max_len = 3"):
        learned(text)


# Layers and stacks. `tests/equivalence` compares them with PyTorch's, masks and gradients too.
@orders
def test_dropout_falls_on_the_outputs_of_sublayers(norm_first):
    x, m = torch.randn(T, B, C), torch.randn(S, B, C)
    made = layer(True, norm_first, dropout_prob=1.0)
    kept = x if norm_first else made.norm_ff(made.norm_src_attn(made.norm_self_attn(x)))
    torch.testing.assert_close(made(x=x, mask=None, src=m), kept)
    assert not torch.allclose(made.eval()(x=x, mask=None, src=m), kept)


def test_a_layer_without_a_source_skips_its_cross_attention():
    made, x, mask = layer(True), torch.randn(T, B, C), subsequent_mask(T)
    alone = layer()
    alone.load_state_dict(made.state_dict(), strict=False)
    torch.testing.assert_close(made(x=x, mask=mask), alone(x=x, mask=mask))


@pytest.mark.parametrize("stack", [Encoder, Decoder])
def test_a_stack_has_one_norm_of_a_kind_at_its_end(stack):
    made = stack(layer(True), 3)
    assert (made.size, len(made.layers)) == (C, 3)
    assert isinstance(made.norm, nn.LayerNorm)
    assert isinstance(stack(layer(True), 1, norm=nn.RMSNorm).norm, nn.RMSNorm)
    assert isinstance(stack(layer(True), 1, final_norm=False).norm, nn.Identity)


@pytest.mark.parametrize("stack", [Encoder, Decoder])
def test_layers_start_independently_and_the_first_as_the_pattern(stack):
    pattern = layer(decoder=True)
    name = "self_attn.query.linear.weight"
    first, second, third = (each.get_parameter(name) for each in stack(pattern, 3).layers)
    assert torch.equal(first, pattern.get_parameter(name))
    assert first is not pattern.get_parameter(name)
    assert not torch.equal(first, second) and not torch.equal(second, third)
    assert 0.9 / math.sqrt(C) < third.abs().max() <= 1 / math.sqrt(C)  # as the first


# The whole.
def test_the_old_call_stops_before_the_generator_and_logits_do_not():
    transformer, src, tgt = model(), SOURCES, TARGETS
    x = transformer(src, tgt, None, subsequent_mask(4))
    logits = transformer.logits(src, tgt, None, subsequent_mask(4))
    torch.testing.assert_close(logits, transformer.generator(x))


def test_matrices_start_after_glorot():
    transformer = fresh()
    for name, parameter in transformer.named_parameters():
        if parameter.dim() == 2:
            bound = math.sqrt(6 / sum(parameter.shape))
            assert 0.9 * bound < parameter.abs().max() <= bound, name
    assert not transformer.tgt_embed.positional_encodings.any()  # they keep their zeros
    assert torch.equal(transformer.encoder.norm.weight, torch.ones(C))


# Loss and greedy decoding.


PAIRS = [([3, 4, 5], [START, 6, 7, END]), ([8], [START, END])]
SOURCES = torch.tensor([[3, 4, 5], [8, PAD, PAD]]).T
TARGETS = torch.tensor([[START, 6, 7, END], [START, END, PAD, PAD]]).T


def test_loss_is_the_mean_over_labels_that_are_not_padding():
    transformer, src, tgt, total = model(), SOURCES, TARGETS, 0.0
    for w, y in PAIRS:
        inputs = torch.tensor(y[:-1])[:, None]
        mask = subsequent_mask(len(inputs))
        logits = transformer.logits(torch.tensor(w)[:, None], inputs, None, mask)
        total += F.cross_entropy(logits[:, 0], torch.tensor(y[1:]), reduction="sum").item()
    loss = transformer.loss(src, tgt)
    assert loss.item() == pytest.approx(total / 4, abs=1e-5)
    assert transformer.loss(src.int(), tgt.int()).item() == pytest.approx(loss.item())
    assert transformer.loss(src, tgt, label_smoothing=0.5) != loss
    # Another padding token, with the same tokens otherwise.
    moved = [torch.where(x == PAD, 16, x) for x in (src, tgt)]
    assert transformer.loss(*moved, padding_token=16).item() == pytest.approx(loss.item())


@orders
def test_greedy_decoding_is_the_argmax_of_full_recomputation(norm_first):
    torch.manual_seed(0)
    transformer, src = model(norm_first), SOURCES
    bias = transformer.generator.projection.bias
    with torch.no_grad():
        bias[END] -= 9  # long targets
    special = {"start_token": START, "end_token": END}
    written = transformer.greedy_decode(src, max_len=6, **special)
    tgt = torch.full((1, B), START)
    for _ in range(6):
        logits = transformer.logits(src, tgt, (src != PAD)[None], subsequent_mask(len(tgt)))
        tgt = torch.cat([tgt, logits[-1:].argmax(-1)])
    assert torch.equal(written, tgt[1:])
    assert not written.requires_grad
    assert transformer.greedy_decode(src.int(), max_len=6, **special).dtype == torch.int32
    transformer.loss(src, tgt).backward()  # nothing of generation is left behind


def test_greedy_decoding_ends_with_the_end_token():
    transformer, src = model(), SOURCES
    ends = iter([[5, END], [6, 7], [END, 8], [9, 9]])

    class Scripted(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return F.one_hot(torch.tensor([next(ends)]), V).float()

    transformer.generator = Scripted()
    special = {"start_token": START, "end_token": END, "padding_token": 4}
    written = transformer.greedy_decode(src, max_len=9, **special)
    assert written.T.tolist() == [[5, 6, END], [END, 4, 4]]


# Errors.
def test_a_stack_needs_a_layer_to_copy(unhooked):
    models = unhooked("labml_nn.transformers.models")
    with pytest.raises(TypeError, match="`layer` is a Linear; expected a layer to copy"):
        models.Encoder(nn.Linear(3, 3), 2)


def test_a_decoder_needs_cross_attention():
    with pytest.raises(ValueError, match=r"has no `src_attn`.*or use Encoder"):
        Decoder(layer(), 2)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"self_attn": MultiHeadAttention(3, 15)}, "`self_attn` has width 15.* 12"),
        ({"src_attn": MultiHeadAttention(3, 9)}, "`src_attn` has width 9"),
        ({"feed_forward": FeedForward(14, FF)}, "`feed_forward` has width 14"),
    ],
)
def test_a_layer_of_another_width(change, message):
    arguments = {"d_model": C, "self_attn": MultiHeadAttention(H, C), "dropout_prob": 0.0}
    with pytest.raises(ValueError, match=message):
        TransformerLayer(**{**arguments, "feed_forward": FeedForward(C, FF), **change})


WIDE = {"self_attn": MultiHeadAttention(3, 15), "src_attn": MultiHeadAttention(3, 15)}
WIDE |= {"feed_forward": FeedForward(15, FF)}


@pytest.mark.parametrize(
    ("name", "part"),
    [
        ("decoder", Decoder(TransformerLayer(d_model=15, dropout_prob=0.0, **WIDE), 1)),
        ("src_embed", EmbeddingsWithPositionalEncoding(15, U)),
        ("tgt_embed", EmbeddingsWithLearnedPositionalEncoding(15, V)),
        ("generator", Generator(V, 15)),
    ],
)
def test_submodules_of_other_widths(name, part):
    with pytest.raises(ValueError, match=rf"`{name}` has width 15, but `encoder` is 12"):
        EncoderDecoder(**dict(fresh().named_children()) | {name: part})


SRC, TGT = torch.full((S, B), 3), torch.full((T, B), 4)


@pytest.mark.parametrize(
    ("method", "change", "error", "message"),
    [
        ("loss", {"src": SRC.float()}, TypeError, "`src` has dtype torch.float32"),
        ("loss", {"src": SRC[:, 0]}, ValueError, r"`src` has shape \[7\]; expected \[S, B\]"),
        ("loss", {"tgt": TGT[:0]}, ValueError, "`tgt`.* the sequence is empty"),
        ("loss", {"tgt": TGT[:1]}, ValueError, r"`tgt` has shape \[1, 2\].*of at least two"),
        ("loss", {"tgt": TGT[:, :1]}, ValueError, "a target for each source"),
        ("loss", {"padding_token": "0"}, TypeError, "`padding_token` .* must be a whole number"),
        ("loss", {"padding_token": False}, TypeError, "not a bool"),
        ("loss", {"label_smoothing": 2}, ValueError, "`label_smoothing` .* must be from 0 to 1"),
        ("greedy_decode", {"src": SRC.float()}, TypeError, "`src` has dtype torch.float32"),
        ("greedy_decode", {"max_len": 0}, ValueError, r"`max_len` \(0\) must be at least 1"),
        *(
            ("greedy_decode", {name: 1.0}, TypeError, f"`{name}` .* must be a whole number")
            for name in ("start_token", "end_token", "padding_token")
        ),
    ],
)
def test_what_loss_and_greedy_decoding_refuse(unhooked, method, change, error, message):
    given = {
        "loss": {"src": SRC, "tgt": TGT},
        "greedy_decode": {"src": SRC, "start_token": START, "end_token": END, "max_len": 4},
    }
    whole = unhooked("labml_nn.transformers.encoder_decoder").EncoderDecoderLanguageModel
    transformer = whole.from_config({"n_vocab": V, "d_model": C, "heads": H}).transformer
    with pytest.raises(error, match=message):
        getattr(transformer, method)(**given[method] | change)
    assert transformer.loss(SRC, TGT[:2]).isfinite()  # an input and its label
