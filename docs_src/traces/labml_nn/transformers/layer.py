"""Runs of a transformer's layer."""

import torch

from labml_nn.transformers.feed_forward import FeedForward
from labml_nn.transformers.layer import TransformerLayer
from labml_nn.transformers.mha import MultiHeadAttention
from labml_nn.transformers.utils import padding_mask, subsequent_mask


def layer(H, C, F, **options):
    """One with attention to a source."""
    return TransformerLayer(
        d_model=C,
        self_attn=MultiHeadAttention(H, C),
        src_attn=MultiHeadAttention(H, C),
        feed_forward=FeedForward(C, F),
        dropout_prob=0.1,
        **options,
    )


def trace_decoder(T, S, B, H, K, C, F):
    """Rows that attend to themselves and to a source, in both orders of normalisation."""
    x, src = torch.randn(T, B, C), torch.randn(S, B, C)
    masks = subsequent_mask(T), padding_mask(torch.arange(B) % S + 1, S)
    for norm_first in (True, False):
        model = layer(H, C, F, norm_first=norm_first)
        model.is_save_ff_input = norm_first
        model(x=x, mask=masks[0], src=src, src_mask=masks[1])


def trace_going_on(T, S, B, H, K, C, F):
    """New rows, after S rows whose keys and values were kept."""
    model = layer(H, C, F)
    x, mask = torch.randn(S + T, B, C), subsequent_mask(S + T)
    source = model.src_attn.project(key=x[:S], value=x[:S])
    _, past = model.extend(x=x[:S], mask=mask[:S, :S], past=None)
    model.extend(x=x[S:], mask=mask[S:], past=past, source=source)
