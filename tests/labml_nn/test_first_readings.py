"""What first readings of all lessons promise: a program that fits a screen, a trained model.

That each program computes what its module computes, and the numbers of each page, are tested beside
the tests of the module.
"""

import re

import pytest
from lesson_pages import ROOT, Page, definitions, result, validation_loss

from docs_src.lessons import LESSONS
from labml_nn import lstm
from labml_nn.lstm import gru
from labml_nn.recurrent import delta_net, linear_attention, mamba2
from labml_nn.transformers import autoregressive, mha, models

every = pytest.mark.parametrize("lesson", LESSONS)
#: Their notebooks add parts to the model, and compute as the page does.
EXTENDED = {"gru", "lstm", "mamba2"}
#: They quote another model, or none.
OTHERS = {"encoder_decoder", "gated_delta_net", "mha", "positional_encoding"}
FORWARD = re.compile(r"    def forward.*?return [^\n]*", re.S)


@every
def test_the_whole_in_code_fits_a_screen(lesson):
    code = "\n".join(definitions(Page(LESSONS[lesson]).whole))
    lines = [line for line in code.splitlines() if not line.strip().startswith("#")]
    assert 10 <= len([line for line in lines if line.strip()]) <= 22


@every
def test_the_notebook_begins_with_the_whole_in_code(lesson):
    recipe = (ROOT / f"docs_src/notebooks/{lesson}.md").read_text(encoding="utf-8")
    beginning, code = recipe.partition("<!-- chapters -->")[0], Page(LESSONS[lesson]).whole
    shown = FORWARD.findall(code) if lesson in EXTENDED else definitions(code)
    assert shown and all(part in beginning for part in shown)


@pytest.mark.parametrize(
    ("page", "name"),
    [
        (Page(autoregressive), "autoregressive"),
        (Page(mha), "autoregressive"),
        *((Page(path), name) for name, path in LESSONS.items() if name not in OTHERS),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_a_trained_model_wrote(page, name):
    samples = " ".join(sample["text"] for sample in result(name)["samples"])
    assert len(page.quoted.split()) > 14 and page.quoted in " ".join(samples.split())


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
