"""What users type: flags from dataclasses, runs, and everything that is refused in a sentence."""

import argparse
import errno
import io
import math
import re
import shutil
import signal
import sys
from dataclasses import MISSING, dataclass, fields
from typing import Literal

import pytest
import torch
from small_commands import SMALL, SPEECHES

import labml_nn
from labml_nn.experiments import command_line
from labml_nn.experiments.checkpoint import RunError, load_run
from labml_nn.experiments.command_line import (
    COMMANDS,
    Parser,
    Train,
    add_fields,
    add_model_flags,
    explained,
    main,
    meanings,
)
from labml_nn.experiments.distributed import World
from labml_nn.experiments.presets import TrainingConfig, experiments
from labml_nn.registry import models
from labml_nn.sampling import Chain, Temperature, generate

CONFIGS = [*(entry.load_class().Config for entry in models().values()), TrainingConfig]
CONFIGS += [command for name, command in COMMANDS.items() if name not in ("train", "list")]


@dataclass
class Config:
    r"""
    * `folder` is a word without a flag
    * `width` is how wide it is, 100 % of it
    * `rate` is how fast, $\sqrt{C}$ [@key, §3]
    * `is_open` is whether it is `None` or [open](page.py)
    * `norm` is the kind of norm
    * `limit`, `share` are where it ends
      and how much
    * `place`: where it is
    """

    folder: str
    width: int = 3
    rate: float = 0.5
    is_open: bool = True
    norm: Literal["layer", "rms", "none"] = "layer"
    limit: int | None = None
    share: float | None = 0.25
    place: str | None = None


def parser_of(config, **defaults):
    parser = Parser("prog", "about")
    add_fields(parser, "flags", config, **defaults)
    return parser


@pytest.mark.parametrize("config", CONFIGS, ids=lambda config: config.__name__)
def test_each_field_has_a_flag_with_help_and_a_default(config):
    """And what the help shows as the default can be typed, and means the default."""
    parser, words, values = parser_of(config), [], {}
    shown = " ".join(parser.format_help().split())
    for one in fields(config):
        flag, value = "--" + one.name.replace("_", "-"), one.default
        assert len(meanings(config)[one.name]) > 8, flag
        if value is MISSING:
            words.append("given")
            values[one.name] = "given"
            continue
        assert f"{flag} " in shown or f"{flag}," in shown, flag
        if value is True or value is False:
            words.append(flag if value else flag.replace("--", "--no-", 1))
        else:
            words += [flag, str(value)]
        values[one.name] = value
    assert parser.read(words) == values


def test_help_is_the_docstring_as_plain_text(monkeypatch):
    monkeypatch.setenv("COLUMNS", "90")
    shown = " ".join(parser_of(Config, rate=0.75).format_help().split())
    assert "how wide it is, 100 % of it" in shown
    assert "how fast, √C (default: 0.75)" in shown
    assert "whether it is none or open (default: --is-open)" in shown
    assert meanings(Config)["share"] == "where it ends and how much"
    assert "(default: --no-is-open)" in parser_of(Config, is_open=False).format_help()


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("", {}),
        ("--width 3 --rate 1e-3", {"width": 3, "rate": 0.001}),
        ("--no-is-open --norm rms", {"is_open": False, "norm": "rms"}),
        ("--is_open --limit=none", {"is_open": True, "limit": None}),
        ("--share -2 --place a_b", {"share": -2.0, "place": "a_b"}),
        ("--rate -1e-2 --share=-.5 --limit -3", {"rate": -0.01, "share": -0.5, "limit": -3}),
        ("--norm none --place None", {"norm": "none", "place": None}),
        ("--width 1.5", "--width: '1.5' is not a whole number"),
        ("--rate none", "--rate: 'none' is not a number"),
        ("--norm rsm", "--norm: there is no choice 'rsm'; did you mean 'rms'? known: layer, rms"),
        ("--wid 3", "there is no flag --wid; did you mean --width?"),
        ("--zzz=3", "there is no flag --zzz\n"),
        ("--width", "--width: a value must follow"),
        ("--width 3 4", "unexpected word '4'"),
    ],
)
def test_words_become_values(line, expected):
    """Of the type of their field, or an error."""
    words = ["here", *line.split()]
    if isinstance(expected, str):
        with pytest.raises(ValueError, match=re.escape(expected)) as caught:
            parser_of(Config).read(words)
        assert str(caught.value).endswith("prog --help` explains all flags")
    else:
        got = parser_of(Config).read(words)
        assert repr(got) == repr({"folder": "here", **expected})


# The program.
def test_overview_version_and_list(capsys):
    for words in ([], ["--help"]):
        assert main(words) == 0
        shown = capsys.readouterr().out
        assert all(f"\n  {name} " in shown for name in COMMANDS)
    for words in (["list"], ["train", "--help"]):
        assert main(words) == 0 and str(experiments()) in capsys.readouterr().out
    assert main(["--version"]) == 0 and "labml-nn" in capsys.readouterr().out
    assert main(["train", "--debug", "nonsense"]) == 2
    assert "Traceback" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("error", "code", "text"),
    [
        (KeyboardInterrupt(), 130, "interrupted"),
        (RunError("a sentence"), 1, "a sentence"),
        (ValueError(), 2, "ValueError"),
        (OSError(errno.ENOSPC, "No space left on device", "/x"), 1, "the disk is full: /x; free"),
        (PermissionError(errno.EACCES, "Permission denied", "/x"), 2, "permission denied: /x"),
        (FileNotFoundError("there is no x"), 2, "there is no x"),
        (torch.OutOfMemoryError("CUDA out of memory"), 1, "the memory is full; use a smaller"),
        (ImportError(name="tqdm"), 1, "tqdm is missing; pip install 'labml-nn"),
        (KeyError("x"), 1, "KeyError: 'x'\nthis is a fault of the library; --debug shows"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_errors_become_a_code_and_a_sentence(error, code, text):
    got = explained(error)
    assert got[0] == code and got[1].startswith(text)


# Train.
def train(name, out, text, *more):
    return main(["train", name, *SMALL[name], "--text", str(text), "--out", str(out), *more])


@pytest.mark.parametrize("name", experiments())
def test_help_shows_the_values_of_the_preset(capsys, name):
    assert main(["train", name, "--preset", "gpu", "--help"]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "SUPPRESS" not in shown and "--n-vocab" not in shown
    presets = experiments()[name].presets
    for one, value in presets["gpu"].model.items():
        flag = one.replace("_", "-")
        if isinstance(value, bool):
            value = f"--{'' if value else 'no-'}{flag}"
        about = shown.partition(f"--{flag}")[2].partition("(default: ")[2]
        assert about.startswith(f"{'none' if value is None else value})"), one
    assert all(each.about in shown for each in presets.values())


def test_words_become_an_order():
    words = "--steps 7 feedback --preset=cpu --no-tied --d_model 24 --resume"
    got = Train.read(words.split())
    assert (got.experiment.name, got.preset) == ("feedback", "cpu")
    assert got.model == {"d_model": 24, "tied": False} and got.training == {"steps": 7}
    assert got.resume and not got.quiet and got.text is None
    assert str(got.folder.path) == "runs/feedback"


def test_a_run_is_trained_and_reported(capfd, tmp_path, text_file):
    assert train("elman", tmp_path / "run", text_file) == 0
    out, err = capfd.readouterr()
    assert out.startswith("elman, tiny: a model with ")
    assert "small.txt: 2,192 characters for training, 244 for validation\n" in out
    assert "6 updates in " in out and "step 3: validation loss" in err
    assert f"generate {tmp_path / 'run'}\n" in out  # no ROMEO in that text
    run = load_run(tmp_path / "run")
    assert run.about["model"]["config"]["d_hidden"] == 10 and run.training.steps == 6
    again = ["train", "elman", "--out", str(tmp_path / "run"), "--resume", "--quiet"]
    assert main(again) == 0  # nothing is left to do
    out, err = capfd.readouterr()
    assert out.startswith("6 updates in ") and err == ""


def test_processes_leave_together(monkeypatch, tmp_path, text_file):
    """Else threads of PyTorch's process group may outlive the interpreter."""
    left = []
    monkeypatch.setattr(World, "leave", lambda world: left.append(world.rank))
    assert train("elman", tmp_path / "run", text_file, "--quiet", "--steps", "1") == 0
    assert left == [0]


def test_ctrl_c_saves_and_the_same_command_continues(capsys, monkeypatch, tmp_path, text_file):
    def press_ctrl_c(self, step, *args, **more):
        if step == 2:
            signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(command_line.Warnings, "update", press_ctrl_c)
    assert train("elman", tmp_path / "run", text_file, "--quiet") == 130
    assert "interrupted after 2 updates, and saved; continue with" in capsys.readouterr().out
    monkeypatch.undo()
    assert train("elman", tmp_path / "run", text_file, "--quiet", "--resume") == 0
    assert "6 updates in " in capsys.readouterr().out


REFUSED = """
trian | 2 | there is no command 'trian'; did you mean 'train'?
train | 2 | are required: NAME
train fedback | 2 | there is no experiment 'fedback'; did you mean 'feedback'?
train feedback --preset tinny | 2 | there is no preset of feedback 'tinny'; did you mean
train elman --d-hiden 70 | 2 | there is no flag --d-hiden; did you mean --d-hidden?
train elman feedback | 2 | unexpected word 'feedback'
train feedback --d-model 10 --heads 4 | 2 | `d_model` (10) must be divisible by `heads`
train elman --device cuda:99 | 2 | there is no device 'cuda:99' here
train elman --text nowhere.txt | 2 | nowhere.txt cannot be read (No such file or
train encoder_decoder --text line | 2 | expected at least 2, a source and a reply
train elman --seq-len 5000 | 2 | `seq_len` (5000) needs 5001
train elman --dropout-prob 1 | 2 | `dropout_prob` (1.0) must be below 1
train elman --tracking-url localhost:5005 | 2 | ('localhost:5005') must be an address without a
train elman --out full | 1 | full is not empty and holds no run
train elman --out taken | 1 | is a file; choose another folder (--out)
train elman --resume | 1 | runs/elman does not exist; expected the folder
train feedback --resume --out ELMAN | 1 | is another one (elman, tiny); continue that
train elman --resume --d-hidden 11 --out ELMAN | 1 | d_hidden: 10 there and 11 here
train elman --resume --steps 9 --out ELMAN | 1 | steps: 6 there and 9 here
train elman --resume --text line --out ELMAN | 1 | belongs to another run
generate | 2 | are required: RUN
generate ELMAN --prompt #1 | 2 | '#' is not in the vocabulary; use only
generate ELMAN --tokens 0 | 2 | `tokens` (0) must be at least 1
generate ELMAN --topk 3 | 2 | there is no flag --topk; did you mean --top-k?
generate REPLIES | 2 | this model replies to a text; try --prompt
evaluate nowhere | 1 | nowhere does not exist; expected the folder
evaluate RUNS | 1 | has no run in it; expected the folder that a training wrote
evaluate ELMAN --text short | 2 | take a longer text
attention GPT | 2 | the prompt is empty
attention GPT --text All --out no/a.svg | 2 | in a folder that
attention GPT --text All --layer x | 2 | 'x' is not a
attention GPT --text All --layer 9 | 2 | no layer 9; expected 1 to 2
attention GPT --text All --head 9 | 2 | no head 9; expected 0 to 2
"""


@pytest.mark.parametrize("line", REFUSED.strip("\n").splitlines())
def test_what_is_not_possible(capsys, tmp_path, monkeypatch, text_file, trained, line):
    """One sentence, the right exit code, no traceback, and nothing written."""
    files = {"short": b"To be", "line": b"one line " * 40, "taken": b"me"}
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
    typed, code, message = line.split(" | ")
    before = (trained("elman") / "checkpoint.pt").read_bytes()
    runs = {"ELMAN": "elman", "GPT": "autoregressive", "REPLIES": "encoder_decoder"}
    words = [str(trained(runs[word])) if word in runs else word for word in typed.split()]
    words = [str(trained("elman").parent) if word == "RUNS" else word for word in words]
    if words[0] == "train" and len(words) > 1:
        words += [] if "--text" in words else ["--text", str(text_file)]
        words += [] if "--preset" in words else ["--preset", "tiny"]
    monkeypatch.chdir(tmp_path)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine").touch()
    capsys.readouterr()
    assert main(words) == int(code)
    captured = capsys.readouterr()
    assert captured.err.startswith("error: ") and message in captured.err
    assert "Traceback" not in captured.err and captured.out == ""
    assert {p.name for p in tmp_path.rglob("*")} == {*files, "full", "mine"}
    assert all((tmp_path / name).read_bytes() == content for name, content in files.items())
    assert (trained("elman") / "checkpoint.pt").read_bytes() == before


def test_a_loss_that_is_not_finite_ends_the_run(capsys, tmp_path, text_file):
    out = tmp_path / "run"
    words = ("--learning-rate", "1e30", "--clip-norm", "0", "--warmup-steps", "0", "--quiet")
    assert train("feedback", out, text_file, *words) == 1
    said = capsys.readouterr().err
    assert "warning: the loss or the gradient was not finite" in said
    assert f"error: the run in {out} has ended after " in said and " of 6 updates" in said


# Generate, evaluate, attention.
@pytest.mark.parametrize("name", ["autoregressive", "feedback", "elman", "encoder_decoder"])
def test_what_is_generated(capsys, monkeypatch, trained, name):
    """What the library generates with the same seed and sampler, character by character."""
    folder, pieces = trained(name), []
    run, write = load_run(folder), sys.stdout.write
    monkeypatch.setattr(sys.stdout, "write", lambda text: (pieces.append(text), write(text)))
    words = ["--prompt", "Speak", "--tokens", "11", "--seed", "4", "--device", "cpu"]
    assert main(["generate", str(folder), *words]) == 0
    sampler = Chain(Temperature(0.8))
    written = run.wording.decode(
        generate(run.model(), run.wording.prompt("Speak"), 11, sampler, seed=4)[:, 0]
    )
    prompt = "" if name == "encoder_decoder" else "Speak"
    assert [piece for piece in pieces if piece] == [prompt + written[0], *written[1:], "\n"]


def test_several_texts_and_no_prompt(capsys, trained):
    folder = str(trained("elman"))
    capsys.readouterr()
    words = ["generate", folder, "--tokens", "30", "--seed"]
    assert main([*words, "4", "--count", "2"]) == 0
    first, second = capsys.readouterr().out.split("\n\n--- 2 of 2 ---\n")
    assert first.startswith("\n") and first != second.rstrip("\n")
    assert main([*words, "5", "--prompt", "\n"]) == 0
    assert second == capsys.readouterr().out


def test_the_loss_of_a_text(capsys, tmp_path, trained):
    folder = trained("elman")
    best = load_run(folder).result()["result"]["best_validation_loss"]
    capsys.readouterr()
    assert main(["evaluate", str(folder)]) == 0
    shown = capsys.readouterr().out
    assert "(elman, tiny)" in shown and "small.txt, the last 244 of 2,436 characters" in shown
    assert f"loss        {best:.4f} nats per character\n" in shown
    assert f"{best / math.log(2):.4f} bits" in shown and f"{math.exp(best):.2f}" in shown
    other = tmp_path / "other.txt"
    other.write_text(SPEECHES * 3)
    assert main(["evaluate", str(folder), "--text", str(other)]) == 0
    assert "The model was trained on another text: small.txt." in capsys.readouterr().out


def test_words_are_tokens(capsys, tmp_path, text_file):
    """Trained, resumed, evaluated, drawn and generated, with the spaces between them."""
    out, words = tmp_path / "run", "--tokenizer words --min-count 2 --max-words 30"
    assert train("autoregressive", out, text_file, *words.split()) == 0
    assert "; 30 words" in capsys.readouterr().out
    assert train("autoregressive", out, text_file, "--resume", "--steps", "6") == 0
    picture, shown = str(tmp_path / "a.svg"), []
    for line in ("evaluate OUT", "attention OUT --text Speak --out", "generate OUT --prompt Speak"):
        words = line.replace("OUT", str(out)).split()
        assert main([*words, picture] if words[-1] == "--out" else words) == 0
        shown.append(capsys.readouterr().out)
    assert "nats per word" in shown[0] and "% of the words" in shown[0]
    assert shown[2].startswith("Speak ") or shown[2].startswith("Speak\n")


@pytest.mark.parametrize("name", ["autoregressive", "encoder_decoder"])
def test_attention_is_drawn(capsys, tmp_path, trained, name):
    picture, folder = tmp_path / "a.svg", str(trained(name))
    command = ["attention", folder, "--text", "Speak", "--out", str(picture)]
    capsys.readouterr()
    assert main(command) == 0
    whole = picture.read_text()
    assert whole.startswith("<svg") and str(picture) in capsys.readouterr().out
    assert main([*command, "--layer", "1", "--head", "2"]) == 0
    assert picture.read_text() != whole


def test_a_tilde_is_the_home_folder_in_every_path(tmp_path, monkeypatch, text_file):
    home, here = tmp_path / "home", tmp_path / "here"
    home.mkdir(), here.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.chdir(here)
    shutil.copy(text_file, home / "my.txt")
    assert train("autoregressive", "~/run", "~/my.txt") == 0
    assert train("autoregressive", "~/run", "~/my.txt", "--resume") == 0
    for words in (
        "generate ~/run --tokens 2",
        "evaluate ~/run --text=~/my.txt",
        "attention ~/run --text All --out=~/map.svg",
    ):
        assert main(words.split()) == 0
    assert not list(here.iterdir())
    assert {"run", "map.svg"} <= {path.name for path in home.iterdir()}
    load_run("~/run").model().save("~/kept")
    assert (home / "kept/config.json").exists() and labml_nn.load("~/kept")


def test_a_home_folder_that_is_not_known(capsys):
    assert main(["generate", "~nobody-of-this-name/run"]) == 2
    assert "the home folder in ~nobody-of-this-name/run is not known" in capsys.readouterr().err


def test_a_terminal_that_knows_only_ascii(tmp_path, monkeypatch, text_file):
    out, said = str(tmp_path / "lärm"), io.BytesIO()
    for name in ("stdout", "stderr"):
        monkeypatch.setattr(sys, name, io.TextIOWrapper(said, "ascii", write_through=True))
    assert train("elman", out, text_file) == 0
    assert main(["generate", out, "--prompt", "√"]) == 2
    assert main(["evaluate", out]) == main(["list"]) == 0
    shown = said.getvalue().decode("ascii")
    assert "l\\xe4rm" in shown and "Traceback" not in shown and "fault of the library" not in shown


def test_flags_of_a_model_in_a_parser_of_ones_own(capsys):
    parser = argparse.ArgumentParser()
    parser.add_argument("--heads", type=int, default=7)
    parser.add_argument("--speed", type=float, default=0.5)
    add_model_flags(parser, "encoder_decoder", {"heads"})
    words = "--d-model 21 --no-bias --d-k none --label-smoothing 0.1"
    typed = vars(parser.parse_args(words.split()))
    assert typed.pop("speed") == 0.5
    expected = {"d_model": 21, "bias": False, "d_k": None, "label_smoothing": 0.1, "heads": 7}
    assert typed == expected
    assert labml_nn.create("encoder_decoder", n_vocab=9, **typed).config.d_model == 21
    with pytest.raises(SystemExit):
        parser.parse_args(["--d-model", "wide"])
    assert "argument --d-model: 'wide' is not a whole number" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        parser.parse_args(["--n-vocab", "3"])
    with pytest.raises(ValueError, match="did you mean 'elman'"):
        add_model_flags(parser, "elmann")
