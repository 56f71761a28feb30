"""Checkpoints of labml-nn 0.5.1 load into our modules strictly, and compute the same.

Each line of the table makes a module there and here, and calls it: its name, the module, and the
arguments. `IMPORTS` and the helpers that the lines name run there and here too.
"""

import inspect

import pytest
import torch
from oracle import assert_same, published
from torch import nn

from labml_nn import kernels

IMPORTS = """
from torch import nn

from labml_nn.lstm import *
from labml_nn.transformers import fast_weights
from labml_nn.transformers.fast_weights import DPFP, token_wise
from labml_nn.transformers.feed_forward import FeedForward
from labml_nn.transformers.feedback import *
from labml_nn.transformers.label_smoothing_loss import *
from labml_nn.transformers.mha import MultiHeadAttention, PrepareForMultiHeadAttention
from labml_nn.transformers.models import *
from labml_nn.transformers.positional_encoding import PositionalEncoding, get_positional_encoding
from labml_nn.transformers.utils import subsequent_mask
"""
exec(IMPORTS)


def layer(decoder):
    return TransformerLayer(
        d_model=12,
        self_attn=MultiHeadAttention(3, 12, 0.2),
        src_attn=MultiHeadAttention(4, 12, 0.2) if decoder else None,
        feed_forward=FeedForward(12, 28, 0.2),
        dropout_prob=0.2,
    )


def encoder_decoder():
    return EncoderDecoder(
        Encoder(layer(False), 2),
        Decoder(layer(True), 3),
        EmbeddingsWithPositionalEncoding(12, 17, 30),
        EmbeddingsWithLearnedPositionalEncoding(12, 19, 20),
        Generator(19, 12),
    )


def feedback_layer(shared, gated=False):
    return FeedbackTransformerLayer(
        d_model=12,
        attn=FeedbackAttention(3, 12, is_kv_precomputed=shared),
        feed_forward=FeedForward(12, 28, is_gated=gated),
        dropout_prob=0.2,
    )


def fast_layer(module=fast_weights, nu=1):
    return module.FastWeightsAttentionTransformerLayer(
        d_model=12,
        attn=module.FastWeightsAttention(3, 12, 0.1, DPFP(nu)),
        feed_forward=FeedForward(12, 28),
        dropout_prob=0.2,
    )


class Filled(nn.Module):
    """Fills a stack row by row, more than it has room for, and looks at it after each."""

    def forward(self, rows):
        stack, read = Stack(4 if hasattr(Stack(4), "slots") else 9), []
        for n, row in enumerate(rows):
            stack.append(n, row)
            read.append(stack.get())
        stack.free()
        stack.append(0, rows[1])
        return [*read, stack.get()]


CASES = """
attention | MultiHeadAttention(3, 12) | query=query, key=key, value=value
attention, causal | MultiHeadAttention(3, 12) | query=query, key=query, value=query, mask=causal
attention, padding | MultiHeadAttention(3, 12) | query=query, key=key, value=value, mask=padding
attention, full mask | MultiHeadAttention(3, 12) | query=query, key=key, value=value, mask=full
attention, bias=False | MultiHeadAttention(3, 12, bias=False) | query=query, key=key, value=value
projection | PrepareForMultiHeadAttention(12, 3, 5, bias=True) | query
network | FeedForward(12, 28) | query
network, gated | FeedForward(12, 28, 0.1, nn.SiLU(), True) | query
network, no biases | FeedForward(12, 28, 0.1, nn.Sigmoid(), True, False, False, False) | query
positions | PositionalEncoding(12, 0.2, 9) | query
embeddings, fixed | EmbeddingsWithPositionalEncoding(12, 17, 30) | src
embeddings, learned | EmbeddingsWithLearnedPositionalEncoding(12, 17, 30) | src
encoder layer | layer(False) | x=query, mask=causal
encoder layer, no mask | layer(False) | x=query, mask=None
decoder layer | layer(True) | x=query, mask=causal, src=key, src_mask=padding
decoder layer, no source | layer(True) | x=query, mask=causal
encoder | Encoder(layer(False), 3) | query, causal
decoder | Decoder(layer(True), 2) | query, key, padding, causal
generator | Generator(17, 12) | query
encoder-decoder | encoder_decoder() | src, tgt, padding, causal
smoothing | LabelSmoothingLoss(6, 2, 0.3) | log_probabilities, target
no smoothing | LabelSmoothingLoss(6, 2) | log_probabilities, target
feedback attention | FeedbackAttention(3, 12) | query=one, key=key, value=key
KV attention | FeedbackAttention(3, 12, is_kv_precomputed=True) | query=one, key=keys, value=values
feedback layer | feedback_layer(False) | x=one, key=key, value=key
feedback layer, KV | feedback_layer(True) | x=one, key=keys, value=values
feedback layer, no memory | feedback_layer(True) | x=one, key=None, value=None
feedback | FeedbackTransformer(feedback_layer(False), 2) | query
feedback, gated | FeedbackTransformer(feedback_layer(False, True), 2) | query
feedback, KV | FeedbackTransformerKV(feedback_layer(True), 2, 12, 3) | query
feedback, KV, gated | FeedbackTransformerKV(feedback_layer(True, True), 2, 12, 3) | query
lstm | LSTM(12, 7, 2) | query
lstm with a state | LSTM(12, 12, 1) | query, (key[:1], value[:1])
lstm cell | LSTMCell(12, 12, True) | x=query[0], h=key[0], c=value[0]
feature map | nn.Sequential(nn.Linear(12, 5), DPFP(2, 1e-3)) | query
fast attention | fast_weights.FastWeightsAttention(3, 12, 0.1, DPFP()) | query
fast attention, one token | token_wise.FastWeightsAttention(3, 12, 0.1, DPFP()) | one, fast
fast weights | fast_weights.FastWeightsAttentionTransformer(fast_layer(nu=3), 2) | query
token by token | token_wise.FastWeightsAttentionTransformer(fast_layer(token_wise), 2) | query
stack | Filled() | query
"""
CASES = [line.split(" | ") for line in CASES.strip().splitlines()]
#: Where ours says in words what theirs did.
OURS = {"attention, bias=False": "MultiHeadAttention(3, 12, bias=False, output_bias=True)"}
HELPERS = (layer, encoder_decoder, feedback_layer, fast_layer, Filled)

PREPARED = """
def trained(module):
    # Parameters that begin equal or zero would hide most mistakes.
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.add_(torch.randn_like(parameter) / 4)
    names[case] = [name for name, _ in module.named_parameters()]
    return module


names = {}
query, key, value = torch.randn(5, 2, 12), torch.randn(7, 2, 12), torch.randn(7, 2, 12)
one, keys, values = torch.randn(2, 12), torch.randn(7, 2, 3, 4), torch.randn(7, 2, 3, 4)
fast = torch.randn(2, 3, 4, 8)
src, tgt = torch.randint(17, (7, 2)), torch.randint(19, (5, 2))
causal = subsequent_mask(5)
padding = torch.arange(7)[None, :, None] < torch.tensor([7, 4])
full = torch.rand(5, 7, 2) < 0.7
full[:, 0] = True
log_probabilities, target = torch.randn(11, 6).log_softmax(-1), torch.randint(6, (11,))
target[3] = 2
"""
PICTURES = 'sys.modules["matplotlib"] = sys.modules["matplotlib.pyplot"] = MagicMock()'
THERE = "\n".join(
    [
        PICTURES,  # a module draws one when it is run as a program
        IMPORTS,
        *map(inspect.getsource, HELPERS),
        PREPARED,
        *(f"case = {n!r}\nrecord(case, trained({made}), {given})" for n, made, given in CASES),
        'records["names"] = names',
        'records["tables"] = {d: get_positional_encoding(d, 600) for d in (2, 12, 64)}',
    ]
)


@pytest.fixture(scope="module")
def records():
    return published(THERE)


@pytest.mark.parametrize(("name", "module", "arguments"), CASES, ids=[case[0] for case in CASES])
def test_an_old_checkpoint_computes_the_same(records, name, module, arguments):
    """With kernels and without. Saved optimizers know parameters by their place."""
    ours = eval(OURS.get(name, module))
    assert [name for name, _ in ours.named_parameters()] == records["names"][name]
    assert_same(records[name], ours)
    with kernels.disabled():
        assert_same(records[name], ours)


def test_table_of_sinusoids_to_the_last_bits(records):
    for d_model, table in records["tables"].items():
        torch.testing.assert_close(get_positional_encoding(d_model, 600), table, rtol=0, atol=1e-6)
