r"""
---
title: What was said, and the reply
summary: >
  A play is a conversation. How its speeches become pairs, how long ones are cut without
  hurting, and how batches are made that are not mostly padding.
---

A model that [replies](../../transformers/encoder_decoder/__init__.py) learns from
pairs: this was said, and that was the answer. A play is full of them. Each speech is
the answer to the one before it, and is answered by the next:

```text
BENVOLIO:               said
Good-morrow, cousin.      │
                          ▼
ROMEO:                  reply, said
Is the day so young?              │
                                  ▼
BENVOLIO:                       reply
But new struck nine.
```

**The names stay.** They could be cut off, and the model would then reply for nobody in
particular. With its name a speech says who answers whom; the decoder first decides who
speaks and then how that person talks. And a reply has the same form as what it replies
to, so that it can be given back as the next thing said: the model then talks to itself,
for as long as one cares to listen.

There is a price. Some pairs are none: the first speech of a scene does not answer the
last one of the scene before. And the loss counts names as well, which are long and
easily guessed after their first letters. So it must not be compared with the loss of a
model that continues texts.

**Other texts.** If most paragraphs of a text do not begin with a name and a colon, each
line is taken as a reply to the line before it.

| Symbol | Code | Shape | Meaning |
|:--|:--|:--|:--|
| $x$ | `tokens` | `[S, B]` | what was said, padded last |
| $y$ | `targets` | `[T, B]` | the replies, padded last |
| | `seq_len` | | $S$ and $T$ at most |
| $k$ | `step` | | the number of a batch |
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
from labml_nn.experiments.data.examples import Examples
from labml_nn.experiments.data.vocabulary import Vocabulary
from labml_nn.experiments.data.windows import at_most, check_not_negative, draws

__all__ = ["Replies", "cut_reply", "cut_said", "pairs_of", "reply_pieces"]

Pair = tuple[str, str]
log = logging.getLogger(__name__)


def pairs_of(text: str) -> list[Pair]:
    """
    ## Pairs of a text

    * `text` is one split. A pair never has one half in training and the other in
      validation

    Returns pairs (said, reply), each speech with its name. Raises `ValueError` if there
    are not even two speeches.
    """
    parts = _speeches(text) or [line for line in text.split("\n") if line.strip()]
    if len(parts) < 2:
        raise ValueError(
            f"the text has {len(parts)} speeches or lines; expected at least 2, one to "
            "be a reply to the other: take a longer text, or a larger share of it "
            "(`validation_share`)"
        )
    return list(pairwise(parts))


def _speeches(text: str) -> list[str]:
    # All paragraphs, if most of them begin with a name; none otherwise.
    parts = [part.strip("\n") for part in re.split(r"\n\s*\n", text) if part.strip()]
    named = sum(part.split("\n", 1)[0].endswith(":") for part in parts)
    return parts if 2 * named > len(parts) > 1 else []


def cut_reply(speech: str, longest: int) -> str:
    """
    ## The beginning of a long reply

    A reply is followed by an end token, and the model is asked for it. If replies were
    cut in the middle of a word, it would learn that words may end there. So whole lines
    are kept, as many as fit. The model then learns to be brief, but not to stammer.

    Returns at most `longest` characters. If not even the first line fits, it is cut
    after all.
    """
    if len(speech) <= longest:
        return speech
    end = speech.rfind("\n", 0, longest + 1)
    return speech[: end if end > 0 else longest]


def cut_said(speech: str, longest: int) -> str:
    """
    ## The end of what was said

    One answers to what was said last. So the name stays and, of the lines below it, the
    last ones that fit.

    Returns at most `longest` characters. If the name and a line do not fit together, it
    is the end of the speech.
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
    ## Replies to train on

    * `text` is the split to learn from
    * `vocabulary` has all its characters. The number behind the last of them is padding
    * `batch_size` is the number of pairs in a batch, $B$, over all processes
    * `seq_len` is how long a speech may be, on either side
    * `seed` makes other batches if it is another

    Raises `ValueError` for sizes below one and for a text without pairs.

    ```python
    from labml_nn.experiments.data.replies import Replies
    from labml_nn.experiments.data.vocabulary import Vocabulary

    text = "BENVOLIO:\nBut new struck nine.\n\nROMEO:\nSad hours seem long.\n"
    vocabulary = Vocabulary.from_text(text)
    replies = Replies(text, vocabulary, batch_size=1, seq_len=64, seed=1)
    batch = replies.batch(0)
    assert vocabulary.decode(batch.tokens[:, 0]) == "BENVOLIO:\nBut new struck nine."
    assert batch.targets.shape == (27, 1)  # [T, B]
    assert batch.count == 27 + 1  # and an end
    ```
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
                "each line is taken as a reply to the line before it"
            )
        self.pairs = pairs_of(text)
        self.vocabulary = vocabulary
        self.batch_size = batch_size
        self.seq_len = seq_len
        self.seed = seed
        self._sizes = _sizes(self.pairs, seq_len)
        self._epoch: int | None = None
        self._batches = torch.empty(0)

    def batch(self, step: int, seq_len: int | None = None) -> Examples:
        r"""
        ### The batch of a step

        With $P$ pairs, $\lfloor P / B \rfloor$ batches are an **epoch**, in which no
        pair comes twice. The few that are left over change from epoch to epoch. If
        there are fewer pairs than a batch has columns, they come more than once.

        * `step` is the number of the batch, from 0
        * `seq_len` is how long speeches may be this time, if not as long as always

        Returns [examples](examples.py): the same for the same step, whichever came
        before.
        """
        check_not_negative(step=step)
        longest = at_most(self.seq_len, seq_len)
        in_epoch = max(1, len(self.pairs) // self.batch_size)
        epoch, place = divmod(step, in_epoch)
        if epoch != self._epoch:
            self._batches, self._epoch = self._order(epoch, in_epoch), epoch
        chosen = [self.pairs[i] for i in self._batches[place].tolist()]
        return _examples(chosen, self.vocabulary, longest)

    def _order(self, epoch: int, in_epoch: int) -> Int[Tensor, "_ B"]:
        """
        ### Neighbours of a length

        A batch is as long as the longest of its speeches, and most of them are short:
        half have 88 characters or fewer, one in ten has more than 359. In a batch of 32
        taken at random, with speeches of 256 at most, 55 % of all tokens are padding.

        So all pairs are shuffled and divided among pools of 16 batches each. Within a
        pool they are sorted by length and then cut into batches, which come in a random
        order. Who is whose neighbour still changes with every epoch, and 32 % is
        padding: said and reply are seldom equally long. Sorting everything would leave
        30 %, and then the same pairs would always meet.
        """
        random = draws(self.seed, epoch)
        pairs = random.permutation(len(self.pairs))
        size = in_epoch * self.batch_size
        order = torch.from_numpy(pairs).repeat(-(-size // len(pairs)))[:size]
        pools = torch.split(order, 16 * self.batch_size)
        # Stable, or pairs of one length might stand in another order elsewhere.
        by_length = torch.cat(
            [pool[self._sizes[pool].argsort(stable=True)] for pool in pools]
        )
        batches = by_length.reshape(in_epoch, self.batch_size)
        return batches[torch.from_numpy(random.permutation(in_epoch))]


def reply_pieces(
    text: str, vocabulary: Vocabulary, *, seq_len: int, batch_size: int
) -> Iterator[Examples]:
    """
    ## All pairs of a text, once

    To judge a model by. Pairs come sorted by length, because here nobody minds who
    meets whom.

    * `text` is the split
    * `seq_len` is how long speeches may be
    * `batch_size` is how many pairs are read side by side

    Returns an iterator over batches. Their losses have to be weighed with their
    `count`s. Raises `ValueError` for a text without pairs.
    """
    check_sizes(seq_len=seq_len, batch_size=batch_size)
    pairs = pairs_of(text)
    order = _sizes(pairs, seq_len).argsort(stable=True)
    return (
        _examples([pairs[i] for i in chosen.tolist()], vocabulary, seq_len)
        for chosen in torch.split(order, batch_size)
    )


# ## Small pieces
#
# By how much a pair lengthens a batch, on the side where it is the longer.
def _sizes(pairs: Sequence[Pair], longest: int) -> Tensor:
    return torch.tensor([min(longest, max(map(len, pair))) for pair in pairs])


def _examples(pairs: Sequence[Pair], vocabulary: Vocabulary, longest: int) -> Examples:
    # Two calls of `encode` for the whole batch, one for each side.
    tokens = _padded([cut_said(said, longest) for said, _ in pairs], vocabulary)
    targets = _padded([cut_reply(reply, longest) for _, reply in pairs], vocabulary)
    return Examples.of(tokens, targets, padding_token=len(vocabulary))


def _padded(speeches: Sequence[str], vocabulary: Vocabulary) -> Tensor:
    encoded = vocabulary.encode("".join(speeches))
    columns = torch.split(encoded, [len(speech) for speech in speeches])
    return pad_sequence(list(columns), padding_value=len(vocabulary))


# ## Exercises
#
# **1.** A trainer takes the mean loss of each batch, and steps. In which batches does a
# character weigh more? Is that a fault?
#
# <details><summary>Answer</summary>
#
# In batches of short replies. Each batch moves the parameters by about as much, and one
# of short replies has fewer characters to share it. Where batches are sorted by length,
# the brief answers of the play are learned faster than its monologues. It is a choice
# and no fault: pairs weigh the same then, and not letters. In *judging* it would be a
# fault, for a loss is a mean over letters.
#
# ```python
# from labml_nn.experiments.data.replies import reply_pieces
# from labml_nn.experiments.data.vocabulary import Vocabulary
#
# lines = ["ay", "no", "why, how now, my good lord", "what says he to your suit"]
# text = "\n".join(lines * 2)
# batches = list(
#     reply_pieces(text, Vocabulary.from_text(text), seq_len=64, batch_size=2)
# )
# counts = [batch.count for batch in batches]
# assert max(counts) > 3 * min(counts)
# assert sum(counts) == len(text) - len("ay")  # an end for each new line; no first line
# ```
#
# </details>
#
# **2.** Why not sort *all* pairs by length, once and for all? It would leave the least
# padding.
#
# <details><summary>Answer</summary>
#
# Then a pair would meet the same neighbours in every epoch, and a batch would always
# hold the same pairs. The noise of which others happen to be in the batch is what
# shuffling is for. In pools, neighbours change:
#
# ```python
# from labml_nn.experiments.data.replies import Replies
# from labml_nn.experiments.data.vocabulary import Vocabulary
#
# text = "\n".join(str(7**n) for n in range(129))  # 128 pairs of all lengths
# replies = Replies(text, Vocabulary.from_text(text), batch_size=4, seq_len=128, seed=1)
#
# def batches(epoch):
#     steps = range(32 * epoch, 32 * epoch + 32)
#     return {tuple(sorted(map(bytes, replies.batch(k).targets.t()))) for k in steps}
#
# first, second = batches(0), batches(1)
# assert len(first) == len(second) == 32
# assert len(first & second) < 3
# ```
#
# </details>
#
# **3.** A long reply is cut after a whole line. What would a model learn if it were cut
# after `seq_len` letters, and how could it be trained on the beginning of a reply
# without learning an end at all?
#
# <details><summary>Answer</summary>
#
# It would learn to count to `seq_len` and to stop there, in the middle of a word. To
# teach no end, the end must not be asked for: its place in the targets would hold
# padding, which no loss counts. A model that always asks for an end after the last real
# token can be given the beginning as a text of its own, with one letter less to read.
#
# ```python
# from labml_nn.experiments.data.replies import cut_reply
#
# speech = "ROMEO:\nIs the day so young?\nAy me! sad hours seem long."
# assert cut_reply(speech, 40) == "ROMEO:\nIs the day so young?"
# assert speech[:40] == "ROMEO:\nIs the day so young?\nAy me! sad h"
# ```
#
# </details>
