"""Settings in `site.toml`, and what is taken from the metadata of the project."""

from pathlib import Path

import pytest

from pylit.config import PageName, Relation, SiteConfig, load_config
from pylit.diagnostics import Diagnostic, Report

GOOD = """\
title = "Attention"
summary = "Line by line."
base_url = "https://example.org/nn"
sources = ["labml_nn"]

[[group]]
title = "Transformers"
pages = [
    "labml_nn.transformers.mha",
    "notation",
]

[[path]]
title = "First steps"
summary = "In this order."
pages = ["notation"]

[[relation]]
decorator = "implements"
on_function = "Replaces"
on_argument = "Replaced by"
"""


def read(tmp_path: Path, text: str) -> tuple[SiteConfig | None, list[Diagnostic]]:
    path = tmp_path / "docs_src/site.toml"
    path.parent.mkdir(exist_ok=True)
    path.write_text(text, encoding="utf-8")
    report = Report()
    return load_config(tmp_path, report), list(report)


def test_it_reads_every_key_and_fills_in_the_rest(tmp_path: Path) -> None:
    config, faults = read(tmp_path, GOOD)
    assert config is not None and not faults
    assert (config.title, config.sources) == ("Attention", ("labml_nn",))
    assert config.base_url == "https://example.org/nn/"
    assert (config.repository, config.branch, config.language) == ("", "main", "en")
    pages = (PageName("labml_nn.transformers.mha", 9), PageName("notation", 10))
    assert config.groups[0].pages == pages
    assert config.paths[0].summary == "In this order."
    assert config.relations == (Relation("implements", "Replaces", "Replaced by"),)


def change(old: str, new: str) -> str:
    assert old in GOOD
    return GOOD.replace(old, new, 1)


@pytest.mark.parametrize(
    ("text", "line", "said", "hint"),
    [
        (change("summary =", "sumary ="), 2, "unknown key `sumary`", "`summary`"),
        (change("[[group]]", "[[groop]]"), 6, "unknown key `groop`", "`group`"),
        (change('title = "Attention"\n', ""), 0, "`title` is missing", "Attention"),
        (change('title = "Attention"', 'title = "  "'), 1, "'  '", "Attention"),
        (change('"implements"', '"a.b"'), 19, "`decorator` is 'a.b'", "kernel_for"),
        (change("https://example.org/nn", "example.org"), 3, "'example.org'", "https:"),
        (change('["labml_nn"]', '"labml_nn"'), 4, "'labml_nn'", "a list of"),
        (
            change('"notation",', '"notation", "notation",'),
            8,
            "'notation', 'notation'",
            "different",
        ),
        (change("[[path]]", "[path]"), 13, "`path` is {", "[[path]]"),
        (change('title = "Attention"', 'title = "Attention'), 1, "cannot be read", "toml.io"),
        ('repository = "nn"\n' + GOOD, 1, "'nn'", "owner/name"),
    ],
)
def test_what_is_wrong_is_said_with_its_line_and_a_way_out(tmp_path, text, line, said, hint):
    config, faults = read(tmp_path, text)
    assert config is None
    fault = next(f for f in faults if said in f.message)
    assert (fault.path, fault.line, fault.code) == ("docs_src/site.toml", line, "config")
    assert hint in fault.hint


def test_a_missing_file_and_one_that_is_not_text_are_faults(tmp_path: Path) -> None:
    report = Report()
    assert load_config(tmp_path, report) is None
    (tmp_path / "docs_src").mkdir()
    (tmp_path / "docs_src/site.toml").write_bytes(b'title = "\xe9"\n')
    assert load_config(tmp_path, report) is None
    missing, latin = sorted(report, key=lambda fault: "position 9" in fault.message)
    assert "position 9" in latin.message
    assert "pylit init" in missing.hint


@pytest.mark.parametrize(
    ("urls", "repository"),
    [
        ("", ""),
        ('Repository = "https://github.com/some/one.git"', "some/one"),
        ('Repository = "git@github.com:some/one"\nHomepage = "https://a.b"', "some/one"),
        ('"Source Code" = "https://github.com/some/one/"', "some/one"),
        ('homepage = "https://a.b"\nGitHub = "https://github.com/some/one"', "some/one"),
        ('HomePage = "https://github.com/some/one"', "some/one"),
        ('Documentation = "https://github.com/some/docs"', ""),
    ],
)
def test_where_the_project_lives_comes_from_its_metadata(tmp_path, urls: str, repository: str):
    (tmp_path / "pyproject.toml").write_text(f"[project.urls]\n{urls}\n", encoding="utf-8")
    config, _ = read(tmp_path, change('base_url = "https://example.org/nn"\n', ""))
    assert config is not None
    assert (config.repository, config.base_url) == (repository, "")
