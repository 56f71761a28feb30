"""Every number of the page about GPT: its worked example and its costs."""

import math

import pytest
import torch
from lesson_pages import Page
from torch.nn import functional as F

import labml_nn
from labml_nn.transformers import autoregressive

PAGE = Page(autoregressive)


def test_labels_are_the_inputs_shifted_by_one():
    inputs, labels = (row[1:] for row in PAGE.rows("position $t$ |"))
    assert inputs[1:] == labels[:-1] and len(inputs) == 4
    assert "completes texts" in PAGE.text and "*to be or not to*" in PAGE.text
    assert " ".join([inputs[0], *labels]) == "to be or not to"


def test_the_probability_of_a_text_and_its_loss():
    chances = PAGE.numbers(r"the probabilities ([\d., and]*5)\.")
    *factors, product = PAGE.numbers(r"\$(0\.5 \\cdot [^$]*)\$")
    assert factors == chances and math.prod(chances) == pytest.approx(product)
    *terms, count, mean = PAGE.numbers(r"\\frac(\{0\.693.*?)nats")
    assert count == len(chances) == len(terms)
    assert terms == [round(-math.log(chance), 3) for chance in chances]
    logits = torch.tensor([[math.log(p), math.log(1 - p)] for p in chances])
    loss = F.cross_entropy(logits, torch.zeros(4, dtype=torch.long)).item()
    assert loss == pytest.approx(mean, abs=5e-4) == -math.log(product) / count
    PAGE.has(f"$e^{{{mean}}} = {math.exp(loss):.2f}$", f"$\\ln 65 = {math.log(65):.2f}$")


def test_when_attention_costs_more_than_the_rest():
    """12 C² against 2 S C, by counting the elements of a layer."""
    model = labml_nn.create("autoregressive", n_vocab=7, d_model=24, heads=3, n_layers=1)
    layer = model.stack.layers[0]
    assert sum(p.numel() for p in layer.parameters() if p.dim() > 1) == 12 * 24**2
    width = 768
    PAGE.says("$C = {}$, so that would be more than {:,}", width, 12 * width**2 // (2 * width))
