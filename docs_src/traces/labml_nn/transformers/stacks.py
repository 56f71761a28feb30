"""Runs of the stacks: a whole text at once, and a text that goes on."""

import torch

from labml_nn.transformers.feed_forward import FeedForward
from labml_nn.transformers.layer import TransformerLayer
from labml_nn.transformers.mha import MultiHeadAttention
from labml_nn.transformers.stacks import Decoder, Encoder
from labml_nn.transformers.utils import padding_mask, subsequent_mask


def layer(H, C, F, src_attn=None):
    """One layer, for the encoder or the decoder."""
    return TransformerLayer(
        d_model=C,
        self_attn=MultiHeadAttention(H, C),
        src_attn=src_attn,
        feed_forward=FeedForward(C, F),
        dropout_prob=0.1,
    )


def trace_whole(T, S, B, L, H, K, C, F):
    """Source and target, each as a whole."""
    encoder = Encoder(layer(H, C, F), L)
    decoder = Decoder(layer(H, C, F, MultiHeadAttention(H, C)), L)
    padding = padding_mask(S - torch.arange(B) % S, S)
    encoder(torch.randn(T, B, C), subsequent_mask(T))
    decoder(torch.randn(T, B, C), torch.randn(S, B, C), padding, subsequent_mask(T))


def trace_going_on(T, S, B, L, H, K, C, F):
    """T rows go on where S rows end."""
    encoder = Encoder(layer(H, C, F), L)
    x, mask = torch.randn(S + T, B, C), subsequent_mask(S + T)
    _, past = encoder.extend(x[:S], mask[:S, :S], None)
    encoder.extend(x[S:], mask[S:], past)


def trace_writing(T, S, B, L, H, K, C, F):
    """A target that is written while the source stays what it is."""
    decoder = Decoder(layer(H, C, F, MultiHeadAttention(H, C)), L)
    sources = decoder.project_source(torch.randn(S, B, C))
    padding = padding_mask(S - torch.arange(B) % S, S)
    decoder.extend(torch.randn(T, B, C), subsequent_mask(T), None, sources, padding)
