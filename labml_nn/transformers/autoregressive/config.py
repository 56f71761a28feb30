r"""
---
title: Configuration of the autoregressive transformer
summary: Every choice in a decoder-only language model, with what it is for.
---

The defaults make a small model of letters: with 65 of them it has 0.80 million
parameters. Each field can be chosen without the others.

![Where the parameters are, and where the work is, with a full
context.](figure:counts.autoregressive)
"""

import math
from dataclasses import dataclass
from numbers import Real
from typing import Literal, get_args

from labml_nn.checks import (
    check_choices,
    check_heads,
    check_known,
    check_probability,
    check_sizes,
)
from labml_nn.configuration import LanguageModelConfig
from labml_nn.transformers.rotary import check_pairs

Positions = Literal["sinusoidal", "learned", "rotary", "none"]
Norm = Literal["layer", "rms"]
Activation = Literal["relu", "gelu", "silu", "squared_relu"]


@dataclass(frozen=True, kw_only=True)
class AutoregressiveConfig(LanguageModelConfig):
    r"""
    ## Choices

    * `d_model` is the number of features of a position, $C$
    * `heads` is the number of attention heads, $H$
    * `d_k`, `d_v` are the features that a head has for a query or a key, and for a
      value; $C / H$ if not given
    * `d_ff` is the number of hidden features of the feed-forward networks, $F$; $4 C$
      if not given
    * `n_layers` is the number of layers, $L$
    * `max_len` is the longest context. Longer texts slide through it by halves
    * `positions` is `"sinusoidal"`, `"learned"`, `"rotary"` or `"none"`
    * `dropout_prob` is the probability of dropping, in training, a feature of what is
      embedded, of what a layer adds or computes in between, or an attention weight
    * `norm_first` is `True` for layers that normalise what they read, `False` for the
      order of the paper, which normalises after adding
    * `norm` is `"layer"`, which makes mean 0 and variance 1, or `"rms"`, which divides
      by the root mean square
    * `qk_norm` is whether queries and keys are normalised before they are compared
    * `activation` is that of the feed-forward networks: `"relu"`, `"gelu"`, `"silu"` or
      `"squared_relu"`
    * `bias` is whether the maps of the layers have biases
    * `embedding_norm` is whether what is embedded is normalised before the first layer
    * `tied` is whether embedding and output share their matrix
    * `zero_init` is whether the matrices that add to the rows start at zero
    * `init_lower`, `init_upper`: give both to start with numbers uniform between them;
      without, the model starts as GPT-2 does

    `n_vocab`, `padding_token` and `label_smoothing` are those of `LanguageModelConfig`.
    Raises `ValueError` for a value that cannot be, `TypeError` for one of another kind.
    """

    d_model: int = 128
    heads: int = 4
    d_k: int | None = None
    d_v: int | None = None
    d_ff: int | None = None
    n_layers: int = 4
    max_len: int = 256
    positions: Positions = "sinusoidal"
    dropout_prob: float = 0.1
    norm_first: bool = True
    norm: Norm = "layer"
    qk_norm: bool = False
    activation: Activation = "relu"
    bias: bool = True
    embedding_norm: bool = False
    tied: bool = True
    zero_init: bool = False
    init_lower: float | None = None
    init_upper: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        check_sizes(
            d_model=self.d_model,
            heads=self.heads,
            n_layers=self.n_layers,
            max_len=self.max_len,
        )
        given = {"d_k": self.d_k, "d_v": self.d_v, "d_ff": self.d_ff}
        check_sizes(**{name: size for name, size in given.items() if size is not None})
        if self.d_k is None or self.d_v is None:
            check_heads(self.heads, self.d_model)
        check_probability(dropout_prob=self.dropout_prob)
        self._check_words()
        check_choices(
            norm_first=self.norm_first,
            qk_norm=self.qk_norm,
            bias=self.bias,
            embedding_norm=self.embedding_norm,
            tied=self.tied,
            zero_init=self.zero_init,
        )
        if self.positions == "rotary":
            check_pairs(self.query_size)
        _check_bounds(self.init_lower, self.init_upper)

    def _check_words(self) -> None:
        if self.positions is None:
            raise TypeError('`positions` (None) must be a word: write "none" for none')
        for what, name, known in (
            ("kind of positions", self.positions, Positions),
            ("kind of norm", self.norm, Norm),
            ("activation", self.activation, Activation),
        ):
            check_known(what, name, get_args(known))

    @property
    def feed_forward_size(self) -> int:
        r"""$F$: what `d_ff` says, or $4 C$."""
        return 4 * self.d_model if self.d_ff is None else self.d_ff

    @property
    def query_size(self) -> int:
        r"""$K$: what `d_k` says, or $C / H$."""
        return self.d_model // self.heads if self.d_k is None else self.d_k

    @property
    def init_bounds(self) -> tuple[float, float] | None:
        """Between which numbers parameters start, if that was asked for."""
        if self.init_lower is None or self.init_upper is None:
            return None
        return self.init_lower, self.init_upper


def _check_bounds(lower: float | None, upper: float | None) -> None:
    if lower is None and upper is None:
        return
    for name, bound in (("init_lower", lower), ("init_upper", upper)):
        if bound is None:
            raise ValueError(
                f"`{name}` is missing: `init_lower` and `init_upper` are given "
                "together, or neither, for an initialisation like that of GPT-2"
            )
        if isinstance(bound, bool) or not isinstance(bound, Real):
            raise TypeError(
                f"`{name}` ({bound!r}) must be a number, not a {type(bound).__name__}"
            )
    assert lower is not None and upper is not None
    if not -math.inf < lower < upper < math.inf:
        raise ValueError(
            f"`init_lower` ({lower}) must be below `init_upper` ({upper}), and both "
            "finite; try -0.1 and 0.1"
        )
