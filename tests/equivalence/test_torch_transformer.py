"""The encoder–decoder and a stack against PyTorch's, with PyTorch's weights copied into ours."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from labml_nn.transformers import (
    Decoder,
    Encoder,
    EncoderDecoder,
    Generator,
    MultiHeadAttention,
    TransformerLayer,
)
from labml_nn.transformers.feed_forward import FeedForward
from labml_nn.transformers.utils import subsequent_mask

pytestmark = pytest.mark.filterwarnings("ignore:enable_nested_tensor is True")

# All different, so that no axis can stand in for another.
T, S, B, C, H, F = 5, 7, 2, 12, 3, 28
SRC_VOCAB, TGT_VOCAB = 17, 19
#: PyTorch's masks say where *not* to look, and keep padding apart.
PADDING = torch.arange(S)[None, :] >= torch.tensor([7, 4])[:, None]
FUTURE = torch.ones(T, T, dtype=torch.bool).triu(1)
NAMES = {
    "transformer.": "",
    "multihead_attn": "src_attn",
    "out_proj": "output",
    "linear": "feed_forward.layer",
    "generator": "generator.projection",
    "norm1": "norm_self_attn",
}

orders = pytest.mark.parametrize("norm_first", [True, False], ids=["pre", "post"])


def layer(norm_first: bool, decoder: bool = False) -> TransformerLayer:
    return TransformerLayer(
        d_model=C,
        self_attn=MultiHeadAttention(H, C, 0.0),
        src_attn=MultiHeadAttention(H, C, 0.0) if decoder else None,
        feed_forward=FeedForward(C, F, 0.0),
        dropout_prob=0.0,
        norm_first=norm_first,
    )


def as_ours(theirs: dict[str, Tensor]) -> dict[str, Tensor]:
    """Parameters of PyTorch's, or gradients, by our names."""
    found = {}
    for name, tensor in theirs.items():
        norms = {"norm2": "norm_src_attn", "norm3": "norm_ff"}
        for old, new in (NAMES | (norms if "decoder" in name else {"norm2": "norm_ff"})).items():
            name = name.replace(old, new)
        if "in_proj_" not in name:
            found[name] = tensor
            continue
        # PyTorch keeps the three input projections in one matrix, one above the other.
        for part, rows in zip(("query", "key", "value"), tensor.chunk(3), strict=True):
            found[name.replace("in_proj_", f"{part}.linear.")] = rows
    return found


def observe(module: nn.Module, call: Callable[..., Tensor], *inputs: Tensor) -> list[Tensor]:
    """The output, and gradients of inputs; those of parameters are left at them."""
    leaves = [x.clone().requires_grad_(x.is_floating_point()) for x in inputs]
    output = call(*leaves)
    weight = torch.randn(output.shape, generator=torch.Generator().manual_seed(9))
    (output * weight.to(output)).sum().backward()
    return [output.detach(), *(leaf.grad for leaf in leaves if leaf.requires_grad)]


def assert_same(
    ours: nn.Module,
    theirs: nn.Module,
    call_ours: Callable[..., Tensor],
    call_theirs: Callable[..., Tensor],
    *inputs: Tensor,
    tolerance: float = 1e-5,
) -> None:
    """Outputs and all gradients agree."""
    for parameter in theirs.parameters():
        # Norms and biases of PyTorch start at ones and zeros, which hide mistakes.
        parameter.data += 0.1 * torch.randn_like(parameter)
    ours.load_state_dict(as_ours(theirs.state_dict()), strict=True)
    mine, expected = observe(ours, call_ours, *inputs), observe(theirs, call_theirs, *inputs)
    torch.testing.assert_close(mine, expected, rtol=tolerance, atol=tolerance)
    grads = [{n: p.grad for n, p in module.named_parameters()} for module in (ours, theirs)]
    torch.testing.assert_close(grads[0], as_ours(grads[1]), rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-5), (torch.float64, 1e-10)])
@orders
def test_outputs_and_gradients(norm_first, dtype, tolerance):
    """From tokens to logits, with masks for the future and for padding."""
    torch.manual_seed(0)
    ours = EncoderDecoder(
        Encoder(layer(norm_first), 2),
        Decoder(layer(norm_first, decoder=True), 3),
        nn.Embedding(SRC_VOCAB, C),
        nn.Embedding(TGT_VOCAB, C),
        Generator(TGT_VOCAB, C),
    ).to(dtype)
    # PyTorch's lacks embeddings and generator.
    parts = {
        "transformer": nn.Transformer(C, H, 2, 3, F, 0.0, norm_first=norm_first),
        "src_embed": nn.Embedding(SRC_VOCAB, C),
        "tgt_embed": nn.Embedding(TGT_VOCAB, C),
        "generator": nn.Linear(C, TGT_VOCAB),
    }
    theirs = nn.ModuleDict(parts).to(dtype)

    def call_ours(src, tgt):
        return ours.logits(src, tgt, ~PADDING.T[None], subsequent_mask(T))

    def call_theirs(src, tgt):
        src, tgt = theirs["src_embed"](src), theirs["tgt_embed"](tgt)
        padding = {"src_key_padding_mask": PADDING, "memory_key_padding_mask": PADDING}
        return theirs["generator"](theirs["transformer"](src, tgt, tgt_mask=FUTURE, **padding))

    inputs = torch.randint(SRC_VOCAB, (S, B)), torch.randint(TGT_VOCAB, (T, B))
    assert_same(ours, theirs, call_ours, call_theirs, *inputs, tolerance=tolerance)


@orders
def test_stack_without_a_last_norm(norm_first):
    """The paper's post-norm stack: `nn.TransformerEncoder` without its optional norm."""
    pattern = nn.TransformerEncoderLayer(C, H, F, 0.0, norm_first=norm_first)
    theirs = nn.TransformerEncoder(pattern, 3, norm=None, enable_nested_tensor=False)
    ours = Encoder(layer(norm_first), 3, final_norm=False)
    assert_same(
        ours,
        theirs,
        lambda x: ours(x, subsequent_mask(T)),
        lambda x: theirs(x, mask=FUTURE),
        torch.randn(T, B, C),
    )
