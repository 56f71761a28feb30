"""Runs of the whole model."""

import torch

from labml_nn.transformers.embeddings import EmbeddingsWithPositionalEncoding
from labml_nn.transformers.feed_forward import FeedForward
from labml_nn.transformers.layer import TransformerLayer
from labml_nn.transformers.mha import MultiHeadAttention
from labml_nn.transformers.models import Decoder, Encoder, EncoderDecoder, Generator
from labml_nn.transformers.utils import padding_mask, subsequent_mask


def trace_model(T, S, B, H, K, C, F, V):
    """From tokens to logits."""

    def layer(src_attn=None):
        return TransformerLayer(
            d_model=C,
            self_attn=MultiHeadAttention(H, C),
            src_attn=src_attn,
            feed_forward=FeedForward(C, F),
            dropout_prob=0.1,
        )

    model = EncoderDecoder(
        Encoder(layer(), 2),
        Decoder(layer(MultiHeadAttention(H, C)), 2),
        EmbeddingsWithPositionalEncoding(C, V, T + S),
        EmbeddingsWithPositionalEncoding(C, V, T + S),
        Generator(V, C),
    )
    source, target = torch.randint(V, (S, B)), torch.randint(V, (T, B))
    padding = padding_mask(S - torch.arange(B) % S, S)
    model.logits(source, target, padding, subsequent_mask(T))
