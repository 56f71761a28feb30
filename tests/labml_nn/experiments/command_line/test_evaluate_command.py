"""How surprised a model is: three units of one number, and of which text."""

import math

import pytest
import torch
from commanded_runs import SMALL, SPEECHES

from labml_nn.evaluation import evaluating
from labml_nn.experiments.command_line import main
from labml_nn.experiments.training.folder import load_run


def numbers(printed):
    lines = dict(line.split(None, 1) for line in printed.splitlines() if line[0] != " ")
    (bits,) = [line.split()[0] for line in printed.splitlines() if line.endswith("bits")]
    return float(lines["loss"].split()[0]), float(bits), float(lines["perplexity"])


@pytest.mark.parametrize("name", ["autoregressive", "encoder_decoder", "feedback", "elman"])
def test_the_loss_is_that_of_the_run(capsys, trained, name):
    folder = trained(name)
    capsys.readouterr()
    assert main(["evaluate", str(folder), "--device", "cpu"]) == 0
    printed = capsys.readouterr().out
    nats, bits, perplexity = numbers(printed)
    best = load_run(folder).result()["result"]["best_validation_loss"]
    assert nats == pytest.approx(best, abs=1e-4)
    assert bits == pytest.approx(nats / math.log(2), abs=1e-4)
    assert perplexity == pytest.approx(math.exp(nats), rel=1e-3)
    assert f"run         {folder} ({name}, tiny)\n" in printed
    assert "small.txt, the last 244 of 2,436 characters\n" in printed
    assert ("letter of a reply" in printed) == (name == "encoder_decoder")
    assert "another text" not in printed


def test_another_text_is_read_with_the_characters_of_the_model(capsys, tmp_path, trained):
    """Its own characters would have other numbers, and the model would read nonsense."""
    folder, other = trained("elman"), tmp_path / "other.txt"
    other.write_text("Speak, speak.\n" * 40)  # few of the characters, but no other
    capsys.readouterr()
    assert main(["evaluate", str(folder), "--text", str(other)]) == 0
    printed = capsys.readouterr().out
    assert "other.txt, the last 56 of 560 characters\n" in printed
    assert printed.endswith("The model was trained on another text: small.txt.\n")

    run = load_run(folder)
    model, tokens = run.model(), run.prompt(("Speak, speak.\n" * 40)[-56:])
    total, length = 0.0, run.training.seq_len
    with torch.no_grad(), evaluating(model):
        for start in range(0, 55, length):
            piece = tokens[start : start + length + 1]
            total += float(model.loss(piece[:-1], piece[1:])) * (len(piece) - 1)
    assert numbers(printed)[0] == pytest.approx(total / 55, abs=1e-4)


def test_unknown_characters_are_named(capsys, tmp_path, trained):
    folder, other = trained("elman"), tmp_path / "other.txt"
    other.write_text("Größe\n" * 40)
    capsys.readouterr()
    assert main(["evaluate", str(folder), "--text", str(other)]) == 2
    assert "'G' (line 1, column 1) is not in the vocabulary" in capsys.readouterr().err


def test_another_edition_is_no_silent_change(capsys, tmp_path, text_file):
    """The file of the training has changed since: said, with a way out."""
    text, out = tmp_path / "text.txt", tmp_path / "run"
    text.write_text(text_file.read_text())
    words = ["train", "elman", *SMALL["elman"], "--text", str(text), "--out", str(out)]
    assert main([*words, "--quiet"]) == 0
    text.write_text(SPEECHES * 13)
    capsys.readouterr()
    assert main(["evaluate", str(out)]) == 1
    said = capsys.readouterr().err
    assert "was trained on text.txt" in said and "--text" in said
    assert main(["evaluate", str(out), "--text", str(text)]) == 0
    assert "another text: text.txt" in capsys.readouterr().out


def test_a_run_from_another_machine_finds_its_text_where_texts_are(
    capsys, tmp_path, text_file, monkeypatch
):
    """By its checksum, and not by the path that it had there."""
    text, out = tmp_path / "text.txt", tmp_path / "run"
    text.write_text(text_file.read_text())
    words = ["train", "elman", *SMALL["elman"], "--text", str(text), "--out", str(out)]
    assert main([*words, "--quiet"]) == 0
    text.unlink()
    monkeypatch.setenv("LABML_NN_DATA", str(text_file))
    capsys.readouterr()
    assert main(["evaluate", str(out)]) == 0
    assert "another text" not in capsys.readouterr().out
    other = tmp_path / "other.txt"
    other.write_text(SPEECHES * 13)
    monkeypatch.setenv("LABML_NN_DATA", str(other))
    assert main(["evaluate", str(out)]) == 1
    assert "was trained on text.txt" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--text", "nowhere.txt"], "there is no nowhere.txt"),
        (["--device", "tpu"], "tpu"),
        (["--txt", "a"], "there is no flag --txt; did you mean --text?"),
    ],
)
def test_what_cannot_be_is_refused(capsys, trained, words, message):
    folder = trained("elman")
    capsys.readouterr()
    assert main(["evaluate", str(folder), *words]) == 2
    captured = capsys.readouterr()
    assert captured.err.startswith("error: ") and message in captured.err
