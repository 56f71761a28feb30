r"""
---
title: Tasks
summary: >
  What a trainer has to know of data: which examples come next, which ones judge, and
  how a text becomes a prompt.
---

A trainer changes parameters until a loss gets smaller. Of what the model reads it need
know very little. A **task** is that little, and there are two:

| Task | Reads | Is asked for |
|:--|:--|:--|
| `text` | a piece of a text | the same piece, one later |
| `replies` | what somebody said | what was replied |

**A batch is a function of the step.** The trainer asks for the examples of step 1,234,
and there is one answer, however often it asks. That is worth more than it seems. A
training that was interrupted goes on with the right texts, and nobody has to save where
in the data it was. And each of several processes can make the whole batch and take its
columns of it, so that nobody sends texts around.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

from jaxtyping import Int
from torch import Tensor

from labml_nn.experiments.data.corpus import Corpus
from labml_nn.experiments.data.examples import Examples
from labml_nn.experiments.data.replies import (
    Replies,
    cut_said,
    pairs_of,
    reply_pieces,
)
from labml_nn.experiments.data.vocabulary import Vocabulary
from labml_nn.experiments.data.windows import Windows, check_judging, pieces

__all__ = [
    "TASKS",
    "WORDINGS",
    "Examples",
    "ReplyTask",
    "ReplyWording",
    "Task",
    "TextTask",
    "TextWording",
    "Wording",
]


@runtime_checkable
class Wording(Protocol):
    """
    ## What a model of this text must be, and how one talks to it

    That is decided by the vocabulary alone. Whoever only wants a saved model to write
    needs this, and no corpus.

    * `vocabulary` holds the characters
    * `model_fields` are fields of the model's configuration, by name
    * `joint` stands between a prompt and what was written to it
    """

    vocabulary: Vocabulary
    model_fields: Mapping[str, Any]
    joint: str

    def prompt(self, text: str) -> Int[Tensor, "S 1"]:
        """A text to continue, or to reply to, as a batch of one."""

    def decode(self, tokens: Int[Tensor, " T"] | Sequence[int]) -> str:
        """The text of tokens. What stands for no character is left out."""


@runtime_checkable
class Task(Wording, Protocol):
    """
    ## What a trainer needs

    * `name` is that of the task
    * `corpus` is the text and its name
    * `batch` gives the examples of a step, for all processes together, at most
      `seq_len` tokens long; the same for the same step
    * `validation` goes through the whole validation split, once
    * `sample_prompt` is what the model continues, or replies to, to show what it has
      learned
    """

    name: str
    corpus: Corpus
    sample_prompt: str

    def batch(self, step: int, seq_len: int | None = None) -> Examples:
        """The examples of a step."""

    def validation(self) -> Iterator[Examples]:
        """All examples that judge, in batches."""


class TextWording:
    """
    ## To continue a text

    A token for each character, and none besides.
    """

    joint = ""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self.vocabulary = vocabulary
        self.model_fields: Mapping[str, Any] = {"n_vocab": len(vocabulary)}

    def prompt(self, text: str) -> Int[Tensor, "S 1"]:
        """Raises `ValueError` for an empty text, and for an unknown character."""
        return _prompt(self.vocabulary, text)

    def decode(self, tokens: Int[Tensor, " T"] | Sequence[int]) -> str:
        """Every token is a character."""
        return self.vocabulary.decode(tokens)


class ReplyWording:
    """
    ## To reply

    Three tokens stand for no character: padding, the start of a reply, and its end.
    They get the numbers after the characters, which so keep theirs.
    """

    joint = "\n→ "

    def __init__(self, vocabulary: Vocabulary) -> None:
        self.vocabulary = vocabulary
        size = len(vocabulary)
        self.model_fields: Mapping[str, Any] = {
            "n_vocab": size + 3,
            "padding_token": size,
            "start_token": size + 1,
            "end_token": size + 2,
        }

    def prompt(self, text: str) -> Int[Tensor, "S 1"]:
        """Raises `ValueError` for an empty text, and for an unknown character."""
        return _prompt(self.vocabulary, text)

    def decode(self, tokens: Int[Tensor, " T"] | Sequence[int]) -> str:
        """Special tokens are left out."""
        numbers = tokens.tolist() if isinstance(tokens, Tensor) else list(tokens)
        size = len(self.vocabulary)
        special = range(size, size + 3)
        return self.vocabulary.decode([t for t in numbers if t not in special])


class TextTask(TextWording):
    """
    ## Learn to continue

    * `corpus` is the text
    * `batch_size`, `seq_len`, `seed` are those of its [windows](../data/windows.py)

    Raises `ValueError` for a text that is too short for them, or to be judged by.
    """

    name = "text"

    def __init__(
        self, corpus: Corpus, *, batch_size: int, seq_len: int, seed: int
    ) -> None:
        super().__init__(corpus.vocabulary)
        self.corpus = corpus
        self.batch_size, self.seq_len = batch_size, seq_len
        self.windows = Windows(
            corpus.train, batch_size=batch_size, seq_len=seq_len, seed=seed
        )

        # What cannot judge should be heard of now, and not after the training.
        check_judging(len(corpus.validation_text))

        # A new line says nothing, and anything may follow it.
        self.sample_prompt = "\n" if "\n" in corpus.vocabulary else corpus.text[0]

    def batch(self, step: int, seq_len: int | None = None) -> Examples:
        """Pieces of the text from anywhere, the same for the same step."""
        return self.windows.batch(step, seq_len)

    def validation(self) -> Iterator[Examples]:
        """The whole split in pieces, one behind the other."""
        return pieces(self.corpus.validation, self.seq_len, self.batch_size)


class ReplyTask(ReplyWording):
    """
    ## Learn to reply

    * `corpus` is the text
    * `batch_size`, `seq_len`, `seed` are those of its [pairs](../data/replies.py);
      what is said or replied is cut to `seq_len` tokens

    Raises `ValueError` for a text in which nobody replies.
    """

    name = "replies"

    def __init__(
        self, corpus: Corpus, *, batch_size: int, seq_len: int, seed: int
    ) -> None:
        super().__init__(corpus.vocabulary)
        self.corpus = corpus
        self.batch_size, self.seq_len = batch_size, seq_len
        self.replies = Replies(
            corpus.train_text,
            corpus.vocabulary,
            batch_size=batch_size,
            seq_len=seq_len,
            seed=seed,
        )

        # The first speech of the new text that is neither a single word nor cut.
        new = corpus.validation_text
        speeches = [cut_said(said, seq_len) for said, _ in pairs_of(new)]
        short = [speech for speech in speeches if 24 <= len(speech) <= min(96, seq_len)]
        self.sample_prompt = (short or speeches)[0]

    def batch(self, step: int, seq_len: int | None = None) -> Examples:
        """Pairs of what was said and replied, the same for the same step."""
        return self.replies.batch(step, seq_len)

    def validation(self) -> Iterator[Examples]:
        """All pairs of the split, once."""
        return reply_pieces(
            self.corpus.validation_text,
            self.vocabulary,
            seq_len=self.seq_len,
            batch_size=self.batch_size,
        )


# ## By name
#
# As configurations and saved runs call them.
TASKS: dict[str, type[TextTask] | type[ReplyTask]] = {
    "text": TextTask,
    "replies": ReplyTask,
}
WORDINGS: dict[str, type[TextWording] | type[ReplyWording]] = {
    "text": TextWording,
    "replies": ReplyWording,
}


def _prompt(vocabulary: Vocabulary, text: str) -> Tensor:
    if not text:
        raise ValueError(
            "the prompt is empty; expected at least one character to go on from, such "
            r'as a new line ("\n")'
        )
    return vocabulary.encode(text)[:, None]
