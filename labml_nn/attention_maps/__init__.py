r"""
---
title: Attention visualisation
summary: >
  Record the attention weights of every layer and head of a model, as numbers and as a
  picture.
---

*The nurse told Juliet that she was late.* When a model reads *she*, does it attend to
the nurse or to Juliet? Attention weights are a part of a transformer that people can
read: for each query a distribution over all keys. These functions return them, for any
model and text, without a change to the model.

```python
import torch
from labml_nn.attention_maps import attention_maps
from labml_nn.transformers.autoregressive import AutoregressiveTransformer

text = "to be or not to be"
characters = sorted(set(text))
config = {"n_vocab": len(characters), "d_model": 32, "n_layers": 2}
model = AutoregressiveTransformer.from_config(config)  # better: a trained one

tokens = torch.tensor([characters.index(c) for c in text])[:, None]  # [T, B]
maps = attention_maps(model, tokens, vocabulary=characters)
one = maps[1]
assert one.title == "layer 2, self"
assert one.weights.shape == (18, 18, 1, 4)  # [T, S, B, H]
assert one.queries[0][2] == " "
```

![Two heads of a trained transformer: the one that attends most to the previous
character, and the one that attends farthest back.](figure:trained.attention)

In a notebook, `maps[1]` as the last line of a cell draws all heads of a layer.
`save_picture(maps[1], "heads.svg")` writes the picture to a file.

| Symbol | Code | Shape | Meaning |
|:--|:--|:--|:--|
| $A_{tsbh}$ | `weights` | `[T, S, B, H]` | the weight of key $s$ for query $t$ |
| $A_t$ | `row` | `[S, B, H]` | the weights of step $t$ of a feedback model |
| $w$ | `tokens` | `[T, B]` | the text |

**Interpretation.** A map shows with which weights the values of a head were averaged,
and nothing else. "The model predicted *she* because of *Juliet*" does not follow.

* A weight is not a contribution. The output contains $A_{ts} V_s$, and a large weight
  on a short value adds less than a small weight on a long one.
* A position is not its token. Above the first layer, position $s$ contains what earlier
  layers have gathered there.
* Other weights might give the same prediction. Jain and Wallace
  ([-@jain2019attention], *Attention is not Explanation*) found that very different
  weights of recurrent classifiers often gave nearly the same prediction. Wiegreffe and
  Pinter ([-@wiegreffe2019attention], *Attention is not not Explanation*) answer that
  weights chosen freely for each text are not weights that a model could have learned.

So a map suggests where to look. Whether a head does what it seems to do is an
experiment: remove the head, and measure the change of the prediction.
"""

import io
import math
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from itertools import accumulate
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from labml_nn import kernels
from labml_nn.language_model import LanguageModel, evaluating
from labml_nn.saving import user_path

__all__ = [
    "AttentionMap",
    "Vocabulary",
    "attention_maps",
    "picture",
    "record_attention",
    "save_picture",
]

#: The text of each token: a list, a dictionary or a function of its number.
Vocabulary = Sequence[str] | Mapping[int, str] | Callable[[int], str]

#: One row of labels for each text of the batch.
Labels = tuple[tuple[str, ...], ...]


@torch.no_grad()
def attention_maps(
    model: nn.Module,
    *inputs: Any,
    vocabulary: Vocabulary | None = None,
    **named: Any,
) -> "list[AttentionMap]":
    """
    ## Maps of a text

    * `model` is any model of the library, or a part of one
    * `inputs` and `named` are its arguments: tokens `[T, B]` for a language model; the
      source, and the target from its `start_token` on, for an encoder–decoder
    * `vocabulary` is the text of each token; without it labels are numbers

    Runs the model once, in evaluation mode and without gradients. Returns the maps in
    the order of the calls, with labels if it is certain which position is which token.
    """
    tokens = [
        each
        for each in inputs
        if isinstance(each, Tensor) and each.dim() == 2 and not each.is_floating_point()
    ]
    encode: Any = getattr(model, "encode", None)
    with evaluating(model), record_attention(model) as maps:
        if encode is None or not isinstance(model, LanguageModel):
            model(*inputs, **named)
        elif len(inputs) < 2:
            raise ValueError(
                "an encoder-decoder needs two texts: the source, and the target from "
                f"its start token on; {len(inputs)} given"
            )
        else:
            source, target, *rest = inputs
            model(target, encode(source), *rest, **named)

    # The first text is the source, if there are two.
    labels = [_labels(each, vocabulary) for each in tokens]
    return [_labelled(each, labels[0], labels[-1]) for each in maps] if labels else maps


def _labels(tokens: Tensor, vocabulary: Vocabulary | None) -> Labels:
    text: Any = str if vocabulary is None else vocabulary
    text = text if callable(text) else text.__getitem__
    try:
        return tuple(tuple(map(text, column)) for column in tokens.T.tolist())
    except LookupError:
        raise ValueError(
            "`vocabulary` has no text for a token; expected one for each up to "
            f"{int(tokens.max())}"
        ) from None


# Queries and keys of an encoder are of the source. Other queries are of the target, and
# so are their keys, except in cross-attention.
def _labelled(
    attention: "AttentionMap", source: Labels, target: Labels
) -> "AttentionMap":
    path = attention.name.split(".")
    queries = source if "encoder" in path else target
    keys = source if path[-1] == "src_attn" else queries
    if attention.weights.shape[:3] != (len(queries[0]), len(keys[0]), len(queries)):
        return attention  # a window has moved, or keys were cached
    return replace(attention, queries=queries, keys=keys)


@contextmanager
def record_attention(model: nn.Module) -> "Iterator[list[AttentionMap]]":
    """
    ## Recording

    `with record_attention(model) as maps:` fills the list `maps` in the block.

    * `model` is any module with attention somewhere inside, in training or evaluation

    Each call of an attention adds a map. The weights are those before dropout. A
    feedback model adds one map per layer and sequence.

    Inside the block [kernels are disabled](../kernels/__init__.py): the reference
    methods run, which set `attn`. Forward hooks read it, and are removed afterwards.
    """
    # An attention is any module that sets its attribute `attn`, also one of your own.
    attentions = {
        name: module for name, module in model.named_modules() if "attn" in vars(module)
    }
    if not attentions:
        raise ValueError(
            f"{type(model).__name__} has no attention; expected a model with "
            "MultiHeadAttention, FeedbackAttention or another module that sets `attn`"
        )
    maps: list[AttentionMap] = []
    sequences: list[dict[str, list[Tensor]]] = []  # of feedback models, being read

    def add(name: str, role: str, weights: Tensor) -> None:
        maps.append(AttentionMap(name, weights, title=title_of(name, role)))

    def hook(name: str, module: nn.Module, *_: Any) -> None:
        weights: Any = module.attn
        if weights.dim() == 4:
            add(name, "", weights)
        elif sequences:
            sequences[-1].setdefault(name, []).append(weights)
        else:
            add(name, "memory", weights.unsqueeze(0))

    # Feedback models have no matrix of weights: they attend with one query at a time,
    # to a memory that grows in between. The rows are collected until the model has
    # read all its tokens.
    def read(method: Any, x_seq: Tensor, memory: Any, *args: Any, **named: Any) -> Any:
        sequences.append({})
        try:
            result = method(x_seq, memory, *args, **named)
        finally:
            seen = sequences.pop()
        for name, rows in seen.items():
            add(name, "memory", matrix_of(rows, len(x_seq), len(memory)))
        return result

    with ExitStack() as restore, kernels.disabled():
        for name, module in attentions.items():
            restore.callback(vars(module).__setitem__, "attn", vars(module)["attn"])
            handle = module.register_forward_hook(partial(hook, name))
            restore.callback(handle.remove)
        for module in model.modules():
            if hasattr(module, "read") and hasattr(module, "to_memory"):
                own = vars(module)  # an attribute hides the method of the class
                restore.callback(own.update, {k: own[k] for k in own if k == "read"})
                restore.callback(own.pop, "read")
                own["read"] = partial(read, module.read)
        yield maps


def matrix_of(
    rows: list[Float[Tensor, "_ B H"]], steps: int, before: int
) -> Float[Tensor, "T S B H"]:
    """
    ## Rows of different lengths as a matrix

    * `rows` are the weights of a feedback attention, `[S_t, B, H]`, one for each step.
      The first step of a sequence has none
    * `steps` is $T$, and `before` the number of memory slots before the first step

    Returns `[T, S, B, H]` with $S$ = `before + steps`. The memory of step $t$ ends with
    the slot of the previous step, so each row ends one column before the diagonal.
    Slots outside the horizon are zero.
    """
    weights = rows[0].new_zeros(steps, before + steps, *rows[0].shape[1:])
    for step, row in enumerate(rows, start=steps - len(rows)):
        end = before + step
        weights[step, end - len(row) : end] = row
    return weights


def title_of(name: str, role: str = "") -> str:
    """
    ## Titles

    `transformer.decoder.layers.1.src_attn` is "decoder layer 2, source".
    """
    *_, last = parts = name.split(".")
    half = [part for part in parts if part in ("encoder", "decoder")][:1]
    numbers = [f"layer {int(part) + 1}" for part in parts if part.isdigit()][-1:]
    roles = {"self_attn": "self", "src_attn": "source"}
    where = " ".join(half + numbers)
    role = role or roles.get(last, last)
    return ", ".join(word for word in (where, role) if word) or "attention"


@dataclass(frozen=True, eq=False, repr=False)
class AttentionMap:
    r"""
    ## The map

    * `name` is the name of the attention module in its model, `title` the same in words
    * `weights` holds $A$, `[T, S, B, H]`, without gradients. In each head the weights
      of a query sum to one, or to zero if all its keys were masked
    * `queries` and `keys` are labels, one row for each sequence; `None` if unknown
    """

    name: str
    weights: Float[Tensor, "T S B H"]
    title: str = "attention"
    queries: Labels | None = None
    keys: Labels | None = None

    def __repr__(self) -> str:
        return (
            f"<AttentionMap {self.name!r} ({self.title}): {list(self.weights.shape)}>"
        )

    def _repr_html_(self) -> str:
        return picture(self)


def picture(
    attention: AttentionMap,
    *,
    batch: int = 0,
    heads: Sequence[int] | None = None,
    scale: float | None = None,
) -> str:
    r"""
    ## Picture

    * `attention` is a map, and `batch` is the number of the sequence to draw
    * `heads` are the indices of the heads to draw; `None` draws all
    * `scale` is the weight that is drawn darkest, as are larger ones. `None` takes the
      99th percentile of the weights; to compare pictures, give the same number

    Returns an `<svg>` element, drawn by matplotlib: rows are queries, columns are keys.
    A causal model leaves the upper right triangle empty; a head that attends to the
    previous position draws a diagonal.
    """
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    weights = attention.weights[:, :, batch].float()
    chosen = range(weights.shape[2]) if heads is None else heads
    texts = zip((attention.queries, attention.keys), weights.shape, strict=False)
    names = [
        list(map(visible, labels[batch]) if labels else map(str, range(number)))
        for labels, number in texts
    ]

    # The first query of a causal model has one key, with a weight of 1. With the
    # maximum as the scale, this one square would make all others pale.
    if scale is None:
        drawn = weights[:, :, list(chosen)]
        scale = float(drawn[drawn > 0].quantile(0.99)) if drawn.any() else 1.0

    # In inches: a square is 0.2 wide, and labels need about one. A font without a
    # character draws an empty box, and a warning would not help.
    rows, columns = (0.2 * len(each) + 1.2 for each in names)
    per_line = min(len(chosen), max(1, int(15 / columns)))
    lines = math.ceil(len(chosen) / per_line)
    style: Any = {"svg.fonttype": "none", "svg.hashsalt": "labml_nn", "font.size": 8}
    style["text.parse_math"] = False  # dollar signs are not TeX
    file = io.StringIO()
    with rc_context(style), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing")
        size = columns * per_line + 1, rows * lines + 0.5
        figure = Figure(size, layout="constrained")
        figure.suptitle(attention.title)
        panels = figure.subplots(lines, per_line, squeeze=False).flatten()
        for panel, head in zip(panels, chosen, strict=False):
            matrix = weights[:, :, head].cpu().numpy()
            image = panel.imshow(matrix, cmap="Blues", vmin=0, vmax=scale)
            panel.set_title(f"head {head}")
            panel.set_yticks(range(len(names[0])), names[0])
            panel.set_xticks(range(len(names[1])), names[1], rotation=90)
        for panel in panels[len(chosen) :]:
            panel.set_axis_off()
        figure.colorbar(image, ax=list(panels), shrink=1 / lines, aspect=30)
        metadata = {"Date": None, "Title": attention.title}
        figure.savefig(
            file, format="svg", metadata=metadata, bbox_inches="tight", pad_inches=0.2
        )
    svg = file.getvalue()
    return svg[svg.index("<svg") :]


def save_picture(attention: AttentionMap, path: str | Path, **options: Any) -> None:
    """
    Writes what `picture` returns to `path`, where `~` is the home folder; `options` are
    its keyword arguments.
    """
    drawn = picture(attention, **options)
    user_path(path).write_text(drawn, encoding="utf-8", newline="\n")


SIGNS = {" ": "␣", "\n": "↵", "\t": "⇥", "\r": "␍"}


def visible(token: str) -> str:
    r"""
    ## Invisible characters

    `" the"` is shown as `␣the`, a new line as `↵`, the empty token as `∅`, and other
    invisible characters by their code, such as `\u200b`. Long tokens are cut.
    """
    shown = [
        SIGNS.get(sign, sign if sign.isprintable() else f"\\u{ord(sign):04x}")
        for sign in token
    ]
    fitting = sum(length <= 13 for length in accumulate(map(len, shown)))
    return "".join(shown[:fitting]) + "…" * (fitting < len(shown)) or "∅"
