"""Three questions about the order of letters, to one layer of attention without a mask.

Each sequence has 12 letters of 8 kinds, drawn anew for each update. *first*: of two letters that
occur once each, which comes first? It is asked with a 13th token. *before*: which letter stands
before each letter but the first? *reverse*: the sequence from its end to its beginning. A model is
an embedding of 32 features, one `TransformerLayer` with one head and 64 hidden units, layer
normalisation and a linear layer; AdamW, 600 updates with 32 sequences each, the learning rate rises
to 0.003 in 50 updates and falls to 0 on a line. Each question trains a model of its own.

The models differ in how a position is told: ``none`` at all; ``number``, which adds p times a
learned vector; ``learned``, a vector for each position; ``sinusoids``; ``rotary``, in attention.
"""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from labml_nn import kernels
from labml_nn.transformers.feed_forward import FeedForward
from labml_nn.transformers.mha import MultiHeadAttention
from labml_nn.transformers.models import TransformerLayer
from labml_nn.transformers.modern import RotaryMultiHeadAttention
from labml_nn.transformers.positional_encoding import LearnedPositionalEncoding, PositionalEncoding

MODELS = ("none", "number", "learned", "sinusoids", "rotary")
QUESTIONS = ("first", "before", "reverse")
LETTERS, LENGTH, WIDTH = 8, 12, 32
UPDATES, BATCH, TEST = 600, 32, 1000
WARM_UP, RATE = 50, 3e-3
#: A label that does not count.
NO_LABEL = -1


class Number(nn.Module):
    """The position itself, along a learned vector."""

    def __init__(self) -> None:
        super().__init__()
        self.direction = nn.Parameter(torch.randn(WIDTH))

    def forward(self, x: Tensor) -> Tensor:
        """The sum."""
        return x + torch.arange(len(x), dtype=x.dtype)[:, None, None] * self.direction


POSITIONS: dict[str, Callable[[], nn.Module]] = {
    "none": nn.Identity,
    "number": Number,
    "learned": lambda: LearnedPositionalEncoding(WIDTH, 0.0, LENGTH + 1),
    "sinusoids": lambda: PositionalEncoding(WIDTH, 0.0, LENGTH + 1),
    "rotary": nn.Identity,
}


class Model(nn.Module):
    """Embedding, positions, one layer, and a score for each letter."""

    def __init__(self, name: str) -> None:
        super().__init__()
        kind = RotaryMultiHeadAttention if name == "rotary" else MultiHeadAttention
        self.tokens = nn.Embedding(LETTERS + 1, WIDTH)
        self.positions = POSITIONS[name]()
        self.layer = TransformerLayer(
            d_model=WIDTH,
            self_attn=kind(1, WIDTH, 0.0),
            feed_forward=FeedForward(WIDTH, 2 * WIDTH, 0.0),
            dropout_prob=0.0,
        )
        self.output = nn.Sequential(nn.LayerNorm(WIDTH), nn.Linear(WIDTH, LETTERS))

    def forward(self, tokens: Tensor) -> Tensor:
        """Logits of letters, `[T, B, LETTERS]`."""
        everything = torch.ones(len(tokens), len(tokens), 1, dtype=torch.bool)
        logits: Tensor = self.output(
            self.layer(x=self.positions(self.tokens(tokens)), mask=everything)
        )
        return logits


def draw(question: str, count: int, source: torch.Generator) -> tuple[Tensor, Tensor]:
    """Sequences and what is to be said at each of their tokens, both `[T, B]`."""
    if question != "first":
        letters = torch.randint(LETTERS, (LENGTH, count), generator=source)
        if question == "reverse":
            return letters, letters.flip(0)
        labels = letters.roll(1, dims=0)
        labels[0] = NO_LABEL
        return letters, labels
    # Letters 0 and 1 occur once each, and the question is the token after the last letter.
    letters = torch.randint(2, LETTERS, (LENGTH, count), generator=source)
    places = torch.rand(LENGTH, count, generator=source).argsort(dim=0)[:2]
    letters.scatter_(0, places, torch.tensor([[0], [1]]).expand(2, count))
    tokens = torch.cat([letters, torch.full((1, count), LETTERS)])
    labels = torch.full_like(tokens, NO_LABEL)
    labels[-1] = (places[1] < places[0]).long()
    return tokens, labels


def train(name: str, question: str, seed: int) -> tuple[float, list[float]]:
    """The share of right answers of a trained model, and its mean attention weights by rows."""
    torch.manual_seed(seed)
    source = torch.Generator().manual_seed(seed)
    model = Model(name)
    optimizer = torch.optim.AdamW(model.parameters(), lr=RATE)
    for update in range(UPDATES):
        for group in optimizer.param_groups:
            group["lr"] = RATE * min(1.0, (update + 1) / WARM_UP) * (1 - update / UPDATES)
        tokens, labels = draw(question, BATCH, source)
        loss = nn.functional.cross_entropy(
            model(tokens).flatten(0, 1), labels.flatten(), ignore_index=NO_LABEL
        )
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    tokens, labels = draw(question, TEST, source)
    with torch.no_grad(), kernels.disabled():
        right = model.eval()(tokens).argmax(dim=-1) == labels
    attn = model.layer.self_attn.attn
    assert attn is not None
    weights = attn[:, :, :, 0].mean(dim=2).flatten().tolist()
    accuracy = right[labels != NO_LABEL].float().mean().item()
    return round(accuracy, 4), [round(weight, 3) for weight in weights]


def run(model: str, seed: int) -> dict[str, float | list[float]]:
    """The accuracy of each question, and what was attended to."""
    found: dict[str, float | list[float]] = {}
    for question in QUESTIONS:
        found[question], found[f"{question}_weights"] = train(model, question, seed)
    return found
