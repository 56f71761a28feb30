"""The page that ``pylit new`` begins passes every check that a finished one has to pass."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from site_tools import REPOSITORY, make_site, succeed
from sweeps import swept

from pylit.scaffold import CommandError, init_site, new_lesson, new_page


def begin(root: Path, name: str) -> Path:
    return new_page(root / name, root)


def own(root: Path) -> Path:
    """A site with the skeleton of this repository."""
    template = REPOSITORY / "docs_src/skeleton.py.jinja"
    return make_site(root, {"docs_src/skeleton.py.jinja": template.read_text()})


@pytest.fixture
def site(tmp_path: Path) -> Path:
    return own(tmp_path)


@pytest.mark.parametrize("make", swept([own, make_site], own))
def test_linters_and_types_and_the_site_have_nothing_to_say(
    make: Callable[[Path], Path], tmp_path: Path
) -> None:
    site = make(tmp_path)
    written = begin(site, "pkg/gated_linear_unit.py")
    settings = f"--config {REPOSITORY}/labml_nn/ruff.toml"
    # Those of mypy are those of `make check`, whose cache it finds and leaves as it was.
    for command in (f"ruff check {settings}", f"ruff format --check {settings}", "mypy"):
        given = [sys.executable, "-m", *command.split(), str(written)]
        done = subprocess.run(given, cwd=REPOSITORY, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
    succeed(site)
    assert "Gated linear unit" in (site / "site/pkg/gated_linear_unit.html").read_text()


def test_a_lesson_begins_with_all_its_parts_and_they_pass_the_checks(tmp_path: Path) -> None:
    docs = REPOSITORY / "docs_src"
    tasks = [docs / f"tasks/__{name}__.py" for name in ("init", "main")]
    files = {*(path for path in (docs / "skeleton").rglob("*") if path.is_file()), *tasks}
    begun = {path.relative_to(REPOSITORY).as_posix(): path.read_text() for path in files}
    site = make_site(tmp_path, begun)
    written = new_lesson(site / "pkg/look_back.py", site)
    assert len(written) == len(files) - len(tasks)
    assert written[0].read_text().startswith('r"""\n---\ntitle: Look back\n')
    settings = ["--config", f"{REPOSITORY}/pyproject.toml"]
    own = "lint.isort.known-first-party = ['docs_src', 'labml_nn', 'pkg', 'pylit']"
    for command in (
        ["ruff", "check", *settings, "--config", own],
        ["ruff", "format", "--check", *settings],
        ["docs_src.tasks", "look_back"],
    ):
        python = [str(path) for path in written if path.suffix == ".py"]
        given = [sys.executable, "-m", *command, *(python if command[0] == "ruff" else [])]
        done = subprocess.run(given, cwd=site, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
    succeed(site)
    page = (site / "site/pkg/look_back.html").read_text()
    assert all(
        part in page for part in ("Change how much", "five seeds each", "Step through a run")
    )
    before = {path: path.read_bytes() for path in written}
    written[0].unlink()
    with pytest.raises(CommandError, match="exists already; choose another name"):
        new_lesson(written[0], site)
    assert not written[0].exists()
    assert all(path.read_bytes() == before[path] for path in written[1:])


def test_without_templates_there_is_no_lesson(tmp_path: Path) -> None:
    site = make_site(tmp_path)
    with pytest.raises(CommandError, match=r"no templates in .*; begin with the page alone"):
        new_lesson(site / "pkg/look_back.py", site)


def test_its_exercises_run(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = begin(site, "pkg/gated_linear_unit.py").read_text().replace("\n# ", "\n")
    programs = [part.partition("```")[0] for part in text.split("```python\n")[1:]]
    assert len(programs) == 3
    monkeypatch.syspath_prepend(site)
    for program in programs:
        assert "pkg import gated_linear_unit\n" in program
        exec(program.replace("\n#\n", "\n\n"), {})


def test_a_place_where_no_page_can_be_is_refused(site: Path) -> None:
    before = {path: path.read_bytes() for path in site.rglob("*.py")}
    for name, said in (
        ("pkg/one.py", "exists already; edit it, or choose another name"),
        ("pkg/notes.md", "notes.md is no Python file"),
        ("elsewhere.py", "is in none of the sources of the site (pkg); add it to docs_src/site"),
        ("pkg/half-done.py", "half-done cannot be imported; choose a name of letters"),
        ("pkg/deep/down.py", "deep is no package; begin with /"),
    ):
        with pytest.raises(CommandError, match=r"^[^\n]*$") as refused:
            begin(site, name)
        assert said in str(refused.value)
    assert {path: path.read_bytes() for path in site.rglob("*.py")} == before


@pytest.mark.parametrize(
    ("source", "name", "package"),
    [
        ("src/pkg", "src/pkg/page.py", "pkg"),
        ("src/pkg", "src/pkg/sub/page.py", "pkg.sub"),
        ("src", "src/page.py", ""),
        ("src", "src/pkg/page/__init__.py", "pkg"),
        ("src", "src/page/__init__.py", ""),
        ("page.py", "page.py", ""),
    ],
)
def test_packages_and_modules_lie_anywhere(
    source: str, name: str, package: str, tmp_path: Path
) -> None:
    settings = f'title = "t"\nsources = ["{source}"]\n'
    begun = {"src/pkg/__init__.py": "", "src/pkg/sub/__init__.py": ""}
    begun |= {"docs_src/site.toml": settings}
    begun |= {"docs_src/skeleton.py.jinja": "{{ package }} {{ name }} {{ title }}\n"}
    for path, text in begun.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    assert begin(tmp_path, name).read_text() == f"{package} page Page\n"


def test_what_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "pkg.py").touch()
    (tmp_path / "docs_src").touch()
    with pytest.raises(CommandError, match=r"site\.toml cannot be written \(File exists\)"):
        init_site(tmp_path / "pkg.py", tmp_path)
