r"""
---
title: Argument checks
summary: >
  Errors for arguments that cannot work, raised in constructors and at entry points: the
  value, what was expected, and a way out.
---

PyTorch finds most mistakes too, but later and in terms of its own operations. So
arguments are checked once, where they enter: in constructors, in `loss` and `generate`,
and on the command line. Inner methods such as `forward` trust their callers. A value of
the wrong type raises a `TypeError`, a value out of range a `ValueError`, and the error
names the argument: `check_sizes(d_model=0)` raises "`d_model` (0) must be at least 1".
"""

from collections.abc import Iterable
from difflib import get_close_matches
from numbers import Integral, Real

import torch
from torch import Tensor

# Python's and NumPy's integers, and the symbols that stand for a size while
# `torch.export` traces a model.
INTEGERS = (Integral, torch.SymInt)


def check_sizes(**sizes: int) -> None:
    """
    ## Sizes

    A size is an integer of at least 1. `True` is an integer in Python, but not a size.
    """
    for name, size in sizes.items():
        if isinstance(size, bool) or not isinstance(size, INTEGERS):
            kind = type(size).__name__
            raise TypeError(f"`{name}` ({size!r}) must be a whole number, not a {kind}")
        if size < 1:
            raise ValueError(f"`{name}` ({size}) must be at least 1")


def check_same_width(**widths: int | None) -> None:
    """
    ## Widths of submodules

    All widths must be equal to the first; `None` stands for an unknown one.
    """
    (first, expected), *others = widths.items()
    for name, width in others:
        if expected is not None and width is not None and width != expected:
            raise ValueError(
                f"`{name}` has width {width}, but `{first}` is {expected}; make both "
                f"{expected}"
            )


def check_heads(heads: int, d_model: int) -> None:
    r"""
    ## Heads

    The features of a head, $d_k = C / H$, must be a whole number.
    """
    check_sizes(heads=heads, d_model=d_model)
    if d_model % heads:
        below = d_model - d_model % heads
        widths = f"{below} or {below + heads}" if below else f"{heads}"
        raise ValueError(
            f"`d_model` ({d_model}) must be divisible by `heads` ({heads}); "
            f"try {widths}"
        )


def check_probability(**probabilities: float) -> None:
    """
    ## Probabilities

    A probability is a number from 0 to 1, both included.
    """
    for name, probability in probabilities.items():
        if isinstance(probability, bool) or not isinstance(probability, Real):
            kind = type(probability).__name__
            raise TypeError(
                f"`{name}` ({probability!r}) must be a number from 0 to 1, not a {kind}"
            )
        if not 0 <= probability <= 1:
            raise ValueError(f"`{name}` ({probability}) must be from 0 to 1")


def check_bool(**flags: bool) -> None:
    """
    ## Flags

    A flag is `True` or `False`. The string "no" would count as true.
    """
    for name, flag in flags.items():
        if not isinstance(flag, bool):
            kind = type(flag).__name__
            raise TypeError(f"`{name}` ({flag!r}) must be True or False, not a {kind}")


def check_known(what: str, name: str, known: Iterable[str]) -> None:
    """
    ## Names

    `check_known("model", "fedback", ["elman", "feedback"])` suggests `feedback`.
    """
    names = list(known)
    listed = f"known: {', '.join(names)}"
    if not isinstance(name, str):
        kind = type(name).__name__
        raise TypeError(
            f"the {what} ({name!r}) must be a string, not a {kind}; {listed}"
        )
    if name not in names:
        close = get_close_matches(name, names, n=1)
        meant = f"did you mean {close[0]!r}? " if close else ""
        raise ValueError(f"there is no {what} {name!r}; {meant}{listed}")


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


def check_tokens(tokens: Tensor, n_vocab: int, *, name: str = "tokens") -> None:
    """
    ## Tokens

    A batch of sequences is `[T, B]`, not empty, and its tokens are in the vocabulary.
    """
    check_integers(name, tokens, "T B")
    check_vocabulary(tokens, n_vocab, name=name)


def has_values(x: Tensor) -> bool:
    """
    ## Values that can be read

    On a GPU, reading a value would stall the host. While a graph is compiled and under
    the transforms of `torch.func`, such as `vmap`, there is no single value to read.
    """
    return (
        x.device.type == "cpu"
        and not torch.compiler.is_compiling()
        and not torch._C._are_functorch_transforms_active()
    )


def check_vocabulary(tokens: Tensor, n_vocab: int, *, name: str = "tokens") -> None:
    """
    ## Vocabulary

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


def check_lengths(lengths: Tensor, max_len: int | None) -> None:
    """
    ## Lengths

    Lengths of sequences are `[B]`, from 0 to `max_len` (`None` for no limit).
    """
    check_integers("lengths", lengths, "B")
    if torch.compiler.is_compiling() or lengths.is_meta:
        return
    shortest, longest = (int(bound) for bound in lengths.aminmax())
    limit = longest if max_len is None else max_len
    if shortest < 0 or longest > limit:
        raise ValueError(
            f"`lengths` go from {shortest} to {longest}; expected 0 to max_len "
            f"({limit}): cut the sequences or raise `max_len`"
        )


def check_prompt_lengths(lengths: Tensor, prompt: Tensor) -> None:
    """
    ## Lengths of prompts

    There is one length for each prompt `[T, B]`, and no prompt is empty.
    """
    check_lengths(lengths, prompt.shape[0])
    if lengths.shape[0] != prompt.shape[1]:
        raise ValueError(
            f"`lengths` has {lengths.shape[0]} numbers for {prompt.shape[1]} prompts; "
            "expected one for each, [B]"
        )
    if not lengths.is_meta and int(lengths.min()) < 1:
        raise ValueError("`lengths` holds 0: a prompt is empty; expected at least 1")
