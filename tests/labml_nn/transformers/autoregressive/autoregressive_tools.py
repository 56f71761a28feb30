"""Small autoregressive models, and the slow and obvious way to read with them."""

import torch
from torch import Tensor

from labml_nn.transformers.autoregressive import AutoregressiveConfig, AutoregressiveTransformer

T, B, C, H, F, V, L, W = 11, 2, 12, 3, 28, 19, 2, 7
PAD = 0
POSITIONS = ["learned", "sinusoidal", "rotary", "none"]


def config(**changes) -> AutoregressiveConfig:
    sizes = {"n_vocab": V, "d_model": C, "heads": H, "d_ff": F, "n_layers": L, "max_len": W}
    return AutoregressiveConfig(**{**sizes, "dropout_prob": 0.0, **changes})


def model(seed: int = 0, **changes) -> AutoregressiveTransformer:
    """One whose parameters are far enough from zero for every mistake to show."""
    torch.manual_seed(seed)
    made = AutoregressiveTransformer(config(**changes))
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.add_(0.2 * torch.randn_like(parameter))
    return made.eval()


def text(length: int = T, batch: int = B) -> Tensor:
    """Without the token that is padding where there is padding."""
    return torch.randint(PAD + 1, V, (length, batch))


def begin(t: int, max_len: int) -> int:
    """Where the context of token t begins."""
    jump = max(1, max_len // 2)
    return jump * max(0, (t - max_len) // jump + 1)


def naive(made: AutoregressiveTransformer, tokens: Tensor) -> Tensor:
    """Every position on its own: read its context anew, and keep the last row."""
    starts = [begin(t, made.config.max_len) for t in range(len(tokens))]
    return torch.cat([made(tokens[s : t + 1])[0][-1:] for t, s in enumerate(starts)])


def close(ours: Tensor, theirs: Tensor, tolerance: float = 1e-5) -> None:
    torch.testing.assert_close(ours, theirs, rtol=tolerance, atol=tolerance)
