r"""
---
title: "Speech and reply: pairs for the encoder–decoder"
summary: >
  How the speeches of a play become pairs of a source and a target sequence, how long
  ones are truncated, and how batches with little padding are formed.
---

An [encoder–decoder](../transformers/encoder_decoder.py) learns from pairs of sequences.
In a play each speech answers the one before it:

| Source | Target |
|:--|:--|
| BENVOLIO: Good-morrow, cousin. | ROMEO: Is the day so young? |
| ROMEO: Is the day so young? | BENVOLIO: But new struck nine. |

The names of the speakers stay, so that the decoder first predicts who speaks and then
what this person says. Some pairs are not conversations, such as the first speech of a
scene and the last one of the scene before. The loss counts the names too; compare it
only with losses of the same task. In a text without speeches each line is taken as the
reply to the line before it.

| Symbol | Code | Shape | Meaning |
|:--|:--|:--|:--|
| $x$ | `tokens` | `[S, B]` | source, padded at the end |
| $y$ | `targets` | `[T, B]` | reply, padded at the end |

```python
from labml_nn.experiments.data import Vocabulary
from labml_nn.experiments.replies import Replies

text = "BENVOLIO:\nBut new struck nine.\n\nROMEO:\nSad hours seem long.\n"
vocabulary = Vocabulary.from_text(text)
batch = Replies(text, vocabulary, batch_size=1, seq_len=64, seed=1).batch(0)
assert vocabulary.decode(batch.tokens[:, 0]) == "BENVOLIO:\nBut new struck nine."
assert batch.targets.shape == (27, 1)  # [T, B]
assert batch.count == 27 + 1  # and the end-of-sequence token
```
"""

import logging
import re
from collections.abc import Iterator, Sequence
from itertools import pairwise

import torch
from jaxtyping import Int
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from labml_nn.checks import check_sizes
from labml_nn.experiments.data import Examples, Vocabulary, at_most, random_numbers

__all__ = ["Replies", "pairs_of", "reply_pieces", "truncate_reply", "truncate_source"]

Pair = tuple[str, str]
log = logging.getLogger(__name__)


def pairs_of(text: str) -> list[Pair]:
    """
    ## Pairs of a text

    `text` is one split: no pair has one half in training and the other in validation.
    Raises `ValueError` if there are fewer than two speeches or lines.
    """
    parts = _speeches(text) or [line for line in text.split("\n") if line.strip()]
    if len(parts) < 2:
        raise ValueError(
            f"the text has {len(parts)} speeches or lines in this split; expected at "
            "least 2, a source and a reply: take a longer text"
        )
    return list(pairwise(parts))


def _speeches(text: str) -> list[str]:
    # All paragraphs, if most of them begin with a name and a colon; else none.
    parts = [part.strip("\n") for part in re.split(r"\n\s*\n", text) if part.strip()]
    named = sum(part.split("\n", 1)[0].endswith(":") for part in parts)
    return parts if 2 * named > len(parts) > 1 else []


def truncate_reply(speech: str, longest: int) -> str:
    """
    The beginning of a long reply, at most `longest` characters. An end-of-sequence
    token follows it, so it is cut after a whole line where possible: otherwise the
    model would learn that words may end anywhere.
    """
    if len(speech) <= longest:
        return speech
    end = speech.rfind("\n", 0, longest + 1)
    return speech[: end if end > 0 else longest]


def truncate_source(speech: str, longest: int) -> str:
    """
    The end of a long source, which a reply answers: the name, and the last lines that
    fit into `longest` characters.
    """
    if len(speech) <= longest:
        return speech
    name, *lines = speech.split("\n")
    room, kept = longest - len(name), 0
    for line in reversed(lines):
        room -= len(line) + 1
        if room < 0:
            break
        kept += 1
    return "\n".join([name, *lines[-kept:]]) if kept else speech[-longest:]


class Replies:
    r"""
    ## Training batches

    * `text` is the training split
    * `vocabulary` has all its characters; the token after the last one is padding
    * `batch_size` is $B$, over all processes
    * `seq_len` is the longest source and the longest reply
    * `seed` selects the sequence of batches
    """

    def __init__(
        self,
        text: str,
        vocabulary: Vocabulary,
        *,
        batch_size: int,
        seq_len: int,
        seed: int,
    ) -> None:
        check_sizes(batch_size=batch_size, seq_len=seq_len)
        if not _speeches(text):
            log.warning(
                "The text has no speeches (a name with a colon, and lines below it): "
                "each line is taken as the reply to the line before it"
            )
        self.pairs = pairs_of(text)
        self.vocabulary, self.seed = vocabulary, seed
        self.batch_size, self.seq_len = batch_size, seq_len
        self._sizes = _sizes(self.pairs, seq_len)
        self._epoch: int | None = None
        self._batches = torch.empty(0)

    def batch(self, step: int, seq_len: int | None = None) -> Examples:
        r"""
        Batch number `step`, a function of the seed and of `step`. In an epoch of
        $\lfloor P / B \rfloor$ batches no pair of the $P$ comes twice.
        """
        longest = at_most(self.seq_len, seq_len)
        in_epoch = max(1, len(self.pairs) // self.batch_size)
        epoch, place = divmod(step, in_epoch)
        if epoch != self._epoch:
            self._batches, self._epoch = self._order(epoch, in_epoch), epoch
        chosen = [self.pairs[i] for i in self._batches[place].tolist()]
        return _examples(chosen, self.vocabulary, longest)

    def _order(self, epoch: int, in_epoch: int) -> Int[Tensor, "_ B"]:
        """
        ### Batches of similar lengths

        A batch is as long as its longest speech, and half of the speeches have at most
        88 characters. In batches of 32 random pairs of at most 256 characters 55 % of
        the tokens are padding. So the shuffled pairs are divided into pools of 16
        batches, sorted by length within a pool, cut into batches, and these shuffled:
        32 % is padding, and neighbours still change with every epoch.
        """
        random = random_numbers(self.seed, epoch)
        pairs = random.permutation(len(self.pairs))
        size = in_epoch * self.batch_size
        order = torch.from_numpy(pairs).repeat(-(-size // len(pairs)))[:size]
        pools = torch.split(order, 16 * self.batch_size)
        by_length = torch.cat(
            [pool[self._sizes[pool].argsort(stable=True)] for pool in pools]
        )
        batches = by_length.reshape(in_epoch, self.batch_size)
        return batches[torch.from_numpy(random.permutation(in_epoch))]


def reply_pieces(
    text: str, vocabulary: Vocabulary, *, seq_len: int, batch_size: int
) -> Iterator[Examples]:
    """
    ## Validation batches

    All pairs of the split once, sorted by length. Their losses are weighted with their
    `count`s.
    """
    check_sizes(seq_len=seq_len, batch_size=batch_size)
    pairs = pairs_of(text)
    order = _sizes(pairs, seq_len).argsort(stable=True)
    return (
        _examples([pairs[i] for i in chosen.tolist()], vocabulary, seq_len)
        for chosen in torch.split(order, batch_size)
    )


def _sizes(pairs: Sequence[Pair], longest: int) -> Tensor:
    return torch.tensor([min(longest, max(map(len, pair))) for pair in pairs])


def _examples(pairs: Sequence[Pair], vocabulary: Vocabulary, longest: int) -> Examples:
    tokens = _padded([truncate_source(said, longest) for said, _ in pairs], vocabulary)
    targets = _padded(
        [truncate_reply(reply, longest) for _, reply in pairs], vocabulary
    )
    return Examples.of(tokens, targets, padding_token=len(vocabulary))


def _padded(speeches: Sequence[str], vocabulary: Vocabulary) -> Tensor:
    encoded = vocabulary.encode("".join(speeches))
    columns = torch.split(encoded, [len(speech) for speech in speeches])
    return pad_sequence(list(columns), padding_value=len(vocabulary))
