"""The table of models: names, lazy classes, and folders that say what they hold."""

import importlib.util
import json
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import labml_nn
from labml_nn.language_model import LanguageModel
from labml_nn.recurrent.elman.language_model import ElmanLanguageModel
from labml_nn.registry import SITE
from labml_nn.saving.description import dotted

ROOT = Path(__file__).parents[2]
NAMES = ["autoregressive", "encoder_decoder", "feedback", "elman"]


def test_the_table():
    table = labml_nn.models()
    assert [entry.name for entry in table] == NAMES
    assert len(table) == 4
    assert table["elman"] is table[3] is table[-1]
    assert list(table[:2]) == [table[0], table[1]]
    assert table[0] in table


def test_it_prints_well():
    lines = repr(labml_nn.models()).split("\n")
    assert len(lines) == 3 * 4
    assert str(labml_nn.models()) == repr(labml_nn.models())
    assert lines[9].split()[:3] == ["elman", "a", "recurrent"]
    assert lines[10].strip() == "labml_nn.recurrent.elman.language_model.ElmanLanguageModel"
    assert len({len(line) - len(line.lstrip()) for line in lines[1::3] + lines[2::3]}) == 1
    assert max(map(len, lines)) < 100


@pytest.mark.parametrize("name", NAMES)
def test_entries_tell_the_truth(name):
    entry = labml_nn.models()[name]
    cls = entry.load_class()
    assert issubclass(cls, LanguageModel)
    assert dotted(cls) == entry.class_name
    assert cls.name == name
    assert entry.summary == entry.summary.strip().rstrip(".")
    assert len(entry.summary) < 80


def test_what_is_in_the_table():
    table = labml_nn.models()
    assert all(name in table and table[name] in table for name in NAMES)
    assert "gpt" not in table and 0 not in table


@pytest.mark.parametrize("name", NAMES)
def test_pages_are_those_of_the_modules(name):
    entry = labml_nn.models()[name]
    assert entry.page.startswith(SITE)
    module = entry.class_name.rpartition(".")[0]
    path = module.replace(".", "/")
    is_package = importlib.util.find_spec(module).submodule_search_locations is not None
    assert entry.page.removeprefix(SITE) == (f"{path}/index.html" if is_package else f"{path}.html")


def test_the_site_is_where_it_is_built_for():
    settings = tomllib.loads((ROOT / "docs_src/site.toml").read_text(encoding="utf-8"))
    assert settings["base_url"] == SITE


@pytest.mark.parametrize("name", NAMES)
def test_create(name):
    model = labml_nn.create(name, n_vocab=11, d_model=12, label_smoothing=0.1)
    assert type(model) is labml_nn.models()[name].load_class()
    assert (model.config.n_vocab, model.config.d_model) == (11, 12)
    assert model.config.label_smoothing == 0.1
    assert "n_vocab=11" in repr(model)


@pytest.mark.parametrize(
    ("name", "config", "message"),
    [
        ("fedback", {"n_vocab": 11}, r"no model 'fedback'; did you mean 'feedback'\? known: auto"),
        ("gpt", {"n_vocab": 11}, "no model 'gpt'; known: autoregressive, encoder_decoder"),
        ("elman", {"n_vocab": 11, "d_hiden": 3}, "ElmanConfig 'd_hiden'; did you mean 'd_hidden'"),
        ("elman", {}, "ElmanConfig needs `n_vocab`"),
        ("elman", {"n_vocab": 0}, r"`n_vocab` \(0\) must be at least 1"),
    ],
)
def test_what_cannot_be_created(name, config, message):
    with pytest.raises(ValueError, match=message):
        labml_nn.create(name, **config)


def test_load_finds_the_class(tmp_path):
    model = labml_nn.create("elman", n_vocab=11, d_model=6, d_hidden=5)
    model.save(tmp_path)
    assert type(labml_nn.load(tmp_path)) is ElmanLanguageModel
    assert labml_nn.load(tmp_path, device="meta").output_bias.is_meta
    with pytest.raises(ValueError, match=r"'elman' \(.*ElmanLanguageModel\), not 'feedback'"):
        labml_nn.models()["feedback"].load_class().load(tmp_path)


class Shy(ElmanLanguageModel):
    """One that is not in the table, though its name is."""


class Shyer(ElmanLanguageModel):
    """One that says so."""

    name = "shyer"


@pytest.mark.parametrize(("cls", "name"), [(Shy, "elman"), (Shyer, "shyer")])
def test_a_class_of_your_own(cls, name, tmp_path):
    cls.from_config({"n_vocab": 11, "d_model": 6, "d_hidden": 5}).save(tmp_path)
    assert type(cls.load(tmp_path)) is cls
    with pytest.raises(
        ValueError, match=rf"'{name}' of the class .*\.{cls.__name__}, which is not"
    ):
        labml_nn.load(tmp_path)


def test_nothing_is_imported_because_a_file_says_so(tmp_path):
    (tmp_path / "trap.py").write_text("raise SystemExit('caught')")
    document = {"format": 1, "model": "trap", "class": "trap.Model", "config": {}}
    (tmp_path / "config.json").write_text(json.dumps(document))
    code = f"import labml_nn; labml_nn.load({str(tmp_path)!r})"
    child = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        env={"PYTHONPATH": f"{ROOT}:{tmp_path}"},
    )
    assert "caught" not in child.stderr
    assert "not in the table of models (autoregressive, " in child.stderr


def test_the_line_of_the_readme_runs():
    code = "import labml_nn; m = labml_nn.create('feedback', n_vocab=65); print(m)"
    child = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        capture_output=True,
        text=True,
        cwd=ROOT,
        check=True,
    )
    assert child.stdout.startswith("FeedbackLanguageModel(\n  n_vocab=65, ")
