r"""
---
title: Batches of pairs
summary: >
  Sentences have different lengths and tensors do not. How pairs of a saying and its
  reply become a batch, how they are shifted for training, and why neither the side of
  the padding nor the length of it may matter.
paper: https://arxiv.org/abs/1409.3215
---

Here are two pairs from *Romeo and Juliet*, something said and the reply to it:

```text
Good-morrow, cousin.   →  Is the day so young?
But new struck nine.   →  Ay me! sad hours seem long.
```

A model learns from many such pairs at once, and wants them in one tensor with a column
for each. So short columns are filled up with a token that means nothing, the
**padding**. It can stand last or first:

```text
padding last           padding first

B u t . . .            . . . B u t
W h y ? . .            . . W h y ?
```

(The columns are drawn as rows.) Recurrent networks like padding first: their last step
is then the last letter of every column. To attention it is all one, if two things are
right. Nobody attends to padding, and positions are counted from the first *real* token.
On this page both follow from one move: padding that stands first is carried to the end
before anything else happens. So padding never changes a result, and tests hold the
model to that.

| Symbol | Code | Shape | Meaning |
|:--|:--|:--|:--|
| $x$ | `source` | `[S, B]` | what was said |
| $y$ | `target` | `[T, B]` | the reply |
| $n$ | `lengths` | `[B]` | real tokens of each sequence |
| $M$ | `source_mask`, `target_mask` | `[1, S, B]` | `True` where a real token stands |
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from labml_nn.checks import check_integers, check_sizes
from labml_nn.transformers.encoder_decoder.checks import (
    check_one_end,
    check_real_lengths,
)


class Batch(NamedTuple):
    """
    ## A batch

    Padded tokens, how many of them are real, and where those stand. Attention takes the
    masks as they are.
    """

    source: Int[Tensor, "S B"]
    target: Int[Tensor, "T B"]
    source_lengths: Int[Tensor, " B"]
    target_lengths: Int[Tensor, " B"]
    source_mask: Bool[Tensor, "1 S B"]
    target_mask: Bool[Tensor, "1 T B"]

    def to(self, device: torch.device | str) -> "Batch":
        """The same batch on another device."""
        return Batch(*(part.to(device) for part in self))


def collate(
    pairs: Iterable[Sequence[Sequence[int] | Int[Tensor, "_"]]],
    padding_token: int,
    *,
    pad: str = "last",
    reverse_source: bool = False,
    multiple_of: int = 1,
) -> Batch:
    r"""
    ## From pairs to a batch

    * `pairs` are pairs (said, reply), each of the two a list or a tensor of tokens.
      Replies come without special tokens; `shift` adds them. A reply may be empty
    * `padding_token` fills up, and stands in none of the sequences
    * `pad` is `"last"` or `"first"`
    * `reverse_source` turns round what was said, not the reply
    * `multiple_of` rounds $S$ and $T$ up. A compiled model is compiled for each shape
      that it meets, and so it meets fewer

    Why turn the source round? Sutskever et al. ([-@sutskever2014sequence, §3.3]) read
    it with a recurrent network, which has the last word freshest in mind, and wrote the
    translation with another. Reversed, the *first* word of the source comes last, next
    to the first word of the translation; their BLEU score rose from 25.9 to 30.6.
    Attention reaches every position in one step and positions say which is which, so to
    a transformer it is all one. (Four small models learned to repeat eight letters, and
    four to repeat them from the reversed source: after 240 steps both had losses from
    0.01 to 0.05.) Turn round whatever the model hears, or nothing: it cannot know.

    Returns a `Batch`. Raises `ValueError` for no pairs, for something that is not a
    pair, for a source without tokens, for padding in a sequence, and for another word
    than `"last"` or `"first"`; `TypeError` for tokens that are not integers.
    """
    check_sizes(multiple_of=multiple_of)
    if pad not in ("last", "first"):
        raise ValueError(f'`pad` ({pad!r}) must be "last" or "first"')
    sources, targets = [], []
    for i, pair in enumerate(pairs):
        if len(pair) != 2:
            raise ValueError(
                f"`pairs[{i}]` has {len(pair)} parts; expected two, (said, reply)"
            )
        said = _sequence(f"pairs[{i}][0]", pair[0], padding_token)
        if not len(said):
            raise ValueError(
                f"`pairs[{i}][0]` is empty; expected something that was said, at least "
                "one token"
            )
        sources.append(said.flip(0) if reverse_source else said)
        targets.append(_sequence(f"pairs[{i}][1]", pair[1], padding_token))
    if not sources:
        raise ValueError("`pairs` is empty; expected at least one pair (said, reply)")

    # The two sides are treated alike from here on.
    (source, source_lengths), (target, target_lengths) = (
        _fill(side, padding_token, pad == "first", multiple_of)
        for side in (sources, targets)
    )
    source_mask, target_mask = (
        (tokens != padding_token).unsqueeze(0) for tokens in (source, target)
    )
    return Batch(
        source, target, source_lengths, target_lengths, source_mask, target_mask
    )


def _sequence(name: str, tokens: Sequence[int] | Tensor, padding_token: int) -> Tensor:
    # An empty list would become a tensor of floating-point numbers.
    if not len(tokens):
        return torch.empty(0, dtype=torch.long)
    sequence = torch.as_tensor(tokens)
    check_integers(name, sequence, "T")
    padding = sequence == padding_token
    if padding.any():
        raise ValueError(
            f"`{name}` holds {padding_token}, the padding token, at position "
            f"{int(padding.int().argmax())}; the token that fills up must stand for "
            "nothing else"
        )
    return sequence.long()


def _fill(
    sequences: Sequence[Tensor], padding_token: int, first: bool, multiple_of: int
) -> tuple[Tensor, Tensor]:
    # At least one row is left, even if all replies are empty.
    longest = max(1, *(len(sequence) for sequence in sequences))
    size = -(-longest // multiple_of) * multiple_of
    padded = sequences[0].new_full((size, len(sequences)), padding_token)
    for column, sequence in zip(padded.unbind(1), sequences, strict=True):
        start = size - len(sequence) if first else 0
        column[start : start + len(sequence)] = sequence
    lengths = [len(sequence) for sequence in sequences]
    return padded, torch.tensor(lengths, device=padded.device)


def to_front(
    tokens: Int[Tensor, "T B"],
    padding_token: int,
    lengths: Int[Tensor, " B"] | None = None,
    *,
    name: str = "tokens",
) -> tuple[Int[Tensor, "T B"], Int[Tensor, " B"]]:
    r"""
    ## Padding goes to the end

    $$x'_{tb} = x_{(t + f_b) \bmod T, \, b}$$

    where $f_b$ is the position of the first real token of sequence $b$. Each column is
    turned like a ring, until that token stands at position 0. What was padding in front
    is padding behind; a column that was padded last stays as it was.

    After this a sequence is described by its length alone, for the mask and for the
    positions. Without it position $p$ of a table of positions would mean another place
    in each sequence, and a model trained on one side would be lost on the other.

    * `tokens` have shape `[T, B]`, padded at one side
    * `padding_token` is the token that fills up
    * `lengths`, if given, says how many tokens of each column are real, `[B]`. Those
      come first then, and may be followed by anything
    * `name` is what errors call the tokens

    Returns the tokens, and the number of real ones in each column, `[B]`. Raises
    `ValueError` if padding stands between real tokens, on a processor; a GPU or a
    compiled graph would have to wait to ask.
    """
    check_integers(name, tokens, "T B")
    rows = torch.arange(len(tokens), device=tokens.device)[:, None]
    if lengths is not None:
        check_real_lengths(name, lengths, tokens)
        tokens = tokens.masked_fill(rows >= lengths, padding_token)
    real = tokens != padding_token
    counted = real.sum(0)

    # The first of the largest numbers is the first real token; a column of nothing but
    # padding gives 0 and stays.
    first = real.int().argmax(0)
    turned = tokens.gather(0, (rows + first) % len(tokens))
    check_one_end(turned != padding_token, counted, lengths, padding_token, name)
    return turned, counted


def shift(
    target: Int[Tensor, "T B"],
    lengths: Int[Tensor, " B"],
    *,
    padding_token: int,
    start_token: int,
    end_token: int,
) -> tuple[Int[Tensor, "T+1 B"], Int[Tensor, "T+1 B"]]:
    r"""
    ## Shifted by one

    In training the decoder is given the true reply, and asked at every position for the
    token that follows. The first token needs something to follow, and the last one
    something that follows it, or the model would never learn to stop. So the reply gets
    a *start* before it where it is read, and an *end* after it where it is asked for:

    ```text
    read    start  w  h  y  ?    .
    asked   w      h  y  ?  end  .
    ```

    Both have one row more than the reply. The dot is padding; nobody is asked for it.
    Where the reply ends is another row in each column, so the end is put in by number.

    * `target` are replies without special tokens, padded last, `[T, B]`
    * `lengths` says how many tokens of each are real, `[B]`

    Returns what the decoder reads and what it is asked for, `[T + 1, B]` each. Raises
    `ValueError` for lengths that do not fit.
    """
    check_integers("target", target, "T B")
    check_real_lengths("target", lengths, target)
    read = torch.cat([torch.full_like(target[:1], start_token), target])
    asked = torch.cat([target, torch.full_like(target[:1], padding_token)])
    end = torch.full_like(asked[:1], end_token)
    return read, asked.scatter(0, lengths.long()[None], end)


# ## Differences from the paper
#
# Sutskever et al. ([-@sutskever2014sequence]) read with one recurrent network and write
# with another. Their words end in an end-of-sentence token, as here, which the decoder
# also reads first; here there is a start token for that.
#
# ## Exercises
#
# **1.** A batch of random pairs wastes room on padding. How much, if lengths are
# uniform from 1 to 100 and a batch has 32 sequences? What helps?
#
# <details><summary>Answer</summary>
#
# A column holds 50.5 tokens on average and is as long as the longest of 32, about 97.4:
# nearly half of the batch is padding. Sort pairs by length, cut the sorted list into
# batches, and shuffle the *batches*:
#
# ```python
# import torch
# from labml_nn.transformers.encoder_decoder.batches import collate
#
# torch.manual_seed(1)
# sizes = torch.randint(1, 101, (1600,)).tolist()
#
# def waste(order):
#     pairs = [([1] * size, [1]) for size in order]
#     batches = [collate(pairs[i : i + 32], 0) for i in range(0, len(pairs), 32)]
#     tokens = sum(batch.source.numel() for batch in batches)
#     return 1 - sum(order) / tokens
#
# assert 0.45 < waste(sizes) < 0.51
# assert waste(sorted(sizes)) < 0.03
# ```
#
# </details>
#
# **2.** Padding stands first in this batch. Where would a model put the word *but* that
# numbers rows from the top, and where does it stand after `to_front`?
#
# <details><summary>Answer</summary>
#
# At row 3 in company, and at row 0 alone. The same word, said by the same person, would
# have another position vector, only because somebody else in the batch said more. In
# front it always stands at 0:
#
# ```python
# from labml_nn.transformers.encoder_decoder.batches import collate, to_front
#
# def encode(text):
#     return [ord(letter) for letter in text]
#
# pairs = [(encode("but"), []), (encode("struck"), [])]
# batch = collate(pairs, 0, pad="first")
# assert batch.source[:, 0].tolist() == [0, 0, 0, *encode("but")]
# source, lengths = to_front(batch.source, 0)
# assert source[:, 0].tolist() == [*encode("but"), 0, 0, 0]
# assert lengths.tolist() == [3, 6]
# ```
#
# </details>
#
# **3.** Somebody makes both rows of `shift` from one: `text = [start, *reply, end]`,
# padded, then `read = text[:-1]` and `asked = text[1:]`. It is shorter, and many
# tutorials do it. What is different, and does it matter?
#
# <details><summary>Answer</summary>
#
# The end token of a reply that is not the longest is now *read* as well, at a position
# whose answer would be padding. That is not asked for, and causality keeps it from the
# positions that are, so the loss is the same:
#
# ```python
# import torch
# from labml_nn.transformers.encoder_decoder.batches import shift
#
# start, end, padding = 1, 2, 0
# target = torch.tensor([[7, 8], [9, padding]])
# read, asked = shift(
#     target, torch.tensor([2, 1]), padding_token=0, start_token=1, end_token=2
# )
# text = torch.tensor([[start, start], [7, 8], [9, end], [end, padding]])
# assert torch.equal(asked, text[1:])
# counted = asked != padding
# assert torch.equal(read[counted], text[:-1][counted])
# assert read[2, 1] == padding and text[2, 1] == end
# ```
#
# </details>
