r"""
---
title: A corpus
summary: >
  One text, what it is called, which characters it has, and which part of it nobody may
  learn from.
---

A model that can recite a text has learned nothing that helps with another one. How good
it is shows on text that it has never seen. So a part of the text is taken away before
training, the **validation split**, and the loss on that part is the number to report.

**Why the end of the text?** It would seem fairer to take a sentence here and a sentence
there. But then each of them has neighbours in training, from the same scene, with the
same names and often the same words, and the model is asked for what it has nearly seen.
The end is as far from the rest as one text allows. In Tiny Shakespeare it is two thirds
of *The Taming of the Shrew*, the first third of which is in training, and the beginning
of *The Tempest*, on an island where nobody has been before.

Nine tenths of the *characters* are for training, rounded down, as char-rnn and nanoGPT
have it, wherever that may be in a word. Losses can only be compared if everybody cuts
in the same place.

| Symbol | Code | Shape | Meaning |
|:--|:--|:--|:--|
| $w$ | `train` | `[T]` | tokens to learn from |
| | `validation` | `[T]` | tokens to be judged by |
| $V$ | | | different characters, the length of `vocabulary` |
"""

import hashlib
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from jaxtyping import Int
from torch import Tensor

from labml_nn.experiments.data.vocabulary import Vocabulary

__all__ = ["Corpus", "checksum"]


def checksum(text: str) -> str:
    """
    ## The name that a text cannot choose

    SHA-256 of the text in UTF-8, in hexadecimal. Two texts with the same one are the
    same; nobody has ever found two others.
    """
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


@dataclass(frozen=True)
class Corpus:
    """
    ## The corpus

    * `name` is what a run says that it was trained on
    * `text` is all of it
    * `sha256` is its checksum, by which a run knows whether it goes on with the same
      text
    * `validation_share` is the share of characters, at the end, that is held back
    * `path` is the file that somebody asked for by name; `None` if nobody did

    `Corpus.of` computes the checksum. Raises `ValueError` for a text without characters
    and for a share that leaves nothing on one side.

    ```python
    from labml_nn.experiments.data import Corpus

    corpus = Corpus.of("a short one", "to be, or not to be?")
    assert corpus.train_text == "to be, or not to b"
    assert corpus.validation_text == "e?"
    assert corpus.validation.tolist() == [corpus.vocabulary.index(c) for c in "e?"]
    ```
    """

    name: str
    text: str = field(repr=False)
    sha256: str
    validation_share: float = 0.1
    path: Path | None = None

    def __post_init__(self) -> None:
        if not self.text:
            raise ValueError(f"{self.name} is empty; expected a text to train on")
        if not 0 < self.validation_share < 1:
            raise ValueError(
                f"`validation_share` ({self.validation_share}) must be between 0 and "
                "1; 0.1 is usual"
            )

    @classmethod
    def of(
        cls,
        name: str,
        text: str,
        *,
        validation_share: float = 0.1,
        path: Path | None = None,
    ) -> "Corpus":
        """With its checksum computed."""
        return cls(name, text, checksum(text), validation_share, path)

    # ### What is known of a text
    #
    # Computed when somebody asks for it, and kept. The vocabulary is that of the whole
    # text. It must be: a character that occurs only in validation could not be asked
    # for. What the model learns from that is which characters exist, and nothing about
    # where they stand.
    @cached_property
    def vocabulary(self) -> Vocabulary:
        """All characters of the text, sorted."""
        return Vocabulary.from_text(self.text)

    @property
    def _cut(self) -> int:
        return int((1 - self.validation_share) * len(self.text))

    @cached_property
    def train_text(self) -> str:
        """What may be learned from."""
        return self.text[: self._cut]

    @cached_property
    def validation_text(self) -> str:
        """What is held back."""
        return self.text[self._cut :]

    @cached_property
    def train(self) -> Int[Tensor, " T"]:
        """The same in tokens."""
        return self.vocabulary.encode(self.train_text)

    @cached_property
    def validation(self) -> Int[Tensor, " T"]:
        """The same in tokens."""
        return self.vocabulary.encode(self.validation_text)


# ## Exercises
#
# **1.** How different is the end of a text from the rest? Compare the held-back part
# with the training part by how surprised somebody is who only knows how frequent each
# pair of letters is in training. Do it for a cut at the end, and for lines that were
# taken here and there.
#
# <details><summary>Answer</summary>
#
# Counts of pairs make a model. Here the text is made by a machine that changes its mind
# once, near the end, as a book does with a new chapter. The end says that the model has
# much to learn; the lines from everywhere say that all is well.
#
# ```python
# import torch
# from labml_nn.experiments.data import Corpus
#
# torch.manual_seed(1)
# old, new = "the cat sat\n", "he ate his hat\n"
# lines = [old] * 800 + [new] * 200
#
# def surprise(seen, unseen, vocabulary):
#     x, y = vocabulary.encode(seen), vocabulary.encode(unseen)
#     counts = torch.full((len(vocabulary),) * 2, 0.1)
#     counts.index_put_((x[:-1], x[1:]), torch.tensor(1.0), accumulate=True)
#     return -(counts / counts.sum(1, keepdim=True)).log()[y[:-1], y[1:]].mean()
#
# corpus = Corpus.of("cats", "".join(lines), validation_share=0.2)
# at_end = surprise(corpus.train_text, corpus.validation_text, corpus.vocabulary)
# mixed = [lines[i] for i in torch.randperm(len(lines))]
# here_and_there = Corpus.of("cats", "".join(mixed), validation_share=0.2)
# everywhere = surprise(
#     here_and_there.train_text, here_and_there.validation_text, corpus.vocabulary
# )
# assert everywhere < 1 < at_end
# ```
#
# </details>
#
# **2.** Somebody builds the vocabulary from the training split only. When does it fail,
# and is there a remedy that needs no look at the validation split?
#
# <details><summary>Answer</summary>
#
# It fails as soon as the held-back part has a character of its own. A remedy is a token
# that stands for all that is unknown. It has a row of parameters that no training step
# ever moves, and a text that was encoded with it cannot be decoded.
#
# ```python
# from labml_nn.experiments.data import Corpus
# from labml_nn.experiments.data.vocabulary import Vocabulary
#
# corpus = Corpus.of("zoo", "a bee, a cat, a deer, a zoo")
# seen = Vocabulary.from_text(corpus.train_text)
# try:
#     seen.encode(corpus.validation_text)
# except ValueError as error:
#     assert "not in the vocabulary" in str(error)
# else:
#     raise AssertionError("the z was known")
# ```
#
# </details>
#
# **3.** A text of 1,115,394 characters has a validation split of 111,540. Two models
# have losses of 1.50 and 1.49 on it. Is that a difference?
#
# <details><summary>Answer</summary>
#
# Surprise differs from letter to letter, with a standard deviation of some 1.7 nats. If
# letters were independent, the mean of 111,540 of them would be known up to
# $1.7 / \sqrt{111540} = 0.005$. That is the error of *one* loss as a statement about
# all English plays. Both models were asked for the same letters though, and most of the
# luck is common to them; the spread of their differences is smaller.
#
# ```python
# import math
# import torch
#
# torch.manual_seed(1)
# hard = torch.distributions.Gamma(0.78, 0.52).sample((111_540,))  # mean 1.5
# first = hard + 0.3 * torch.randn(111_540)
# second = hard - 0.01 + 0.3 * torch.randn(111_540)
#
# def error(x):
#     return (x.std() / math.sqrt(len(x))).item()
#
# assert 0.004 < error(first) < 0.006
# assert error(first - second) < 0.002 < (first - second).mean()
# ```
#
# </details>
