"""The telephone book, longer and longer: *ann 3, bob 7, eve 1 …, bob ?* has the answer 7.

Names and digits are drawn anew for each book, so that a network cannot learn them by heart. What a
layer keeps of a book decides how many pairs it can answer.

Data: 1 to 32 of 64 names, each with a random digit, then one of these names with a question mark.
A token is the sum of two embeddings, of its name and of its digit or question mark. Network: 16
features, a layer that reads the book, the sum of what it returns at the last token and of that
token, and a feed-forward network with 128 features to ten digits. Training: 800 updates of AdamW
on 64 new books each, learning rate 0.003; the books of an update have the same number of pairs, 1
to 32. Accuracy is that on 1,000 other books of each length in `TESTED`. The layers:

* ``attention``: `MultiHeadAttention` with one head, which keeps a key and a value of each token;
* ``linear attention``: `LinearAttention` with one head and without its convolution, which keeps a
  matrix of 16 times 17 numbers;
* ``LSTM``: 136 cells and a projection back to 16 features. It keeps two vectors of 136 numbers.
"""

import torch
import torch.nn.functional as F
from torch import nn

from labml_nn.lstm import LSTM
from labml_nn.recurrent.linear_attention import LinearAttention
from labml_nn.transformers.mha import MultiHeadAttention

MODELS = ("attention", "linear attention", "LSTM")
NAMES, DIGITS, MOST = 64, 10, 32
SIZE, CELLS, UPDATES, BATCH, TESTS = 16, 136, 800, 64, 1000
#: The numbers of pairs for which the tests ask.
TESTED = (1, 2, 4, 6, 8, 12, 16, 24, 32)


class Reader(nn.Module):
    """Reads a telephone book, and answers at its last token."""

    def __init__(self, model: str) -> None:
        super().__init__()
        self.name, self.beside = nn.Embedding(NAMES, SIZE), nn.Embedding(DIGITS + 1, SIZE)
        self.layer: nn.Module
        if model == "attention":
            self.layer = MultiHeadAttention(1, SIZE, dropout_prob=0.0)
        elif model == "linear attention":
            self.layer = LinearAttention(SIZE, 1, conv=1)
        else:
            self.layer = LSTM(SIZE, CELLS, n_layers=1)
            self.project = nn.Linear(CELLS, SIZE)
        self.out = nn.Sequential(
            nn.LayerNorm(SIZE), nn.Linear(SIZE, 128), nn.ReLU(), nn.Linear(128, DIGITS)
        )

    def forward(self, names: torch.Tensor, digits: torch.Tensor) -> torch.Tensor:
        """Logits of the answer, [B, V], for names and digits [T, B]."""
        x = self.name(names) + self.beside(digits)
        if isinstance(self.layer, MultiHeadAttention):
            found = self.layer(query=x[-1:], key=x, value=x)[0]
        elif isinstance(self.layer, LinearAttention):
            found = self.layer(x)[0][-1]
        else:
            found = self.project(self.layer(x)[0][-1])
        return self.out(x[-1] + found)


def books(pairs: int, count: int, generator: torch.Generator) -> tuple[torch.Tensor, ...]:
    """Names and digits, [T, B], and the answers, [B]."""
    names = torch.rand(count, NAMES, generator=generator).argsort(1)[:, :pairs].T
    digits = torch.randint(DIGITS, (pairs, count), generator=generator)
    asked = torch.randint(pairs, (1, count), generator=generator)
    answers = digits.gather(0, asked)[0]
    # The question mark comes after the ten digits.
    digits = torch.cat([digits, torch.full((1, count), DIGITS)])
    return torch.cat([names, names.gather(0, asked)]), digits, answers


def run(model: str, seed: int) -> dict[str, float | list[float]]:
    """The share of right answers: `last` with 32 pairs, `by_pairs` for those of `TESTED`."""
    torch.manual_seed(seed)
    reader, generator = Reader(model), torch.Generator().manual_seed(seed)
    optimizer = torch.optim.AdamW(reader.parameters(), lr=3e-3)
    for _ in range(UPDATES):
        pairs = int(torch.randint(1, MOST + 1, (1,), generator=generator))
        *book, answers = books(pairs, BATCH, generator)
        optimizer.zero_grad()
        F.cross_entropy(reader(*book), answers).backward()
        optimizer.step()
    by_pairs, tests = [], torch.Generator().manual_seed(1000)
    with torch.no_grad():
        for pairs in TESTED:
            *book, answers = books(pairs, TESTS, tests)
            right = reader(*book).argmax(1) == answers
            by_pairs.append(round(right.float().mean().item(), 3))
    return {"last": by_pairs[-1], "by_pairs": by_pairs}
