"""Every number of the page about GPT: its worked example, its costs, and the trained model."""

import json
import math
import re
from pathlib import Path

import pytest
import torch
from torch.nn import functional as F

import labml_nn
from labml_nn.transformers import autoregressive

PAGE = re.sub(r"\s+", " ", Path(autoregressive.__file__).read_text(encoding="utf-8"))
PAGE = PAGE.replace("# ", "")
RESULT = Path(__file__).parents[3] / "docs_src/results/autoregressive"


def numbers(pattern):
    found = re.search(pattern, PAGE)
    assert found, pattern
    return [float(number) for number in re.findall(r"\d+(?:\.\d+)?", found[0])]


def test_labels_are_the_inputs_shifted_by_one():
    rows = re.findall(r"\| (input|label) \| (.*?) \|(?= \||\s*The)", PAGE)
    inputs, labels = (words.split(" | ") for _, words in rows)
    assert inputs[1:] == labels[:-1] and len(inputs) == 4
    assert "completes texts" in PAGE and "*to be or not to*" in PAGE
    assert " ".join([inputs[0], *labels]) == "to be or not to"


def test_the_probability_of_a_text_and_its_loss():
    chances = numbers(r"the probabilities [\d., and]*5\.")
    *factors, product = numbers(r"\$0\.5 \\cdot [^$]*\$")
    assert factors == chances and math.prod(chances) == pytest.approx(product)
    *terms, count, mean = numbers(r"\\frac\{0\.693.*?nats")
    assert count == len(chances) == len(terms)
    assert terms == [round(-math.log(chance), 3) for chance in chances]
    logits = torch.tensor([[math.log(p), math.log(1 - p)] for p in chances])
    loss = F.cross_entropy(logits, torch.zeros(4, dtype=torch.long)).item()
    assert loss == pytest.approx(mean, abs=5e-4)
    assert loss == pytest.approx(-math.log(product) / count)
    assert f"$e^{{{mean}}} = {math.exp(loss):.2f}$" in PAGE


def test_a_new_model_guesses():
    assert f"$\\ln 65 = {math.log(65):.2f}$" in PAGE
    torch.manual_seed(0)
    model = labml_nn.create("autoregressive", n_vocab=65).eval()
    tokens = torch.randint(65, (120, 3))
    assert model.loss(tokens[:-1], tokens[1:]).item() == pytest.approx(math.log(65), abs=0.2)


def test_when_attention_costs_more_than_the_rest():
    """12 C² against 2 S C, by counting the elements of a layer."""
    model = labml_nn.create("autoregressive", n_vocab=7, d_model=24, heads=3, n_layers=1)
    layer = model.stack.layers[0]
    assert sum(p.numel() for p in layer.parameters() if p.dim() > 1) == 12 * 24**2
    width, length = numbers(r"\$C = 768\$, so that would be more than 4,608")[0], 4608
    assert 12 * width**2 == 2 * length * width


def test_the_trained_model():
    found = json.loads((RESULT / "result.json").read_text(encoding="utf-8"))
    config = found["run"]["model"]["config"]
    assert f"to {found['result']['validation_loss']:.2f} nats" in PAGE
    assert config["n_layers"] == 3 and "Three layers, trained" in PAGE
    assert found["result"]["seconds"] == pytest.approx(120, abs=15)
    source = Path(autoregressive.__file__).read_text(encoding="utf-8")
    quoted = [line[2:].rstrip("\\") for line in source.split("\n") if line.startswith("> ")]
    assert "\n".join(quoted) in found["samples"][-1]["text"]
