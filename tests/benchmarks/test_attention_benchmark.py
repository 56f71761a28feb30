"""Attention beside its rivals: the same weights and results, and tables of the right shape."""

import pytest
import torch

from benchmarks import attention, attention_models
from benchmarks.attention_models import KINDS, OURS, PUBLISHED, TORCH, Size, check_equal, layers
from benchmarks.peers import PUBLISHED as FOLDER

SIZE = Size(width=12, heads=3, length=5, texts=2)
installed = pytest.mark.skipif(
    not (FOLDER / "labml_nn").is_dir(), reason="labml-nn 0.5.1 is not installed: make install"
)


@pytest.mark.parametrize("kind", KINDS)
def test_ours_and_pytorchs_are_one_function(kind):
    check_equal(attention_models.attentions(SIZE.but(kind=kind), (TORCH, OURS)))


@installed
@pytest.mark.parametrize("make", [attention_models.attentions, layers])
def test_all_are_one_function(make):
    made = make(SIZE)
    assert list(made) == [PUBLISHED, TORCH, OURS]
    check_equal(made)


def test_what_differs_is_named():
    made = attention_models.attentions(SIZE, (TORCH, OURS))
    torch.nn.init.zeros_(made[OURS].module.output.bias)
    torch.nn.init.ones_(made[TORCH].module.out_proj.bias)
    with pytest.raises(AssertionError, match="ours and PyTorch differ"):
        check_equal(made)


def test_training_reaches_inputs_and_parameters():
    contender = attention_models.attentions(SIZE, (OURS,))[OURS]
    contender.train()()
    for tensor in (*contender.inputs, contender.module.value.linear.weight):
        assert (tensor.grad != 0).any()


def test_operations():
    assert SIZE.operations() == 8 * 5 * 2 * 12**2 + 4 * 5**2 / 2 * 2 * 12
    assert SIZE.but(kind="self").operations() == 8 * 5 * 2 * 12**2 + 4 * 5**2 * 2 * 12


def test_a_small_grid():
    rows = attention.anywhere(SIZE, ((4, 6), (1, 5000)), rounds=1)
    assert len(rows) == len(KINDS) * 2 * 2 * 2, "lengths, works, forms; 5,000 texts are too many"
    assert {row["form"] for row in rows} == {TORCH, OURS}
    assert all(row["ratio"] == 1 for row in rows if row["form"] == TORCH)


@installed
def test_memory_and_growth():
    mib = {
        (row["dropout"], row["form"]): row["mib"]
        for row in attention.memory({"small": SIZE.but(length=128)})
    }
    # All scores of all heads, forward and backward, where labml-nn keeps them.
    scores = 128**2 * SIZE.texts * SIZE.heads * 4 / 2**20
    assert mib[0.0, PUBLISHED] > 2 * scores > mib[0.0, OURS]
    _, fits = attention.growth(SIZE, {"texts": (1, 3)}, rounds=1).values()
    assert [fit["form"] for fit in fits] == [PUBLISHED, TORCH, OURS]


def test_the_table_of_the_page_of_three_forms():
    rows = attention.three_forms((64,), 1, heads=3, d_k=4)
    mib = {row["form"]: row["mib"] for row in rows}
    # The scores alone, several times: scaled, masked, as weights, and one on the way.
    scores = 64 * 64 * 2 * 3 * 4 / 2**20
    assert mib["einsum"] > 3 * scores
    assert mib["matmul"] > 3 * scores
    assert mib["fused"] < 2 * scores
