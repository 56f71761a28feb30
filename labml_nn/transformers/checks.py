r"""
---
title: Argument checks of Transformers
summary: >
  What attention, its layers and models of pairs are given: the errors, each with a way
  out.
---

What only Transformers are given, besides the [checks of the library](../checks.py):
masks and inputs of attention, layers and their stacks, pairs of sequences.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from labml_nn.checks import (
    check_bool,
    check_heads,
    check_integer,
    check_integers,
    check_probability,
    check_same_width,
    check_sizes,
    has_values,
)


def check_attention_inputs(query: Tensor, key: Tensor, value: Tensor) -> None:
    """
    ## Inputs and masks of attention

    Queries, keys and values are batches of sequences, with as many values as keys.
    """
    if query.dim() == key.dim() == value.dim() == 3 and key.shape[0] == value.shape[0]:
        return
    for name, x in (("query", query), ("key", key), ("value", value)):
        if x.dim() != 3:
            hint = f"; for one sequence use {name}[:, None]" if x.dim() == 2 else ""
            raise ValueError(
                f"`{name}` has shape {list(x.shape)}; expected [T, B, C]{hint}"
            )
    raise ValueError(
        f"`key` has {len(key)} positions and `value` {len(value)}; each key needs its "
        "value"
    )


def check_mask(
    mask: Tensor, query_shape: Sequence[int], key_shape: Sequence[int], heads: int
) -> None:
    """
    A mask is `[T|1, S, B|1]` or `[T|1, S, B|1, H|1]`. Others are refused even where
    they would broadcast, because then they would hide something else.
    """
    (queries, batch), keys = query_shape[:2], key_shape[0]
    allowed = ((queries, 1), (keys,), (batch, 1), (heads, 1))
    if not isinstance(mask, Tensor):
        raise TypeError(
            f"`mask` is a {type(mask).__name__}; expected a tensor of torch.bool, such "
            "as torch.tensor(mask)"
        )
    if mask.is_floating_point():
        raise TypeError(
            f"`mask` has dtype {mask.dtype}; expected torch.bool, True = may attend; "
            "mask == 0 converts a mask that is added to scores"
        )

    def fits(mask: Tensor) -> bool:
        axes = zip(mask.shape, allowed[: mask.dim()], strict=True)
        return mask.dim() in (3, 4) and all(size in known for size, known in axes)

    if not fits(mask):
        hints = (hint for hint, axes in REORDERED if _is_mended(mask, axes, fits))
        hint = next(hints, "")
        named = zip("TSBH", allowed, strict=True)
        sizes = ", ".join(f"{axis} = {known[0]}" for axis, known in named)
        raise ValueError(
            f"`mask` has shape {list(mask.shape)}; expected [T or 1, S, B or 1], or "
            f"the same with [H or 1] as a fourth axis, with {sizes}"
            f"{hint and f'; try {hint}'}"
        )


# Masks with another order of axes, or without one of them: what mends them, and where
# their axes go.
REORDERED: tuple[tuple[str, tuple[int | None, ...]], ...] = (
    ("mask[:, :, None], which adds a batch axis", (0, 1, None)),
    ("mask[None], which adds an axis for the queries", (None, 0, 1)),
    ("mask.T[None], which makes [1, S, B] of [B, S]", (None, 1, 0)),
    ("mask.permute(1, 2, 0), which makes [T, S, B] of [B, T, S]", (1, 2, 0)),
    ("mask.permute(2, 3, 0, 1), from [B, H, T, S] to [T, S, B, H]", (2, 3, 0, 1)),
)


def _is_mended(
    mask: Tensor, axes: tuple[int | None, ...], fits: Callable[[Tensor], bool]
) -> bool:
    kept = [axis for axis in axes if axis is not None]
    if len(kept) != mask.dim():
        return False
    moved = mask.permute(kept)
    for place, axis in enumerate(axes):
        moved = moved.unsqueeze(place) if axis is None else moved
    return fits(moved)


def check_widths(**parts: object) -> None:
    """Submodules that are added up or follow each other have one number of features."""
    check_same_width(**{name: width_of(part) for name, part in parts.items()})


def width_of(part: object) -> int | None:
    """The number of features of a submodule, or `None` if it does not tell."""
    for path in ("size", "d_model", "layer1.in_features", "projection.in_features"):
        width = part
        for name in path.split("."):
            width = getattr(width, name, None)
        if isinstance(width, int):
            return width
    return None


def check_layer(
    d_model: int,
    dropout_prob: float,
    norm_first: bool,
    feed_forward: object,
    **attentions: object,
) -> None:
    """The arguments of a Transformer layer."""
    check_sizes(d_model=d_model)
    check_probability(dropout_prob=dropout_prob)
    check_bool(norm_first=norm_first)
    widths = {name: width_of(part) for name, part in attentions.items()}
    widths["feed_forward"] = width_of(feed_forward)
    check_same_width(d_model=d_model, **widths)


def check_stack(
    layer: Any, n_layers: int, final_norm: bool, *, needs_source: bool = False
) -> None:
    """A stack of layers; those of a decoder attend to a source."""
    check_sizes(n_layers=n_layers)
    check_bool(final_norm=final_norm)
    if not hasattr(layer, "size"):
        raise TypeError(
            f"`layer` is a {type(layer).__name__}; expected a layer to copy, such as "
            "TransformerLayer(...)"
        )
    if needs_source and layer.src_attn is None:
        raise ValueError(
            "the `layer` of a Decoder has no `src_attn`, so it cannot attend to the "
            "source; build it with src_attn=MultiHeadAttention(...), or use Encoder"
        )


def check_feedback_attention(
    heads: int,
    d_model: int,
    dropout_prob: float,
    is_kv_precomputed: bool,
    max_distance: int,
) -> None:
    """Arguments of the attention to a memory."""
    check_heads(heads, d_model)
    check_probability(dropout_prob=dropout_prob)
    check_bool(is_kv_precomputed=is_kv_precomputed)
    check_sizes(max_distance=max_distance)


def check_feedback_layer(
    d_model: int, attn: Any, feed_forward: Any, dropout_prob: float
) -> None:
    """A feed-forward network may be any module; that of the library knows its width."""
    check_sizes(d_model=d_model)
    check_probability(dropout_prob=dropout_prob)
    check_same_width(
        d_model=d_model,
        attn=getattr(attn, "d_model", None),
        feed_forward=getattr(
            getattr(feed_forward, "layer1", None), "in_features", None
        ),
    )


def check_prototype(
    layer: Any, model: type, d_model: int | None = None, heads: int | None = None
) -> None:
    """The layer of a Feedback Transformer expects the memory that this class writes."""
    expected = model.is_kv_precomputed  # type: ignore[attr-defined]
    if layer.attn.is_kv_precomputed != expected:
        raise ValueError(
            f"the layer's attention has is_kv_precomputed="
            f"{layer.attn.is_kv_precomputed}, but {model.__name__} needs {expected}; "
            f"build it with FeedbackAttention(..., is_kv_precomputed={expected})"
        )
    if d_model is not None:
        check_same_width(d_model=d_model, layer=layer.size)
    if heads is not None and heads != layer.attn.heads:
        raise ValueError(
            f"`heads` is {heads}, but the layer has {layer.attn.heads}; build both "
            "with the same number"
        )


def check_targets(
    src: Tensor, tgt: Tensor, padding_token: int, label_smoothing: float
) -> None:
    """Pairs of a source and a target with its start and end token."""
    check_integer("padding_token", padding_token)
    check_integers("src", src, "S B")
    check_integers("tgt", tgt, "T B")
    if len(tgt) < 2 or tgt.shape[1] != src.shape[1]:
        raise ValueError(
            f"`tgt` has shape {list(tgt.shape)} and `src` {list(src.shape)}; "
            "expected a target for each source, of at least two tokens"
        )
    check_probability(label_smoothing=label_smoothing)


def check_decoding(
    src: Tensor, max_len: int, padding_token: int, start_token: int, end_token: int
) -> None:
    """The arguments of greedy decoding."""
    check_sizes(max_len=max_len)
    check_integer("padding_token", padding_token)
    check_integer("start_token", start_token)
    check_integer("end_token", end_token)
    check_integers("src", src, "S B")


def check_pairs(pairs: Sequence[Any], padding_token: int) -> None:
    """
    ### Pairs of sequences

    A batch of pairs needs a source in each, and padding that is no token of any.
    """
    check_integer("padding_token", padding_token)
    if not pairs:
        raise ValueError("`pairs` is empty; expected at least one (source, target)")
    for i, pair in enumerate(pairs):
        if not isinstance(pair, Sequence) or len(pair) != 2 or not len(pair[0]):
            raise ValueError(
                f"`pairs[{i}]` ({pair!r}) must be a pair (source, target), with a "
                "source of at least one token"
            )
        if any((torch.as_tensor(side) == padding_token).any() for side in pair):
            raise ValueError(
                f"`pairs[{i}]` holds {padding_token}, the padding token; use a token "
                "that occurs in no sequence for padding"
            )


def check_special_tokens(n_vocab: int, n_source_vocab: int, **special: int) -> None:
    """Padding, start and end are three tokens, and padding is one of the source's."""
    if len(set(special.values())) < 3 or not set(special.values()) <= set(
        range(n_vocab)
    ):
        padding, start, end = (f"`{name}` ({special[name]})" for name in special)
        raise ValueError(
            f"{padding}, {start} and {end} must be three different tokens from 0 to "
            f"{n_vocab - 1}; they are part of `n_vocab` ({n_vocab}): add 3 to the "
            "number of ordinary tokens"
        )
    if special["padding_token"] >= n_source_vocab:
        raise ValueError(
            f"`padding_token` ({special['padding_token']}) must be below "
            f"`n_source_vocab` ({n_source_vocab}): it pads sources as well"
        )


def check_padding_last(tokens: Tensor, padding_token: int, name: str) -> None:
    """In each column, `[T, B]`, padding comes after all other tokens."""
    if not has_values(tokens):
        return
    real = tokens != padding_token
    wrong = (real[1:] & ~real[:-1]).any(0)
    if wrong.any():
        raise ValueError(
            f"`{name}` have the padding token ({padding_token}) between other tokens, "
            f"in sequence {int(wrong.int().argmax())}; expected padding at one end"
        )


def check_start(tokens: Tensor, padding_token: int, start_token: int) -> None:
    """The first token of each column that is no padding is the start token."""
    if not has_values(tokens):
        return
    at = (tokens != padding_token).int().argmax(0, keepdim=True)
    first = tokens.gather(0, at)[0]
    if (first != start_token).any():
        raise ValueError(
            f"`tokens` begin with {first.tolist()}; a target begins with start_token "
            f"({start_token})"
        )


def check_plain_targets(targets: Tensor, **special: int) -> None:
    """The loss adds start and end token itself."""
    for name, token in special.items():
        if has_values(targets) and (targets == token).any():
            raise ValueError(
                f"`targets` hold {token}, the {name}; leave it out, `loss` adds it"
            )


def no_source(state: object) -> TypeError:
    """A model that reads a source needs a state that knows one."""
    return TypeError(
        f"`state` is a {type(state).__name__}, which holds no source; encode one "
        "first: state = model.encode(source), then model(tokens, state)"
    )


def check_log_probabilities(x: Tensor) -> None:
    """Log-probabilities are never positive; 16 bits may round one to a little more."""
    if has_values(x) and bool((x.detach() > 0.01).any()):
        raise ValueError(
            f"`x` holds {float(x.detach().max()):.3g}, and a log-probability is never "
            "positive; for logits pass logits.log_softmax(-1)"
        )
