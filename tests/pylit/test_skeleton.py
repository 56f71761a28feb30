"""The page that ``pylit new`` begins passes every check that a finished one has to pass."""

import subprocess
import sys

import pytest
from site_tools import REPOSITORY, edit, make_site, read, succeed, tree
from sweeps import swept

from pylit.scaffold import CommandError, init_site, new_lesson, new_page


def begin(root, name):
    return new_page(root / name, root)


def own(root):
    """A site with the skeleton of this repository."""
    template = REPOSITORY / "docs_src/skeleton.py.jinja"
    return make_site(root, {"docs_src/skeleton.py.jinja": template.read_text()})


@pytest.fixture
def site(tmp_path):
    return own(tmp_path)


def check(folder, *commands):
    """Programs of Python have nothing to say."""
    for command in commands:
        given = [sys.executable, "-m", *command.split()]
        done = subprocess.run(given, cwd=folder, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr


#: That every type is named and used as it should be within the file; and with those of PyTorch.
ALONE, WHOLE = "--follow-imports=skip --allow-subclassing-any --cache-dir=/dev/null", ""


@pytest.mark.parametrize("types", swept([ALONE, WHOLE], ALONE))
@pytest.mark.parametrize("make", swept([own, make_site], own))
def test_linters_and_types_and_the_site_have_nothing_to_say(make, types, tmp_path):
    site = make(tmp_path)
    written = begin(site, "pkg/gated_linear_unit.py")
    settings = f"--config {REPOSITORY}/labml_nn/ruff.toml {written}"
    linters = f"ruff check {settings}", f"ruff format --check {settings}"
    check(REPOSITORY, *linters, f"mypy {types} {written}")
    succeed(site)
    assert "Gated linear unit" in read(site, "pkg/gated_linear_unit.html")


def test_a_lesson_begins_with_all_its_parts_and_they_pass_the_checks(tmp_path):
    docs = REPOSITORY / "docs_src"
    tasks = [docs / f"tasks/__{name}__.py" for name in ("init", "main")]
    files = {*(path for path in (docs / "skeleton").rglob("*") if path.is_file()), *tasks}
    begun = {path.relative_to(REPOSITORY).as_posix(): path.read_text() for path in files}
    site = make_site(tmp_path, begun)
    written = new_lesson(site / "pkg/look_back.py", site)
    assert len(written) == len(files) - len(tasks)
    assert written[0].read_text().startswith('r"""\n---\ntitle: Look back\n')
    python = " ".join(str(path) for path in written if path.suffix == ".py")
    settings = f"--config {REPOSITORY}/pyproject.toml"
    own = "lint.isort.known-first-party=['docs_src','labml_nn','pkg','pylit']"
    check(site, f"ruff check {settings} --config {own} {python}")
    check(site, f"ruff format --check {settings} {python}")
    edit(site, "docs_src/tasks/look_back.py", "LENGTH = 200,", "LENGTH = 2,")
    check(site, "docs_src.tasks look_back")
    succeed(site)
    page = read(site, "pkg/look_back.html")
    assert "Change how much" in page and "five seeds each" in page and "Step through a run" in page
    before = {path: path.read_bytes() for path in written}
    written[0].unlink()
    with pytest.raises(CommandError, match="exists already; choose another name"):
        new_lesson(written[0], site)
    assert not written[0].exists()
    assert all(path.read_bytes() == before[path] for path in written[1:])


def test_its_exercises_run(site, monkeypatch):
    text = begin(site, "pkg/gated_linear_unit.py").read_text().replace("\n# ", "\n")
    programs = [part.partition("```")[0] for part in text.split("```python\n")[1:]]
    assert len(programs) == 3
    monkeypatch.syspath_prepend(site)
    for program in programs:
        assert "pkg import gated_linear_unit\n" in program
        exec(program.replace("\n#\n", "\n\n"), {})


def test_a_place_where_no_page_can_be_is_refused(site):
    before = tree(site)
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
    with pytest.raises(CommandError, match=r"no templates in .*; begin with the page alone"):
        new_lesson(site / "pkg/look_back.py", site)
    assert tree(site) == before


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
def test_packages_and_modules_lie_anywhere(source, name, package, tmp_path):
    begun = {
        "src/pkg/__init__.py": "x = 1\n",
        "src/pkg/sub/__init__.py": "x = 1\n",
        "docs_src/site.toml": f'title = "t"\nsources = ["{source}"]\n',
        "docs_src/skeleton.py.jinja": "{{ package }} {{ name }} {{ title }}\n",
    }
    assert begin(make_site(tmp_path, begun), name).read_text() == f"{package} page Page\n"


def test_what_cannot_be_written_is_named(tmp_path):
    (tmp_path / "pkg.py").touch()
    (tmp_path / "docs_src").touch()
    with pytest.raises(CommandError, match=r"site\.toml cannot be written \(File exists\)"):
        init_site(tmp_path / "pkg.py", tmp_path)
