"""The telephone book: a sequence of names, each with a digit, and then one of the names again.

*Ann 3, Bob 7, Eve 1 …, Bob ?* has the answer 7. Names and digits are drawn anew for each sequence,
so a network cannot learn them by heart: it has to find the name and to copy what stands beside it.

Data: 8 of 26 names in random order, each with a random digit, then one of the eight with a
question mark. A token is the sum of two embeddings, of its name and of its digit or question mark.
Network: 64 features, one `MultiHeadAttention` with 4 heads that is asked at its last token, the sum
with that token, and a feed-forward network with 128 features to 10 digits. Training: 300
updates of AdamW on 64 new sequences each, learning rate 0.003. Accuracy is that on 2,000 others.

The models differ in the scores alone. *attention* compares queries with keys. *fixed* learns a
score for each place of the sequence, whatever the tokens are. *average* has equal scores.
"""

import torch
import torch.nn.functional as F
from torch import nn

from labml_nn import kernels
from labml_nn.transformers.mha import MultiHeadAttention

MODELS = ("attention", "fixed", "average")
NAMES, DIGITS, PAIRS = 26, 10, 8
SIZE, HEADS, UPDATES, BATCH, EVERY = 64, 4, 300, 64, 10
#: The book that the page shows.
NAMES_SHOWN = (0, 12, 4, 1, 8, 19, 25, 10)
DIGITS_SHOWN = (3, 0, 7, 5, 8, 7, 4, 6)
ASKED = 3


class Fixed(MultiHeadAttention):
    """Scores by place: learned, and the same for all tokens."""

    def __init__(self, heads: int, d_model: int, places: int) -> None:
        super().__init__(heads, d_model, dropout_prob=0.0)
        self.by_place = nn.Parameter(torch.zeros(1, places, 1, heads))

    def get_scores(self, query, key):
        """The scores, before they are divided by the root."""
        return self.by_place.expand(-1, -1, query.shape[1], -1)


class Average(MultiHeadAttention):
    """Equal scores."""

    def get_scores(self, query, key):
        """Zeros."""
        return query.new_zeros(len(query), len(key), query.shape[1], self.heads)


def mixer(model: str) -> MultiHeadAttention:
    """The part in which the models differ."""
    if model == "fixed":
        return Fixed(HEADS, SIZE, PAIRS + 1)
    kind = {"attention": MultiHeadAttention, "average": Average}[model]
    return kind(HEADS, SIZE, dropout_prob=0.0)


class Reader(nn.Module):
    """Reads a telephone book, and answers at its last token."""

    def __init__(self, model: str) -> None:
        super().__init__()
        self.name, self.beside = nn.Embedding(NAMES, SIZE), nn.Embedding(DIGITS + 1, SIZE)
        self.mix = mixer(model)
        self.out = nn.Sequential(
            nn.LayerNorm(SIZE), nn.Linear(SIZE, 128), nn.ReLU(), nn.Linear(128, DIGITS)
        )

    def forward(self, names: torch.Tensor, digits: torch.Tensor) -> torch.Tensor:
        """Logits of the answer, [B, V], for names and digits [T, B]."""
        x = self.name(names) + self.beside(digits)
        return self.out((x[-1:] + self.mix(query=x[-1:], key=x, value=x))[0])


def books(count: int, generator: torch.Generator) -> tuple[torch.Tensor, ...]:
    """Names and digits, [T, B], and the answers, [B]."""
    names = torch.rand(count, NAMES, generator=generator).argsort(1)[:, :PAIRS].T
    digits = torch.randint(DIGITS, (PAIRS, count), generator=generator)
    asked = torch.randint(PAIRS, (1, count), generator=generator)
    names = torch.cat([names, names.gather(0, asked)])
    answers = digits.gather(0, asked)
    # The question mark comes after the ten digits.
    digits = torch.cat([digits, torch.full((1, count), DIGITS)])
    return names, digits, answers[0]


def run(model: str, seed: int) -> dict[str, float | list[float]]:
    """Train one model.

    Returns its accuracy, a curve of it, and the weights that it gives to the book of the page: the
    mean of its heads, one for each token.
    """
    torch.manual_seed(seed)
    reader, generator = Reader(model), torch.Generator().manual_seed(seed)
    test = books(2000, torch.Generator().manual_seed(0))
    optimizer = torch.optim.AdamW(reader.parameters(), lr=3e-3)

    def accuracy() -> float:
        with torch.no_grad():
            return float((reader(*test[:2]).argmax(1) == test[2]).float().mean())

    curve = [accuracy()]
    for step in range(1, UPDATES + 1):
        *book, answers = books(BATCH, generator)
        optimizer.zero_grad()
        F.cross_entropy(reader(*book), answers).backward()
        optimizer.step()
        if step % EVERY == 0:
            curve.append(accuracy())

    names = torch.tensor([*NAMES_SHOWN, NAMES_SHOWN[ASKED]])[:, None]
    digits = torch.tensor([*DIGITS_SHOWN, DIGITS])[:, None]
    with kernels.disabled():
        reader(names, digits)
    weights = reader.mix.attn
    assert weights is not None
    return {
        "accuracy": curve[-1],
        "curve": [round(number, 4) for number in curve],
        "weights": [round(number, 4) for number in weights[0, :, 0].mean(-1).tolist()],
    }
