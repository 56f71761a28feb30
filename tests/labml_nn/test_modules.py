"""What every module goes through: copies, pickles, precisions, devices, inference and training.

The language models have a file of their own, and `test_kernels.py` does worse to the lessons.
"""

import copy
import pickle
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from labml_nn.lstm import LSTM
from labml_nn.lstm.gru import GRU
from labml_nn.recurrent.delta_net import DeltaNet
from labml_nn.recurrent.elman import Elman
from labml_nn.recurrent.gated_delta_net import GatedDeltaNet
from labml_nn.recurrent.linear_attention import LinearAttention, ShortConvolution
from labml_nn.recurrent.mamba2 import Mamba2
from labml_nn.transformers import feedback, models, modern
from labml_nn.transformers.feed_forward import FeedForward
from labml_nn.transformers.label_smoothing_loss import LabelSmoothingLoss
from labml_nn.transformers.layer_norm import LayerNorm
from labml_nn.transformers.mha import MultiHeadAttention
from labml_nn.transformers.positional_encoding import LearnedPositionalEncoding, PositionalEncoding

T, S, B, C, H, V = 5, 7, 2, 12, 3, 19
MASK = torch.ones(T, S, dtype=torch.bool).tril()[:, :, None].index_fill(0, torch.tensor(2), False)


def cross_attention() -> MultiHeadAttention:
    return MultiHeadAttention(H, C, 0.0)


def encoder_decoder() -> nn.Module:
    def layer(src_attn: nn.Module | None = None) -> models.TransformerLayer:
        network = {"feed_forward": FeedForward(C, 28, 0.0), "dropout_prob": 0.0}
        attention = {"self_attn": cross_attention(), "src_attn": src_attn}
        return models.TransformerLayer(d_model=C, **attention, **network)

    return models.EncoderDecoder(
        models.Encoder(layer(), 2),
        models.Decoder(layer(cross_attention()), 2),
        models.EmbeddingsWithPositionalEncoding(C, V),
        models.EmbeddingsWithLearnedPositionalEncoding(C, V, max_len=T),
        models.Generator(V, C),
    )


def feedback_transformer(shared: bool) -> nn.Module:
    layer = feedback.FeedbackTransformerLayer(
        d_model=C,
        attn=feedback.FeedbackAttention(H, C, 0.0, is_kv_precomputed=shared),
        feed_forward=FeedForward(C, 28, 0.0),
        dropout_prob=0.0,
    )
    if shared:
        return feedback.FeedbackTransformerKV(layer, 2, C, H)
    return feedback.FeedbackTransformer(layer, 2)


def tokens(like: Tensor) -> Tensor:
    return torch.arange(len(like) * B, device=like.device).view(-1, B)


# How a module is made, and its call with `x` `[T, B, C]` and `y` `[S, B, C]`.
Call = Callable[[Any, Tensor, Tensor], Tensor]
MODULES: dict[str, tuple[Callable[[], nn.Module], Call]] = {
    "attention": (
        cross_attention,
        lambda m, x, y: m(query=x, key=y, value=y, mask=MASK.to(x.device)),
    ),
    **{
        kind.__name__: (partial(kind, H, C, 0.0), lambda m, x, y: m(query=x, key=x, value=x))
        for kind in (
            modern.RotaryMultiHeadAttention,
            modern.QKNormAttention,
            modern.RotaryQKNormAttention,
        )
    },
    "layer norm": (partial(LayerNorm, C), lambda m, x, y: m(x)),
    "gated network": (
        partial(FeedForward, C, 28, 0.0, nn.SiLU(), is_gated=True),
        lambda m, x, y: m(x),
    ),
    "fixed positions": (partial(PositionalEncoding, C, 0.0, 3), lambda m, x, y: m(x)),
    "learned positions": (partial(LearnedPositionalEncoding, C, 0.0, T), lambda m, x, y: m(x)),
    "label smoothing": (
        partial(LabelSmoothingLoss, C, 0, 0.1),
        lambda m, x, y: m(x.log_softmax(-1), tokens(x)),
    ),
    "encoder-decoder": (
        encoder_decoder,
        lambda m, x, y: m.logits(tokens(y), tokens(x), None, MASK[:, :T].to(x.device)),
    ),
    "feedback": (partial(feedback_transformer, False), lambda m, x, y: m(x)),
    "feedback, shared": (partial(feedback_transformer, True), lambda m, x, y: m(x)),
    "elman": (partial(Elman, C, 7, 2), lambda m, x, y: m(x)[0]),
    "lstm": (partial(LSTM, C, 7, 2), lambda m, x, y: m(x)[0]),
    "gru": (partial(GRU, C, 7, 2), lambda m, x, y: m(x)[0]),
    "linear attention": (partial(LinearAttention, C, H), lambda m, x, y: m(x)[0]),
    "short convolution": (partial(ShortConvolution, C, 3), lambda m, x, y: m(x)[0]),
    "delta net": (partial(DeltaNet, C, H), lambda m, x, y: m(x)[0]),
    "gated delta net": (partial(GatedDeltaNet, C, H), lambda m, x, y: m(x)[0]),
    "mamba-2": (partial(Mamba2, C, H, 5, 7), lambda m, x, y: m(x)[0]),
    "lstm, normalised": (partial(LSTM, C, 7, 2, layer_norm=True), lambda m, x, y: m(x)[0]),
}


@pytest.mark.parametrize("name", MODULES)
def test_every_module(name):
    torch.manual_seed(0)
    make, call = MODULES[name]
    module, x, y = make(), torch.randn(T, B, C), torch.randn(S, B, C)
    for parameter in module.parameters():  # zeros would hide mistakes
        parameter.data += torch.randn_like(parameter) / 4

    with torch.inference_mode():
        expected = call(module, x, y)
    output = call(module, x.clone().requires_grad_(), y)
    torch.testing.assert_close(output, expected.clone())
    output.sum().backward()
    assert all(parameter.grad.isfinite().all() for parameter in module.parameters())
    for twin in (copy.deepcopy(module), pickle.loads(pickle.dumps(module))):
        assert torch.equal(call(twin, x, y), output)

    double = call(copy.deepcopy(module).double(), x.double(), y.double())
    assert double.dtype == torch.float64
    torch.testing.assert_close(double.float(), output, rtol=1e-4, atol=1e-4)
    with torch.autocast("cpu", torch.bfloat16):
        half = call(module, x, y)
    torch.testing.assert_close(half.float(), output, rtol=0.1, atol=0.2)

    meta = copy.deepcopy(module).to("meta")
    output = call(meta, x.to("meta").requires_grad_(), y.to("meta"))
    output.sum().backward()
    assert output.is_meta and all(parameter.grad.is_meta for parameter in meta.parameters())
