r"""
---
title: "Tasks: text continuation and replies"
summary: >
  What the trainer needs to know about the data: the batch of a step, the validation
  split, and how text becomes a prompt.
---

The trainer minimises a loss and knows little about what the model reads. A **task** is
that little, and there are two:

| Task | Input | Target |
|:--|:--|:--|
| `text` | a window of the text | the same window, shifted by one |
| `replies` | a speech | the speech that follows it |

A task has a `prompt` and a `decode` without its corpus too, so that a saved model can
be used with its vocabulary alone.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from jaxtyping import Int
from torch import Tensor

from labml_nn.experiments.data import (
    Corpus,
    Examples,
    Vocabulary,
    Windows,
    check_validation,
    pieces,
)
from labml_nn.experiments.replies import (
    Replies,
    pairs_of,
    reply_pieces,
    truncate_source,
)

__all__ = ["TASKS", "ReplyTask", "Task", "TextTask"]


class Task:
    """
    ## What both have in common

    * `vocabulary` maps characters to tokens
    * `corpus` is the text; `None` for a task that only encodes and decodes
    * `batch_size`, `seq_len`, `seed` are those of the batches

    `model_fields` are the fields of the model's configuration that the vocabulary
    determines, `separator` stands between a prompt and what was generated from it, and
    `sample_prompt` is what samples start from.
    """

    name = ""
    separator = ""
    replies = False
    sample_prompt = ""

    def __init__(
        self,
        corpus: Corpus | None,
        *,
        batch_size: int = 1,
        seq_len: int = 1,
        seed: int = 0,
        vocabulary: Vocabulary | None = None,
    ) -> None:
        if vocabulary is None:
            if corpus is None:
                raise ValueError("a task needs a corpus or a vocabulary")
            vocabulary = corpus.vocabulary
        self.vocabulary = vocabulary
        self.model_fields: Mapping[str, Any] = self._fields(len(vocabulary))
        self.batch_size, self.seq_len = batch_size, seq_len
        if corpus is not None:
            self.corpus = corpus
            self._prepare(corpus, seed)

    def _fields(self, size: int) -> dict[str, Any]:
        raise NotImplementedError

    def _prepare(self, corpus: Corpus, seed: int) -> None:
        raise NotImplementedError

    def batch(self, step: int, seq_len: int | None = None) -> Examples:
        """The training batch of a step, always the same for the same step."""
        raise NotImplementedError

    def validation(self) -> Iterator[Examples]:
        """The whole validation split, once."""
        raise NotImplementedError

    def prompt(self, text: str) -> Int[Tensor, "S 1"]:
        """`text` as a batch of one. Raises `ValueError` if it cannot be encoded."""
        if not text:
            raise ValueError(
                "the prompt is empty; expected at least one character, such as a new "
                r'line ("\n")'
            )
        return self.vocabulary.encode(text)[:, None]

    def decode(self, tokens: Int[Tensor, " T"] | Sequence[int]) -> str:
        """The text of `tokens`, without special tokens."""
        numbers = tokens.tolist() if isinstance(tokens, Tensor) else list(tokens)
        size = len(self.vocabulary)
        special = range(size, self.model_fields["n_vocab"])
        return self.vocabulary.decode([n for n in numbers if n not in special])


class TextTask(Task):
    """
    ## Continue a text

    Each character is a token, and there are no special tokens.
    """

    name = "text"

    def _fields(self, size: int) -> dict[str, Any]:
        return {"n_vocab": size}

    def _prepare(self, corpus: Corpus, seed: int) -> None:
        self.windows = Windows(
            corpus.train, batch_size=self.batch_size, seq_len=self.seq_len, seed=seed
        )
        check_validation(len(corpus.validation_text))
        self.sample_prompt = "\n" if "\n" in corpus.vocabulary else corpus.text[0]

    def batch(self, step: int, seq_len: int | None = None) -> Examples:
        """Windows from random positions."""
        return self.windows.batch(step, seq_len)

    def validation(self) -> Iterator[Examples]:
        """Consecutive pieces of the split."""
        return pieces(self.corpus.validation, self.seq_len, self.batch_size)


class ReplyTask(Task):
    """
    ## Reply to a speech

    Three special tokens, for padding, the start and the end of a sequence, get the
    numbers after the characters.
    """

    name = "replies"
    separator = "\n→ "
    replies = True

    def _fields(self, size: int) -> dict[str, Any]:
        special = ("padding_token", "start_token", "end_token")
        return {"n_vocab": size + 3, **{n: size + i for i, n in enumerate(special)}}

    def _prepare(self, corpus: Corpus, seed: int) -> None:
        self.pairs = Replies(
            corpus.train_text,
            self.vocabulary,
            batch_size=self.batch_size,
            seq_len=self.seq_len,
            seed=seed,
        )
        # Samples answer the first speech of the validation split of a medium length.
        new = pairs_of(corpus.validation_text)
        said = [truncate_source(said, self.seq_len) for said, _ in new]
        medium = [one for one in said if 24 <= len(one) <= min(96, self.seq_len)]
        self.sample_prompt = (medium or said)[0]

    def batch(self, step: int, seq_len: int | None = None) -> Examples:
        """Pairs of similar lengths."""
        return self.pairs.batch(step, seq_len)

    def validation(self) -> Iterator[Examples]:
        """All pairs of the split."""
        return reply_pieces(
            self.corpus.validation_text,
            self.vocabulary,
            seq_len=self.seq_len,
            batch_size=self.batch_size,
        )


# By the names that configurations and saved runs use.
TASKS: dict[str, type[Task]] = {"text": TextTask, "replies": ReplyTask}
