r"""
---
title: Configuration of a model that replies
summary: The sizes of both halves, and the three tokens that stand for no letter.
paper: https://arxiv.org/abs/1706.03762
---

A frozen value: what a model was built with cannot change afterwards, and it is saved
beside the parameters. Everything impossible is refused here, before a model is built.
"""

from dataclasses import dataclass
from typing import Literal

from labml_nn.checks import (
    check_choices,
    check_heads,
    check_known,
    check_probability,
    check_sizes,
)
from labml_nn.configuration import LanguageModelConfig


@dataclass(frozen=True, kw_only=True)
class EncoderDecoderConfig(LanguageModelConfig):
    r"""
    ## Configuration

    The defaults make a small model of letters. The base model of the paper (Table 3) is
    `d_model=512, heads=8, d_ff=2048, n_layers=6, norm_first=False`, with a vocabulary
    of 37,000 and `label_smoothing=0.1`.

    * `n_vocab` is the number of tokens, $V$, the three special ones among them
    * `padding_token`, `start_token`, `end_token` are their numbers, all different. The
      tokens of the text begin at 3, then; or keep theirs, and give the special ones
      numbers after them
    * `d_model` is the number of features, $C$
    * `heads` is the number of heads of each attention, $H$; it divides `d_model`
    * `d_ff` is the number of features inside the feed-forward networks, $F$; `None`
      makes it $4C$
    * `n_layers` is the number of layers, $L$, of the encoder and of the decoder;
      `n_encoder_layers` and `n_decoder_layers` set one of them apart
    * `dropout_prob` is the probability to drop a feature, or an attention weight
    * `max_len` is how many tokens of a reply the model looks back on; with learned
      positions it is the longest source as well
    * `positions` are `"sinusoidal"` or `"learned"`
    * `norm_first` chooses pre-norm (`True`) or the paper's post-norm (`False`)
    * `tied` is whether source, target and output share one matrix (§3.4)
    * `label_smoothing` is the probability taken from the right token in training (§5.4)

    Raises `ValueError` or `TypeError` for what cannot be.
    """

    padding_token: int = 0
    start_token: int = 1
    end_token: int = 2
    d_model: int = 128
    heads: int = 4
    d_ff: int | None = None
    n_layers: int = 4
    n_encoder_layers: int | None = None
    n_decoder_layers: int | None = None
    dropout_prob: float = 0.1
    max_len: int = 256
    positions: Literal["sinusoidal", "learned"] = "sinusoidal"
    norm_first: bool = True
    tied: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        check_heads(self.heads, self.d_model)
        check_sizes(n_layers=self.n_layers, max_len=self.max_len)
        for name in ("d_ff", "n_encoder_layers", "n_decoder_layers"):
            if getattr(self, name) is not None:
                check_sizes(**{name: getattr(self, name)})
        check_probability(dropout_prob=self.dropout_prob)
        check_known("kind of positions", self.positions, ["sinusoidal", "learned"])
        check_choices(norm_first=self.norm_first, tied=self.tied)
        self._check_special_tokens()

    @property
    def feed_forward_size(self) -> int:
        r"""$F$: what `d_ff` says, or $4 C$."""
        return 4 * self.d_model if self.d_ff is None else self.d_ff

    def _check_special_tokens(self) -> None:
        names = ("padding_token", "start_token", "end_token")
        tokens = {name: getattr(self, name) for name in names}
        for name, token in tokens.items():
            if isinstance(token, bool) or not isinstance(token, int):
                raise TypeError(
                    f"`{name}` ({token!r}) must be a token, a whole number, not a "
                    f"{type(token).__name__}: this model needs all three"
                )
            if not 0 <= token < self.n_vocab:
                raise ValueError(
                    f"`{name}` ({token}) must be from 0 to {self.n_vocab - 1}: special "
                    f"tokens are part of `n_vocab` ({self.n_vocab}), so make it 3 more "
                    "than the text has"
                )
        if len(set(tokens.values())) < 3:
            raise ValueError(
                f"{', '.join(f'`{name}` ({token})' for name, token in tokens.items())} "
                "must be three different tokens: they mean different things"
            )
