"""A trained model writes: what is printed, from what, and what cannot be continued."""

import pytest
from commanded_runs import SMALL

from labml_nn.experiments.command_line import main
from labml_nn.experiments.command_line.generate import Writing
from labml_nn.experiments.training.folder import load_run
from labml_nn.sampling import Chain, Greedy, Nucleus, Temperature, TopK, generate

CONTINUING = ["autoregressive", "feedback", "elman"]


@pytest.mark.parametrize("name", CONTINUING)
def test_the_prompt_is_continued(capsys, trained, name):
    """With what the library writes, for the same seed and sampler."""
    folder = trained(name)
    capsys.readouterr()
    words = ["--prompt", "Speak", "--tokens", "11", "--seed", "4", "--device", "cpu"]
    assert main(["generate", str(folder), *words]) == 0
    printed = capsys.readouterr().out
    run = load_run(folder)
    sampler = Chain(Temperature(0.8))
    written = generate(run.model(), run.prompt("Speak"), 11, sampler, seed=4)
    assert printed == "Speak" + run.decode(written[:, 0]) + "\n"


def test_a_reply_is_printed_without_what_was_said(capsys, trained):
    folder = trained("encoder_decoder")
    capsys.readouterr()
    words = ["--prompt", "Speak, speak.", "--tokens", "11", "--temperature", "0"]
    assert main(["generate", str(folder), *words]) == 0
    printed = capsys.readouterr().out
    run = load_run(folder)
    written = generate(run.model(), run.prompt("Speak, speak."), 11, Greedy())
    assert printed == run.decode(written[:, 0]) + "\n"


def test_without_a_prompt_a_text_begins_with_a_new_line(capsys, trained):
    folder = trained("elman")
    capsys.readouterr()
    assert main(["generate", str(folder), "--tokens", "9", "--seed", "4"]) == 0
    first = capsys.readouterr().out
    assert main(["generate", str(folder), "--tokens", "9", "--seed", "4", "--prompt", "\n"]) == 0
    assert first == capsys.readouterr().out
    assert first.startswith("\n") and len(first) == 1 + 9 + 1


def test_several_texts_have_seeds_of_their_own(capsys, trained):
    folder = str(trained("elman"))
    capsys.readouterr()
    words = ["generate", folder, "--prompt", "All:", "--tokens", "30", "--seed"]
    assert main([*words, "4", "--count", "2"]) == 0
    first, second = capsys.readouterr().out.split("\n\n--- 2 of 2 ---\n")
    assert first != second.rstrip("\n")
    assert main([*words, "5"]) == 0
    assert second == capsys.readouterr().out


def test_letters_come_one_by_one(monkeypatch, trained):
    """Each is on the screen before the next is drawn."""
    from labml_nn.experiments.command_line import generate as command

    shown = []
    monkeypatch.setattr(command, "show", shown.append)
    assert main(["generate", str(trained("elman")), "--prompt", "All:", "--tokens", "8"]) == 0
    assert shown[0] == "All:" and [len(piece) for piece in shown[1:]] == [1] * 8


@pytest.mark.parametrize(
    ("settings", "sampler"),
    [
        ({}, Chain(Temperature(0.8))),
        ({"temperature": 0.0, "top_k": 3}, Greedy()),
        ({"temperature": 1.5, "top_k": 3}, Chain(Temperature(1.5), TopK(3))),
        ({"top_k": 3, "top_p": 0.7}, Chain(Temperature(0.8), TopK(3), Nucleus(0.7))),
    ],
)
def test_settings_make_a_sampler(settings, sampler):
    got = Writing(**settings).sampler
    assert repr(got) == repr(sampler)
    assert vars(got) == vars(sampler)


@pytest.mark.parametrize(
    ("name", "words", "message"),
    [
        ("elman", ["--prompt", "All #1"], "'#' (line 1, column 5) is not in the"),
        ("elman", ["--prompt", r"All:\n"], "holds a backslash, which this model has never"),
        ("elman", ["--tokens", "0"], "`tokens` (0) must be at least 1"),
        ("elman", ["--count", "0"], "`count` (0) must be at least 1"),
        ("elman", ["--temperature", "-1"], "`temperature` (-1.0) must be at least 0; 0.8"),
        ("elman", ["--top-p", "1.5"], "`top_p` (1.5)"),
        ("elman", ["--top-k", "0"], "`top_k` (0)"),
        ("elman", ["--top-k", "none", "--topk", "3"], "there is no flag --topk; did you mean"),
        ("elman", ["--device", "cuda:99"], "there is no device 'cuda:99' here"),
        ("encoder_decoder", [], "this model replies, and nothing was said; try --prompt"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused(capsys, trained, name, words, message):
    folder = trained(name)
    capsys.readouterr()
    assert main(["generate", str(folder), *words]) == 2
    captured = capsys.readouterr()
    assert captured.err.startswith("error: ") and message in captured.err
    assert captured.out == "" and "Traceback" not in captured.err


def test_a_text_without_lines_needs_a_prompt(capsys, tmp_path):
    text, out = tmp_path / "line.txt", tmp_path / "run"
    text.write_text("abcdefgh" * 60)
    words = ["train", "elman", *SMALL["elman"], "--text", str(text), "--out", str(out)]
    assert main([*words, "--quiet"]) == 0
    capsys.readouterr()
    assert main(["generate", str(out)]) == 2
    assert 'give it a letter to begin with: --prompt "a"' in capsys.readouterr().err
    assert main(["generate", str(out), "--prompt", "abc", "--tokens", "2"]) == 0


@pytest.mark.parametrize("command", ["generate", "evaluate", "attention"])
def test_a_folder_that_is_no_run(capsys, tmp_path, command):
    words = ["--text", "a"] if command == "attention" else []
    assert main([command, str(tmp_path / "nowhere"), *words]) == 1
    assert "nowhere is not there; expected the folder" in capsys.readouterr().err
    assert main([command, str(tmp_path), *words]) == 1
    assert "has no run in it" in capsys.readouterr().err
    assert main([command, *words]) == 2
    assert "RUN" in capsys.readouterr().err


def test_runs_nearby_are_named(capsys, trained):
    folder = trained("elman")
    capsys.readouterr()
    for words, message in [
        (folder.parent, "is not a run, but there are some in it: "),
        (folder.parent, str(folder)),
        (folder.parent.parent, "is not a run, but there are some in it: "),
        (folder / "model", f"is a part of a run; give {folder}\n"),
        (folder.parent / "elmann", f"did you mean {folder}?"),
    ]:
        assert main(["generate", str(words)]) == 1
        assert message in capsys.readouterr().err


def test_a_damaged_model_is_named(capsys, tmp_path, trained):
    import shutil

    folder = tmp_path / "run"
    shutil.copytree(trained("elman"), folder)
    (folder / "model" / "model.safetensors").write_bytes(b"half")
    capsys.readouterr()
    assert main(["generate", str(folder)]) == 2
    assert str(folder / "model" / "model.safetensors") in capsys.readouterr().err
