"""For tests of graphs: what stands in for one on a processor, and models in pairs.

The stand-in calls the function again and writes the results where the first ones were. So what a
graph does to tensors happens here too, and in double precision.
"""

import copy
import warnings

import pytest
import torch
from feedback_tools import build, tokens

from labml_nn.transformers.feedback import gpu
from labml_nn.transformers.feedback.by_hand import form as forms
from labml_nn.transformers.feedback.gpu import graphs, recording

N, T = 3, 9


class Rerun:
    """What a graph is to those who look at its tensors."""

    made = 0

    def __init__(self, function, device):
        Rerun.made += 1
        function()  # as for warming up
        self.function, self.results = function, tuple(part.clone() for part in function())
        for result in self.results:
            result.fill_(torch.nan)  # a graph that was recorded has not run

    def replay(self):
        for place, result in zip(self.results, self.function(), strict=True):
            place.copy_(result)


@pytest.fixture
def alone(monkeypatch):
    """Spans of four steps, an empty shelf, and everything said anew."""
    monkeypatch.setattr(forms, "STEPS", 4)
    monkeypatch.setattr(graphs, "TAPES", graphs.Tapes())
    monkeypatch.setattr(graphs, "TOLD", set())
    monkeypatch.setattr(gpu, "BROKEN", set())


@pytest.fixture
def rerun(monkeypatch):
    """A processor that can record."""
    monkeypatch.setattr(recording, "recorder", lambda device: Rerun)
    monkeypatch.setattr(Rerun, "made", 0)


def pair(**options):
    """The same model twice, in double precision: in graphs, and by hand."""
    played = build(True, **options).double()
    with_hand = copy.deepcopy(played)
    played.backend, with_hand.backend = "graphs", "by_hand"
    return played, with_hand


def everything(model, x, memory=None, **told):
    """Outputs, memory, and gradients of the input and of all parameters."""
    x = x.to(next(model.parameters())).requires_grad_()
    torch.manual_seed(3)
    y, memory = model.scan(x, memory, **told)
    outputs = (y, memory.keys.rows, memory.values.rows)
    total = sum((part * tokens(*part.shape, seed=i).to(y)).sum() for i, part in enumerate(outputs))
    found = torch.autograd.grad(total, [x, *model.parameters()], allow_unused=True)
    return [*outputs, *found]


def assert_same(got, expected):
    for mine, right in zip(got, expected, strict=True):
        if right is None:
            assert mine is None
        else:
            torch.testing.assert_close(mine, right, rtol=1e-10, atol=1e-12)


def assert_pair(models, x, **told):
    """Twice: the second time it is recorded, and the third it is played again."""
    for seed in range(3):
        text = x + seed
        assert_same(*(everything(model, text, **told) for model in models))


double = {"dtype": torch.float64}


def warned(model, x):
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        results = [everything(model, x) for _ in range(3)]
    return results, [str(warning.message) for warning in told]
