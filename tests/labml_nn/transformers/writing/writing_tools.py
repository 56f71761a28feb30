"""Small models that write, and the plain way to do it."""

import torch
from torch import Tensor

from labml_nn.transformers.autoregressive import AutoregressiveConfig, AutoregressiveTransformer
from labml_nn.transformers.encoder_decoder import (
    EncoderDecoderConfig,
    EncoderDecoderLanguageModel,
)
from labml_nn.transformers.writing import DecoderWriter
from labml_nn.transformers.writing.compiled import CompiledStep
from labml_nn.transformers.writing.step import Step

C, H, F, V, L, W, PAD = 12, 3, 29, 19, 2, 7, 0

#: Every choice of the configuration, with each value once, and sizes that fit no vector.
CHOICES = {
    "as it is": {},
    "learned, post-norm, gelu": {
        "positions": "learned",
        "norm_first": False,
        "activation": "gelu",
        "embedding_norm": True,
        "tied": False,
    },
    "rotary, rms, silu": {
        "positions": "rotary",
        "heads": 2,
        "norm": "rms",
        "activation": "silu",
        "embedding_norm": True,
        "bias": False,
    },
    "all that is new": {
        "positions": "rotary",
        "d_k": 6,
        "norm": "rms",
        "qk_norm": True,
        "activation": "squared_relu",
        "bias": False,
    },
    "no positions, own widths": {"positions": "none", "d_k": 3, "d_v": 5, "qk_norm": True},
    "wider than vectors": {"d_model": 48, "d_ff": 100, "max_len": 40},
    "a window of one": {"max_len": 1},
    "a window of two": {"max_len": 2, "padding_token": PAD},
}


def shaken(model):
    """Far enough from where it began for every mistake to show."""
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.2 * torch.randn_like(parameter))
    return model.eval()


def gpt(**changes) -> AutoregressiveTransformer:
    torch.manual_seed(3)
    sizes = {"n_vocab": V, "d_model": C, "heads": H, "d_ff": F, "n_layers": L, "max_len": W}
    return shaken(AutoregressiveTransformer(AutoregressiveConfig(**{**sizes, **changes})))


def replier(**changes) -> EncoderDecoderLanguageModel:
    torch.manual_seed(4)
    sizes = {"n_vocab": V, "d_model": C, "heads": H, "d_ff": F, "n_layers": L, "max_len": W}
    return shaken(EncoderDecoderLanguageModel(EncoderDecoderConfig(**{**sizes, **changes})))


def said() -> Tensor:
    """Four sayings of different lengths, one of them silence."""
    source = torch.randint(3, V, (5, 4))
    source[3:, 1], source[:, 2], source[1:, 3] = PAD, PAD, PAD
    return source


@torch.no_grad()
def compare(model, state, tokens: Tensor, step: type | None, tolerance: float) -> None:
    """The writer beside `forward`, token by token. `step` is what it should use."""
    writer = model.decoding_step(state)
    if step is None:
        assert not isinstance(writer, DecoderWriter)
    else:
        assert isinstance(writer, DecoderWriter)
        assert isinstance(writer.step, step)
    for token in tokens:
        logits, state = model(token[None], state)
        written = writer(token)
        assert written.shape == logits[0].shape
        torch.testing.assert_close(written, logits[0], rtol=tolerance, atol=tolerance)


__all__ = ["CHOICES", "PAD", "CompiledStep", "Step", "V", "W", "compare", "gpt", "replier", "said"]
