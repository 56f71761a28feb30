r"""
---
title: Language model of recurrent layers
summary: >
  The frame that linear attention, DeltaNet and Mamba-2 share: embedding, layers of a
  mixer and a feed-forward network, logits. Only the mixer differs.
---

*The cat sat on the …* To predict *mat*, two things are needed. Something has to carry
information from *cat* and *sat* to this position. And something has to work on what has
arrived. In a [Transformer](../transformers/models.py) the first is attention, and the
second is the feed-forward network.

Suppose we take attention out, and put a recurrent layer in its place. All else can
stay: the embedding, the sums around each sub-layer, the normalisations, the logits. So
we write that down once, on this page, and leave a hole. What fills the hole is called a
**mixer**, because it is the only part that mixes the vectors of different positions:

| Model | Its mixer remembers |
|:--|:--|
| [`linear_attention`](linear_attention.py) | a sum of all pairs of keys and values |
| [`delta_net`](delta_net.py) | a sum in which new values replace old ones |
| [`mamba2`](mamba2.py) | a sum that fades, as fast as the input says |

**What does a mixer promise?** It takes vectors `[T, B, C]` and returns vectors of the
same shape, and it looks only back. It also takes a state and returns the next one. The
state has the same size after ten tokens and after ten thousand. That is what a mixer
gains over attention, whose cache grows with every token, and it is also what it pays:
a state of fixed size cannot hold everything.

```python
import torch
from torch import nn
from labml_nn.recurrent.language_model import RecurrentConfig, RecurrentLanguageModel

class RunningMean(nn.Module):
    "The simplest mixer: the mean of all vectors so far."

    def forward(self, x, state=None, mask=None):
        total, count = state or (torch.zeros_like(x[0]), torch.zeros_like(x[0, :, :1]))
        keep = torch.ones_like(x[..., :1]) if mask is None else mask[..., None].to(x)
        totals = total + (x * keep).cumsum(0)
        counts = count + keep.cumsum(0)
        return totals / counts, (totals[-1], counts[-1])

class MeanLanguageModel(RecurrentLanguageModel):
    def mixer(self):
        return RunningMean()

model = MeanLanguageModel(RecurrentConfig(n_vocab=65)).eval()
tokens = torch.randint(65, (20, 2))  # [T, B]
logits, state = model(tokens)
assert logits.shape == (20, 2, 65)

# Two calls give what one call gives, because the state says all about the first.
first, state = model(tokens[:12])
second, _ = model(tokens[12:], state)
torch.testing.assert_close(torch.cat([first, second]), logits)
```

| Symbol | Code | Shape | Meaning |
|:--|:--|:--|:--|
| $E$ | `embedding` | `[V, C]` | token embeddings |
| $x$ | `x` | `[T, B, C]` | what a layer reads and adds to |
| | `mixer` | | the recurrent part of a layer |
| | `state` | | one state for each layer |
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from labml_nn.checks import check_probability, check_sizes, check_state, check_tokens
from labml_nn.language_model import LanguageModel, LanguageModelConfig
from labml_nn.transformers.feed_forward import FeedForward

__all__ = [
    "RecurrentConfig",
    "RecurrentLanguageModel",
    "RecurrentLayer",
    "RecurrentState",
]


class RecurrentState(NamedTuple):
    """
    ## State

    What each layer remembers: the state of its mixer, a tuple of tensors, in the first
    of which the first axis is the batch.
    """

    layers: tuple[tuple[Tensor, ...], ...]

    @property
    def batch_size(self) -> int:
        return self.layers[0][0].shape[0]


class RecurrentLayer(nn.Module):
    r"""
    ## One layer

    $$\begin{align}
    x' &= x + \operatorname{Mixer}(\operatorname{RMSNorm}(x)) \\
    y &= x' + \operatorname{FFN}(\operatorname{RMSNorm}(x'))
    \end{align}$$

    It is a [layer of a Transformer](../transformers/models.py#TransformerLayer) whose
    attention is replaced. Both sub-layers normalise what they read, and add what they
    compute.
    """

    def __init__(
        self, mixer: nn.Module, d_model: int, d_ff: int, dropout_prob: float
    ) -> None:
        """
        * `mixer`: maps vectors, a state and a mask to vectors and the next state
        * `d_model`: features of a position, $C$
        * `d_ff`: hidden features of the feed-forward network, $F$
        * `dropout_prob`: probability that a feature is dropped, in training
        """
        super().__init__()
        self.mixer = mixer
        self.feed_forward = FeedForward(d_model, d_ff, dropout_prob)
        self.norm_mixer = nn.RMSNorm(d_model)
        self.norm_ff = nn.RMSNorm(d_model)
        self.dropout = nn.Dropout(dropout_prob)

    def forward(
        self,
        x: Float[Tensor, "T B C"],
        state: tuple[Tensor, ...] | None = None,
        mask: Bool[Tensor, "T B"] | None = None,
    ) -> tuple[Float[Tensor, "T B C"], tuple[Tensor, ...]]:
        """
        * `x`: vectors of the positions, `[T, B, C]`
        * `state`: what was returned for the chunk before; `None` at the beginning
        * `mask`: `True` for tokens and `False` for padding at the end, `[T, B]`

        Returns vectors, `[T, B, C]`, and the state after the last token.
        """
        mixed, state = self.mixer(self.norm_mixer(x), state, mask)
        x = x + self.dropout(mixed)
        y: Tensor = x + self.dropout(self.feed_forward(self.norm_ff(x)))
        return y, state


@dataclass(frozen=True, kw_only=True)
class RecurrentConfig(LanguageModelConfig):
    r"""
    ## Configuration

    * `d_model`: features of a position, $C$
    * `n_layers`: layers, $L$
    * `d_ff`: hidden features of the feed-forward networks, $F$; by default $4 C$
    * `dropout_prob`: dropout probability of embeddings, hidden features, and of what
      each sub-layer adds

    Each model adds the fields of its mixer.
    [`LanguageModelConfig`](../language_model.py) has those that all models share.
    """

    d_model: int = 128
    n_layers: int = 2
    d_ff: int | None = None
    dropout_prob: float = 0.1

    def __post_init__(self) -> None:
        super().__post_init__()
        check_sizes(d_model=self.d_model, n_layers=self.n_layers)
        if self.d_ff is not None:
            check_sizes(d_ff=self.d_ff)
        check_probability(dropout_prob=self.dropout_prob)


class RecurrentLanguageModel(LanguageModel[RecurrentState]):
    """
    ## Language model

    A subclass says which mixer its layers have.
    """

    Config = RecurrentConfig
    config: RecurrentConfig

    def __init__(self, config: RecurrentConfig) -> None:
        """`config`: the hyperparameters."""
        super().__init__(config)
        d_ff = 4 * config.d_model if config.d_ff is None else config.d_ff
        self.embedding = nn.Embedding(config.n_vocab, config.d_model)
        self.dropout = nn.Dropout(config.dropout_prob)

        # No position is added to the embeddings. A recurrent layer reads one token
        # after the other, so it knows their order.
        self.layers = nn.ModuleList(
            RecurrentLayer(self.mixer(), config.d_model, d_ff, config.dropout_prob)
            for _ in range(config.n_layers)
        )
        self.norm = nn.RMSNorm(config.d_model)

        # A new model should guess, so its logits begin small. All else begins as the
        # pages of the parts say.
        self.output = nn.Linear(config.d_model, config.n_vocab, bias=False)
        nn.init.normal_(self.output.weight, std=0.02)
        self.init_uniform()

    def mixer(self) -> nn.Module:
        """A new mixer with the sizes of `self.config`, for one layer."""
        raise NotImplementedError

    def forward(
        self, tokens: Int[Tensor, "T B"], state: RecurrentState | None = None
    ) -> tuple[Float[Tensor, "T B V"], RecurrentState]:
        """
        ### Forward pass

        * `tokens`: the next chunk of each text, `[T, B]`; padding may be anywhere
        * `state`: what was returned for the chunk before; `None` at the beginning of a
          text

        Returns logits of the token after each position, `[T, B, V]`, and the state
        after the last token, detached.
        """
        check_tokens(tokens, self.config.n_vocab)
        check_state(state, RecurrentState, tokens)
        x = self.dropout(self.embedding(tokens))

        # Mixers look at the tokens just before each token, and padding must not stand
        # between them. So we bring the tokens of each text to the front. A stable sort
        # keeps their order.
        mask, padding = None, self.config.padding_token
        if padding is not None:
            is_padding, order = (tokens == padding).sort(dim=0, stable=True)
            mask, order = ~is_padding, order[..., None].expand_as(x)
            x = x.gather(0, order)

        before: Any = state.layers if state else [None] * len(self.layers)
        after = []
        for layer, remembered in zip(self.layers, before, strict=True):
            x, remembered = layer(x, remembered, mask)
            after.append(tuple(part.detach() for part in remembered))
        x = self.norm(x)

        # Each vector goes back to where its token stands.
        if padding is not None:
            x = torch.zeros_like(x).scatter(0, order, x)
        return self.output(x), RecurrentState(tuple(after))
