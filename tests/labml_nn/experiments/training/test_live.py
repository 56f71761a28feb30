"""A curve that grows while the training goes on, and is whole in the end."""

import sys
import types

import pytest

from labml_nn.experiments.data.corpus import Corpus
from labml_nn.experiments.training.config import TrainingConfig
from labml_nn.experiments.training.live import LiveCurve, NotebookPicture
from labml_nn.experiments.training.task import TextTask
from labml_nn.experiments.training.trainer import Trainer
from labml_nn.recurrent.elman.language_model import ElmanLanguageModel

TEXT = "to be, or not to be, that is the question: " * 9


def train(*reporters, steps=4):
    task = TextTask(Corpus.of("a line", TEXT), batch_size=3, seq_len=7, seed=1)
    model = ElmanLanguageModel.from_config({**task.model_fields, "d_hidden": 11})
    config = TrainingConfig(steps=steps, batch_size=3, seq_len=7, evaluate_every=2, sample_tokens=5)
    return Trainer(model, task, config, reporters=reporters).train()


def points(svg, weight):
    """How many points the lines of this weight have, line after line."""
    paths = svg.split(f'<path class="{weight} ')[1:]
    return [path.split('"')[2].count("L") + 1 for path in paths]


def test_it_grows_and_is_whole_in_the_end():
    pictures = []
    result = train(LiveCurve(seconds=0.0, show=pictures.append))
    assert len(pictures) == 5  # after each update, and at the end
    assert [points(svg, "thin") for svg in pictures] == [[1], [2], [3], [4], [4]]
    assert points(pictures[-1], "line") == [2]
    assert "1 of 4 updates, " in pictures[0] and " tokens a second, " in pictures[0]
    assert ">4 updates in 0 s</text>" in pictures[-1]
    assert f"{result.validation_loss:.3f}" in pictures[-1]


def test_it_is_drawn_no_more_often_than_it_is_asked_to():
    pictures = []
    train(LiveCurve(seconds=1_000.0, show=pictures.append))
    assert len(pictures) == 2  # the first, and the last


def test_several_trainings_in_one_picture():
    pictures = []
    curves = LiveCurve(show=pictures.append)
    train(curves.named("one"))
    train(curves.named("two"), steps=6)
    assert points(pictures[-1], "line") == [2, 3]
    assert points(pictures[-1], "thin") == [4, 6]
    assert "two: 6 updates in" in pictures[-1]
    for name, colour in (("one", "c0"), ("two", "c1")):
        assert f'<path class="line {colour}"' in pictures[-1]
        assert f">{name} <tspan" in pictures[-1]


def test_what_goes_wrong_is_said(capsys):
    LiveCurve(show=print).warned("the disk is full")
    assert capsys.readouterr().out == "the disk is full\n"


def test_nothing_is_drawn_before_there_is_a_point():
    LiveCurve(show=pytest.fail).draw()


def test_the_picture_changes_in_its_place(monkeypatch):
    shown = []

    class Handle:
        def update(self, data, raw):
            shown.append(("updated", data, raw))

    def display(data, raw, display_id):
        shown.append(("shown", data, raw))
        return Handle()

    module = types.ModuleType("IPython.display")
    module.display = display
    monkeypatch.setitem(sys.modules, "IPython", types.ModuleType("IPython"))
    monkeypatch.setitem(sys.modules, "IPython.display", module)
    picture = NotebookPicture()
    for svg in ("<svg>1</svg>", "<svg>2</svg>", "<svg>3</svg>"):
        picture(svg)
    assert [how for how, _, _ in shown] == ["shown", "updated", "updated"]
    assert shown[-1][1] == {"image/svg+xml": "<svg>3</svg>", "text/html": "<svg>3</svg>"}


def test_without_a_notebook_it_says_what_to_do(monkeypatch):
    monkeypatch.setitem(sys.modules, "IPython.display", None)
    with pytest.raises(ImportError, match=r"leave it out, or give it a function"):
        LiveCurve()
