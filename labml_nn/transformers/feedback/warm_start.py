r"""
---
title: Warm start from a trained transformer
summary: >
  A feedback transformer that starts with the weights of an ordinary one, which trains
  faster because it computes all positions in parallel.
paper: https://arxiv.org/abs/2002.09402
---

Training a [feedback transformer](__init__.py) on $T$ tokens takes $L T$ sequential
steps, an ordinary transformer takes $L$. Most of what they learn is the same: which
characters there are, what follows a *q*, how words are spelled. The paper suggests to
train an ordinary transformer first and to continue from its weights
([@fan2020feedback]).

Both consist of the same submodules. What differs is what layer $l$ attends to:

\begin{align}
\text{transformer:} \quad & \operatorname{LN}_l(x^{l-1}_j), & j &\le t \\
\text{feedback transformer:} \quad
& \operatorname{LN}\Big(\sum_i \operatorname{softmax}(w)_i \, x^i_j\Big), & j &< t
\end{align}

These are less different than they look. A pre-norm layer adds to its input, so each
$x^l$ contains all those below it, and their mean is not far from any of them. The key
and value projections of the transformer find in memory what they learned to read, if
not exactly in the same directions.

| Transformer | Feedback transformer |
|:--|:--|
| embedding, output, norms, feed-forward networks | the same |
| $W_Q$, $W_O$ | the same |
| $b_Q$ | $u$, which has the same effect |
| $W_K$, $W_V$, gain of the norm | $W_K$, $W_V$ |
| $b_O$, $b_V$, bias of the norm | $b_O$ |
| positions, $b_K$, bias of the output | – |
| – | distances $E$, $b_d$; weights $w$; norm of memory |

**Measured.** One run with two layers of 96 features on 64 characters of Tiny
Shakespeare at a time: the transformer reached a loss of 2.20 nats after 500 updates,
which took 26 seconds. With its weights a feedback model started at 2.89, and reached
2.34 after 120 updates; with random weights it started at 4.19 and reached 2.57. (Losses
of the first quarter of the validation split.)

| Symbol | Code | Shape | Meaning |
|:--|:--|:--|:--|
| $W_K$, $W_V$ | `projection` | `[H·D, C]` | projection to keys, or to values |
| $g$ | `scale` | `[C]` | gain of a norm |
| $\beta$ | `shift` | `[C]` | its bias |
| $u$ | `bias` | `[H·D]` | bias of all queries |
"""

from collections.abc import Iterator, Sequence
from typing import Any, cast

import torch
from torch import Tensor, nn

from labml_nn.language_model import LanguageModel
from labml_nn.transformers.autoregressive import AutoregressiveTransformer
from labml_nn.transformers.feedback.language_model import FeedbackLanguageModel
from labml_nn.transformers.mha import MultiHeadAttention
from labml_nn.transformers.models import TransformerLayer


@torch.no_grad()
def take_weights(
    model: FeedbackLanguageModel, trained: LanguageModel[Any]
) -> list[str]:
    r"""
    ## Copy weights

    * `model` is a new feedback model; its parameters are overwritten
    * `trained` is an ordinary transformer of the same sizes

    Returns the names of the parameters of `model` that have no counterpart. Raises
    `ValueError` for models whose sizes or submodules differ, before anything is copied.
    """
    check_fits(model, trained)
    taken = dict(_parameters_for(model, cast(AutoregressiveTransformer, trained)))
    for name, parameter in model.named_parameters():
        if name in taken:
            parameter.copy_(taken[name])
    return [name for name, _ in model.named_parameters() if name not in taken]


def _parameters_for(
    model: FeedbackLanguageModel, trained: AutoregressiveTransformer
) -> Iterator[tuple[str, Tensor]]:
    r"""
    ### Correspondence of parameters

    With `tied=False` both models have a separate table for the logits.
    """
    yield "embed.weight", trained.embedding.tokens.weight
    yield "output.weight", trained.generator.projection.weight
    yield from _named("transformer.norm", trained.stack.norm)
    layers = [cast(TransformerLayer, layer) for layer in trained.stack.layers]
    for number, layer in enumerate(layers):
        place = f"transformer.layers.{number}"
        yield from _named(f"{place}.norm_self_attn", layer.norm_self_attn)
        yield from _named(f"{place}.norm_ff", layer.norm_ff)
        yield from _named(f"{place}.feed_forward", layer.feed_forward)
        yield from _query_and_output(f"{place}.attn", layer)
        if not model.config.shared_kv:
            yield from _keys_and_values(f"{place}.attn", [layer])
    if model.config.shared_kv:
        yield from _keys_and_values("transformer", layers)


def _named(place: str, module: nn.Module) -> Iterator[tuple[str, Tensor]]:
    for name, parameter in module.named_parameters():
        yield f"{place}.{name}", parameter


def _query_and_output(
    place: str, layer: TransformerLayer
) -> Iterator[tuple[str, Tensor]]:
    r"""
    ### Queries and output

    An ordinary query has a bias, and a feedback query has none. In

    $$(W_Q x + b_Q)^\top k_j = (W_Q x)^\top k_j + b_Q^\top k_j$$

    the last term is what key $j$ is worth to any query: term C of [feedback
    attention](__init__.py#FeedbackAttention.get_scores), with $u = b_Q$.

    Attention weights sum to one. So what all values have in common, their bias $b_V$
    and the part $W_V \beta$ from the norm, passes through attention unchanged, and can
    be added behind it: $b_O + W_O (b_V + W_V \beta)$.
    """
    attn = cast(MultiHeadAttention, layer.self_attn)
    shift = cast(nn.LayerNorm, layer.norm_self_attn).bias
    yield f"{place}.query.linear.weight", attn.query.linear.weight
    bias = attn.query.linear.bias
    yield f"{place}.query_pos_bias", bias.view(attn.heads, attn.d_k)
    values = attn.value.linear
    common = values.bias + values.weight @ shift
    yield f"{place}.output.weight", attn.output.weight
    yield f"{place}.output.bias", attn.output.bias + attn.output.weight @ common


def _keys_and_values(
    place: str, layers: Sequence[TransformerLayer]
) -> Iterator[tuple[str, Tensor]]:
    r"""
    ### Keys and values

    An ordinary layer normalizes its input with a gain and a bias of its own. In a
    feedback model memory vectors are normalized once for all layers. So the gain of
    each layer is folded into its projections,

    $$W (g \odot n + \beta) = (W \operatorname{diag} g) \, n + W \beta$$

    and the norm of memory keeps a gain of one. The rest, $W_V \beta$, went into $b_O$.
    In a key, $W_K \beta + b_K$ would add the same number to all scores of a query,
    which the softmax ignores.

    * `layers` are those that share the projections: one, or with shared keys and values
      all of them, which then get the mean. No projection of a single layer did better
    """
    for name in ("key", "value"):
        folded = []
        for layer in layers:
            scale = layer.norm_self_attn.weight
            projection = getattr(layer.self_attn, name).linear.weight
            folded.append(projection * scale)
        yield f"{place}.{name}.linear.weight", torch.stack(folded).mean(0)


# The choices of a feedback model, as fields of the other configuration.
KINDS = {
    "norm_first": True,
    "norm": "layer",
    "qk_norm": False,
    "activation": "relu",
    "bias": True,
    "embedding_norm": False,
}


def check_fits(model: FeedbackLanguageModel, trained: LanguageModel[Any]) -> None:
    """
    ## Check the configurations

    Sizes must be equal, and submodules of the same kind; positional encodings may
    differ, because they are not copied. Raises `ValueError` with all differences.
    """
    if trained.name != "autoregressive":
        raise ValueError(
            f"a feedback model cannot start from {trained.name!r} "
            f"({type(trained).__name__}); it takes over the weights of an ordinary "
            "transformer, 'autoregressive'"
        )
    old, new = cast(AutoregressiveTransformer, trained).config, model.config
    width = new.d_model // new.heads
    pairs: dict[str, tuple[object, object]] = {
        "n_vocab": (old.n_vocab, new.n_vocab),
        "padding_token": (old.padding_token, new.padding_token),
        "d_model": (old.d_model, new.d_model),
        "heads": (old.heads, new.heads),
        "d_k": (old.d_k or old.d_model // old.heads, width),
        "d_v": (old.d_v or old.d_model // old.heads, width),
        "d_ff": (old.feed_forward_size, new.d_ff or 4 * new.d_model),
        "n_layers": (old.n_layers, new.n_layers),
        "tied": (old.tied, new.tied),
        **{name: (getattr(old, name), kind) for name, kind in KINDS.items()},
    }
    differences = [
        f"`{name}` is {there!r} there and {here!r} here"
        for name, (there, here) in pairs.items()
        if there != here
    ]
    if not new.norm_memory:
        differences.append(
            "`norm_memory` is False here, and layers there read normalised rows"
        )
    if differences:
        raise ValueError(
            "the trained transformer does not fit the feedback model: "
            f"{'; '.join(differences)}. Train one that is the same but for its memory"
        )


# ## Differences from the paper
#
# The paper mentions the possibility, but not how the parameters correspond. The choices
# here are ours.
#
# ## Exercises
#
# **1.** With one layer, and with embeddings only in memory, how do the two models still
# differ? Remove the difference, and check that they agree.
#
# <details><summary>Answer</summary>
#
# An ordinary position also attends to itself, which a mask with $j < t$ prevents. The
# first position is then fully masked and left out of the comparison: an ordinary layer
# still adds $b_O$ there, where the feedback model has no attention at all.
#
# ```python
# import torch
# from labml_nn.transformers.autoregressive import AutoregressiveTransformer
# from labml_nn.transformers.feedback.language_model import FeedbackLanguageModel
# from labml_nn.transformers.feedback.warm_start import take_weights
#
# sizes = {"n_vocab": 7, "d_model": 12, "heads": 3, "n_layers": 1}
# old = AutoregressiveTransformer.from_config({**sizes, "positions": "none"}).eval()
# new = FeedbackLanguageModel.from_config(sizes).eval()
# with torch.no_grad():
#     for name, parameter in old.named_parameters():  # any will do: as if trained
#         if name != "generator.projection.bias":  # there is none in the other
#             parameter.normal_(std=0.3)
#     take_weights(new, old)
#     new.transformer.weights[0] = 100
#
#     tokens = torch.randint(7, (5, 2))
#     past = torch.ones(5, 5).tril(-1).bool()[..., None]  # [T, S, 1]: only j < t
#     x = old.embedding(tokens, torch.arange(5)[:, None])
#     expected = old.generator(old.stack(x, past))
#     logits, _ = new(tokens)
# torch.testing.assert_close(logits[1:], expected[1:], rtol=1e-4, atol=1e-4)
# ```
#
# </details>
#
# **2.** Which share of a feedback model of the default sizes has no counterpart?
#
# <details><summary>Answer</summary>
#
# A sixth, nearly all of it the tables of distances.
#
# ```python
# import torch
# from labml_nn.transformers.autoregressive import AutoregressiveTransformer
# from labml_nn.transformers.feedback.language_model import FeedbackLanguageModel
# from labml_nn.transformers.feedback.warm_start import take_weights
#
# old = AutoregressiveTransformer.from_config({"n_vocab": 65})
# new = FeedbackLanguageModel.from_config({"n_vocab": 65})
# left = take_weights(new, old)
# sizes = {name: parameter.numel() for name, parameter in new.named_parameters()}
# share = sum(sizes[name] for name in left) / sum(sizes.values())
# tables = sum(sizes[name] for name in left if ".key_pos_" in name)
# assert round(share, 3) == 0.162
# assert tables / sum(sizes[name] for name in left) > 0.99
# ```
#
# </details>
#
# **3.** Overfit an ordinary transformer to one line, and let a feedback model start
# with its weights. How low is the loss at once, and after five updates?
#
# <details><summary>Answer</summary>
#
# At once it is clearly lower than with random weights. The rest is learned quickly:
# after five updates it is 1.1 to 1.4, and 2.1 with random weights. The ordinary model
# has no positional encoding here, so that it does not rely on what cannot be copied.
#
# ```python
# import copy
# import torch
# from labml_nn.transformers.autoregressive import AutoregressiveTransformer
# from labml_nn.transformers.feedback.language_model import FeedbackLanguageModel
# from labml_nn.transformers.feedback.warm_start import take_weights
#
# line = "the more it snows, the more it goes on snowing"
# signs = sorted(set(line))
# text = torch.tensor([signs.index(sign) for sign in line])[:, None]
#
# def train(model, updates):
#     optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
#     for _ in range(updates):
#         optimizer.zero_grad()
#         model.loss(text[:-1], text[1:]).backward()
#         optimizer.step()
#     return model.loss(text[:-1], text[1:]).item()
#
# sizes = {"n_vocab": len(signs), "d_model": 24, "heads": 2, "n_layers": 2}
# sizes["dropout_prob"] = 0.0
# old = AutoregressiveTransformer.from_config({**sizes, "positions": "none"})
# cold = FeedbackLanguageModel.from_config(sizes)
# warm = copy.deepcopy(cold)
# assert train(old, 100) < 0.5
# take_weights(warm, old)
# for updates in (0, 5):
#     assert train(warm, updates) < train(cold, updates) - 0.5
# ```
#
# </details>
