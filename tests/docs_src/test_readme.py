"""What is written and what is made: each file of `docs_src` has a row in its README."""

import re
import subprocess
from fnmatch import fnmatch
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "docs_src"
README = (FOLDER / "README.md").read_text(encoding="utf-8")
DECISIONS = FOLDER / "decisions"


def git(*arguments: str) -> list[str]:
    command = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True)
    if command.returncode:
        pytest.skip("this is no checkout of git")
    return command.stdout.splitlines()


def patterns(heading: str) -> list[str]:
    """The paths in the first column below a heading, as seen from the root."""
    _, _, text = README.partition(f"## {heading}\n")
    cells = re.findall(r"(?m)^\| (`.*?) \|", text.partition("\n## ")[0])
    paths = [path for cell in cells for path in re.findall(r"`([^`]+)`", cell)]
    return [p[3:] if p.startswith("../") else f"docs_src/{p}" for p in paths]


def is_in(path: str, found: list[str]) -> bool:
    """A pattern that ends in `/` is a folder; a shipped model is one with what lies beside it."""
    folders = [p.removesuffix("model/") for p in found if p.endswith("/")]
    same_depth = [p for p in found if p.count("/") == path.count("/")]
    return any(fnmatch(path, p) for p in same_depth) or any(fnmatch(path, f"{p}*") for p in folders)


def test_each_file_is_written_or_made_and_marked_as_what_it_is():
    written, made = patterns("Written"), patterns("Made")
    files = git("ls-files", "docs_src", *(p for p in made if not p.startswith("docs_src")))
    files.remove("docs_src/README.md")
    marks = [line.rsplit(": ", 2) for line in git("check-attr", "linguist-generated", *files)]
    marked = {path for path, _, value in marks if value == "set"}
    neither = [path for path in files if not is_in(path, written) and not is_in(path, made)]
    assert not neither, f"docs_src/README.md has no row for {neither}"
    assert marked == {path for path in files if is_in(path, made)}
    unused = [p for p in written + made if not any(is_in(path, [p]) for path in files)]
    assert not unused, f"docs_src/README.md has rows for what is not there: {unused}"


def test_each_decision_has_a_status_and_its_module_names_it():
    table = (DECISIONS / "README.md").read_text(encoding="utf-8")
    rows = re.findall(r"(?m)^\| \[(\d+)\]\(([^)]+)\) \| (.*) \| (.*) \| (.*) \|$", table)
    assert [row[1] for row in rows] == sorted(path.name for path in DECISIONS.glob("[0-9]*.md"))
    for number, file, title, status, module in rows:
        text = (DECISIONS / file).read_text(encoding="utf-8")
        match = re.match(rf"# {number} (.+)\n\n\*\*Status\.\*\* (.+)\n", text)
        assert match and match[1] == title, f"{file} needs a line **Status.** below its title"
        words = match[2].lower()
        assert words.startswith(status.split(" ")[0]), f"{file}: the table says {status}"
        assert all(later in words for later in re.findall(r"\d+", status)), file
        if path := module.strip(" `"):
            code = (ROOT / path).read_text(encoding="utf-8")
            begin = code[: code.index('"""', code.index('"""') + 3)]
            named = re.search(rf"See decisions? [\d and]*{number}", begin)
            assert named or not path.startswith("pylit/"), f"{path} does not name decision {number}"
