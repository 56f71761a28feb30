"""The folder of a run: made once, loaded later, and mistrusted when it is damaged."""

import json
import os

import pytest
import torch
from small_runs import CORPUS, MODELS, training

from labml_nn.experiments.data.vocabulary import Vocabulary
from labml_nn.experiments.errors import RunError
from labml_nn.experiments.training import folder as folder_module
from labml_nn.experiments.training.folder import RunFolder, load_run, read_json, write_json
from labml_nn.sampling import generate


@pytest.fixture(autouse=True)
def corpus(monkeypatch):
    """The text is not a file, and is found all the same."""
    monkeypatch.setattr(folder_module, "read_corpus", lambda path: CORPUS)


@pytest.mark.parametrize("name", MODELS)
def test_a_run_is_loaded(name, tmp_path):
    trainer = training(name, tmp_path, steps=3, about={"experiment": name, "variant": "v"})
    result = trainer.train()
    run = load_run(tmp_path)
    assert (run.experiment, run.variant, run.preset) == (name, "v", None)
    assert run.model_name == name and run.training == trainer.config
    assert run.vocabulary == trainer.task.vocabulary
    assert run.corpus == {"name": "a play", "sha256": CORPUS.sha256, "path": None}
    model = run.model()
    assert torch.equal(next(model.parameters()), next(trainer.model.parameters()))
    assert run.new_model().config == model.config
    assert type(run.task()) is type(trainer.task)
    assert [each.count for each in run.task().validation()] == [
        each.count for each in trainer.task.validation()
    ]
    assert run.result()["result"]["validation_loss"] == pytest.approx(result.validation_loss)
    written = generate(model, run.prompt("but soft"), 5, seed=1)
    assert isinstance(run.decode(written[:, 0]), str)


def test_replies_are_decoded_without_special_tokens(tmp_path):
    training("encoder_decoder", tmp_path, steps=1).train()
    run = load_run(tmp_path)
    size = len(run.vocabulary)
    tokens = torch.tensor([size + 1, 0, 1, size + 2, size, size])
    assert run.decode(tokens) == run.vocabulary.characters[:2]
    with pytest.raises(ValueError, match="the prompt is empty"):
        run.prompt("")


def test_another_text_is_noticed(tmp_path, monkeypatch):
    training("elman", tmp_path, steps=1).train()
    other = CORPUS.of("another play", CORPUS.text + "!")
    monkeypatch.setattr(folder_module, "read_corpus", lambda path: other)
    with pytest.raises(RunError, match=r"was trained on a play \(\w{12}\), and what is found"):
        load_run(tmp_path).task()
    assert load_run(tmp_path).task("other.txt").corpus is other


def test_what_is_there_is_not_overwritten(tmp_path):
    vocabulary = Vocabulary("ab")
    RunFolder.create(tmp_path / "new", {}, vocabulary)
    with pytest.raises(RunError, match=r"there is a run in .*new already; go on with it"):
        RunFolder.create(tmp_path / "new", {}, vocabulary)
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "chapter.tex").write_text("I")
    with pytest.raises(RunError, match="is not empty, and what is in it is no run"):
        RunFolder.create(tmp_path / "thesis", {}, vocabulary)
    with pytest.raises(RunError, match=r"chapter\.tex is a file; choose another folder"):
        RunFolder.create(tmp_path / "thesis" / "chapter.tex", {}, vocabulary)
    (tmp_path / "empty").mkdir()
    RunFolder.create(tmp_path / "empty", {}, vocabulary)


def test_where_nothing_can_be_written(tmp_path, monkeypatch):
    def refuse(*args, **kwargs):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "fsync", refuse)
    with pytest.raises(RunError, match=r"nothing can be written to .*: Permission denied; choose"):
        RunFolder.create(tmp_path / "run", {}, Vocabulary("ab"))


def test_what_is_no_run(tmp_path):
    with pytest.raises(
        RunError, match=r"nowhere is not there; expected the folder that a training"
    ):
        load_run(tmp_path / "nowhere")
    with pytest.raises(RunError, match=r"has no run in it; expected a folder with run\.json"):
        load_run(tmp_path)


def test_a_damaged_run(tmp_path):
    training("elman", tmp_path, steps=1).train()
    path = tmp_path / "run.json"
    whole = path.read_text()
    path.write_text(whole[: len(whole) // 2])
    with pytest.raises(RunError, match=r"run\.json is damaged: "):
        load_run(tmp_path)
    path.write_text("[1, 2]")
    with pytest.raises(RunError, match=r"run\.json is damaged: it holds no fields"):
        load_run(tmp_path)
    values = json.loads(whole)
    path.write_text(json.dumps({**values, "training": "fast"}))
    with pytest.raises(RunError, match="'training' is missing or of another kind"):
        load_run(tmp_path)
    path.write_text(whole)
    vocabulary = tmp_path / "vocabulary.json"
    vocabulary.write_text('{"letters": "abc"}')
    with pytest.raises(RunError, match="is damaged: it has no 'characters'"):
        load_run(tmp_path)
    vocabulary.unlink()
    with pytest.raises(RunError, match=r"there is no .*vocabulary\.json: the run is not whole"):
        load_run(tmp_path)


def test_a_run_that_has_not_come_far(tmp_path):
    training("elman", tmp_path)._begin()
    run = load_run(tmp_path)
    with pytest.raises(RunError, match="has no model yet; train on with --resume"):
        run.model()
    with pytest.raises(RunError, match="has no result yet"):
        run.result()


def test_json_is_one_line_a_field(tmp_path):
    path = tmp_path / "a.json"
    values = {"text": "né", "numbers": [1, 2.5, None], "fields": {"a": True}}
    write_json(path, values)
    assert path.read_text(encoding="utf-8").count("\n") == 5 and "né" in path.read_text("utf-8")
    assert read_json(path) == values
    with pytest.raises(ValueError, match="not JSON compliant"):
        write_json(path, {"loss": float("nan")})
    assert read_json(path) == values
