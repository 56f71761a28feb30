"""Checkpoints of labml-nn 0.5.1 load into our models strictly, and compute the same."""

import inspect

import pytest
import torch
from oracle import assert_same, published

from labml_nn.transformers.feed_forward import FeedForward
from labml_nn.transformers.label_smoothing_loss import LabelSmoothingLoss
from labml_nn.transformers.mha import MultiHeadAttention
from labml_nn.transformers.models import (
    Decoder,
    EmbeddingsWithLearnedPositionalEncoding,
    EmbeddingsWithPositionalEncoding,
    Encoder,
    EncoderDecoder,
    Generator,
    TransformerLayer,
)
from labml_nn.transformers.positional_encoding import PositionalEncoding, get_positional_encoding


def layer(decoder: bool) -> TransformerLayer:
    return TransformerLayer(
        d_model=12,
        self_attn=MultiHeadAttention(3, 12, 0.2),
        src_attn=MultiHeadAttention(4, 12, 0.2) if decoder else None,
        feed_forward=FeedForward(12, 28, 0.2),
        dropout_prob=0.2,
    )


def encoder_decoder() -> EncoderDecoder:
    return EncoderDecoder(
        Encoder(layer(False), 2),
        Decoder(layer(True), 3),
        EmbeddingsWithPositionalEncoding(12, 17, 30),
        EmbeddingsWithLearnedPositionalEncoding(12, 19, 20),
        Generator(19, 12),
    )


#: The two functions above run here and in the child: both know classes of these names.
CASES = (
    """
# The module draws a picture when it is run as a program.
sys.modules["matplotlib"] = sys.modules["matplotlib.pyplot"] = MagicMock()

from labml_nn.transformers.feed_forward import FeedForward
from labml_nn.transformers.label_smoothing_loss import LabelSmoothingLoss
from labml_nn.transformers.mha import MultiHeadAttention
from labml_nn.transformers.models import *
from labml_nn.transformers.positional_encoding import PositionalEncoding, get_positional_encoding
from labml_nn.transformers.utils import subsequent_mask
"""
    + inspect.getsource(layer)
    + inspect.getsource(encoder_decoder)
    + """
x, memory = torch.randn(5, 2, 12), torch.randn(7, 2, 12)
src, tgt = torch.randint(17, (7, 2)), torch.randint(19, (5, 2))
causal = subsequent_mask(5)
padding = torch.arange(7)[None, :, None] < torch.tensor([7, 4])

record("placed", PositionalEncoding(12, 0.2, 9), x)
records["tables"] = {d: get_positional_encoding(d, 600) for d in (2, 12, 64)}
record("fixed", EmbeddingsWithPositionalEncoding(12, 17, 30), src)
learned = EmbeddingsWithLearnedPositionalEncoding(12, 17, 30)
torch.nn.init.normal_(learned.positional_encodings)
record("learned", learned, src)

record("encoder layer", layer(False), x=x, mask=causal)
record("encoder layer, no mask", layer(False), x=x, mask=None)
record("decoder layer", layer(True), x=x, mask=causal, src=memory, src_mask=padding)
record("decoder layer without source", layer(True), x=x, mask=causal)
record("encoder", Encoder(layer(False), 3), x, causal)
record("decoder", Decoder(layer(True), 2), x, memory, padding, causal)
record("generator", Generator(17, 12), x)
record("all", encoder_decoder(), src, tgt, padding, causal)

log_probabilities = torch.randn(11, 6).log_softmax(-1)
target = torch.randint(6, (11,))
target[3] = 2
record("smoothing", LabelSmoothingLoss(6, 2, 0.3), log_probabilities, target)
record("no smoothing", LabelSmoothingLoss(6, 2), log_probabilities, target)
"""
)


@pytest.fixture(scope="module")
def records():
    return published(CASES)


def test_positions(records):
    assert_same(records["placed"], PositionalEncoding(12, 0.2, 9))


def test_table_of_sinusoids_to_the_last_bits(records):
    for d_model, table in records["tables"].items():
        torch.testing.assert_close(get_positional_encoding(d_model, 600), table, rtol=0, atol=1e-6)


def test_embeddings(records):
    assert_same(records["fixed"], EmbeddingsWithPositionalEncoding(12, 17, 30))
    assert_same(records["learned"], EmbeddingsWithLearnedPositionalEncoding(12, 17, 30))


@pytest.mark.parametrize("case", ["encoder layer", "encoder layer, no mask"])
def test_encoder_layer(records, case):
    assert_same(records[case], layer(False))


@pytest.mark.parametrize("case", ["decoder layer", "decoder layer without source"])
def test_decoder_layer(records, case):
    assert_same(records[case], layer(True))


def test_stacks(records):
    assert_same(records["encoder"], Encoder(layer(False), 3))
    assert_same(records["decoder"], Decoder(layer(True), 2))


def test_generator(records):
    assert_same(records["generator"], Generator(17, 12))


def test_whole_model_in_the_old_call(records):
    assert_same(records["all"], encoder_decoder())


def test_label_smoothing(records):
    assert_same(records["smoothing"], LabelSmoothingLoss(6, 2, 0.3))
    assert_same(records["no smoothing"], LabelSmoothingLoss(6, 2))
