"""What the page of linear attention says of its numbers."""

import json
import re
from pathlib import Path

import pytest
import torch
from torch import tensor

from docs_src.figures import linear_attention as figures
from labml_nn.recurrent.linear_attention import (
    ShortConvolution,
    feature_map,
    linear_attention_loop,
)

ROOT = Path(__file__).parents[3]
LESSON = (ROOT / "labml_nn/recurrent/linear_attention.py").read_text(encoding="utf-8")
ANN, BEN, CLEO = tensor([1.0, 0.0]), tensor([0.0, 1.0]), tensor([0.6, 0.8])
KEYS = torch.stack([ANN, BEN, CLEO])
VALUES = tensor([[3.0, 1.0], [2.0, 4.0], [5.0, 0.0]])


def memory_after(keys, values):
    zeros = torch.zeros(1, 1, keys.shape[1], values.shape[1])
    _, memory = linear_attention_loop(*(x[:, None, None] for x in (keys, keys, values)), zeros)
    return memory[0, 0]


def vector(words):
    return tensor([float(number) for number in re.findall(r"-?[\d.]+", words)])


def close(found, expected, digits=6):
    torch.testing.assert_close(found, tensor(expected), rtol=0, atol=0.5 * 10**-digits)


def test_two_orthogonal_pairs_are_found_exactly():
    memory = memory_after(KEYS[:2], VALUES[:2])
    close(memory, [[3.0, 1.0], [2.0, 4.0]])
    close(KEYS[:2] @ memory, [[3.0, 1.0], [2.0, 4.0]])


def test_the_table_with_the_third_pair():
    memory = memory_after(KEYS, VALUES)
    close(memory, [[6.0, 1.0], [6.0, 4.0]])
    rows = re.findall(
        r"^\| (Ann|Ben|Cleo) \| \((.*?)\) \| \((.*?)\) \| \((.*?)\) \|$", LESSON, re.M
    )
    assert [row[0] for row in rows] == ["Ann", "Ben", "Cleo"]
    for (_, query, found, right), key, value in zip(rows, KEYS, VALUES, strict=True):
        torch.testing.assert_close(vector(query), key)
        torch.testing.assert_close(vector(right), value)
        torch.testing.assert_close(vector(found), key @ memory)


def test_the_average_of_ann():
    weights = KEYS @ ANN
    close(weights.sum(), 1.6)
    close(ANN @ memory_after(KEYS, VALUES) / weights.sum(), [3.75, 0.625])
    ones = torch.cat([VALUES, torch.ones(3, 1)], dim=1)
    close(memory_after(KEYS, ones)[:, 2], KEYS.sum(0).tolist())  # the last column is z


def test_features_that_are_nearly_orthogonal():
    raw = tensor([[5.0, -5.0], [-5.0, 5.0]])
    features = feature_map(raw)
    close(features, [[6.0, 0.007], [0.007, 6.0]], 3)
    products = features @ features.T
    close(products[0], [36.0, 0.08], 2)
    average = products @ VALUES[:2] / products.sum(1, keepdim=True)
    close(average[0], [2.998, 1.007], 3)


def test_a_key_that_is_written_twice():
    """The sum of both values, or their mean, and not the second."""
    ones = tensor([[3.0, 1.0, 1.0], [1.0, 1.0, 1.0]])
    found = ANN @ memory_after(torch.stack([ANN, ANN]), ones)
    close(found[:2], [4.0, 2.0])
    close(found[:2] / found[2], [2.0, 1.0])


def test_a_convolution_that_takes_the_token_before():
    convolution, x = ShortConvolution(2), torch.randn(5, 1, 2)
    with torch.no_grad():
        convolution.weight.copy_(tensor([0.0, 0.0, 1.0, 0.0]).expand(2, 1, 4))
        y, _ = convolution(x)
    torch.testing.assert_close(y[1:], x[:-1])


def test_a_sum_in_bfloat16_stops_growing():
    total = tensor(256.0, dtype=torch.bfloat16)
    assert total + 1 == total and total.float() + 1 != total


@pytest.mark.parametrize("d_k", figures.SIZES)
def test_the_capacity_figure(d_k):
    """All is found of a few pairs, and less of more."""
    shares = [figures._found(d_k, pairs, trials=40) for pairs in (1, 64)]
    assert shares[0] == 1.0 > shares[1]
    assert figures._found(2 * d_k, 64, trials=40) > shares[1]


def result(name):
    return json.loads((ROOT / f"docs_src/results/{name}/result.json").read_text(encoding="utf-8"))


def test_what_the_trained_model_wrote_and_its_loss():
    ours, lstm = result("linear_attention"), result("lstm")
    quoted = " ".join(re.findall(r"(?m)^> (.*)$", LESSON)).split()
    assert len(quoted) > 15
    assert " ".join(quoted) in " ".join(ours["samples"][0]["text"].split())
    assert f"{ours['result']['validation_loss']:.2f}" == "1.76"
    assert 100 < ours["result"]["process_seconds"] < 140  # about two minutes
    (then,) = [row[1] for row in lstm["curve"]["validation"] if row[0] == ours["result"]["step"]]
    assert f"{then:.2f}" == "1.70"
    assert lstm["parameters"] == pytest.approx(ours["parameters"], rel=0.03)
    (all_three,) = [row[1] for row in ours["curve"]["validation"] if row[0] == 250]
    assert f"{all_three:.2f}" == "2.04"
