r"""
---
title: Windows of a text
summary: >
  A long text is cut into short ones to learn from: anywhere for training, and without a
  gap for judging. Which ones make batch 1,234 is decided by the number 1,234.
---

A model cannot read a million characters in one go. It reads a **window** of $T$ of them
and is asked at each for the next, so that one window holds $T$ questions. A batch is
$B$ windows side by side.

**Windows begin anywhere**, in the middle of a word if it so happens. There are about a
million places in Tiny Shakespeare where one can begin, and overlapping windows ask the
same questions with more or less of a past. With the text cut into fixed pieces, a
letter that stands early in its piece would stand there forever, and what comes before
it would never be seen.

**A batch is a function of its number.** Most programs shuffle once and then walk
through the data, with a generator of random numbers that remembers where it is. To go
on after an interruption they have to save that, and to work in several processes they
have to agree on it. Here the seed and the number of the step are all there is to know:

$$\text{batch} = f(\text{seed}, k)$$

Whoever asks for batch $k$ gets batch $k$, today or tomorrow, here or on another
machine, with or without the batches before it.

| Symbol | Code | Shape | Meaning |
|:--|:--|:--|:--|
| $w$ | `text` | `[N]` | the whole text, in tokens |
| $k$ | `step` | | the number of the batch |
| $s$ | `starts` | `[B]` | where windows begin |
| $x$ | `tokens` | `[T, B]` | what is read: $x_{tb} = w_{s_b + t}$ |
| $y$ | `targets` | `[T, B]` | what is asked for: $y_{tb} = w_{s_b + t + 1}$ |
"""

from collections.abc import Iterator

import numpy
import torch
from jaxtyping import Int
from torch import Tensor

from labml_nn.checks import check_sizes
from labml_nn.experiments.data.examples import Examples

__all__ = ["Windows", "draws", "pieces"]


class Windows:
    """
    ## Windows to train on

    * `text` is what to learn from, `[N]`
    * `batch_size` is the number of windows in a batch, $B$, over all processes
    * `seq_len` is how many tokens each of them reads, $T$, at most
    * `seed` makes other batches if it is another

    Raises `ValueError` for sizes below one, and for a text that no window fits into.

    ```python
    import torch
    from labml_nn.experiments.data.windows import Windows

    windows = Windows(torch.arange(100), batch_size=3, seq_len=8, seed=1)
    batch = windows.batch(1234)
    assert batch.tokens.shape == batch.targets.shape == (8, 3)  # [T, B]
    assert (batch.targets == batch.tokens + 1).all()
    assert torch.equal(batch.tokens, windows.batch(1234).tokens)
    assert not torch.equal(batch.tokens, windows.batch(1235).tokens)
    ```
    """

    def __init__(
        self, text: Int[Tensor, " N"], *, batch_size: int, seq_len: int, seed: int
    ) -> None:
        check_sizes(batch_size=batch_size, seq_len=seq_len)
        if len(text) <= seq_len:
            longest = len(text) - 1
            most = f"{longest} or less" if longest > 1 else "1"
            shorter = f"lower `seq_len` to {most}, or " if longest > 0 else ""
            raise ValueError(
                f"the text to train on has {len(text)} tokens, and `seq_len` "
                f"({seq_len}) needs {seq_len + 1}, one more to be asked for; {shorter}"
                "take a longer text"
            )
        self.text = text
        self.batch_size = batch_size
        self.seq_len = seq_len
        self.seed = seed

    def batch(self, step: int, seq_len: int | None = None) -> Examples:
        r"""
        ### The batch of a step

        There are $N - T$ places where a window of $T$ tokens can begin and still have
        one behind it to be asked for. All are equally likely, and all rows of all
        windows are fetched in one step: $\text{rows}_{tb} = s_b + t$.

        * `step` is the number of the batch, from 0
        * `seq_len` is how long these windows are, if not as long as all

        Returns [examples](examples.py), `[T, B]`. A batch of 32 windows of 256 tokens
        takes 0.13 milliseconds.
        """
        length = at_most(self.seq_len, seq_len)
        places = len(self.text) - length
        starts = draws(self.seed, step).integers(places, size=self.batch_size)
        rows = torch.arange(length + 1)[:, None] + torch.from_numpy(starts)
        window = self.text[rows]
        tokens, targets = window[:-1], window[1:]
        return Examples.of(tokens, targets)


def draws(seed: int, step: int) -> numpy.random.Generator:
    """
    ## Random numbers of a step

    NumPy mixes the two numbers well before it draws, so that neighbouring steps have
    nothing in common. (Seeds that are sums, such as `seed + step`, have: step 5 of the
    first run would be step 4 of the second.)
    """
    check_not_negative(seed=seed, step=step)
    return numpy.random.default_rng([seed, step])


def check_not_negative(**numbers: int) -> None:
    """
    ## Steps and seeds begin at 0

    `check_not_negative(step=5)` names the number that is below.
    """
    for name, number in numbers.items():
        if number < 0:
            raise ValueError(f"`{name}` ({number}) must be 0 or more")


def at_most(longest: int, seq_len: int | None) -> int:
    """
    ## A length for this once

    Returns `seq_len`, or `longest` if it is `None`. Raises `ValueError` if it is longer
    than that.
    """
    if seq_len is None:
        return longest
    check_sizes(seq_len=seq_len)
    if seq_len > longest:
        raise ValueError(
            f"`seq_len` ({seq_len}) must be at most {longest}, the `seq_len` that the "
            "data was made for"
        )
    return seq_len


def pieces(
    text: Int[Tensor, " N"], seq_len: int, batch_size: int
) -> Iterator[Examples]:
    r"""
    ## A whole text, once

    A loss that is measured on a few random windows moves up and down with the draw. At
    the end of a training the steps forward are smaller than that. So a model is judged
    by the whole split, and every token but the first is asked for exactly once:

    ```text
    B u t , _ s o f t ! _ w h a t _ l i g h t
    |- - - - - - - -|- - - - - - - -|- - - -|
       first piece     second piece    rest
    ```

    A piece reads $T$ tokens and is asked for the $T$ that follow, so that neighbours
    share one token: the last one asked for is the first one read. The rest is shorter,
    and comes alone.

    **What this measures.** Every piece begins with nothing in mind. Its first letters
    are guesses, and the longer the pieces, the fewer of them there are. The loss is
    therefore that of a model *with this context*, and two losses can be compared only
    if the pieces were equally long.

    * `text` is the split, `[N]`
    * `seq_len` is $T$, the length of a piece
    * `batch_size` is how many pieces are read side by side

    Returns an iterator over batches, `[T, B]`. The mean of their losses has to be
    weighed with their `count`s, which sum to $N - 1$. Raises `ValueError` for a text
    that has nothing to ask for.
    """
    check_sizes(seq_len=seq_len, batch_size=batch_size)
    check_judging(len(text))
    return _pieces(text, seq_len, batch_size)


def check_judging(length: int) -> None:
    """
    ### Something to ask for

    * `length` is that of the split. Whoever trains for an hour first asks before
    """
    if length < 2:
        raise ValueError(
            f"the text to be judged by has {length} tokens; expected at least 2, one "
            "to read and one to be asked for: take a longer text, or a larger share of "
            "it (`validation_share`)"
        )


def _pieces(text: Tensor, seq_len: int, batch_size: int) -> Iterator[Examples]:
    whole = (len(text) - 1) // seq_len * seq_len
    if whole:
        windows = text[: whole + 1].unfold(0, seq_len + 1, seq_len)
        for window in torch.split(windows, batch_size):
            columns = window.t().contiguous()
            yield Examples.of(columns[:-1], columns[1:])
    rest = text[whole:, None]
    if len(rest) > 1:
        yield Examples.of(rest[:-1], rest[1:])


# ## Exercises
#
# **1.** Windows are drawn with replacement. After as many tokens as the text has, how
# much of it was never asked for?
#
# <details><summary>Answer</summary>
#
# A token is missed by one window with a probability of about $1 - T/N$, and by all
# $N/T$ of them with $(1 - T/N)^{N/T} \approx 1/e$: more than a third. After three times
# as many it is 5 %. Nothing is lost by that: training goes over the text many times.
#
# ```python
# import torch
# from labml_nn.experiments.data.windows import Windows
#
# text = torch.arange(20_000)
# windows = Windows(text, batch_size=10, seq_len=20, seed=1)
# seen = torch.zeros(20_000, dtype=torch.bool)
# for step in range(100):  # 100 steps of 200 tokens
#     seen[windows.batch(step).targets] = True
# assert 0.33 < 1 - seen.float().mean() < 0.40
# ```
#
# </details>
#
# **2.** A program draws the batch of step $k$ with the seed `seed + k`. Two runs, with
# seeds 1 and 2, are to show how much results depend on chance. What is wrong?
#
# <details><summary>Answer</summary>
#
# The second run sees the batches of the first, one step earlier. They do not start from
# the same parameters, but their data is as good as the same, and what the two have in
# common is taken for certainty.
#
# ```python
# import numpy
# from labml_nn.experiments.data.windows import draws
#
# def summed(seed, step):
#     return numpy.random.default_rng(seed + step).integers(1000, size=5)
#
# def mixed(seed, step):
#     return draws(seed, step).integers(1000, size=5)
#
# assert (summed(1, 8) == summed(2, 7)).all()
# assert not (mixed(1, 8) == mixed(2, 7)).any()
# ```
#
# </details>
#
# **3.** A model that was trained on windows of 16 tokens is judged with pieces of 4, 16
# and 64. Which of the losses is the lowest? Think of an Elman net, which reads on as
# long as one likes.
#
# <details><summary>Answer</summary>
#
# Longer pieces have a smaller share of first letters, which nobody can know. A net that
# has learned to use the past profits, also beyond 16. Here the text repeats itself
# after nine letters, the third and the sixth of which can be told apart only by what
# came before:
#
# ```python
# import torch
# from labml_nn.experiments.data.windows import Windows, pieces
# from labml_nn.recurrent.elman.language_model import ElmanConfig, ElmanLanguageModel
#
# torch.manual_seed(1)
# text = torch.tensor([0, 1, 2, 0, 1, 3, 0, 1, 4] * 60)
# model = ElmanLanguageModel(
#     ElmanConfig(n_vocab=5, d_model=16, d_hidden=32, n_layers=1, dropout_prob=0.0)
# )
# optimizer = torch.optim.Adam(model.parameters(), 2e-2)
# windows = Windows(text, batch_size=8, seq_len=16, seed=1)
# for step in range(50):
#     batch = windows.batch(step)
#     optimizer.zero_grad()
#     model.loss(batch.tokens, batch.targets).backward()
#     optimizer.step()
#
# @torch.no_grad()
# def judged(seq_len):
#     batches = list(pieces(text, seq_len, 8))
#     losses = [model.loss(b.tokens, b.targets) * b.count for b in batches]
#     return sum(losses) / (len(text) - 1)
#
# assert judged(4) > judged(16) > judged(64)
# ```
#
# </details>
