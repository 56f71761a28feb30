"""Write a number backwards, and see the whole source or a single vector of it.

The source is 2 to 10 random digits, the answer the same digits in the opposite order. Both models
are the lesson's `EncoderDecoder` with a layer in each stack, 32 features, 4 heads and 64 hidden
features. The decoder of ``all`` attends to the vectors of all source tokens. That of ``one`` gets
their mean, a single vector, as the first networks of this kind did.

1,000 updates with 64 answers each, AdamW with a learning rate of 0.003 that falls to 0 along a
cosine. An answer is right if every token is, the end token included; 200 of each length are asked.
"""

import math

import torch
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
from labml_nn.transformers.utils import subsequent_mask

MODELS = ("all", "one")
#: Tokens: three special ones, then ten digits.
PADDING, START, END, DIGITS = 0, 1, 2, 10
LENGTHS = range(2, 11)
UPDATES, BATCH, ASKED = 1000, 64, 200


class OneVector(EncoderDecoder):
    """The encoder–decoder whose memory is the mean of the source vectors."""

    def encode(self, src: Tensor, src_mask: Tensor | None) -> Tensor:
        """One vector for each source."""
        memory = super().encode(src, src_mask)
        real = (src != PADDING).unsqueeze(-1)
        return (memory * real).sum(0, keepdim=True) / real.sum(0, keepdim=True)

    def decode(
        self, memory: Tensor, src_mask: Tensor | None, tgt: Tensor, tgt_mask: Tensor | None
    ) -> Tensor:
        """Nothing of the memory is padding."""
        return super().decode(memory, None, tgt, tgt_mask)


def model(name: str) -> EncoderDecoder:
    """A new model."""

    def layer(src_attn: MultiHeadAttention | None = None) -> TransformerLayer:
        return TransformerLayer(
            d_model=32,
            self_attn=MultiHeadAttention(4, 32, 0.0),
            src_attn=src_attn,
            feed_forward=FeedForward(32, 64, 0.0),
            dropout_prob=0.0,
        )

    kind = EncoderDecoder if name == "all" else OneVector
    stacks = Encoder(layer(), 1), Decoder(layer(MultiHeadAttention(4, 32, 0.0)), 1)
    embeds = (EmbeddingsWithPositionalEncoding(32, END + 1 + DIGITS, 20) for _ in range(2))
    return kind(*stacks, *embeds, Generator(END + 1 + DIGITS, 32))


def pairs(lengths: Tensor) -> tuple[Tensor, Tensor]:
    """Random sources of these lengths and their answers, ``[S, B]`` and ``[T, B]``, padded."""
    most = int(lengths.max())
    source = torch.full((most, len(lengths)), PADDING)
    answer = torch.full((most + 2, len(lengths)), PADDING)
    answer[0] = START
    for i, length in enumerate(lengths.tolist()):
        digits = torch.randint(END + 1, END + 1 + DIGITS, (length,))
        source[:length, i], answer[1 : length + 1, i] = digits, digits.flip(0)
        answer[length + 1, i] = END
    return source, answer


@torch.no_grad()
def right(network: EncoderDecoder, length: int) -> float:
    """The share of right answers to sources of a length, when the model writes by itself."""
    source, answer = pairs(torch.full((ASKED,), length))
    memory, written = network.encode(source, (source != PADDING).unsqueeze(0)), answer[:1]
    for _ in range(length + 1):
        mask = subsequent_mask(len(written))
        features = network.decode(memory, None, written, mask)
        written = torch.cat([written, network.generator(features[-1:]).argmax(-1)])
    return (written == answer).all(0).double().mean().item()


def run(name: str, seed: int) -> dict[str, float | list[float]]:
    """Train a model, and return the share of its right answers: of all, and of each length."""
    torch.manual_seed(seed)
    network = model(name)
    optimizer = torch.optim.AdamW(network.parameters(), lr=3e-3)
    for update in range(UPDATES):
        for group in optimizer.param_groups:
            group["lr"] = 3e-3 * (1 + math.cos(math.pi * update / UPDATES)) / 2
        lengths = torch.randint(LENGTHS[0], LENGTHS[-1] + 1, (BATCH,))
        loss = network.loss(*pairs(lengths), padding_token=PADDING)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    network.eval()
    shares = [right(network, length) for length in LENGTHS]
    return {"right": sum(shares) / len(shares), "by_length": shares}
