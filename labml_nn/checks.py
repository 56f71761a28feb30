r"""
---
title: Argument checks
summary: >
  Errors for arguments that cannot work, raised in constructors and at entry points: the
  value, what was expected, and a way out.
---

PyTorch finds most mistakes too, but later and in terms of its own operations. So
arguments are checked once, where they enter: in constructors, in `loss` and `generate`,
and on the command line. Inner methods such as `forward` trust their callers. For every
constructor of the library, a value of the wrong type raises a `TypeError`, a value out
of range a `ValueError`, and the error names the argument: `check_sizes(d_model=0)`
raises "`d_model` (0) must be at least 1".
"""

from collections.abc import Callable, Iterable, Sequence
from difflib import get_close_matches
from numbers import Integral, Real
from typing import Any, ClassVar, TypeVar

import torch
from torch import Tensor

from labml_nn.torch_internals import is_transformed

Entry = TypeVar("Entry")

# Python's and NumPy's integers, and the symbols that stand for a size while
# `torch.export` traces a model.
INTEGERS = (Integral, torch.SymInt)


def wrong_type(name: str, value: object, expected: str) -> TypeError:
    """
    ## Numbers and flags

    Values of the wrong type: "`heads` ('4') must be a whole number, not a str".
    """
    kind = type(value).__name__
    return TypeError(f"`{name}` ({value!r}) must be {expected}, not a {kind}")


def check_integer(name: str, value: int) -> None:
    """`True` is an integer in Python, but is not taken for one."""
    if isinstance(value, bool) or not isinstance(value, INTEGERS):
        raise wrong_type(name, value, "a whole number")


def check_number(name: str, value: float) -> None:
    """A number may also be NumPy's."""
    if isinstance(value, bool) or not isinstance(value, Real):
        raise wrong_type(name, value, "a number")


def check_bool(**flags: bool) -> None:
    """A flag is `True` or `False`. The string "no" would count as true."""
    for name, flag in flags.items():
        if not isinstance(flag, bool):
            raise wrong_type(name, flag, "True or False")


def check_probability(**probabilities: float) -> None:
    """A probability is a number from 0 to 1, both included."""
    for name, probability in probabilities.items():
        check_number(name, probability)
        if not 0 <= probability <= 1:
            raise ValueError(
                f"`{name}` ({probability}) must be from 0 to 1; 0 switches it off"
            )


def check_fraction(**fractions: float) -> None:
    """A fraction is a number of at least 0 and less than 1."""
    for name, fraction in fractions.items():
        check_number(name, fraction)
        if not 0 <= fraction < 1:
            raise ValueError(
                f"`{name}` ({fraction}) must be at least 0 and less than 1; 0 switches "
                "it off"
            )


def check_sizes(**sizes: int) -> None:
    """A size is an integer of at least 1."""
    for name, size in sizes.items():
        check_integer(name, size)
        if size < 1:
            raise ValueError(f"`{name}` ({size}) must be at least 1")


def check_same_width(**widths: int | None) -> None:
    """Widths of submodules equal the first; `None` stands for an unknown one."""
    (first, expected), *others = widths.items()
    for name, width in others:
        if expected is not None and width is not None and width != expected:
            raise ValueError(
                f"`{name}` has width {width}, but `{first}` is {expected}; make both "
                f"{expected}"
            )


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


def check_divisible(**sizes: int) -> None:
    """The first of two sizes is a multiple of the second."""
    check_sizes(**sizes)
    (name, size), (divisor_name, divisor) = sizes.items()
    if size % divisor:
        raise ValueError(
            f"`{name}` ({size}) must be divisible by `{divisor_name}` ({divisor}); "
            f"try {size + divisor - size % divisor}"
        )


def check_heads(heads: int, d_model: int) -> None:
    r"""The features of a head, $d_k = C / H$, must be a whole number."""
    check_divisible(d_model=d_model, heads=heads)


def check_attention(
    heads: int,
    d_model: int,
    dropout_prob: float,
    d_k: int | None,
    d_v: int | None,
) -> None:
    """`None` is the default width of a head, for which `heads` divides `d_model`."""
    check_probability(dropout_prob=dropout_prob)
    check_sizes(heads=heads, d_model=d_model)
    if d_k is None or d_v is None:
        check_heads(heads, d_model)
    widths = {"d_k": d_k, "d_v": d_v}
    check_sizes(**{name: size for name, size in widths.items() if size is not None})


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


def check_known(what: str, name: str, known: Iterable[str]) -> None:
    """
    ## Names

    `check_known("model", "fedback", ["elman", "feedback"])` suggests `feedback`.
    """
    names = list(known)
    listed = f"known: {', '.join(names)}"
    if not isinstance(name, str):
        raise TypeError(
            f"the {what} ({name!r}) must be a string, not a {type(name).__name__}; "
            f"{listed}"
        )
    if name not in names:
        close = get_close_matches(name.lower(), names, n=1)
        meant = f"did you mean {close[0]!r}? " if close else ""
        raise ValueError(f"there is no {what} {name!r}; {meant}{listed}")


class Table(dict[str, Entry]):
    """Entries by name, each with a `summary`, which `print` shows beside its name."""

    what: ClassVar[str] = "entry"

    def __missing__(self, name: str) -> Entry:
        check_known(self.what, name, self)
        raise KeyError(name)

    def __repr__(self) -> str:
        width, known = max(map(len, self)) + 2, dict[str, Any](self).items()
        return "\n".join(f"{name:<{width}}{entry.summary}" for name, entry in known)


def check_integers(name: str, numbers: Tensor, axes: str) -> None:
    """
    ## Tensors of integers

    Tokens and lengths have 32 or 64 bits, the types with which PyTorch looks up
    embeddings. `axes` names the expected axes, as in
    `check_integers("tokens", tokens, "T B")`; the first must not be empty.
    """
    if not isinstance(numbers, Tensor):
        kind = type(numbers).__name__
        raise TypeError(
            f"`{name}` is a {kind}; expected a tensor of integers, such as "
            f"torch.as_tensor({name})"
        )
    if numbers.dtype not in (torch.int64, torch.int32):
        raise TypeError(
            f"`{name}` has dtype {numbers.dtype}; expected integers: try {name}.long()"
        )
    letters = axes.split()
    if numbers.dim() != len(letters):
        hint = f"; for one sequence use {name}[:, None]" if numbers.dim() == 1 else ""
        raise ValueError(
            f"`{name}` has shape {list(numbers.shape)}; expected "
            f"[{', '.join(letters)}]{hint}"
        )
    if numbers.shape[0] == 0:
        axis = "batch" if letters[0] == "B" else "sequence"
        raise ValueError(
            f"`{name}`: the {axis} is empty; expected {letters[0]} to be at least 1"
        )


def check_last_axes(x: Tensor, *sizes: int) -> None:
    """Features are on the last axes; one feature would be broadcast to all."""
    if x.shape[-len(sizes) :] != sizes:
        axes = ", ".join(map(str, sizes))
        raise ValueError(
            f"`x` has shape {list(x.shape)}; expected [..., {axes}], as the module was "
            "built"
        )


def check_tokens(tokens: Tensor, n_vocab: int, *, name: str = "tokens") -> None:
    """Tokens of a batch are `[T, B]`, not empty, and in the vocabulary."""
    check_integers(name, tokens, "T B")
    check_vocabulary(tokens, n_vocab, name=name)


def check_state(state: Any, kind: type, tokens: Tensor) -> None:
    """
    The state of a language model is what its last call returned, for the same batch;
    `None` at the beginning. States have a `batch_size`.
    """
    if state is None:
        return
    if not isinstance(state, kind):
        raise TypeError(
            f"`state` is a {type(state).__name__}; expected what the model returned "
            f"for the tokens before, a {kind.__name__}, or None at the beginning"
        )
    if torch.compiler.is_compiling():  # PyTorch 2.8 traces no property of a tuple
        return
    batch = getattr(state, "batch_size", None)
    if batch is not None and batch != tokens.shape[1]:
        raise ValueError(
            f"`state` is that of a batch of {batch}, and `tokens` has the shape "
            f"{list(tokens.shape)}; expected the same sequences, [T, {batch}], or None "
            "to begin"
        )


def has_values(x: Tensor) -> bool:
    """
    On a GPU, reading a value would stall the host. While a graph is compiled and under
    the transforms of `torch.func`, such as `vmap`, there is no single value to read.
    """
    return (
        x.device.type == "cpu"
        and not torch.compiler.is_compiling()
        and not is_transformed()
    )


def check_vocabulary(tokens: Tensor, n_vocab: int, *, name: str = "tokens") -> None:
    """
    Tokens, in a tensor of any shape, are from 0 to `n_vocab - 1`. Where values cannot
    be read, the embedding's own check remains.
    """
    if not has_values(tokens) or not tokens.numel():
        return
    lowest, highest = (int(bound) for bound in tokens.aminmax())
    if lowest < 0 or highest >= n_vocab:
        wrong = lowest if lowest < 0 else highest
        raise ValueError(
            f"`{name}` holds {wrong}; expected numbers from 0 to {n_vocab - 1}, below "
            f"n_vocab ({n_vocab}): was the text encoded with another vocabulary?"
        )


def check_lengths(
    lengths: Tensor, max_len: int | None, *, shortest: int = 0, count: int | None = None
) -> None:
    """`count` lengths, from `shortest` to `max_len`; `None` is no limit."""
    check_integers("lengths", lengths, "B")
    if count is not None and lengths.shape[0] != count:
        raise ValueError(
            f"`lengths` has {lengths.shape[0]} numbers for {count} sequences; expected "
            "one for each, [B]"
        )
    if not has_values(lengths):
        return
    least, most = (int(bound) for bound in lengths.aminmax())
    limit = most if max_len is None else max_len
    if least < shortest or most > limit:
        raise ValueError(
            f"`lengths` go from {least} to {most}; expected {shortest} to max_len "
            f"({limit}): cut the sequences or raise `max_len`"
        )


def check_sequence(x: Tensor, state: Tensor | None, units: int, *layers: int) -> None:
    """
    ## Inputs and states of recurrent layers

    Inputs are `[T, B, C]`, at least one step. A state is `[B, N]`, or `[L, B, N]` for
    `layers` layers; `None` is the initial one. A smaller state would be broadcast.
    """
    if x.dim() != 3 or len(x) == 0:
        hint = "; for one sequence use x[:, None]" if x.dim() == 2 else ""
        raise ValueError(
            f"`x` has shape {list(x.shape)}; expected [T, B, C] with at least one "
            f"step{hint}"
        )
    if state is not None and tuple(state.shape) != (*layers, x.shape[1], units):
        axes = "[L, B, N]" if layers else "[B, N]"
        raise ValueError(
            f"`state` has shape {list(state.shape)}; expected "
            f"{[*layers, x.shape[1], units]}, {axes}: pass what was returned for the "
            "chunk before, or None at the start"
        )


def check_log_probabilities(x: Tensor) -> None:
    """Log-probabilities are never positive; 16 bits may round one to a little more."""
    if has_values(x) and bool((x.detach() > 0.01).any()):
        raise ValueError(
            f"`x` holds {float(x.detach().max()):.3g}, and a log-probability is never "
            "positive; for logits pass logits.log_softmax(-1)"
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
        axes = zip(mask.shape, allowed, strict=False)
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
