"""The page that ``--new`` begins passes every check that a finished one has to pass."""

import subprocess
import sys
from pathlib import Path

import pytest
from site_tools import REPOSITORY, build, make_site

from pylit.cli import main
from pylit.skeleton import SkeletonError, begin_page

TEMPLATE = REPOSITORY / "docs_src/skeleton.py.jinja"


def begin(root: Path, name: str) -> Path:
    return begin_page(root / name, root=root, sources=["pkg"], template=TEMPLATE)


@pytest.fixture
def site(tmp_path: Path) -> Path:
    return make_site(tmp_path)


@pytest.mark.parametrize(
    ("name", "title", "opening"),
    [
        ("pkg/gated_linear_unit.py", "Gated linear unit", "class GatedLinearUnit(nn.Module):"),
        ("pkg/one_more/__init__.py", "One more", "class OneMore(nn.Module):"),
    ],
)
def test_the_page_is_named_after_its_file(site: Path, name: str, title: str, opening: str) -> None:
    written = begin(site, name)
    assert written == site / name
    text = written.read_text()
    assert f"title: {title}\n" in text and f"\n{opening}\n" in text


def test_linters_and_types_have_nothing_to_say(site: Path) -> None:
    written = begin(site, "pkg/gated_linear_unit.py")
    ruff = [sys.executable, "-m", "ruff"]
    settings = ["--config", str(REPOSITORY / "labml_nn/ruff.toml")]
    for command in (
        [*ruff, "check", *settings],
        [*ruff, "format", "--check", *settings],
        # The settings are those of `make check`, whose cache it finds and leaves as it was.
        [sys.executable, "-m", "mypy"],
    ):
        done = subprocess.run(
            [*command, str(written)], cwd=REPOSITORY, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stdout + done.stderr


def test_its_exercises_run(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = begin(site, "pkg/gated_linear_unit.py").read_text().replace("\n# ", "\n")
    programs = [part.partition("```")[0] for part in text.split("```python\n")[1:]]
    assert len(programs) == 3
    monkeypatch.syspath_prepend(site)
    for program in programs:
        assert "pkg import gated_linear_unit\n" in program
        exec(program.replace("\n#\n", "\n\n"), {})


def test_the_site_with_it_has_no_fault(site: Path) -> None:
    begin(site, "pkg/gated_linear_unit.py")
    outcome = build(site)
    assert not list(outcome.report)
    assert "Gated linear unit" in (site / "site/pkg/gated_linear_unit.html").read_text()


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("pkg/one.py", "is there already; choose another name"),
        ("pkg/__init__.py", "would be the package itself"),
        ("pkg/notes.md", "notes.md is no Python file"),
        ("elsewhere.py", "its sources are in pkg/"),
        ("pkg/half-done.py", "'half-done' cannot be imported in Python; try 'half_done'"),
        ("pkg/class.py", "'class' cannot be imported in Python; try '_class'"),
        ("pkg/2d.py", "'2d' cannot be imported in Python; try '_2d'"),
        ("pkg/deep/down.py", "deep is no package; begin with --new"),
    ],
)
def test_a_place_where_no_page_can_be_is_refused(site: Path, name: str, said: str) -> None:
    before = {path: path.read_bytes() for path in site.rglob("*.py")}
    with pytest.raises(SkeletonError, match=r"^[^\n]*$") as refused:
        begin(site, name)
    assert said in str(refused.value)
    assert {path: path.read_bytes() for path in site.rglob("*.py")} == before


def test_the_command(site: Path, monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    make_site(site, {"docs_src/skeleton.py.jinja": TEMPLATE.read_text()})
    monkeypatch.setattr("pylit.cli.REPOSITORY", site)
    monkeypatch.chdir(site)
    assert main(["--new", "pkg/foo.py"]) == 0
    assert "foo.py is begun" in capsys.readouterr().out
    assert main(["--new", "pkg/foo.py"]) == 2
    assert "pkg/foo.py is there already" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["--new", "pkg/bar.py", "--serve"])
    assert "--new writes one file" in capsys.readouterr().err
