"""Reporters: the bar, files, curves, labml's record and its server."""

import io
import json
import socket
import sys
import time

import pytest
from local_server import serving
from small_runs import training
from sweeps import swept

from labml_nn.experiments import reporters
from labml_nn.experiments.reporters import LabmlRecord, Progress, curve_svg


# The bar.
class Terminal(io.StringIO):
    encoding = "ascii"

    def isatty(self):
        return True


def test_a_terminal_gets_a_bar_that_fills():
    screen = Terminal()
    progress = Progress(screen)
    training(reporters=[progress]).train()
    progress.warned("no space — sorry")
    shown = screen.getvalue()
    assert "6/6" in shown and "100%" in shown and "tokens/s" in shown
    assert "step 3: validation loss" in shown and "step 6, a sample:\n    " in shown
    assert shown.isascii() and shown.endswith("warning: no space ? sorry\n")


def test_a_file_gets_lines(monkeypatch):
    monkeypatch.setattr(Progress, "PAUSE", 0.0)
    monkeypatch.delitem(sys.modules, "ipykernel", raising=False)
    file = io.StringIO()
    training(reporters=[Progress(file)]).train()
    assert "\r" not in file.getvalue()
    assert [line for line in file.getvalue().splitlines() if line.startswith("step 2: loss ")]


# Samples and curves.
def test_samples_are_kept_in_a_file(tmp_path):
    trainer = training("elman", tmp_path)
    trainer.train()
    text = (tmp_path / "samples.txt").read_text()
    assert text.count("--- after") == 2
    for each in trainer.history.samples:
        assert f"--- after {each['step']} updates\n{each['text']}\n" in text


def test_curves_of_a_run():
    curve = {"train": [[1, 3.0, 0], [2, None, 0]], "validation": [[2, 2.5, 0], [3, 2.25, 0]]}
    drawn = curve_svg(curve, "a & b")
    for part in ("<svg", "a &amp; b", "validation 2.250", "updates", "nats per token", "</svg>"):
        assert part in drawn
    assert "validation" not in curve_svg({"train": [], "validation": []}, "no points")


# labml.
@pytest.fixture
def home(tmp_path, monkeypatch):
    """An empty home directory, without a proxy between us and a local server."""
    (tmp_path / "home").mkdir()
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("labml_app_url", "http://127.0.0.1:9/never/")
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    return tmp_path / "home"


def tracked(folder, server=None):
    """A training with labml's record, and the files of that record."""
    pytest.importorskip("labml")
    record = LabmlRecord(folder / "labml", server)
    assert training("elman", folder, reporters=[record]).train().stopped == "finished"
    (log,) = (folder / "labml").rglob("log.jsonl")
    return [json.loads(line) for line in log.read_text().splitlines()], log.parent


STEPS = {"loss.train": [1, 2, 3, 4, 5, 6], "loss.validation": [3, 6]}


def test_a_record_for_labml(tmp_path, home, capsys):
    """Its files are below the folder, and nothing is anywhere else."""
    lines, folder = tracked(tmp_path / "run")
    for name, steps in STEPS.items():
        assert [s for line in lines for s, _ in line["track"].get(name, [])] == steps
    assert "d_hidden" in (folder / "configs.yaml").read_text()
    assert list(home.iterdir()) == []
    assert capsys.readouterr() == ("", "")


@pytest.fixture
def server():
    """A local labml server that keeps what it gets; `answers` are sent before the usual one."""

    def answer(reply):
        body = reply.rfile.read(int(reply.headers["Content-Length"]))
        data = server.answers.pop(0) if server.answers else b'{"url": "/the-run"}'
        if data.startswith(b"{") and b"errors" not in data:
            server.got += json.loads(body)
            server.paths.add(reply.path)
        reply.send(data, status=200 if data else 500)

    with serving(answer) as server:
        server.got, server.paths, server.answers = [], set(), []
        yield server


@pytest.mark.parametrize(
    "refusal", swept([None, b"", b"<html>", b'{"errors": [{"error": "x"}]}'], None, b"<html>")
)
def test_a_server_gets_the_numbers_too(tmp_path, home, server, capsys, refusal):
    """What it refused at first is sent again, so that nothing is missing at the end."""
    server.answers = [] if refusal is None else [refusal]
    written = sys.stdout.write
    tracked(tmp_path / "run", f"{server.address}/api/v1/token")
    assert sys.stdout.write == written and list(home.iterdir()) == []
    for name, steps in STEPS.items():
        got = [packet.get("track", {}).get(name, {}).get("step", []) for packet in server.got]
        assert [step for each in got for step in each] == steps
    assert any(packet.get("configs", {}).get("model", {}) for packet in server.got)
    assert server.got[-1]["status"]["status"] == "completed"
    (path,) = server.paths
    assert path.startswith("/api/v1/token/track?run_uuid=")
    out, err = capsys.readouterr()
    assert out == "" and err.endswith("labml: this run is shown at /the-run\n")
    assert err.count("does not take this run") == (refusal is not None)


def test_a_server_that_does_not_answer_stops_nothing(tmp_path, home, monkeypatch, capsys):
    """Neither where nobody listens, nor where somebody listens and says nothing."""
    monkeypatch.setattr(reporters, "PATIENCE", 0.2)
    with socket.socket() as listening, socket.socket() as closed:
        for one in (listening, closed):
            one.bind(("127.0.0.1", 0))
        listening.listen()
        for name, one in (("silent", listening), ("absent", closed)):
            begun = time.monotonic()
            lines, _ = tracked(tmp_path / name, f"http://127.0.0.1:{one.getsockname()[1]}/")
            assert lines and time.monotonic() - begun < 30  # labml waits for ever
            err = ""
            while not err and time.monotonic() - begun < 30:
                err += capsys.readouterr().err
            assert err.count("\n") == 1 and "does not take this run" in err


def test_without_labml_training_goes_on(tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "labml.internal.app", None)  # which cannot be imported
    record = LabmlRecord(tmp_path / "labml", "http://127.0.0.1:9/never/")
    assert training(reporters=[record]).train().stopped == "finished"
    assert capsys.readouterr().err == "labml: there is no record of this run (pip install labml)\n"
