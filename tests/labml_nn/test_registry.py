"""The table of models: names, classes, and folders that say which model they hold."""

import json
from pathlib import Path

import pytest

import labml_nn
from labml_nn.language_model import LanguageModel

ROOT = Path(__file__).parents[2]
NAMES = list(labml_nn.models())
SMALL = {"n_vocab": 11, "d_model": 6, "d_hidden": 5}
Elman = labml_nn.models()["elman"].load_class()


def test_the_table():
    table = labml_nn.models()
    lines = repr(table).split("\n")
    assert len(lines) == len(table) and max(map(len, lines)) < 100
    assert lines[3].startswith("elman ") and lines[3].endswith(table["elman"].summary)
    for name, entry in table.items():
        cls = entry.load_class()
        assert issubclass(cls, LanguageModel) and cls.name == name
        assert f"{cls.__module__}.{cls.__qualname__}" == entry.class_name


@pytest.mark.parametrize(
    ("name", "config", "error", "message"),
    [
        ("fedback", SMALL, ValueError, r"no model 'fedback'; did you mean 'feedback'\? known: aut"),
        ("gpt", SMALL, ValueError, "no model 'gpt'; known: autoregressive, encoder_decoder"),
        (3, SMALL, TypeError, r"the model \(3\) must be a string, not a int"),
        ("elman", {"n_vocab": 11, "d_hiden": 3}, ValueError, "'d_hiden'; did you mean 'd_hidden'"),
        ("elman", {}, TypeError, "ElmanConfig.* missing .*n_vocab"),
    ],
)
def test_unknown_names_and_fields(unhooked, name, config, error, message):
    with pytest.raises(error, match=message):
        unhooked("labml_nn").create(name, **config)


def test_a_configuration_of_another_model(unhooked):
    table = unhooked("labml_nn").models()
    config = table["gru"].load_class().Config(n_vocab=5)
    with pytest.raises(TypeError, match=r"`config` is a GRUConfig; .* needs a ElmanConfig"):
        table["elman"].load_class().from_config(config)


class Same(Elman):
    """Not in the table, though its name is."""


class Other(Elman):
    name = "other"


@pytest.mark.parametrize(("cls", "name"), [(Same, "elman"), (Other, "other")])
def test_classes_of_your_own_are_loaded_by_themselves(cls, name, tmp_path):
    cls.from_config(SMALL).save(tmp_path)
    assert type(cls.load(tmp_path)) is cls
    with pytest.raises(ValueError, match=rf"'{name}' of the class .*\.{cls.__name__}, which"):
        labml_nn.load(tmp_path)


def test_models_are_found_by_name_wherever_their_module_was(tmp_path):
    labml_nn.create("elman", **SMALL).save(tmp_path)
    path = tmp_path / "config.json"
    document = json.loads(path.read_text()) | {"class": "labml_nn.then.ElmanLanguageModel"}
    path.write_text(json.dumps(document))
    assert type(labml_nn.load(tmp_path)) is Elman
    assert next(labml_nn.load(tmp_path, device="meta").parameters()).is_meta
    with pytest.raises(ValueError, match=r"'elman' \(.*ElmanLanguageModel\), not 'feedback'"):
        labml_nn.models()["feedback"].load_class().load(tmp_path)


@pytest.mark.parametrize("name", NAMES)
def test_the_trained_models_of_the_site_load(name):
    folder = ROOT / "docs_src/results" / name / "model"
    if not folder.exists():
        pytest.skip("it has not been trained (`make results`)")
    assert labml_nn.load(folder).name == name


def test_nothing_is_imported_because_a_file_names_it(tmp_path, monkeypatch):
    (tmp_path / "trap.py").write_text("raise SystemExit('caught')")
    monkeypatch.syspath_prepend(tmp_path)
    document = {"format": 1, "model": "trap", "class": "trap.Model", "config": {}}
    (tmp_path / "config.json").write_text(json.dumps(document))
    with pytest.raises(ValueError, match="not in the table of models"):
        labml_nn.load(tmp_path)
