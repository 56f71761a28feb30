"""What the pages claim: their numbers are right."""

import torch

from labml_nn.transformers.feedback import (
    FeedbackAttention,
    FeedbackTransformerKV,
    FeedbackTransformerLayer,
    FeedForward,
)


def millions(**options):
    """Parameters of the model that the page speaks of, and those of its tables of distances."""
    with torch.device("meta"):
        layer = FeedbackTransformerLayer(
            d_model=512,
            attn=FeedbackAttention(8, 512, is_kv_precomputed=True, **options),
            feed_forward=FeedForward(512, 2048),
            dropout_prob=0.1,
        )
        model = FeedbackTransformerKV(layer, 6, 512, 8)
    named = dict(model.named_parameters())
    tables = sum(p.numel() for name, p in named.items() if "key_pos" in name)
    return sum(p.numel() for p in named.values()) / 1e6, tables / 1e6


def test_size_of_the_tables_of_distances():
    total, tables = millions()
    assert (round(total, 1), round(tables, 1), round(tables / total, 2)) == (29.1, 12.8, 0.44)
    assert round(millions(max_distance=127)[0], 1) == 16.7


def test_multiplications_of_the_two_forms():
    rows, width, heads = 128, 256, 8
    readable = 2 * rows * width**2 + 2 * rows * width
    fast = 2 * width**2 + 2 * rows * heads * width
    assert (round(readable / 1e6, 1), round(fast / 1e6, 2)) == (16.8, 0.66)
