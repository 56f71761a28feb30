"""A model that replies against `torch.nn.Transformer`, and under PyTorch's compilers."""

from collections.abc import Callable
from types import ModuleType

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from labml_nn.transformers.encoder_decoder import (
    EncoderDecoderConfig,
    EncoderDecoderLanguageModel,
    collate,
)

MODULE = "labml_nn.transformers.encoder_decoder"
S, T, B, C, H, FF, V = 7, 5, 2, 12, 3, 28, 19
PAD, START, END = 0, 1, 2
FIELDS = {
    "n_vocab": V,
    "d_model": C,
    "heads": H,
    "d_ff": FF,
    "n_encoder_layers": 2,
    "n_decoder_layers": 3,
    "dropout_prob": 0.0,
    "max_len": 20,
}


def words(length: int, batch: int = B) -> Tensor:
    return torch.randint(3, V, (length, batch))


def reply(length: int) -> Tensor:
    return torch.cat([torch.full((1, B), START), words(length - 1)])


# `torch.nn.Transformer` with the same weights.


def theirs(norm_first: bool) -> nn.Transformer:
    sizes = (C, H, FF, 0.0)
    norms = [nn.LayerNorm(C) if norm_first else None for _ in range(2)]
    encoder = nn.TransformerEncoder(
        nn.TransformerEncoderLayer(*sizes, norm_first=norm_first),
        FIELDS["n_encoder_layers"],
        norms[0],
        enable_nested_tensor=False,
    )
    decoder = nn.TransformerDecoder(
        nn.TransformerDecoderLayer(*sizes, norm_first=norm_first),
        FIELDS["n_decoder_layers"],
        norms[1],
    )
    return nn.Transformer(C, H, custom_encoder=encoder, custom_decoder=decoder)


def pairs(ours: nn.Module, torchs: nn.Transformer) -> dict[str, tuple[str, slice]]:
    """Which parameter of PyTorch's holds which of ours, by name; `slice` picks rows of it."""
    found = {}

    def same(our: str, their: str) -> None:
        for kind in ("weight", "bias"):
            found[f"{our}.{kind}"] = (f"{their}.{kind}", slice(None))

    def attention(our: str, their: str) -> None:
        for i, part in enumerate(("query", "key", "value")):
            for kind in ("weight", "bias"):
                rows = slice(i * C, (i + 1) * C)
                found[f"{our}.{part}.linear.{kind}"] = (f"{their}.in_proj_{kind}", rows)
        same(f"{our}.output", f"{their}.out_proj")

    for half, has_source in (("encoder", False), ("decoder", True)):
        for i in range(FIELDS[f"n_{half}_layers"]):
            layer = f"{half}.layers.{i}"
            attention(f"{layer}.self_attn", f"{layer}.self_attn")
            same(f"{layer}.norm_self_attn", f"{layer}.norm1")
            if has_source:
                attention(f"{layer}.src_attn", f"{layer}.multihead_attn")
                same(f"{layer}.norm_src_attn", f"{layer}.norm2")
            same(f"{layer}.norm_ff", f"{layer}.norm{3 if has_source else 2}")
            for n in (1, 2):
                same(f"{layer}.feed_forward.layer{n}", f"{layer}.linear{n}")
        if getattr(torchs, half).norm is not None:
            same(f"{half}.norm", f"{half}.norm")
    stacks = {name for name, _ in ours.named_parameters() if name.startswith(("enc", "dec"))}
    assert set(found) == stacks
    return found


@pytest.mark.parametrize("norm_first", [True, False])
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-5), (torch.float64, 1e-10)])
@pytest.mark.parametrize("pad", ["last", "first"])
def test_loss_and_gradients_are_those_of_pytorch(norm_first, dtype, tolerance, pad):
    torch.manual_seed(0)
    ours = EncoderDecoderLanguageModel(EncoderDecoderConfig(**FIELDS, norm_first=norm_first)).to(
        dtype
    )
    torchs = theirs(norm_first).to(dtype)
    names = pairs(ours.transformer, torchs)
    with torch.no_grad():
        for our, (their, rows) in names.items():
            parameter = torchs.get_parameter(their)[rows]
            parameter += 0.1 * torch.randn_like(parameter)
            ours.transformer.get_parameter(our).copy_(parameter)

    texts = [(words(7, 1)[:, 0], words(3, 1)[:, 0]), (words(4, 1)[:, 0], words(5, 1)[:, 0])]
    batch, aligned = collate(texts, PAD, pad=pad), collate(texts, PAD)
    loss = ours.loss(batch.source, batch.target)

    # Theirs gets the shifted reply written out, and PyTorch's own masks: True = hidden.
    table = ours.transformer.generator.projection.weight.detach().clone().requires_grad_()
    bias = ours.transformer.generator.projection.bias.detach()
    positions = ours.transformer.src_embed.positions.positional_encodings
    read = torch.full((6, B), PAD)
    asked = read.clone()
    for b, (_, text) in enumerate(texts):
        read[: len(text) + 1, b] = torch.tensor([START, *text])
        asked[: len(text) + 1, b] = torch.tensor([*text, END])
    hidden = ~aligned.source_mask[0].T
    rows = torchs(
        table[aligned.source] * C**0.5 + positions[:7],
        table[read] * C**0.5 + positions[:6],
        tgt_mask=torch.ones(6, 6).triu(1).bool(),
        src_key_padding_mask=hidden,
        memory_key_padding_mask=hidden,
    )
    expected = F.cross_entropy(
        (rows @ table.T + bias).flatten(0, 1), asked.flatten(), ignore_index=0
    )
    torch.testing.assert_close(loss, expected, rtol=tolerance, atol=tolerance)

    loss.backward()
    expected.backward()
    close = {"rtol": tolerance, "atol": tolerance}
    for our, (their, rows) in names.items():
        gradient = ours.transformer.get_parameter(our).grad
        torch.testing.assert_close(gradient, torchs.get_parameter(their).grad[rows], **close)
    gradient = ours.transformer.generator.projection.weight.grad
    torch.testing.assert_close(gradient, table.grad, **close)


# Compilers, other types, other devices.


def without_hook(
    unhooked: Callable[[str], ModuleType], **changes: object
) -> EncoderDecoderLanguageModel:
    """A small one, from the library as users import it."""
    changes = {"n_encoder_layers": 1, "n_decoder_layers": 1, **changes}
    module = unhooked(MODULE)
    return module.EncoderDecoderLanguageModel(
        module.EncoderDecoderConfig(**{**FIELDS, **changes})
    ).eval()


@pytest.mark.parametrize("positions", ["sinusoidal", "learned"])
def test_loss_compiles_whole_with_gradients(unhooked, positions):
    made = without_hook(unhooked, positions=positions)
    compiled = torch.compile(made.loss, fullgraph=True, backend="aot_eager")
    source, target = words(S), words(T)
    source[4:, 1] = PAD
    target[:2, 0] = PAD
    torch.testing.assert_close(compiled(source, target), made.loss(source, target))
    gradients = [
        torch.autograd.grad(call(source, target), list(made.parameters()))
        for call in (compiled, made.loss)
    ]
    torch.testing.assert_close(*gradients)


def test_steps_compile_whole(unhooked):
    made = without_hook(unhooked)
    compiled = torch.compile(made, fullgraph=True, backend="aot_eager")
    tokens, state = reply(4), made.encode(words(S)).detach()
    ours = state
    for token in tokens.split(1):
        expected, state = made(token, state)
        logits, ours = compiled(token, ours)
        torch.testing.assert_close(logits, expected)


@pytest.mark.filterwarnings("ignore:While compiling, we found certain side effects")
@pytest.mark.parametrize("strict", [True, False])
def test_exported_whole(unhooked, strict):
    made = without_hook(unhooked)

    class Replies(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = made

        def forward(self, source: Tensor, tokens: Tensor) -> Tensor:
            return self.model(tokens, self.model.encode(source))[0]

    source, tokens = words(S), reply(T)
    exported = torch.export.export(Replies().eval(), (source, tokens), strict=strict)
    other = words(S)
    other[:3, 0] = PAD
    expected, _ = made(tokens, made.encode(other))
    torch.testing.assert_close(exported.module()(other, tokens), expected)


def test_autocast_to_bfloat16():
    made = EncoderDecoderLanguageModel(EncoderDecoderConfig(**FIELDS)).eval()
    source, target = words(S), words(T)
    expected = made.loss(source, target)
    with torch.autocast("cpu", torch.bfloat16):
        loss = made.loss(source, target)
        state, tokens, _ = made.prepare_prompt(source)
        logits, state = made(tokens, state)
        logits, _ = made(logits.argmax(-1), state)
    loss.backward()
    assert logits.dtype == torch.bfloat16
    assert loss.item() == pytest.approx(expected.item(), abs=0.05)


def test_all_in_double():
    made = EncoderDecoderLanguageModel(EncoderDecoderConfig(**FIELDS)).double()
    logits, state = made(reply(T), made.encode(words(S)))
    assert logits.dtype == state.sources[0].keys.dtype == torch.float64


def test_shapes_without_numbers():
    """On the device `meta`, where large models are laid out before they are loaded."""
    with torch.device("meta"):
        made = EncoderDecoderLanguageModel(EncoderDecoderConfig(**FIELDS))
        source, target = words(S), words(T)
        loss = made.loss(source, target)
    assert loss.is_meta
    assert loss.shape == ()
