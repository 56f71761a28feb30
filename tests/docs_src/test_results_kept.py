"""The results that are kept: whole, of the studies as they are declared, and as the pages say."""

import json
import re
from dataclasses import replace
from pathlib import Path
from statistics import mean, median
from typing import Any

import pytest
import torch
from drawn_figures import draw

from docs_src.results.studies import (
    BEST_MEMORY_RATE,
    BEST_RATE,
    COMMON,
    DEPTHS,
    LARGEST,
    LONGEST_CURVE,
    MEMORY,
    MEMORY_RATES,
    MODELS,
    RATES,
    STUDIES,
    TOLERANCE,
    Job,
    at_equal,
    comparable,
    final,
    is_missing,
    jobs,
    keep,
    make_all,
    results_of,
)
from labml_nn.experiments.checkpoint import load_run
from labml_nn.sampling import generate

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "docs_src/results"
PAGE = (ROOT / "docs_src/pages/results.md").read_text(encoding="utf-8")
KEPT = {job: result for job in jobs() if (result := job.result(RESULTS))}
SHIPPED = [job.label for job in KEPT if STUDIES[job.study].ships]

pytestmark = pytest.mark.skipif(not KEPT, reason="no study has been run yet (`make results`)")


def read(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


def test_the_numbers_of_the_page_are_those_of_the_studies():
    page = " ".join(PAGE.split())
    characters = COMMON["batch_size"] * COMMON["seq_len"]
    assert f"{COMMON['steps']} updates of {characters:,} characters" in page
    assert f"sequences of {COMMON['seq_len']} characters" in page
    assert f"each below {LARGEST / 1e6:g} MB" in page
    words = {3: "Three", 4: "Four", 5: "Five"}
    assert f"{words[len(RATES)]} learning rates were tried" in page
    # What came out is told by tables and figures, which cannot be out of date.
    assert not re.search(r"\b[12]\.\d{2,}\b", PAGE)


def test_a_study_is_there_as_a_whole():
    for name in {job.study for job in KEPT}:
        missing = [job for job in jobs([name]) if job not in KEPT]
        assert not missing, f"`make results` makes {', '.join(map(str, missing))}"


def seeds(study: str, label: str) -> list[float]:
    return [result.loss for result in results_of(study, RESULTS)[label]]


def is_clearly_below(study: str, lower: str, higher: str) -> bool:
    """Whether each seed of the one is below each of the other."""
    return max(seeds(study, lower)) < min(seeds(study, higher))


def test_what_the_page_says_of_models():
    found = results_of("models", RESULTS)
    fastest = min(run.last.process_seconds for runs in found.values() for run in runs)
    on_text = [label for label in MODELS if label != "encoder_decoder"]
    at_time = {label: at_equal(found[label], fastest, "process_seconds") for label in on_text}
    ahead, last = ("gru", "mamba2"), ("autoregressive", "feedback", "linear_attention")
    middle = [label for label in on_text if label not in (*ahead, *last)]
    for label in middle:
        assert all(is_clearly_below("models", first, label) for first in ahead)
    assert max(mean(seeds("models", label)) for label in middle) < min(
        mean(seeds("models", label)) for label in last
    )
    assert not is_clearly_below("models", *ahead)
    assert is_clearly_below("models", "gated_delta_net", "delta_net")
    assert 0 < mean(seeds("models", "autoregressive")) - mean(seeds("models", "feedback")) < 0.05

    # At equal time: Elman, then the other vectors, then all others.
    others = [label for label in on_text if label not in ("elman", "gru", "lstm")]
    assert all(at_time["elman"].high < at_time[label].low for label in on_text if label != "elman")
    for label in ("gru", "lstm"):
        assert all(at_time[label].high < at_time[other].low for other in others)
    assert all(fastest < run.last.process_seconds / 4 for run in found["mamba2"])
    assert at_time["feedback"].mean < at_time["autoregressive"].mean


def test_times_of_a_model_differ_by_less_than_the_page_says():
    times = [
        [run.last.process_seconds for run in runs]
        for runs in results_of("models", RESULTS).values()
    ]
    said = re.search(r"differ by up to (\d+) % from seed", " ".join(PAGE.split()))
    assert said is not None
    most = max(max(of) / min(of) - 1 for of in times)
    assert 0.8 * float(said[1]) < 100 * most <= float(said[1])


def test_what_the_page_says_of_depth():
    gains = {
        layers: mean(seeds("feedback_depth", f"transformer-{layers}"))
        - mean(seeds("feedback_depth", f"feedback-{layers}"))
        for layers in DEPTHS
    }
    assert sorted(gains.values(), reverse=True) == list(gains.values()), "it shrinks"
    assert is_clearly_below("feedback_depth", "feedback-1", "transformer-1")
    assert gains[2] > 0 and gains[8] < 0
    for layers in (4, 8):
        for one, other in (("feedback", "transformer"), ("transformer", "feedback")):
            assert not is_clearly_below("feedback_depth", f"{one}-{layers}", f"{other}-{layers}")


def test_what_the_page_says_of_heads_and_positions():
    heads = {label: seeds("heads", label) for label in ("1", "2", "4", "8")}
    assert max(map(mean, heads.values())) == mean(heads["1"])
    assert not is_clearly_below("heads", "8", "4") and not is_clearly_below("heads", "4", "8")
    seconds = {
        label: mean(result.last.process_seconds for result in results_of("heads", RESULTS)[label])
        for label in heads
    }
    assert max(seconds, key=seconds.__getitem__) == "8"
    others = ("sinusoidal", "learned", "none")
    assert all(is_clearly_below("positions", "rotary", other) for other in others)
    assert 0 < mean(seeds("positions", "none")) - mean(seeds("positions", "sinusoidal")) < 0.1
    for one in others:
        assert not any(is_clearly_below("positions", one, other) for other in others)


def test_nothing_is_kept_that_no_study_has_declared():
    declared = {job.kept(RESULTS) for job in jobs()}
    found = set(RESULTS.glob("*.jsonl")) | set(RESULTS.rglob("result.json"))
    assert found <= declared
    lines = sum(len(path.read_text("utf-8").splitlines()) for path in RESULTS.glob("*.jsonl"))
    assert lines == sum(not STUDIES[job.study].ships for job in KEPT)


def test_a_run_is_kept_beside_the_others_of_its_study(tmp_path: Path):
    """In the order of the study, in place of an older result, and without what went."""
    job, other = (Job("heads", label, 2) for label in ("8", "1"))
    folders, results = tmp_path / "runs", tmp_path / "results"
    for one, loss in ((job, 1.25), (other, 1.5), (job, 1.75)):
        found = KEPT[one.first]
        curve = {"train": found.train, "validation": found.validation}
        result = {**found.result, "validation_loss": loss}
        data = {"run": found.run, "parameters": 5, "result": result, "curve": curve}
        (folders / str(one)).mkdir(parents=True, exist_ok=True)
        (folders / str(one) / "result.json").write_text(json.dumps(data), encoding="utf-8")
        assert is_missing(one, results) is (loss != 1.75)
        path = keep(one, folders, results)
        assert not is_missing(one, results)
    lines = path.read_text("utf-8").splitlines()
    assert [json.loads(line)["label"] for line in lines] == ["1", "8"]
    kept = job.result(results)
    assert kept is not None and kept.result["validation_loss"] == 1.75
    path.write_text(f'{{"label": "64", "seed": 2, "run": 0}}\n{lines[1]}\n', encoding="utf-8")
    keep(other, folders, results)
    assert path.read_text("utf-8").splitlines()[0].startswith('{"label": "1"')
    assert '"64"' not in path.read_text("utf-8")
    path.write_text("{}\n", encoding="utf-8")
    with pytest.raises(ValueError, match="a line that does not begin"):
        job.result(results)


def test_models_take_turns_so_that_a_busy_hour_slows_all_alike(capsys: pytest.CaptureFixture[str]):
    todo, begun, kept = list(jobs(["models"])), [], []

    def start(job):
        begun.append(job)
        return int(job.label == "elman"), "said"

    assert not make_all(todo, start, kept.append, 1)
    assert [job.seed for job in begun] == sorted(job.seed for job in todo)
    assert {job.label for job in begun[: len(MODELS)]} == set(MODELS)
    assert set(todo) - set(kept) == {job for job in todo if job.label == "elman"}
    assert f"{len(kept)} of {len(todo)} runs made" in capsys.readouterr().out


def test_an_estimate_of_its_cost_does_not_make_another_run():
    run = MODELS["elman"]
    assert replace(run, cost=2 * run.cost) == run != replace(run, preset="tiny")


def test_a_result_is_that_of_the_run_as_it_is_declared():
    for job, result in KEPT.items():
        finished = result.result["stopped"] == "finished"
        assert finished and result.last.step == result.run["training"]["steps"], job
        assert job.describes(result.run), f"{job}: `make results` makes it again"
        assert result.corpus.startswith(job.run.task or "Tiny Shakespeare"), job
        assert len(result.train) <= LONGEST_CURVE, job


def test_nothing_is_said_of_the_machine_but_what_it_is():
    for path in {job.kept(RESULTS) for job in KEPT}:
        text = path.read_text(encoding="utf-8")
        assert not re.search(r'"/|~/|[A-Z]:\\\\', text), path
        assert path.suffix == ".jsonl" or len(text) < 16_000, path


def test_models_have_equal_parameters_and_read_one_text():
    found = results_of("models", RESULTS)
    sizes = [runs[0].parameters for runs in found.values() if runs]
    assert max(sizes, default=1) / min(sizes, default=1) < 1.02
    comparable(run for run in KEPT.values() if run.run["task"] == "text")


def answers(task: str, name: str) -> list[float]:
    return sorted(run.result["accuracy"] for run in results_of(task, RESULTS)[name])


def test_what_the_page_says_of_memory():
    vectors = ("elman", "gru", "lstm")
    assert all(max(answers("recall", name)) < 0.15 for name in vectors)
    for name in ("autoregressive", "feedback", "linear_attention", "delta_net", "mamba2"):
        assert median(answers("recall", name)) > 0.99, name
    gated = median(answers("recall", "gated_delta_net"))
    assert gated < median(answers("recall", "delta_net")) - 0.2
    added, replaced = (median(answers("overwrite", n)) for n in ("linear_attention", "delta_net"))
    assert 0.7 < added < 0.8 and 0.88 < replaced < 0.95
    assert all(max(answers("overwrite", name)) < 0.1 for name in ("autoregressive", "feedback"))
    assert all(min(answers("parity", name)) > 0.99 for name in vectors)
    assert max(answers("parity", "autoregressive")) < 0.6
    for name in ("linear_attention", "delta_net", "gated_delta_net", "mamba2"):
        assert max(answers("parity", name)) < 0.75, name
    assert sum(share > 0.99 for share in answers("parity", "feedback")) == 4
    # Good at recall and last on a text; ahead on a text and bad at recall.
    for name in ("autoregressive", "linear_attention"):
        assert median(seeds("models", "gru")) < median(seeds("models", name)) - 0.1
    assert 0.1 < median(answers("recall", "gru")) < 0.13


def test_models_on_tasks_of_memory_have_equal_parameters_and_the_best_rates():
    sizes = [runs[0].parameters for runs in results_of("recall", RESULTS).values()]
    assert max(sizes) / min(sizes) < 1.02
    found = results_of("memory_rates", RESULTS)
    for task, best in BEST_MEMORY_RATE.items():
        for name in MEMORY:
            losses = {rate: found[f"{task}-{name}-{rate:g}"][0].loss for rate in MEMORY_RATES}
            assert best[name] == min(losses, key=losses.__getitem__), f"{name}, {task}"


def test_each_model_has_the_best_of_the_rates_that_were_tried():
    found = results_of("rates", RESULTS)
    for name in MODELS:
        tried = {rate: found[f"{name}-{rate:g}"] for rate in RATES}
        if all(tried.values()):
            losses = {rate: final(runs).mean for rate, runs in tried.items()}
            best = min(r for r, loss in losses.items() if loss < min(losses.values()) + TOLERANCE)
            assert best == BEST_RATE[name], f"{name} does best with {best:g}"


@pytest.mark.parametrize("name", SHIPPED)
def test_a_model_that_comes_along_writes(name: str):
    folder = RESULTS / name
    assert sum(file.stat().st_size for file in folder.rglob("*") if file.is_file()) < LARGEST
    assert read(folder / "run.json")["corpus"]["path"] is None
    run = load_run(folder)
    model = run.model().eval()
    torch.manual_seed(0)
    written = run.wording.decode(generate(model, run.wording.prompt("ROMEO:"), 12)[:, 0])
    assert len(written) >= 1


@pytest.mark.skipif("autoregressive" not in SHIPPED, reason="it is still to be trained")
def test_the_beginning_of_a_word_is_harder_to_guess_than_its_end():
    first, later = map(float, re.findall(r"(\d\.\d\d)", draw("trained.surprise").alt))
    assert first > 1.3 * later
    table = draw("trained.attention").table
    assert table is not None
    assert max(float(row[1]) for row in table.rows) > 0.4
