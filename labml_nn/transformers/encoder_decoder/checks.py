r"""
---
title: Checks of sayings and replies
summary: What a model that replies says to padding, states and replies that cannot be.
---

These look at the numbers in a tensor, not only at its shape. Where the numbers are on a
GPU the host would have to wait for them at every step, and a graph that is being
compiled has none yet; there the checks let everything pass.
"""

from typing import TypeVar

import torch
from torch import Tensor

from labml_nn.checks import check_integers

State = TypeVar("State")


def can_look(tokens: Tensor) -> bool:
    """
    ## Whether an error may depend on the numbers
    """
    return tokens.device.type == "cpu" and not torch.compiler.is_compiling()


def check_real_lengths(name: str, lengths: Tensor, tokens: Tensor) -> None:
    """
    ## One length for each sequence, and none beyond the tensor
    """
    check_integers("lengths", lengths, "B")
    longest, batch = tokens.shape
    if len(lengths) != batch:
        raise ValueError(
            f"`lengths` are {len(lengths)} numbers and `{name}` has {batch} sequences; "
            "expected one length for each"
        )
    if can_look(lengths) and not bool(((lengths >= 0) & (lengths <= longest)).all()):
        raise ValueError(
            f"`lengths` are {lengths.tolist()}; expected 0 to {longest}, the number of "
            f"rows of `{name}`"
        )


def check_one_end(
    real: Tensor,
    counted: Tensor,
    lengths: Tensor | None,
    padding_token: int,
    name: str,
) -> None:
    """
    ## Padding stands at one end

    * `real` is where real tokens stand after a column was turned, `[T, B]`, and
      `counted` how many there are; they have to come first now
    * `lengths` is how many there should be, if somebody said so
    """
    if not can_look(real):
        return
    rows = torch.arange(len(real))[:, None]
    holes = (real != (rows < counted)).any(0)
    if holes.any():
        raise ValueError(
            f"`{name}` have the padding token ({padding_token}) between other tokens, "
            f"in sequence {int(holes.int().argmax())}; expected padding at one end"
        )
    if lengths is not None and (counted != lengths).any():
        wrong = int((counted != lengths).int().argmax())
        raise ValueError(
            f"`lengths` call the first {int(lengths[wrong])} tokens of sequence "
            f"{wrong} real, and {int(counted[wrong])} of them are not padding; where "
            "padding stands first, leave `lengths` out"
        )


def fit_learned_positions(source: Tensor, lengths: Tensor, max_len: int) -> Tensor:
    """
    ## Learned positions end

    What a batch has beyond them may be padding only, to round its size up. Returns the
    source, `[S, B]`, without that; a real token there is a `ValueError`.
    """
    if len(source) <= max_len:
        return source
    longest = max(1, int(lengths.max()))
    if longest > max_len:
        raise ValueError(
            f"`source` has {longest} tokens, and positions were learned for max_len = "
            f"{max_len}; cut it, build the model with max_len={longest}, or with "
            'positions="sinusoidal", which have no end'
        )
    return source[:max_len]


def check_state(state: object, kind: type[State]) -> State:
    """
    ## A reply has something to reply to

    Returns the state, which is one of the given kind.
    """
    if state is None:
        raise ValueError(
            "`state` is None, so there is nothing to reply to; read what was said "
            "first: state = model.encode(source), then model(tokens, state)"
        )
    if not isinstance(state, kind):
        raise TypeError(
            f"`state` is a {type(state).__name__}; expected the state of an empty "
            "reply, from `encode` or `begin`, or the one that came with the last logits"
        )
    return state


def check_reply(
    tokens: Tensor,
    *,
    batch: int,
    start_token: int,
    padding_token: int,
    begins: bool,
) -> None:
    """
    ## A reply belongs to what was said, and begins with the start

    * `tokens` are the reply, or its next piece, `[T, B]`
    * `batch` is the number of sayings
    * `begins` is whether nothing of the reply was read before
    """
    if tokens.shape[1] != batch:
        raise ValueError(
            f"`tokens` has {tokens.shape[1]} sequences, and `state` knows what was "
            f"said in {batch}; expected one reply to each"
        )
    if not begins or not can_look(tokens):
        return
    at = (tokens != padding_token).int().argmax(0, keepdim=True)
    first = tokens.gather(0, at)[0]
    if (first != start_token).any():
        raise ValueError(
            f"`tokens` begin with {first.tolist()}; a reply begins with start_token "
            f"({start_token}): `begin` makes one, and `loss` adds it"
        )


def check_targets(tokens: Tensor, targets: Tensor, **special: int) -> None:
    """
    ## Targets are replies, without special tokens

    `check_targets(tokens, targets, start_token=1, end_token=2)`; who adds these by hand
    would have the model learn to say them twice.
    """
    if tokens.dim() == 2 and tokens.shape[1] != targets.shape[1]:
        raise ValueError(
            f"`tokens` has shape {list(tokens.shape)} and `targets` "
            f"{list(targets.shape)}; expected one reply to each saying"
        )
    for name, token in special.items():
        if can_look(targets) and (targets == token).any():
            raise ValueError(
                f"`targets` hold {token}, the {name}; give replies without it: the "
                "loss adds start and end by itself"
            )
