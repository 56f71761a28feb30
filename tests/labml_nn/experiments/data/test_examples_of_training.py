"""Batches of questions, and their parts."""

from itertools import pairwise

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from labml_nn.experiments.data.examples import Examples
from labml_nn.registry import models

PADDING = 9


def replies():
    """Two said, three rows of replies of 3, 0, 1 and 2 tokens."""
    targets = torch.tensor([[1, PADDING, 4, 5], [2, PADDING, PADDING, 6], [3, *[PADDING] * 3]])
    return Examples.of(torch.arange(8).reshape(2, 4), targets, PADDING)


def test_every_target_of_a_text_counts():
    text = torch.arange(12).reshape(6, 2)
    batch = Examples.of(text[:-1], text[1:])
    assert batch.count == 10
    assert batch.padding_token is None


def test_of_replies_count_real_tokens_and_ends():
    assert replies().count == (3 + 0 + 1 + 2) + 4


def test_columns_know_what_they_count():
    part = replies().columns(1, 3)
    assert part.tokens.tolist() == [[1, 2], [5, 6]]
    assert part.targets.tolist() == [[PADDING, 4], [PADDING] * 2, [PADDING] * 2]
    assert part.count == 1 + 2


@given(st.data(), st.integers(1, 9), st.integers(1, 7), st.booleans())
def test_columns_partition_a_batch(data, size, length, padded):
    numbers = st.lists(st.integers(0, PADDING), min_size=size * length, max_size=size * length)
    targets = torch.tensor(data.draw(numbers)).reshape(length, size)
    tokens = torch.arange(2 * size).reshape(2, size)
    batch = Examples.of(tokens, targets, PADDING if padded else None)
    cuts = sorted(data.draw(st.sets(st.integers(1, max(1, size - 1)))))
    edges = [0, *(cut for cut in cuts if cut < size), size]
    parts = [batch.columns(a, b) for a, b in pairwise(edges)]
    assert torch.equal(torch.cat([part.tokens for part in parts], 1), tokens)
    assert torch.equal(torch.cat([part.targets for part in parts], 1), targets)
    assert sum(part.count for part in parts) == batch.count
    assert {part.padding_token for part in parts} == {batch.padding_token}


@pytest.mark.parametrize(("start", "stop"), [(-1, 2), (2, 2), (3, 2), (0, 5), (4, 5)])
def test_columns_that_are_not_there(start, stop):
    with pytest.raises(ValueError, match=f"no columns {start} to {stop} in a batch of 4"):
        replies().columns(start, stop)


def test_goes_to_another_device():
    batch = replies().to("meta")
    assert batch.tokens.is_meta and batch.targets.is_meta
    assert batch.count == 10
    assert batch.padding_token == PADDING


def test_losses_of_parts_weighed_by_what_they_count_are_the_loss():
    """The model counts as the batch does: padding never, and an end for each reply."""
    fields = {"n_vocab": PADDING + 3, "padding_token": PADDING}
    special = {"start_token": PADDING + 1, "end_token": PADDING + 2}
    size = {"d_model": 8, "heads": 2, "n_layers": 1}
    model = models()["encoder_decoder"].load_class().from_config({**fields, **special, **size})
    batch = replies()
    model.eval()
    parts = [batch.columns(0, 1), batch.columns(1, 2), batch.columns(2, 4)]
    weighed = sum(part.count * model.loss(part.tokens, part.targets) for part in parts)
    whole = model.loss(batch.tokens, batch.targets)
    torch.testing.assert_close(weighed / batch.count, whole)
    plain = sum(model.loss(part.tokens, part.targets) for part in parts) / 3
    assert abs(plain - whole) > 1e-4
