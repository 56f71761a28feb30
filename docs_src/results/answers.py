"""A tiny encoder–decoder that answers who does what.

To *who sleeps and sings ?* it writes *the dog and the bird*.

``python -m docs_src.results.answers`` trains it, in a few seconds, and keeps it in
``answers.safetensors``; the page of the encoder–decoder shows how it writes. It sees 13 of the 16
questions, and never the three of `HELD_OUT`.
"""

from collections.abc import Sequence
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from labml_nn.transformers.feed_forward import FeedForward
from labml_nn.transformers.mha import MultiHeadAttention
from labml_nn.transformers.models import (
    Decoder,
    EmbeddingsWithPositionalEncoding,
    Encoder,
    EncoderDecoder,
    Generator,
    TransformerLayer,
)

PATH = Path(__file__).with_suffix(".safetensors")
#: Who does it.
ANIMALS = {"sleeps": "dog", "sings": "bird", "eats": "cat", "runs": "horse"}
SPECIAL = ("padding", "start", "end")
WORDS = (*SPECIAL, "who", *ANIMALS, "and", "?", "the", *ANIMALS.values())
PADDING, START, END = range(3)
C, F, MOST = 12, 24, 16

Verbs = tuple[str, ...]
SINGLE: list[Verbs] = [(verb,) for verb in ANIMALS]
DOUBLE: list[Verbs] = [(one, two) for one in ANIMALS for two in ANIMALS if one != two]
HELD_OUT: list[Verbs] = [("sleeps", "sings"), ("eats", "runs"), ("runs", "sleeps")]


def question(verbs: Verbs) -> list[str]:
    """*Who sleeps and sings ?*"""
    return ["who", *" and ".join(verbs).split(), "?"]


def answer(verbs: Verbs) -> list[str]:
    """*The dog and the bird*"""
    return " and ".join(f"the {ANIMALS[verb]}" for verb in verbs).split()


def tokens(sequences: Sequence[Sequence[str]]) -> Tensor:
    """Sequences of words as a batch, padded at the end."""
    most = max(map(len, sequences))
    padded = ([*words, *["padding"] * (most - len(words))] for words in sequences)
    return torch.tensor([[WORDS.index(word) for word in words] for words in padded]).T


def model() -> EncoderDecoder:
    """A new model, with a layer of one head in each stack."""

    def layer(src_attn: MultiHeadAttention | None = None) -> TransformerLayer:
        return TransformerLayer(
            d_model=C,
            self_attn=MultiHeadAttention(1, C, 0.0),
            src_attn=src_attn,
            feed_forward=FeedForward(C, F, 0.0),
            dropout_prob=0.0,
        )

    stacks = Encoder(layer(), 1), Decoder(layer(MultiHeadAttention(1, C, 0.0)), 1)
    embeds = (EmbeddingsWithPositionalEncoding(C, len(WORDS), MOST) for _ in range(2))
    return EncoderDecoder(*stacks, *embeds, Generator(len(WORDS), C))


def trained() -> EncoderDecoder:
    """The model that is kept."""
    network = model()
    network.load_state_dict(load_file(PATH))
    return network.eval()


def main() -> None:
    """Train it on the questions that are not held out, and keep it."""
    torch.manual_seed(1)
    network = model()
    asked = [verbs for verbs in SINGLE + DOUBLE if verbs not in HELD_OUT]
    source = tokens([question(verbs) for verbs in asked])
    target = tokens([["start", *answer(verbs), "end"] for verbs in asked])
    optimizer = torch.optim.AdamW(network.parameters(), lr=1e-2, weight_decay=0.0)
    for _ in range(400):
        loss = network.loss(source, target, padding_token=PADDING)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    save_file(network.state_dict(), PATH)
    source = tokens([question(verbs) for verbs in HELD_OUT])
    written = network.eval().greedy_decode(source, start_token=START, end_token=END, max_len=8)
    print(f"loss {loss.item():.4f} nats per token")
    for verbs, said in zip(HELD_OUT, written.T.tolist(), strict=True):
        print(" ".join(question(verbs)), "->", " ".join(WORDS[i] for i in said))


if __name__ == "__main__":
    main()
