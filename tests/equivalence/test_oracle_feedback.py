"""Checkpoints of labml-nn 0.5.1 load into the feedback transformers, and compute the same."""

import inspect

import pytest
import torch
from oracle import assert_same, published

from labml_nn.transformers.feedback import (
    FeedbackAttention,
    FeedbackTransformer,
    FeedbackTransformerKV,
    FeedbackTransformerLayer,
    FeedForward,
    Stack,
)


def build_attention(shared, dropout=0.1):
    return FeedbackAttention(3, 12, dropout, is_kv_precomputed=shared)


def build_layer(shared, gated=False):
    return FeedbackTransformerLayer(
        d_model=12,
        attn=build_attention(shared),
        feed_forward=FeedForward(12, 28, is_gated=gated),
        dropout_prob=0.2,
    )


def build(shared, gated=False):
    layer = build_layer(shared, gated)
    return FeedbackTransformerKV(layer, 2, 12, 3) if shared else FeedbackTransformer(layer, 2)


def refill(stack, rows):
    """Fill a stack row by row and look at it after each, as the published model does."""
    read = []
    for n, row in enumerate(rows):
        stack.append(n, row)
        read.append(stack.get())
    return read


#: The same functions build the published model: its names are ours.
HELPERS = "\n\n".join(map(inspect.getsource, (build_attention, build_layer, build, refill)))

CASES = (
    """
from torch import nn
from labml_nn.transformers.feedback import *


"""
    + HELPERS
    + """


def trained(module):
    # Parameters that begin equal or zero would hide most mistakes.
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.add_(torch.randn_like(parameter) / 4)
    return module


x, one = torch.randn(5, 2, 12), torch.randn(2, 12)
memory, keys, values = torch.randn(7, 2, 12), torch.randn(7, 2, 3, 4), torch.randn(7, 2, 3, 4)

record("attention", trained(build_attention(False)), query=one, key=memory, value=memory)
record("attention, shared", trained(build_attention(True)), query=one, key=keys, value=values)
record("layer", trained(build_layer(False)), x=one, key=memory, value=memory)
record("layer, shared", trained(build_layer(True)), x=one, key=keys, value=values)
record("layer, no memory", trained(build_layer(True)), x=one, key=None, value=None)
for shared in (False, True):
    record(f"model {shared}", trained(build(shared)), x)
    record(f"model {shared}, gated", trained(build(shared, gated=True)), x)


class Filled(nn.Module):
    def forward(self, rows):
        return refill(Stack(9), rows)


record("stack", Filled(), x)
parameters = {shared: list(dict(build(shared).named_parameters())) for shared in (False, True)}
records["order"] = {"parameters": parameters}
"""
)


class Filled(torch.nn.Module):
    def forward(self, rows):
        return refill(Stack(4), rows)


@pytest.fixture(scope="module")
def records():
    return published(CASES)


@pytest.mark.parametrize("case", ["attention", "attention, shared"])
def test_attention(records, case):
    assert_same(records[case], build_attention("shared" in case))


@pytest.mark.parametrize("case", ["layer", "layer, shared", "layer, no memory"])
def test_layer(records, case):
    assert_same(records[case], build_layer(case != "layer"))


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("kind", ["", ", gated"])
def test_model(records, shared, kind):
    assert_same(records[f"model {shared}{kind}"], build(shared, gated="gated" in kind))


@pytest.mark.parametrize("shared", [False, True])
def test_parameters_come_in_the_same_order(records, shared):
    """Saved optimizers know parameters by their place."""
    assert list(dict(build(shared).named_parameters())) == records["order"]["parameters"][shared]


def test_stack(records):
    """Even if it has to grow meanwhile."""
    assert_same(records["stack"], Filled())
