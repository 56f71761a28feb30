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

from collections.abc import Iterable
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
