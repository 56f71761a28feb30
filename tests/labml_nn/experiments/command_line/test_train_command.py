"""From words to runs: presets and flags, going on, variants, and everything refused."""

import json
import signal

import pytest
from commanded_runs import SMALL, SPEECHES

from labml_nn.experiments.command_line import main, training
from labml_nn.experiments.command_line.train import read, which
from labml_nn.experiments.distributed import World
from labml_nn.experiments.experiment import experiments
from labml_nn.experiments.training.config import TrainingConfig
from labml_nn.experiments.training.folder import load_run


def train(name, out, text, *more):
    return main(["train", name, *SMALL[name], "--text", str(text), "--out", str(out), *more])


def order(*words):
    return read(experiments()[which(words)], words)


@pytest.fixture
def press_ctrl_c(monkeypatch):
    """Somebody presses Ctrl-C when this step was told."""

    def at(step):
        def update(self, told, *args, **more):
            if told == step:
                signal.raise_signal(signal.SIGINT)

        monkeypatch.setattr(training.Warnings, "update", update)

    yield at


@pytest.mark.parametrize("name", experiments().names)
def test_help_shows_every_flag_with_the_numbers_of_the_preset(capsys, monkeypatch, name):
    monkeypatch.setenv("COLUMNS", "90")
    experiment = experiments()[name]
    assert main(["train", name, "--preset", "gpu", "--help"]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "SUPPRESS" not in shown
    config = TrainingConfig(**experiment.presets["gpu"].training)
    for field, value in config.values().items():
        flag = f"--{field.replace('_', '-')} "
        assert flag in shown
        about = shown.partition(flag)[2].partition(" --")[0]
        assert f"(default: {'none' if value is None else value})" in about
    varied = {field for changed in experiment.variants.values() for field in changed}
    for field, value in experiment.presets["gpu"].model.items():
        assert field in varied or f"(default: {value})" in shown
    for preset in experiment.presets.values():
        assert preset.about in shown
    for variant in experiment.variants:
        assert variant in shown
    assert "--n-vocab" not in shown


def test_help_without_a_name_lists_the_names(capsys):
    assert main(["train", "--help"]) == 0
    shown = capsys.readouterr().out
    assert all(f"\n{name} " in shown for name in experiments().names)


def test_words_become_an_order():
    got = order(
        *("--steps", "7", "feedback", "--preset=cpu", "--no-tied", "--d_model", "24"),
        *("--resume", "--learning-rate", "0.5"),
    )
    assert (got.experiment.name, got.preset, got.variant) == ("feedback", "cpu", None)
    assert got.model == {"d_model": 24, "tied": False}
    assert got.training == {"steps": 7, "learning_rate": 0.5}
    assert got.resume and not got.quiet and got.text is None
    assert str(got.out) == "runs/feedback"


def test_variants_have_folders_of_their_own():
    every = order("mha", "--out", "x")
    assert every.variants == ["heads-1", "heads-2", "heads-4", "heads-8"]
    assert str(every.folder("heads-2")) == "x/heads-2"
    one = order("mha", "--variant", "heads-2")
    assert one.variants == ["heads-2"]
    assert str(one.folder("heads-2")) == "runs/mha/heads-2"
    alone = order("elman")
    assert alone.variants == [None] and str(alone.folder(None)) == "runs/elman"


def test_a_run_is_trained_and_says_so(capfd, tmp_path, text_file):
    assert train("elman", tmp_path / "run", text_file) == 0
    captured = capfd.readouterr()
    assert captured.out.startswith("elman, tiny: a model of ")
    assert "small.txt: 2,192 characters to learn from, 244 to be judged by\n" in captured.out
    assert "6 updates in " in captured.out
    assert f"generate {tmp_path / 'run'}\n" in captured.out  # no ROMEO in that text
    assert "step 3: loss on new text" in captured.err
    run = load_run(tmp_path / "run")
    assert (run.experiment, run.variant, run.preset) == ("elman", None, "tiny")
    assert run.model_config["d_hidden"] == 10 and run.training.steps == 6
    assert run.result()["result"]["stopped"] == "finished"


def test_quiet_says_only_how_it_ended(capsys, tmp_path, text_file):
    assert train("elman", tmp_path / "run", text_file, "--quiet") == 0
    captured = capsys.readouterr()
    assert captured.out.startswith("6 updates in ") and captured.err == ""


def test_ctrl_c_saves_and_the_same_words_go_on(capsys, tmp_path, text_file, press_ctrl_c):
    """And come to the same end, to the last digit."""
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    assert train("autoregressive", whole, text_file, "--quiet") == 0
    press_ctrl_c(3)
    assert train("autoregressive", parts, text_file, "--quiet") == 130
    said = capsys.readouterr().out
    assert "interrupted after 3 updates, and saved; go on with" in said
    command = said.splitlines()[-1].strip()
    assert command == f"python -m labml_nn train autoregressive --out {parts} --resume"
    press_ctrl_c(None)
    words = command.split()[3:]
    assert main([*words, "--quiet"]) == 0
    ends = [load_run(folder).result() for folder in (whole, parts)]
    assert ends[0]["result"]["validation_loss"] == ends[1]["result"]["validation_loss"]
    assert [p[:2] for p in ends[0]["curve"]["train"]] == [p[:2] for p in ends[1]["curve"]["train"]]
    assert ends[0]["samples"] == ends[1]["samples"]


def test_one_variant_goes_on_alone(capsys, tmp_path, text_file, press_ctrl_c):
    name, out = "positional_encoding", tmp_path / "one"
    press_ctrl_c(2)
    assert train(name, out, text_file, "--variant", "learned", "--quiet") == 130
    command = capsys.readouterr().out.splitlines()[-1].split()[3:]
    assert command == ["train", name, "--variant", "learned", "--out", str(out), "--resume"]
    press_ctrl_c(None)
    assert main([*command, "--quiet"]) == 0
    assert load_run(out).variant == "learned"
    assert load_run(out).result()["result"]["stopped"] == "finished"


def test_a_finished_run_that_goes_on_is_finished(capsys, tmp_path, text_file):
    assert train("elman", tmp_path / "run", text_file, "--quiet") == 0
    first = capsys.readouterr().out.split("loss on new text")[1]
    assert main(["train", "elman", "--out", str(tmp_path / "run"), "--resume", "--quiet"]) == 0
    assert capsys.readouterr().out.split("loss on new text")[1] == first


def test_all_variants_are_trained_and_compared(capsys, tmp_path, text_file, press_ctrl_c):
    """Interrupted in the second, they go on there; what is finished is left alone."""
    name, out = "positional_encoding", tmp_path / "all"
    variants = list(experiments()[name].variants)
    press_ctrl_c(None)
    seen = []
    begun = training.new

    def interrupted_in_the_second(order, variant, world):
        seen.append(variant)
        press_ctrl_c(2 if len(seen) == 2 else None)
        return begun(order, variant, world)

    training.new = interrupted_in_the_second
    try:
        assert train(name, out, text_file, "--quiet") == 130
        assert seen == variants[:2] and not (out / "curves.svg").exists()
        capsys.readouterr()
        again = ["train", name, "--out", str(out), "--resume", "--quiet"]
        assert main([*again, *SMALL[name], "--text", str(text_file)]) == 0
    finally:
        training.new = begun
    said = capsys.readouterr().out
    assert f"{out / variants[0]} is finished\n" in said
    assert f"\n{variants[2]}: 6 updates in " in said
    assert seen == variants
    curves = (out / "curves.svg").read_text()
    table = said.partition("loss on new text, at best:\n")[2].splitlines()
    losses = {}
    for line in table[: len(variants)]:
        variant, loss = line.split()
        losses[variant] = float(loss)
    assert set(losses) == set(variants)
    assert list(losses.values()) == sorted(losses.values())
    for variant in variants:
        assert f">{variant} <" in curves
        best = load_run(out / variant).result()["result"]["best_validation_loss"]
        assert losses[variant] == pytest.approx(best, abs=1e-4)


def test_no_variant_begins_if_the_folder_of_one_is_taken(capsys, tmp_path, text_file):
    last = list(experiments()["positional_encoding"].variants)[-1]
    (tmp_path / "all" / last).mkdir(parents=True)
    (tmp_path / "all" / last / "mine.txt").write_text("precious")
    assert train("positional_encoding", tmp_path / "all", text_file) == 1
    assert f"{last} is not empty, and what is in it is no run" in capsys.readouterr().err
    assert [path.name for path in (tmp_path / "all").iterdir()] == [last]


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        ("", 2, "the name of an experiment is missing; known: autoregressive, "),
        ("--steps 3", 2, "the name of an experiment is missing"),
        ("fedback", 2, "there is no experiment 'fedback'; did you mean 'feedback'?"),
        ("feedback --preset tinny", 2, "there is no preset of feedback 'tinny'; did you mean"),
        ("mha --variant heads-3", 2, "there is no variant of mha 'heads-3'; did you mean"),
        ("elman --variant big", 2, "elman has no variants; leave --variant out"),
        ("elman --n-vocab 70", 2, "--n-vocab is no choice: the text decides it"),
        ("mha --heads=3", 2, "--heads is what the variants of mha differ in; choose one with --va"),
        ("elman --d-hiden 70", 2, "there is no flag --d-hiden; did you mean --d-hidden?"),
        ("elman feedback", 2, "'feedback' is one word too many"),
        ("elman --steps 0", 2, "`steps` (0) must be at least 1"),
        ("elman --batch-size 7 --accumulate 3", 2, "`batch_size` (7) must be divisible by"),
        ("feedback --d-model 10 --heads 4", 2, "`d_model` (10) must be divisible by `heads`"),
        ("elman --device cuda:99", 2, "there is no device 'cuda:99' here"),
        ("elman --text nowhere.txt", 2, "there is no nowhere.txt; expected a text file in UTF-8"),
        ("elman --seq-len 5000", 2, "`seq_len` (5000) needs 5001"),
        ("elman --start-from x", 2, "`start_from` ('x') is not for the experiment 'elman'"),
        ("elman --resume", 1, "there is no run in runs/elman to go on with; say where"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused(capsys, tmp_path, monkeypatch, text_file, words, code, message):
    monkeypatch.chdir(tmp_path)
    words = words.split()
    if "--text" not in words:
        words += ["--text", str(text_file)]
    if "--preset" not in words:
        words += ["--preset", "tiny"]
    assert main(["train", *words]) == code
    captured = capsys.readouterr()
    assert captured.err.startswith("error: ")
    assert message in captured.err
    assert "Traceback" not in captured.err
    assert not (tmp_path / "runs").exists()


def test_a_folder_that_is_taken_is_left_alone(capsys, tmp_path, text_file):
    out = tmp_path / "run"
    assert train("elman", out, text_file, "--quiet") == 0
    files = [path for path in out.rglob("*") if path.is_file() and "labml" not in path.parts]
    before = {path: path.read_bytes() for path in files}
    assert train("elman", out, text_file) == 1
    said = capsys.readouterr().err
    assert said.startswith(f"error: there is a run in {out} already; go on with it (--resume)")
    assert before == {path: path.read_bytes() for path in files}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("feedback", "is another one:\n  experiment: elman there, feedback here"),
        ("elman --d-hidden 11", "is another one:\n  d_hidden: 10 there, 11 here"),
        ("elman --steps 9", "belongs to another run:\n  steps: 6 there and 9 here"),
        ("elman --text OTHER", "belongs to another run:\n  corpus: "),
    ],
)
def test_another_run_does_not_go_on(capsys, tmp_path, trained, words, message):
    other = tmp_path / "other.txt"
    other.write_text(SPEECHES * 13)
    words = words.replace("OTHER", str(other)).split()
    folder = trained("elman")
    assert main(["train", *words, "--out", str(folder), "--resume"]) == 1
    assert message in capsys.readouterr().err


def test_a_damaged_run_is_named(capsys, tmp_path, trained):
    folder = tmp_path / "run"
    folder.mkdir()
    for path in trained("elman").iterdir():
        if path.is_file():
            (folder / path.name).write_bytes(path.read_bytes())
    (folder / "checkpoint.pt").write_bytes(b"half")
    again = ["train", "elman", "--out", str(folder), "--resume"]
    assert main(again) == 1
    assert f"{folder / 'checkpoint.pt'} is damaged" in capsys.readouterr().err
    (folder / "run.json").write_text(json.dumps({"experiment": "elman"}))
    assert main(again) == 1
    assert f"{folder / 'run.json'} is damaged" in capsys.readouterr().err


def test_numbers_that_are_none_end_the_run(capsys, tmp_path, text_file):
    out = tmp_path / "run"
    words = ("--learning-rate", "1e30", "--clip-norm", "0", "--warmup-steps", "0", "--quiet")
    assert train("feedback", out, text_file, *words) == 1
    said = capsys.readouterr().err
    assert said.startswith("warning: the loss or the gradient was no finite number")
    assert f"error: the run in {out} has ended after " in said and " of 6 updates" in said
    assert load_run(out).result()["result"]["stopped"] == "not finite"


def test_start_from_takes_the_weights_of_another_run(capsys, tmp_path, text_file, trained):
    first = trained("autoregressive")
    out = tmp_path / "run"
    words = ("--d-ff", "20", "--start-from", str(first), "--quiet")
    assert train("feedback", out, text_file, *words) == 0
    assert load_run(out).training.start_from == str(first)


def test_many_processes_go_on_as_many(monkeypatch):
    monkeypatch.delenv("LOCAL_WORLD_SIZE", raising=False)
    assert training._program(World()) == "python -m labml_nn"
    assert training._program(World(0, 3)) == "torchrun --nproc-per-node 3 -m labml_nn"
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "2")
    assert training._program(World(0, 6)) == "torchrun --nproc-per-node 2 -m labml_nn"
