r"""
---
title: "Data: corpus, tokenizers, batches, tasks"
summary: >
  How a text becomes tokens, characters or words, which part of it is held out for
  validation, how batches are drawn so that a run can be repeated, and how the speeches
  of a play become pairs for the encoder–decoder.
---

A language model learns the distribution of the next token given the tokens before it.
Its training data is one long text. Four steps lead from a file to a batch:

| Step | Code | Result |
|:--|:--|:--|
| find and read the text | `read_corpus` | a `Corpus` |
| hold out the last tenth | `Corpus.train`, `Corpus.validation` | two splits |
| tokenize them | `Vocabulary.encode` | token numbers, `[N]` |
| draw windows, or pairs of speeches | `TextTask`, `ReplyTask` | `tokens`, `targets` |

| Symbol | Code | Shape | Meaning |
|:--|:--|:--|:--|
| $w$ | `text` | `[N]` | a split of the corpus, in tokens |
| $s$ | `starts` | `[B]` | where the windows of a batch begin |
| $x$ | `tokens` | `[S, B]` | model input; of windows $x_{tb} = w_{s_b + t}$ |
| $y$ | `targets` | `[T, B]` | of windows $y_{tb} = w_{s_b + t + 1}$, or replies |

```python
from labml_nn.experiments.data import Corpus, TextTask

text = "But, soft! what light through yonder window breaks?\n" * 20
corpus = Corpus.of("one line", text)  # read_corpus() finds Tiny Shakespeare
batch = TextTask(corpus, batch_size=4, seq_len=16, seed=1).batch(0)
assert batch.tokens.shape == batch.targets.shape == (16, 4)  # [T, B]
assert (batch.tokens[1:] == batch.targets[:-1]).all()
```
"""

import codecs
import hashlib
import os
import re
import shlex
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any, ClassVar

import numpy
import torch
from jaxtyping import Int
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from labml_nn.checks import check_sizes
from labml_nn.experiments.tiny_shakespeare import FILE, NAME, SHA256, find_text
from labml_nn.language_model import LanguageModel
from labml_nn.saving import user_path

__all__ = [
    "Corpus",
    "Examples",
    "ReplyTask",
    "Task",
    "TextTask",
    "Vocabulary",
    "Words",
    "read_corpus",
]


@dataclass(frozen=True)
class Vocabulary(Sequence[str]):
    """
    ## Character tokenizer

    Each distinct character is a token, numbered from 0 to $V - 1$ in sorted order. With
    characters there are 65 tokens in Tiny Shakespeare, the embedding table stays small,
    and no character is unknown.

    * `texts` are those of the tokens, each once; the first is that of token 0

    ```python
    from labml_nn.experiments.data import Vocabulary

    vocabulary = Vocabulary.from_text("to be, or not to be")
    assert vocabulary.texts == " ,benort"
    assert vocabulary.encode("not").tolist() == [4, 5, 7]
    assert vocabulary.decode([2, 3]) == "be"
    ```
    """

    texts: Sequence[str]
    unit = "character"

    def __post_init__(self) -> None:
        if not self.texts or len(set(self.texts)) < len(self.texts):
            raise ValueError(
                f"a vocabulary ({self.texts!r}) must hold at least one {self.unit}, "
                "and each once: use from_text(...)"
            )

    @classmethod
    def from_text(cls, text: str) -> "Vocabulary":
        """All characters of `text`, sorted: the same text gives the same tokens."""
        return cls("".join(sorted(set(text))))

    def __len__(self) -> int:
        return len(self.texts)

    def __getitem__(self, token: Any) -> Any:
        return self.texts[token]

    @cached_property
    def _tokens(self) -> dict[str, int]:
        return {text: token for token, text in enumerate(self.texts)}

    def encode(self, text: str) -> Int[Tensor, " T"]:
        """The tokens of `text`. Raises `ValueError` for an unknown character."""
        try:
            return torch.tensor([self._tokens[one] for one in text], dtype=torch.long)
        except KeyError as error:
            raise ValueError(
                f"{error.args[0]!r} is not in the vocabulary; use only its {len(self)} "
                f"characters: {self.texts[:120]!r}"
            ) from None

    def decode(self, tokens: Int[Tensor, " T"] | Sequence[int]) -> str:
        return "".join(self._texts(tokens))

    def _texts(self, tokens: Int[Tensor, " T"] | Sequence[int]) -> list[str]:
        numbers = torch.as_tensor(tokens, dtype=torch.long).tolist()
        if numbers and not 0 <= min(numbers) <= max(numbers) < len(self):
            raise ValueError(
                f"`tokens` ({min(numbers)} to {max(numbers)}) must be from 0 to "
                f"{len(self) - 1}: were special tokens, such as padding, left in?"
            )
        return [self.texts[number] for number in numbers]


UNKNOWN = "<unk>"
# A word ends before a space, and before punctuation marks that a space follows.
WORD = re.compile(r"\n|\S+?(?=[,;:!?]*(?:\s|$)|\.\n)")


class Words(Vocabulary):
    """
    ## Word tokenizer

    Words, punctuation marks and line ends are the tokens, the most frequent one first.
    Before subwords, language models were compared by their **perplexity per word** on
    such tokens, as in the preprocessed files of Penn Treebank and WikiText, whose words
    this tokenizer leaves as they are. Sequences are about four times as short as with
    characters, and most of a small model's parameters are in its embedding table.

    The vocabulary is that of the training split. All other words become the token 0,
    `<unk>`: a model need not spell them, so that its perplexity is comparable only with
    that of a model whose vocabulary is the same.

    ```python
    from labml_nn.experiments.data import Words

    words = Words.from_text("to be, or not to be", min_count=2)
    assert words.texts == ("<unk>", "be", "to")
    assert words.encode("to be, or not").tolist() == [2, 1, 0, 0, 0]
    assert words.decode([2, 1, 0]) == "to be <unk>"
    ```
    """

    unit = "word"

    @classmethod
    def from_text(
        cls, text: str, *, min_count: int = 1, max_words: int | None = None
    ) -> "Words":
        """
        * `min_count` is how often a word occurs in `text` at least
        * `max_words` is the largest $V$; `None` is no limit
        """
        check_sizes(min_count=min_count, max_words=max_words or 1)
        counts = Counter(sorted(cls.split(text)))
        del counts[UNKNOWN]  # some texts have it already
        frequent = [word for word, n in counts.most_common() if n >= min_count]
        return cls((UNKNOWN, *frequent)[:max_words])

    @staticmethod
    def split(text: str) -> list[str]:
        return WORD.findall(text)

    def encode(self, text: str) -> Int[Tensor, " T"]:
        """The tokens of `text`; an unknown word is 0."""
        tokens = [self._tokens.get(word, 0) for word in self.split(text)]
        return torch.tensor(tokens, dtype=torch.long)

    def decode(self, tokens: Int[Tensor, " T"] | Sequence[int]) -> str:
        """The text of `tokens`, with single spaces between words."""
        text = " ".join(self._texts(tokens))
        return re.sub(" ?\n ?", "\n", re.sub(r" (?=[,;:!?.](\s|$))", "", text))


@dataclass(frozen=True)
class Corpus:
    """
    ## Corpus

    A text and its split. Nine tenths of the characters are for training and the last
    tenth is the validation split, as in char-rnn and nanoGPT, so that losses can be
    compared. The split is taken from the end, and not from random lines: a random line
    has its neighbours, with the same names and often the same words, in the training
    split, and the validation loss would be too low.

    * `name` is what a run reports as its text
    * `text` is the whole text
    * `sha256` identifies it
    * `path` is the file that the user named, if any
    """

    name: str
    text: str = field(repr=False)
    sha256: str
    path: Path | None = None

    def __post_init__(self) -> None:
        if not self.text:
            raise ValueError(f"{self.name} is empty; expected a text to train on")

    @classmethod
    def of(cls, name: str, text: str, *, path: Path | None = None) -> "Corpus":
        data = text.encode("utf-8", "surrogatepass")
        return cls(name, text, hashlib.sha256(data).hexdigest(), path)

    @property
    def train(self) -> str:
        return self.text[: int(0.9 * len(self.text))]

    @property
    def validation(self) -> str:
        return self.text[int(0.9 * len(self.text)) :]


def read_corpus(path: Path | str | None = None) -> Corpus:
    """
    ## Read a text

    * `path` is a text file, or a folder with `tinyshakespeare.txt`; `None` means the
      file that `LABML_NN_DATA` names, or else [Tiny Shakespeare](tiny_shakespeare.py)

    A file is UTF-8 unless it begins with the byte order mark of another encoding. The
    mark goes, and line ends become `\\n`. Raises `OSError` for a file that cannot be
    read, and `ValueError` for one that holds no text.
    """
    by, named = "", path
    if path is None and (named := os.environ.get("LABML_NN_DATA")):
        by = " (LABML_NN_DATA)"
    if not named:
        return Corpus(NAME, find_text(), SHA256)
    file = user_path(named)
    file = file / FILE if file.is_dir() else file
    try:
        data = file.read_bytes()
    except OSError as error:
        raise type(error)(
            f"{file}{by} cannot be read ({error.strerror}); expected a text file in "
            "UTF-8"
        ) from error
    text = decoded(data, file)
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    corpus = Corpus.of(file.name, text, path=file.absolute())
    return replace(corpus, name=NAME) if corpus.sha256 == SHA256 else corpus


# Byte order marks, the longer ones first: that of UTF-32 begins with that of UTF-16.
MARKS = (
    (codecs.BOM_UTF32_LE, "UTF-32"),
    (codecs.BOM_UTF32_BE, "UTF-32"),
    (b"\x84\x31\x95\x33", "GB18030"),
    (codecs.BOM_UTF16_LE, "UTF-16"),
    (codecs.BOM_UTF16_BE, "UTF-16"),
)


def decoded(data: bytes, file: Path) -> str:
    """
    ### Encodings

    The text in `data`, the content of `file`. Raises `ValueError` if it is no text, or
    not of the encoding of its byte order mark, or without one not UTF-8.
    """
    named = (name for mark, name in MARKS if data.startswith(mark))
    encoding = next(named, "UTF-8")
    convert = f"convert it: iconv -f %s -t UTF-8 {shlex.quote(str(file))} > new.txt"
    try:
        text = data.decode(encoding).removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        if encoding != "UTF-8":
            raise ValueError(
                f"{file} begins with the byte order mark of {encoding} and is not "
                f"{encoding} at byte {error.start:,} ({error.reason}); is it complete?"
            ) from error
        line = data.count(b"\n", 0, error.start) + 1
        raise ValueError(
            f"{file} is not UTF-8: byte 0x{data[error.start]:02x} in line {line}; "
            + convert % "ISO-8859-1"
        ) from error
    if "\0" not in text:
        return text
    # Nearly every second byte of Western text in UTF-16 is zero.
    for start, without_mark in ((1, "UTF-16LE"), (0, "UTF-16BE")):
        zeros = data[start::2].count(0)
        whole = encoding == "UTF-8" and zeros == data.count(0) and len(data) % 2 == 0
        if whole and zeros > 0.4 * len(data):
            raise ValueError(
                f"{file} looks like {without_mark} without a byte order mark; "
                + convert % without_mark
            )
    raise ValueError(f"{file} is binary; expected a text file")


# ## Batches
#
@dataclass(frozen=True, eq=False)
class Examples:
    r"""
    ### A batch

    * `tokens` is the model's input, `[S, B]`
    * `targets` is what it has to predict, `[T, B]`: the same text shifted by one, or a
      reply padded at its end
    * `count` is how many targets enter the loss: those that are not padding, and the
      end-of-sequence tokens
    * `padding_token` is the target where nothing is predicted; `None` without padding
    * `ends` is the number of end-of-sequence tokens that the model itself appends to
      the targets of a sequence: one for replies
    """

    tokens: Int[Tensor, "S B"]
    targets: Int[Tensor, "T B"]
    count: int
    padding_token: int | None = None
    ends: int = 0

    @classmethod
    def of(
        cls,
        tokens: Int[Tensor, "S B"],
        targets: Int[Tensor, "T B"],
        padding_token: int | None = None,
        *,
        ends: int = 0,
    ) -> "Examples":
        count = targets.numel()
        if padding_token is not None:
            count = int((targets != padding_token).sum())
        count += ends * targets.shape[1]
        return cls(tokens, targets, count, padding_token, ends)

    def columns(self, start: int, stop: int) -> "Examples":
        """Sequences `start` to `stop` of the batch, with their own count $n_i$."""
        tokens, targets = self.tokens[:, start:stop], self.targets[:, start:stop]
        return Examples.of(tokens, targets, self.padding_token, ends=self.ends)

    def to(self, device: torch.device | str) -> "Examples":
        tokens, targets = self.tokens.to(device), self.targets.to(device)
        return replace(self, tokens=tokens, targets=targets)


def random_numbers(seed: int, step: int) -> numpy.random.Generator:
    """
    ### Random numbers of a step

    Batch $k$ is a function of the seed and of $k$ alone. So an interrupted run
    continues with the right data without a saved generator state, and several processes
    draw the same batch without communication. NumPy hashes the pair, so that
    neighbouring steps and seeds are independent. With `seed + step` they would not be:
    step 1 of seed 1 would draw the same numbers as step 0 of seed 2.
    """
    return numpy.random.default_rng([seed, step])


class Task:
    """
    ## Tasks

    The trainer minimises a loss and knows little about what the model reads. A **task**
    is that little. Two tasks read a text, and [three](memory.py) make their own
    sequences, which test the memory of a model:

    | Task | Input | Target |
    |:--|:--|:--|
    | `text` | a window of the text | the same window, shifted by one |
    | `replies` | a speech | the speech that follows it |
    | `recall`, `overwrite`, `parity` | random pairs, or bits | values, or a sum |

    `model_fields` are the fields of the model's configuration that the vocabulary
    determines, `separator` stands between a prompt and what was generated from it, and
    `sample_prompt` is what samples start from. `training` are hyperparameters that
    replace those of a preset.
    """

    name, separator, replies, sample_prompt = "", "", False, ""
    special: tuple[str, ...] = ()
    reads_text = True
    training: ClassVar[Mapping[str, Any]] = {}

    def __init__(
        self,
        corpus: Corpus | None,
        *,
        batch_size: int = 1,
        seq_len: int = 1,
        seed: int = 0,
        vocabulary: Vocabulary | None = None,
    ) -> None:
        """
        * `corpus` is the text; `None` for a task that only encodes prompts and decodes
          samples, with the `vocabulary` of a saved model
        * `batch_size` is $B$, over all processes; `seq_len` is $T$, the length of
          windows, and of the longest source and reply
        * `seed` selects the sequence of batches
        * `vocabulary` has the tokens; `None` takes all characters of the text
        """
        check_sizes(batch_size=batch_size, seq_len=seq_len)
        if vocabulary is None:
            assert corpus is not None
            vocabulary = Vocabulary.from_text(corpus.text)
        size = len(vocabulary)
        tokens = {name: size + i for i, name in enumerate(self.special)}
        self.model_fields = {"n_vocab": size + len(tokens), **tokens}
        self.vocabulary, self.seed = vocabulary, seed
        self.batch_size, self.seq_len = batch_size, seq_len
        if corpus is not None:
            self.corpus = corpus
            self._prepare(corpus)

    def _prepare(self, corpus: Corpus) -> None:
        raise NotImplementedError

    def batch(self, step: int, seq_len: int | None = None) -> Examples:
        """The training batch of a step; `seq_len` may be shorter than usual."""
        raise NotImplementedError

    def validation(self) -> Iterator[Examples]:
        """The whole validation split, once."""
        raise NotImplementedError

    def accuracy(
        self, model: LanguageModel[Any], device: torch.device | str
    ) -> float | None:
        """The share of right answers, for a task that asks; `None` for others."""

    def prompt(self, text: str) -> Int[Tensor, "S 1"]:
        """`text` as a batch of one. Raises `ValueError` if it cannot be encoded."""
        tokens = self.vocabulary.encode(text)
        if not len(tokens):
            raise ValueError(
                f"the prompt is empty; expected at least one {self.vocabulary.unit}, "
                r'such as a new line ("\n")'
            )
        return tokens[:, None]

    def decode(self, tokens: Int[Tensor, " T"] | Sequence[int]) -> str:
        """The text of `tokens`, without special tokens."""
        numbers = tokens.tolist() if isinstance(tokens, Tensor) else list(tokens)
        special = range(len(self.vocabulary), self.model_fields["n_vocab"])
        return self.vocabulary.decode([n for n in numbers if n not in special])


class TextTask(Task):
    """
    ### Continue a text

    There are no special tokens.
    """

    name = "text"

    def _prepare(self, corpus: Corpus) -> None:
        length = len(self.vocabulary.encode(corpus.validation))
        if length < 2:
            raise ValueError(
                f"the validation split has {length} tokens; expected at least 2, an "
                "input and a target: take a longer text"
            )
        # Targets per word, by which a loss becomes one per word.
        self.length_of_words = length / len(Words.split(corpus.validation))
        self.sample_prompt = "\n" if "\n" in corpus.text else corpus.text[0]

    @cached_property
    def tokens(self) -> Int[Tensor, " N"]:
        tokens = self.vocabulary.encode(self.corpus.train)
        if len(tokens) <= self.seq_len:
            raise ValueError(
                f"the text to train on has {len(tokens)} tokens, and `seq_len` "
                f"({self.seq_len}) needs {self.seq_len + 1}, one more as the last "
                "target; take a longer text, or a lower `seq_len`"
            )
        return tokens

    def batch(self, step: int, seq_len: int | None = None) -> Examples:
        r"""
        #### Training windows

        $B$ windows of $T$ tokens that begin at random positions of the text: there are
        $N - T$ of them, all equally likely.
        """
        length = seq_len or self.seq_len
        starts = random_numbers(self.seed, step).integers(
            len(self.tokens) - length, size=self.batch_size
        )
        positions = torch.arange(length + 1)[:, None] + torch.from_numpy(starts)
        window = self.tokens[positions]
        return Examples.of(window[:-1], window[1:])

    def validation(self) -> Iterator[Examples]:
        r"""
        #### Validation pieces

        The validation loss is a mean over the **whole** split. A mean over a few random
        windows depends on the draw: for one model (2 layers, 64 features) five
        estimates from 41,000 characters each ranged from 2.106 to 2.119, which is as
        much as the differences between models that one wants to see.

        The split is cut into consecutive pieces of $T$ tokens, $B$ of them side by
        side, and the shorter rest. Each piece starts without context, so that losses
        are comparable only for equal $T$.

        Returns batches whose `count`s sum to $N - 1$.
        """
        text = self.vocabulary.encode(self.corpus.validation)
        whole = (len(text) - 1) // self.seq_len * self.seq_len
        if whole:
            windows = text[: whole + 1].unfold(0, self.seq_len + 1, self.seq_len)
            for window in torch.split(windows, self.batch_size):
                columns = window.t().contiguous()
                yield Examples.of(columns[:-1], columns[1:])
        rest = text[whole:, None]
        if len(rest) > 1:
            yield Examples.of(rest[:-1], rest[1:])


# ## Speeches and replies
#
# An [encoder–decoder](../transformers/encoder_decoder.py) learns from pairs of
# sequences. In a play each speech answers the one before it:
#
# | Source | Target |
# |:--|:--|
# | BENVOLIO: Good-morrow, cousin. | ROMEO: Is the day so young? |
# | ROMEO: Is the day so young? | BENVOLIO: But new struck nine. |
#
# The names of the speakers stay, so that the decoder first predicts who speaks and then
# what this person says. Some pairs are not conversations, such as the first speech of a
# scene and the last one of the scene before. The loss counts the names too; compare it
# only with losses of the same task. In a text without speeches each line is taken as
# the reply to the line before it.
Pair = tuple[str, str]


def pairs_of(text: str) -> list[Pair]:
    """
    ### Pairs of a text

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


class ReplyTask(Task):
    r"""
    ### Reply to a speech

    Three special tokens, for padding, the start and the end of a sequence, get the
    numbers after the others. Samples answer the first speech of the validation split
    that has a medium length.
    """

    name, separator, replies = "replies", "\n→ ", True
    special = ("padding_token", "start_token", "end_token")

    def _prepare(self, corpus: Corpus) -> None:
        said = [
            truncate_source(one, self.seq_len) for one, _ in pairs_of(corpus.validation)
        ]
        medium = [one for one in said if 24 <= len(one) <= min(96, self.seq_len)]
        self.sample_prompt = (medium or said)[0]
        self._epoch, self._batches = -1, torch.empty(0)

    @cached_property
    def pairs(self) -> list[Pair]:
        return pairs_of(self.corpus.train)

    def batch(self, step: int, seq_len: int | None = None) -> Examples:
        r"""
        #### Training pairs

        In an epoch of $\lfloor P / B \rfloor$ batches no pair of the $P$ comes twice.
        The rest is left out, as with `drop_last` of PyTorch's `DataLoader`, so that all
        batches have the same size.
        """
        in_epoch = max(1, len(self.pairs) // self.batch_size)
        epoch, place = divmod(step, in_epoch)
        if epoch != self._epoch:
            self._batches, self._epoch = self._order(epoch, in_epoch), epoch
        return self._examples(self.pairs, self._batches[place], seq_len or self.seq_len)

    def _order(self, epoch: int, in_epoch: int) -> Int[Tensor, "_ B"]:
        """
        #### Batches of similar lengths

        A batch is as long as its longest speech, and half of the speeches have at most
        88 characters. In batches of 32 random pairs of at most 256 characters 55 % of
        the tokens are padding. So the shuffled pairs are divided into pools of 16
        batches, sorted by length within a pool, cut into batches, and these shuffled:
        32 % is padding, and neighbours still change with every epoch.
        """
        random, sizes = random_numbers(self.seed, epoch), self._sizes(self.pairs)
        pairs = random.permutation(len(self.pairs))
        size = in_epoch * self.batch_size
        order = torch.from_numpy(pairs).repeat(-(-size // len(pairs)))[:size]
        pools = torch.split(order, 16 * self.batch_size)
        by_length = torch.cat(
            [pool[sizes[pool].argsort(stable=True)] for pool in pools]
        )
        batches = by_length.reshape(in_epoch, self.batch_size)
        return batches[torch.from_numpy(random.permutation(in_epoch))]

    def validation(self) -> Iterator[Examples]:
        """
        #### Validation pairs

        All pairs of the split once, sorted by length.
        """
        pairs = pairs_of(self.corpus.validation)
        order = self._sizes(pairs).argsort(stable=True)
        for chosen in torch.split(order, self.batch_size):
            yield self._examples(pairs, chosen, self.seq_len)

    def _sizes(self, pairs: Sequence[Pair]) -> Tensor:
        return torch.tensor([min(self.seq_len, max(map(len, pair))) for pair in pairs])

    def _examples(
        self, pairs: Sequence[Pair], chosen: Int[Tensor, " B"], longest: int
    ) -> Examples:
        # Padding stands at the end. A decoder never sees it, because it is later than
        # all real tokens. Other libraries can pad first (`pad_first`), for models that
        # predict from the last position only, and flip a text (`backwards`), for models
        # that write from right to left: `tokens.flip(0)`, before padding is added.
        encode, padding = self.vocabulary.encode, len(self.vocabulary)
        both = [pairs[i] for i in chosen.tolist()]
        said = [encode(truncate_source(one, longest)) for one, _ in both]
        replies = [encode(truncate_reply(one, longest)) for _, one in both]
        tokens, targets = (
            pad_sequence(side, padding_value=padding) for side in (said, replies)
        )
        return Examples.of(tokens, targets, padding, ends=1)
