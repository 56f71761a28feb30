r"""
---
title: The layer of a language model
summary: >
  Which attention, which network and which normalisation a configuration asks for, and
  with what numbers they start.
---

Every transformer that reads from left to right has the same plan: look back, think, and
add what was found, $L$ times. What differs between a model of 2018 and one of today are
the parts, and each of them has a page:

| Field | GPT-2 | Since then | What is new |
|:--|:--|:--|:--|
| `positions` | `"learned"` | `"rotary"` | [told to each attention](../rotary.py) |
| `norm` | `"layer"` | `"rms"` | [divides by the size](../rms_norm.py) |
| `qk_norm` | `False` | `True` | [queries, keys of one length](../qk_norm.py) |
| `activation` | `"gelu"` | `"squared_relu"` | [the network](../feed_forward.py) |
| `zero_init` | `False` | `True` | each layer begins by adding nothing |
| `embedding_norm` | `False` | `True` | all tokens begin equally loud |
| `bias` | `True` | `False` | matrices alone |

Each can be chosen without the others. Which of them pay, on a small model and one
processor, is told where [the model is trained](experiment.py).
"""

import math
from collections.abc import Callable

from torch import nn

from labml_nn.transformers.autoregressive.config import AutoregressiveConfig
from labml_nn.transformers.feed_forward import FeedForward, SquaredReLU
from labml_nn.transformers.layer import TransformerLayer
from labml_nn.transformers.mha import MultiHeadAttention
from labml_nn.transformers.qk_norm import QKNormAttention
from labml_nn.transformers.rms_norm import RMSNorm

ACTIVATIONS: dict[str, type[nn.Module]] = {
    "relu": nn.ReLU,
    "gelu": nn.GELU,
    "silu": nn.SiLU,
    "squared_relu": SquaredReLU,
}
NORMS: dict[str, Callable[[int], nn.Module]] = {"layer": nn.LayerNorm, "rms": RMSNorm}


def build_layer(config: AutoregressiveConfig) -> TransformerLayer:
    """
    ## One layer

    With random parameters, as its parts draw them; the model draws them again.
    """
    attention = QKNormAttention if config.qk_norm else MultiHeadAttention
    return TransformerLayer(
        d_model=config.d_model,
        self_attn=attention(
            config.heads,
            config.d_model,
            config.dropout_prob,
            config.bias,
            d_k=config.d_k,
            d_v=config.d_v,
        ),
        feed_forward=FeedForward(
            config.d_model,
            config.feed_forward_size,
            config.dropout_prob,
            ACTIVATIONS[config.activation](),
            bias1=config.bias,
            bias2=config.bias,
        ),
        dropout_prob=config.dropout_prob,
        norm_first=config.norm_first,
        norm=NORMS[config.norm],
    )


def initialise(model: nn.Module, config: AutoregressiveConfig) -> None:
    r"""
    ## How it begins

    All matrices and tables start with normal numbers of standard deviation 0.02, all
    biases at zero ([@radford2018improving, §4.1]). Small enough for no token to be a
    favourite: the first loss is close to $\ln V$, that of somebody who has no idea.

    Matrices that *add to the rows*, the last one of each attention and of each
    feed-forward network, are made smaller by $1 / \sqrt{2 L}$. There are $2 L$ of them,
    what they add is independent at first, and so variances add up:
    $2 L \cdot (0.02 / \sqrt{2 L})^2 = 0.02^2$. The sum is as large as if there were
    one, however deep the model ([@radford2019language, §2.3]: "we scale the weights of
    residual layers at initialization by a factor of $1 / \sqrt{N}$ where $N$ is the
    number of residual layers").

    With `zero_init` these matrices start at **zero**. Then every layer adds nothing,
    and the model begins as an embedding and an output with nothing in between. The
    first gradients reach these matrices alone; as soon as they have moved, the rest of
    their layers learns, too. Nothing has to be unlearned that was only noise
    ([@zhang2019fixup] begin residual networks like this).

    With `init_lower` and `init_upper` all matrices and tables are uniform between the
    two instead, but for those that start at zero.
    """
    last = ("self_attn.output.weight", "feed_forward.layer2.weight")
    for name, parameter in model.named_parameters():
        adds = name.endswith(last)
        if name.endswith("bias") or (adds and config.zero_init):
            nn.init.zeros_(parameter)
        elif parameter.dim() > 1 and config.init_bounds is not None:
            nn.init.uniform_(parameter, *config.init_bounds)
        elif parameter.dim() > 1:
            share = 2 * config.n_layers if adds else 1
            nn.init.normal_(parameter, std=0.02 / math.sqrt(share))
