r"""
---
title: From an ordinary transformer to a feedback transformer
summary: >
  A transformer learns from all positions at once, a feedback transformer one after the
  other. So let the first learn to read, and give the second what it knows: which of its
  matrices fit, and which do not.
paper: https://arxiv.org/abs/2002.09402
---

To read a text of $T$ letters with $L$ layers, a [feedback transformer](index.html)
needs $L \cdot T$ things to be done in turn, where an ordinary one needs $L$. Most of
what it has to learn is the same, though: which letters there are, what follows a *q*,
how words are spelt. The paper discusses to train an ordinary transformer first, and to
go on from there ([@fan2020feedback]). This page says how.

The two are made of the same parts. In layer $l$ position $t$ asks a question, looks at
rows that are there already, and thinks about what it found. What differs is the rows:

\begin{align}
\text{ordinary:} \quad & \operatorname{norm}_l(x^{l-1}_j), & j &\le t \\
\text{feedback:} \quad & \operatorname{norm}\Big(\sum_i s_i \, x^i_j\Big), & j &< t
\end{align}

An ordinary row is what the layer below has made, and a position sees its own as well. A
row of memory is what all layers have made, but of the past alone.

They are less different than they look. A pre-norm layer only adds to its row, so
$x^l$ is $x^0$ plus what layers $1 \dots l$ have added, and each $x^l$ holds all those
below it. Their mean $\sum_i s_i x^i$ is not far from any of them. So the matrices of
the ordinary model still find in memory what they learned to look for, if not quite
where it was.

| The ordinary model's | becomes the feedback model's |
|:--|:--|
| embedding, output, norms | the same |
| feed-forward networks | the same |
| $W_Q$, $W_O$ | the same |
| $b_Q$ | $u$, which does the same |
| $W_K$, $W_V$, scale of the norm | $W_K$, $W_V$ |
| $b_O$, $b_V$, shift of the norm | $b_O$ |
| positions, $b_K$, bias of the output | nothing |
| nothing | what knows of distance, $E$ and $b_d$; shares $w$; norm of memory |

**What to expect.** The new model has to learn where things stand all over again, and to
make use of its memory. In one try, of one seed, with two layers of 96 features and 64
letters of Tiny Shakespeare at a time, an ordinary transformer had a loss of 2.20 nats
after 500 updates, which took 26 seconds. With its weights a feedback model began at
2.89, and was at 2.34 after 120 updates. Without them it began at 4.19, and was at 2.57.
(Losses are those of the first quarter of the validation split.)

| Symbol | Code | Shape | Meaning |
|:--|:--|:--|:--|
| $W_K$, $W_V$ | `projection` | `[H·K, C]` | projection to keys, or to values |
| $g$ | `scale` | `[C]` | scale of a normalisation |
| $\beta$ | `shift` | `[C]` | its shift |
| $u$ | `bias` | `[H·K]` | what all queries have in common |
"""

from collections.abc import Iterator, Sequence
from typing import Any, cast

import torch
from torch import Tensor, nn

from labml_nn.language_model import LanguageModel
from labml_nn.transformers.autoregressive import AutoregressiveTransformer
from labml_nn.transformers.feedback.language_model import FeedbackLanguageModel
from labml_nn.transformers.models import TransformerLayer
from labml_nn.transformers.mha import MultiHeadAttention


@torch.no_grad()
def take_weights(
    model: FeedbackLanguageModel, trained: LanguageModel[Any]
) -> list[str]:
    r"""
    ## Take what fits

    * `model` is a new feedback model; its parameters are written over
    * `trained` is an ordinary transformer of the same sizes, and stays as it is

    Returns the names of the parameters of `model` that nothing was found for. Raises
    `ValueError` for models whose sizes or parts differ, and changes nothing then.
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
    ### What goes where

    Most of it by the same names. With `tied=False` the output has a table of its own on
    both sides.
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
        yield from _questions(f"{place}.attn", layer)
        if not model.config.shared_kv:
            yield from _answers(f"{place}.attn", [layer])
    if model.config.shared_kv:
        yield from _answers("transformer", layers)


def _named(place: str, module: nn.Module) -> Iterator[tuple[str, Tensor]]:
    for name, parameter in module.named_parameters():
        yield f"{place}.{name}", parameter


def _questions(place: str, layer: TransformerLayer) -> Iterator[tuple[str, Tensor]]:
    r"""
    ### Questions

    An ordinary query has a bias, and a feedback query has none. Nothing is lost: in

    $$(W_Q x + b_Q)^\top k_j = (W_Q x)^\top k_j + b_Q^\top k_j$$

    the last term says how much row $j$ is worth a look for anybody. That is term C of
    [feedback attention](attention.py#FeedbackAttention.get_scores), with $u = b_Q$.

    Weights of attention sum to one. So what every value has in common, its bias $b_V$
    and the share $W_V \beta$ of the norm, comes through in full, whatever the weights
    are, and can be added after it: $b_O + W_O (b_V + W_V \beta)$.
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


def _answers(
    place: str, layers: Sequence[TransformerLayer]
) -> Iterator[tuple[str, Tensor]]:
    r"""
    ### Answers

    An ordinary layer normalises a row before it projects it, with a scale and a shift
    of its own. In a feedback model the rows of memory are normalised once for all
    layers. So each layer's scale goes into its matrix,

    $$W (g \odot n + \beta) = (W \operatorname{diag} g) \, n + W \beta$$

    and the norm of memory keeps its scale of one. What is left over, $W_V \beta$, went
    into $b_O$. In a key, $W_K \beta + b_K$ would add the same number to all scores of a
    query, and the softmax cannot see that.

    * `layers` are those that look through the same matrices: one, or with shared keys
      and values all of them

    All of them get the mean. No single layer's matrices did better.
    """
    for name in ("key", "value"):
        folded = []
        for layer in layers:
            scale = layer.norm_self_attn.weight
            projection = getattr(layer.self_attn, name).linear.weight
            folded.append(projection * scale)
        yield f"{place}.{name}.linear.weight", torch.stack(folded).mean(0)


# Of what kind the parts of a feedback model are, in words of the ordinary one.
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
    ## What does not fit is refused

    Sizes must be equal, and parts of the same kind. Positions may be of any: they are
    left behind. Raises `ValueError` that names all that differs.
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
# The paper says that one can start from an ordinary transformer, and leaves open what
# becomes of which matrix. The choices here are ours.
#
# ## Exercises
#
# **1.** Let there be one layer, and let memory hold embeddings only. What is left that
# differs from the ordinary model? Take it away, and check that the two agree.
#
# <details><summary>Answer</summary>
#
# An ordinary position looks at itself as well. A mask with $j < t$ forbids it. The
# first position then has nothing to look at, and is left out: there an ordinary layer
# still adds $b_O$, where the feedback model has no attention at all.
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
# **2.** Which share of a feedback model of the default sizes has nothing to start from?
#
# <details><summary>Answer</summary>
#
# A sixth, and nearly all of it are the tables of distances.
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
# **3.** Train an ordinary transformer on one line until it knows it, and let a feedback
# model start from there. How much has come over, and what are five updates worth then?
#
# <details><summary>Answer</summary>
#
# Of the way from knowing nothing to knowing the line, almost a third has come over. But
# what is missing is learned quickly: after five updates the loss is 1.2, where it is
# 2.1 without. The ordinary model gets no positions here, so that it does not rely on
# what cannot come over.
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
# assert train(old, 60) < 0.5
# take_weights(warm, old)
# for updates in (0, 5):
#     assert train(warm, updates) < train(cold, updates) - 0.5
# ```
#
# </details>
