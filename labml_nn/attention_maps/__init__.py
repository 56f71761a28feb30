r"""
---
title: Attention to look at
summary: >
  Who looks at whom, in any layer and head of any model here: as numbers with names, and
  as a picture.
---

*The nurse told Juliet that she was late.* When a model reads *she*, does it look at the
nurse or at Juliet? Attention is the one part of a transformer that answers in a form
which people can read: for each pair of positions a weight, and the weights of a
position sum to one. This part of the library gets them out of a model, for any text,
without a change to the model.

```python
import torch
from labml_nn.attention_maps import attention_maps
from labml_nn.transformers.autoregressive import AutoregressiveTransformer

text = "to be or not to be"
letters = sorted(set(text))
config = {"n_vocab": len(letters), "d_model": 32, "n_layers": 2}
model = AutoregressiveTransformer.from_config(config)  # better: one that was trained

tokens = torch.tensor([letters.index(letter) for letter in text])[:, None]  # [T, B]
maps = attention_maps(model, tokens, vocabulary=letters)
one = maps[1].pick(batch=0, head=3)
assert one.title == "layer 2, self"
assert one.weights.shape == (18, 18)
assert one.queries[0][2] == " "
```

![What two heads of a trained transformer look at: the one that looks most at the letter
before, and the one that looks farthest back.](figure:trained.attention)

In a notebook, `maps[1]` as the last line of a cell draws all heads of a layer.
`save_picture(maps[1], "heads.svg")` writes [the picture](picture.py) to a file.

| Symbol | Code | Shape | Meaning |
|:--|:--|:--|:--|
| $A_{tsbh}$ | `maps` | | of each call: what query $t$ takes of key $s$ |
| $w$ | `tokens` | `[T, B]` | the text |
| | `vocabulary` | | what token is what sign |

## What a map tells, and what not

It tells exactly one thing: with which weights the values of a head were mixed. It is
tempting to read more into it, "the model said *she* because of *Juliet*", and that does
not follow.

* A weight is not a contribution. What arrives is $A_{ts} V_s$, and a large weight on a
  short value brings less than a small weight on a long one. Heads often rest a large
  weight on a position that has nothing to say.
* A position is not its token. Above the first layer, position $s$ holds what earlier
  layers have brought there from everywhere, and most of a row goes past attention, by
  way of the residual connection.
* Another map might have done as well. Jain and Wallace ([-@jain2019attention],
  *Attention is not Explanation*) trained recurrent networks with attention to classify
  texts. Weights agreed poorly with what gradients, and leaving words out, said was
  important, and for many texts they found very different weights with next to the same
  prediction.
* That is not the last word either. Wiegreffe and Pinter ([-@wiegreffe2019attention],
  *Attention is not not Explanation*) answer that weights chosen freely for one text at
  a time are not weights that a model could have learned, that it depends on what one
  calls an explanation, and propose tests. Some tasks pass them, others don't.

So take a map for what a telescope is: good for finding where to look. Whether a head
does what it seems to do, you learn by changing something. Switch the head off, exchange
the token it looks at, and see what becomes of the prediction.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from labml_nn.attention_maps.maps import AttentionMap, Labels
from labml_nn.attention_maps.picture import picture, save_picture
from labml_nn.attention_maps.recording import record_attention
from labml_nn.language_model import LanguageModel, evaluating

__all__ = [
    "AttentionMap",
    "Vocabulary",
    "attention_maps",
    "picture",
    "record_attention",
    "save_picture",
]

#: What sign a token stands for: a list, a dictionary or a function of the number.
Vocabulary = Sequence[str] | Mapping[int, str] | Callable[[int], str]


@torch.no_grad()
def attention_maps(
    model: nn.Module,
    *inputs: Any,
    vocabulary: Vocabulary | None = None,
    **named: Any,
) -> list[AttentionMap]:
    r"""
    ## Read a text, and look

    * `model` is any model of the library, or a part of one
    * `inputs` and `named` are what it is called with: tokens `[T, B]` for a language
      model; source, target and masks for an `EncoderDecoder`. An
      `EncoderDecoderLanguageModel` gets what was said, and the reply from its
      `start_token` on
    * `vocabulary` says what sign each token is; without it labels are the numbers

    The model reads once, without gradients and without dropout, and is afterwards in
    the mode it was in. Returns the maps in the order of the calls, labelled where it is
    certain which position is which token.

    Raises `ValueError` for a model without attention, for something said without a
    reply, and for a language model's text with padding: positions move when padding is
    left out, so look at one text at a time. Other errors are those of the model.
    """
    _check_no_padding(model, inputs)
    with evaluating(model), record_attention(model) as maps:
        encode: Any = getattr(model, "encode", None)
        if encode is not None and isinstance(model, LanguageModel):
            if len(inputs) < 2:
                raise ValueError(
                    f"{len(inputs)} texts were given to a model that replies; expected "
                    "two, what was said and the reply from its start token on"
                )
            source, reply, *rest = inputs
            model(reply, encode(source), *rest, **named)
        else:
            model(*inputs, **named)

    # Tokens are the integers among the inputs. With two of them, the first is the
    # source.
    texts = [_labels(tokens, vocabulary) for tokens in inputs if _are_tokens(tokens)]
    if not texts:
        return maps
    repeated = {one.name for one in maps if one.call}
    return [
        one if one.name in repeated else _labelled(one, texts[0], texts[-1])
        for one in maps
    ]


def _are_tokens(given: Any) -> bool:
    return (
        isinstance(given, Tensor)
        and given.dim() == 2
        and given.dtype in (torch.int64, torch.int32)
    )


def _check_no_padding(model: nn.Module, inputs: Sequence[Any]) -> None:
    padding = getattr(getattr(model, "config", None), "padding_token", None)
    for tokens in inputs:
        if (
            padding is not None
            and _are_tokens(tokens)
            and bool((tokens == padding).any())
        ):
            raise ValueError(
                f"the text holds padding (token {padding}), which the model leaves "
                "out, so positions are not those of the text; look at one text at a "
                "time: attention_maps(model, tokens[:length, [b]])"
            )


def _labels(tokens: Tensor, vocabulary: Vocabulary | None) -> Labels:
    # One row for each text. `tokens` has a column for each.
    def sign(token: int) -> str:
        if vocabulary is None:
            return str(token)
        if callable(vocabulary):
            return vocabulary(token)
        try:
            return vocabulary[token]
        except LookupError:
            raise ValueError(
                f"`vocabulary` has no sign for token {token}; it has "
                f"{len(vocabulary)} of them"
            ) from None

    return tuple(tuple(map(sign, text)) for text in tokens.T.tolist())


def _labelled(attention: AttentionMap, source: Labels, target: Labels) -> AttentionMap:
    # An encoder reads the source and nothing else. Other queries are of the target, and
    # so are their keys, unless they are asked of the source.
    path = attention.name.split(".")
    queries = source if "encoder" in path else target
    keys = source if path[-1] == "src_attn" else queries

    # A context that slid, or kept keys of an earlier call, has other positions than the
    # text that was given.
    sizes = attention.sizes
    fits = (sizes["query"], sizes["key"]) == (len(queries[0]), len(keys[0]))
    if not fits or sizes["batch"] != len(queries):
        return attention
    return replace(attention, queries=queries, keys=keys)


# ## Exercises
#
# **1.** Find heads that look at the position before their own.
#
# <details><summary>Answer</summary>
#
# Their weights stand one place below the diagonal. Such heads come up in most trained
# models; with them, the layer above can find what followed the last time
# ([@olsson2022context]).
#
# ```python
# import torch
# from labml_nn.attention_maps import AttentionMap
#
# def previous(attention):
#     weights = attention.tensor("batch", "head", "query", "key")
#     return weights.diagonal(-1, dim1=-2, dim2=-1).mean((0, -1))  # [H]
#
# even = torch.ones(6, 6).tril() / torch.arange(1, 7)[:, None]
# back = torch.eye(6).roll(-1, 1)
# back[0, 0], back[0, 5] = 1, 0
# weights = torch.stack([even, back], dim=-1).unsqueeze(2)  # [T, S, B, H]
# score = previous(AttentionMap("made up", weights))
# assert score[1] == 1 and score[0] < 0.5
# ```
#
# </details>
#
# **2.** Change the weights of an attention and leave its result as it was.
#
# <details><summary>Answer</summary>
#
# Attention hands out a mean of values. If there are more values than features, some
# mean the same in more than one way. Here three values of two features lie on a line,
# and the one in the middle is half of each of the others.
#
# ```python
# import torch
#
# values = torch.tensor([[0.0, 2.0], [1.0, 1.0], [2.0, 0.0]])
# one, other = torch.tensor([0.5, 0.0, 0.5]), torch.tensor([0.0, 1.0, 0.0])
# assert torch.equal(one @ values, other @ values)
# ```
#
# </details>
#
# **3.** Which token matters for a prediction? Ask the gradient, and compare it with the
# weights.
#
# <details><summary>Answer</summary>
#
# The gradient of the best guess's logit says how much each embedded token could change
# it, through all layers and past attention as well. It is not the truth either: it
# speaks of very small changes. Here the model is untrained, and the two need not agree.
#
# ```python
# import torch
# from labml_nn.attention_maps import attention_maps
# from labml_nn.transformers.feedback.language_model import FeedbackLanguageModel
#
# config = {"n_vocab": 7, "d_model": 12, "heads": 3, "n_layers": 2, "dropout_prob": 0.0}
# model = FeedbackLanguageModel.from_config(config)
# tokens = torch.randint(7, (6, 1))
# top = attention_maps(model, tokens)[-1].mean("head").pick(batch=0, query=5)
#
# embedded = []
# keep = lambda module, given, made: embedded.append(made.requires_grad_())
# with torch.no_grad():
#     model.embed.weight.mul_(10)
# handle = model.embed.register_forward_hook(keep)
# logits, _ = model(tokens)
# handle.remove()
# (gradient,) = torch.autograd.grad(logits[-1].max(), embedded)
# importance = gradient.norm(dim=-1)[:, 0]
# assert importance.shape == top.weights.shape == (6,)
# assert top.weights[5] == 0 and importance[5] > 0  # it never looks at itself
# ```
#
# </details>
