"""What first readings of all lessons promise: a program that fits a screen, a trained model.

That each program computes what its module computes, and the numbers of each page, are tested beside
the tests of the module.
"""

import re

import pytest
from lesson_pages import ROOT, Page, definitions, result, validation_loss

from labml_nn import lstm
from labml_nn.lstm import gru
from labml_nn.recurrent import delta_net, elman, gated_delta_net, linear_attention, mamba2
from labml_nn.transformers import autoregressive, feedback, mha, models, positional_encoding

#: Lessons with "the whole in code", by their notebooks.
WHOLE = {
    "delta_net": delta_net,
    "elman": elman,
    "encoder_decoder": models,
    "feedback": feedback,
    "gated_delta_net": gated_delta_net,
    "gru": gru,
    "linear_attention": linear_attention,
    "lstm": lstm,
    "mamba2": mamba2,
    "mha": mha,
    "positional_encoding": positional_encoding,
}
#: Lessons that quote what a model of `docs_src/results` wrote.
WROTE = {
    "autoregressive": [autoregressive, mha],
    "delta_net": [delta_net],
    "elman": [elman],
    "feedback": [feedback],
    "gru": [gru],
    "linear_attention": [linear_attention],
    "lstm": [lstm],
    "mamba2": [mamba2],
}
#: Their notebooks add parts to the model, and compute as the page does.
EXTENDED = {"gru", "lstm", "mamba2"}
FORWARD = re.compile(r"    def forward.*?return [^\n]*", re.S)


@pytest.mark.parametrize("name", WHOLE)
def test_the_whole_in_code_fits_a_screen(name):
    code = "\n".join(definitions(Page(WHOLE[name]).whole))
    lines = [line for line in code.splitlines() if not line.strip().startswith(("#", "\n"))]
    assert 10 <= len([line for line in lines if line.strip()]) <= 22


@pytest.mark.parametrize("name", WHOLE)
def test_the_notebook_begins_with_the_whole_in_code(name):
    recipe = (ROOT / f"docs_src/notebooks/{name}.md").read_text(encoding="utf-8")
    beginning, code = recipe.partition("<!-- chapters -->")[0], Page(WHOLE[name]).whole
    shown = FORWARD.findall(code) if name in EXTENDED else definitions(code)
    assert shown and all(part in beginning for part in shown)


@pytest.mark.parametrize("name", WROTE)
def test_what_a_trained_model_wrote(name):
    samples = " ".join(sample["text"] for sample in result(name)["samples"])
    for quoted in (Page(module).quoted for module in WROTE[name]):
        assert len(quoted.split()) > 14 and quoted in " ".join(samples.split())


@pytest.mark.parametrize(
    ("name", "clock", "least", "most"),
    [
        ("autoregressive", "seconds", 105, 135),  # "for two minutes"
        ("delta_net", "process_seconds", 120, 180),  # "in less than three minutes"
        ("elman", "process_seconds", 120, 180),  # "a little more than two minutes"
        ("feedback", "seconds", 60, 120),  # "for less than two minutes"
        ("linear_attention", "process_seconds", 100, 140),  # "two minutes of one CPU core"
        ("lstm", "process_seconds", 100, 140),  # "for about two minutes"
        ("mamba2", "process_seconds", 150, 210),  # "for three minutes"
    ],
)
def test_how_long_a_model_was_trained(name, clock, least, most):
    assert least < result(name)["result"][clock] < most


@pytest.mark.parametrize(
    ("module", "sentence", "names"),
    [
        (autoregressive, "to {:.2f} nats", ["autoregressive"]),
        (delta_net, "Their loss is {:.2f}", ["delta_net"]),
        (delta_net, "reaches {:.2f} after 2,000 updates", ["lstm"]),
        (gru, "has a loss of {:.2f} nats", ["gru"]),
        (gru, "reaches {:.2f}, and has 23 % fewer", ["lstm"]),
        (linear_attention, "The loss is {:.2f} nats per character", ["linear_attention"]),
        (lstm, "has a loss of {:.2f} nats", ["lstm"]),
        (lstm, "reaches {:.2f} after as many updates", ["elman"]),
        (mamba2, "It has a loss of {:.2f} nats per character", ["mamba2"]),
        (mamba2, "reaches {:.2f}", ["lstm"]),
        (mha, "not read, the loss is {:.2f}.", ["autoregressive"]),
        (models, "{:.2f} on replies", ["encoder_decoder"]),
    ],
)
def test_losses_on_text_that_was_held_out(module, sentence, names):
    Page(module).says(sentence, *map(validation_loss, names))
