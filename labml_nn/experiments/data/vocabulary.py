r"""
---
title: From signs to numbers
summary: >
  A vocabulary of characters: each has a number, and each number a character. Both ways
  for a million of them at once, and a clear word on the one that has none.
---

A network computes with numbers, and a text is made of signs. So every sign gets a
number, its **token**, from 0 to $V - 1$. The number is a name and no quantity: `b` is
not one more than `a`. It says which row of a table belongs to the sign, and in that
row stands what the model knows of it.

What is a sign? Here it is a **character**. Larger models take pieces of words, some
50,000 of them, so that a text has fewer tokens and the model looks back further for the
same price. Characters have other virtues. There are only 65 in the text that we train
on, so that a small model need not spend most of its parameters on a table of words.
Nothing has to be learned before training can begin, and everybody can see what the
model was asked.

| Symbol | Code | Shape | Meaning |
|:--|:--|:--|:--|
| $V$ | | | different characters, the length of the vocabulary |
| $w$ | `tokens` | `[T]` | a text, in numbers |
| | `numbers` | `[T]` | the same text in the numbers of Unicode |
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from jaxtyping import Int
from torch import Tensor

__all__ = ["Vocabulary"]


@dataclass(frozen=True)
class Vocabulary(Sequence[str]):
    """
    ## A vocabulary

    * `characters` are all characters that there are, each once; the first is token 0

    ```python
    from labml_nn.experiments.data.vocabulary import Vocabulary

    vocabulary = Vocabulary.from_text("to be, or not to be")
    assert vocabulary.characters == " ,benort"
    assert vocabulary.encode("not").tolist() == [4, 5, 7]
    assert vocabulary.decode([2, 3]) == "be"
    assert vocabulary[1] == "," and len(vocabulary) == 8
    ```

    It is a sequence, in which each sign stands at the number of its token. The axes of
    [attention maps](../../attention_maps/__init__.py) take it as it is. Raises
    `ValueError` for a character that stands there twice, or if there is none.
    """

    characters: str

    def __post_init__(self) -> None:
        if not self.characters:
            raise ValueError(
                "`characters` is empty; expected at least one: is the text empty?"
            )
        character, times = Counter(self.characters).most_common(1)[0]
        if times > 1:
            raise ValueError(
                f"`characters` holds {character!r} {times} times; expected each "
                "character once: use Vocabulary.from_text(...)"
            )

    @classmethod
    def from_text(cls, text: str) -> "Vocabulary":
        """
        ### All that a text contains

        Sorted, so that the same text gives the same numbers on every machine and in
        every run. A set has no order to rely on, and a saved model whose numbers mean
        other letters talks nonsense.
        """
        return cls("".join(sorted(set(text))))

    def __len__(self) -> int:
        return len(self.characters)

    def __getitem__(self, token: Any) -> str:
        return self.characters[token]

    @cached_property
    def _tokens(self) -> Tensor:
        # The token of each number of Unicode, up to the highest that occurs; -1: none.
        numbers = _numbers(self.characters)
        tokens = torch.full((int(numbers.max()) + 1,), -1)
        tokens[numbers] = torch.arange(len(numbers))
        return tokens

    def encode(self, text: str) -> Int[Tensor, " T"]:
        r"""
        ### From a text to tokens

        Python could look up one character after the other. But a computer keeps a text
        as numbers anyway, those of Unicode, and one table leads from them to ours:
        $w_t = \text{table}[\text{number}_t]$, for all characters in one step. For
        Tiny Shakespeare that takes 10 milliseconds instead of 130.

        * `text` is what to encode. An empty one has no tokens

        Returns whole numbers, `[T]`. Raises `ValueError` for a character that is not in
        the vocabulary. To leave it out in silence would be worse: the model would then
        answer something that nobody has asked.
        """
        numbers = _numbers(text)
        known = numbers < len(self._tokens)
        tokens = torch.where(known, self._tokens[numbers * known], -1)
        unknown = tokens < 0
        if unknown.any():
            raise ValueError(self._unknown(text, int(unknown.int().argmax())))
        return tokens

    def _unknown(self, text: str, place: int) -> str:
        character = text[place]
        line = text.count("\n", 0, place) + 1
        column = place - text.rfind("\n", 0, place)
        other = character.swapcase()
        hint = f"write {other!r}, or " if other in self.characters else ""
        return (
            f"{character!r} (line {line}, column {column}) is not in the vocabulary; "
            f"{hint}use only its {len(self)} characters: {self._listed()}"
        )

    def _listed(self) -> str:
        # What can be shown in a line. A vocabulary of thousands is shown by its start.
        shown = "".join(
            c if c.isprintable() else repr(c)[1:-1] for c in self.characters
        )
        return shown if len(shown) <= 120 else f"{shown[:120]}…"

    def decode(self, tokens: Int[Tensor, " T"] | Sequence[int]) -> str:
        """
        ### And back

        * `tokens` are whole numbers, a tensor `[T]` or a list

        Returns the text. Raises `ValueError` for a number that stands for no character.
        Python would take -1 for the last of them; here it is a mistake.
        """
        if isinstance(tokens, Tensor) and tokens.dim() != 1:
            raise ValueError(
                f"`tokens` has shape {list(tokens.shape)}; expected one text, [T]: "
                "decode one column of a batch, tokens[:, 0]"
            )
        numbers = tokens.tolist() if isinstance(tokens, Tensor) else list(tokens)
        if numbers and not 0 <= min(numbers) <= max(numbers) < len(self):
            wrong = (i for i, n in enumerate(numbers) if not 0 <= n < len(self))
            place = next(wrong)
            raise ValueError(
                f"`tokens[{place}]` is {numbers[place]}; expected numbers from 0 to "
                f"{len(self) - 1}: were special tokens, such as padding, left in?"
            )
        return "".join(map(self.characters.__getitem__, numbers))


# ## The numbers of Unicode
#
# In the encoding UTF-32 every character has four bytes, and those are its number. Half
# of a character, which a broken file name can bring along, has one too: it is not in
# any vocabulary of a text, and `encode` should be the one to say so.
def _numbers(text: str) -> Tensor:
    if not text:
        return torch.empty(0, dtype=torch.long)
    data = bytearray(text.encode("utf-32-le", "surrogatepass"))
    return torch.frombuffer(data, dtype=torch.int32).long()


# ## Exercises
#
# **1.** A vocabulary of characters is small because there are few. How many bits does a
# character of this text need if all are equally long, and how many can be saved by
# giving frequent ones a shorter code? What has that to do with a loss?
#
# <details><summary>Answer</summary>
#
# With $V$ equally long codes $\log_2 V$. Codes of $-\log_2 p$ bits are the best if each
# character is drawn alone, and their mean length is the *entropy*. It is the loss of a
# model that knows how frequent characters are, and nothing else.
#
# ```python
# import math
# import torch
# from labml_nn.experiments.data.vocabulary import Vocabulary
#
# text = "to be, or not to be, that is the question"
# vocabulary = Vocabulary.from_text(text)
# p = vocabulary.encode(text).bincount() / len(text)
# even, entropy = math.log2(len(vocabulary)), -(p * p.log2()).sum()
# assert 3.4 < entropy < 3.5 and 3.8 < even < 3.9
# ```
#
# </details>
#
# **2.** Make a vocabulary of words out of one of characters. What do you lose?
#
# <details><summary>Answer</summary>
#
# Give each word a character of its own, from a part of Unicode that is free for private
# use. A word that was not there in training has no number any more: *beest* is unknown,
# although every letter of it is known.
#
# ```python
# import re
# from labml_nn.experiments.data.vocabulary import Vocabulary
#
# text = "to be, or not to be"
# words = sorted(set(re.findall(r"\w+|\W", text)))
# sign = {word: chr(0xE000 + i) for i, word in enumerate(words)}
#
# def rewrite(text):
#     return "".join(sign[word] for word in re.findall(r"\w+|\W", text))
#
# vocabulary = Vocabulary("".join(sign.values()))
# tokens = vocabulary.encode(rewrite(text))
# assert len(tokens) == 12 < len(text)
# assert "".join(words[token] for token in tokens) == text
# assert "beest" not in sign
# ```
#
# </details>
#
# **3.** Two texts have vocabularies of their own. Show that a model which was trained
# on one must not be asked with the tokens of the other.
#
# <details><summary>Answer</summary>
#
# The numbers are all in range, and mean other letters. Nothing fails, and all is wrong.
# That is why a trained model is kept together with its vocabulary.
#
# ```python
# from labml_nn.experiments.data.vocabulary import Vocabulary
#
# ours, theirs = Vocabulary.from_text("romeo"), Vocabulary.from_text("lear")
# tokens = theirs.encode("lear")
# assert ours.decode(tokens) == "omer"
# ```
#
# </details>
