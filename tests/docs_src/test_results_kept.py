"""The results that are kept: whole, of the studies as they are declared, and as the pages say."""

import json
import re
from dataclasses import replace
from itertools import pairwise, product
from pathlib import Path
from statistics import mean, median

import pytest
from drawn_figures import draw

from docs_src.results import studies
from docs_src.results.studies import MODELS, STUDIES, Job, jobs, results_of
from labml_nn.experiments.checkpoint import load_run
from labml_nn.sampling import generate

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "docs_src/results"
PAGE = (ROOT / "docs_src/pages/results.md").read_text(encoding="utf-8")
KEPT = {job: result for job in jobs() if (result := job.result(RESULTS))}
SHIPPED = [job.label for job in KEPT if STUDIES[job.study].ships]

pytestmark = pytest.mark.skipif(not KEPT, reason="no study has been run yet (`make results`)")


def test_the_numbers_of_the_page_are_those_of_the_studies():
    page = " ".join(PAGE.split())
    characters = studies.COMMON["batch_size"] * studies.COMMON["seq_len"]
    assert f"{studies.COMMON['steps']} updates of {characters:,} characters" in page
    assert f"sequences of {studies.COMMON['seq_len']} characters" in page
    assert f"each below {studies.LARGEST / 1e6:g} MB" in page
    words = {3: "Three", 4: "Four", 5: "Five"}
    assert f"{words[len(studies.RATES)]} learning rates were tried" in page
    # What came out is told by tables and figures, which cannot be out of date.
    assert not re.search(r"\b[12]\.\d{2,}\b", PAGE)


def test_a_study_is_there_as_a_whole():
    for name in {job.study for job in KEPT}:
        missing = [job for job in jobs([name]) if job not in KEPT]
        assert not missing, f"`make results` makes {', '.join(map(str, missing))}"


def seeds(study: str, label: str) -> list[float]:
    return [result.loss for result in results_of(study, RESULTS)[label]]


def loss(study: str, label: str) -> float:
    return mean(seeds(study, label))


def is_clearly_below(study: str, lower: str, higher: str) -> bool:
    """Whether each seed of the one is below each of the other."""
    return max(seeds(study, lower)) < min(seeds(study, higher))


def differ(study: str, one: str, other: str) -> bool:
    return is_clearly_below(study, one, other) or is_clearly_below(study, other, one)


def test_what_the_page_says_of_models():
    found = results_of("models", RESULTS)
    fastest = min(run.last.process_seconds for runs in found.values() for run in runs)
    on_text = [label for label in MODELS if label != "encoder_decoder"]
    at_time = {
        label: studies.at_equal(found[label], fastest, "process_seconds") for label in on_text
    }
    ahead, last = ("gru", "mamba2"), ("autoregressive", "feedback", "linear_attention")
    middle = [label for label in on_text if label not in (*ahead, *last)]
    assert all(is_clearly_below("models", first, label) for label in middle for first in ahead)
    assert max(loss("models", one) for one in middle) < min(loss("models", one) for one in last)
    assert not is_clearly_below("models", *ahead)
    assert is_clearly_below("models", "gated_delta_net", "delta_net")
    assert 0 < loss("models", "autoregressive") - loss("models", "feedback") < 0.05

    # At equal time: Elman, then the other vectors, then all others.
    vectors = ("elman", "gru", "lstm")
    order = [["elman"], ["gru", "lstm"], [label for label in on_text if label not in vectors]]
    for first, second in pairwise(order):
        slowest = max(at_time[label].high for label in first)
        assert all(slowest < at_time[label].low for label in second)
    assert all(fastest < run.last.process_seconds / 4 for run in found["mamba2"])
    assert at_time["feedback"].mean < at_time["autoregressive"].mean


def test_times_of_a_model_differ_by_less_than_the_page_says():
    runs = results_of("models", RESULTS).values()
    times = [[run.last.process_seconds for run in each] for each in runs]
    said = re.search(r"differ by up to (\d+) % from seed", " ".join(PAGE.split()))
    assert said is not None
    most = max(max(of) / min(of) - 1 for of in times)
    assert 0.8 * float(said[1]) < 100 * most <= float(said[1])


def test_what_the_page_says_of_depth():
    study = "feedback_depth"
    gains = [loss(study, f"transformer-{n}") - loss(study, f"feedback-{n}") for n in studies.DEPTHS]
    assert sorted(gains, reverse=True) == gains and gains[-1] < 0 < gains[1], "it shrinks"
    assert is_clearly_below(study, "feedback-1", "transformer-1")
    assert not any(differ(study, f"feedback-{n}", f"transformer-{n}") for n in (4, 8))


def test_what_the_page_says_of_heads_and_positions():
    heads = results_of("heads", RESULTS)
    assert max(heads, key=lambda label: loss("heads", label)) == "1"
    assert not differ("heads", "4", "8")
    seconds = {label: mean(run.last.process_seconds for run in heads[label]) for label in heads}
    assert max(seconds, key=seconds.__getitem__) == "8"
    others = ("sinusoidal", "learned", "none")
    assert all(is_clearly_below("positions", "rotary", other) for other in others)
    assert 0 < loss("positions", "none") - loss("positions", "sinusoidal") < 0.1
    assert not any(is_clearly_below("positions", *pair) for pair in product(others, others))


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
    for one, share in ((job, 1.25), (other, 1.5), (job, 1.75)):
        found = KEPT[one.first]
        curve = {"train": found.train, "validation": found.validation}
        result = {**found.result, "validation_loss": share}
        data = {"run": found.run, "parameters": 5, "result": result, "curve": curve}
        (folders / str(one)).mkdir(parents=True, exist_ok=True)
        (folders / str(one) / "result.json").write_text(json.dumps(data), encoding="utf-8")
        assert studies.is_missing(one, results) is (share != 1.75)
        path = studies.keep(one, folders, results)
        assert not studies.is_missing(one, results)
    lines = path.read_text("utf-8").splitlines()
    assert [json.loads(line)["label"] for line in lines] == ["1", "8"]
    kept = job.result(results)
    assert kept is not None and kept.result["validation_loss"] == 1.75
    path.write_text(f'{{"label": "64", "seed": 2, "run": 0}}\n{lines[1]}\n', encoding="utf-8")
    studies.keep(other, folders, results)
    labels = [json.loads(line)["label"] for line in path.read_text("utf-8").splitlines()]
    assert labels == ["1", "8"]
    path.write_text("{}\n", encoding="utf-8")
    with pytest.raises(ValueError, match="a line that does not begin"):
        job.result(results)


def test_models_take_turns_so_that_a_busy_hour_slows_all_alike(capsys: pytest.CaptureFixture[str]):
    todo, begun, kept = list(jobs(["models"])), [], []

    def start(job):
        begun.append(job)
        return int(job.label == "elman"), "said"

    assert not studies.make_all(todo, start, kept.append, 1)
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
        assert len(result.train) <= studies.LONGEST_CURVE, job
        # Nothing is said of the machine but what it is.
        path = job.kept(RESULTS)
        text = path.read_text(encoding="utf-8")
        assert not re.search(r'"/|~/|[A-Z]:\\\\', text), path
        assert path.suffix == ".jsonl" or len(text) < 16_000, path


@pytest.mark.parametrize("study", ["models", "recall"])
def test_models_have_equal_parameters(study: str):
    sizes = [runs[0].parameters for runs in results_of(study, RESULTS).values() if runs]
    assert max(sizes) / min(sizes) < 1.02


def test_models_read_one_text():
    studies.comparable(run for run in KEPT.values() if run.run["task"] == "text")


def answers(task: str, name: str) -> list[float]:
    return sorted(run.result["accuracy"] for run in results_of(task, RESULTS)[name])


VECTORS, LISTS = "elman gru lstm", "autoregressive feedback"


@pytest.mark.parametrize(
    ("task", "names", "of_seeds", "low", "high"),
    [
        ("recall", VECTORS, max, 0, 0.15),
        ("recall", "gru", median, 0.1, 0.13),
        ("recall", f"{LISTS} linear_attention delta_net mamba2", median, 0.99, 1),
        ("recall", "gated_delta_net", median, 0.5, 0.79),
        ("overwrite", "linear_attention", median, 0.7, 0.8),
        ("overwrite", "delta_net", median, 0.88, 0.95),
        ("overwrite", LISTS, max, 0, 0.1),
        ("parity", VECTORS, min, 0.99, 1),
        ("parity", "autoregressive", max, 0, 0.6),
        ("parity", "linear_attention delta_net gated_delta_net mamba2", max, 0, 0.75),
    ],
)
def test_what_the_page_says_of_memory(task, names, of_seeds, low, high):
    for name in names.split():
        assert low <= of_seeds(answers(task, name)) <= high, name


def test_recall_and_loss_do_not_go_together():
    """Good at recall and last on a text; ahead on a text and bad at recall."""
    for name in ("autoregressive", "linear_attention"):
        assert median(seeds("models", "gru")) < median(seeds("models", name)) - 0.1
    assert sum(share > 0.99 for share in answers("parity", "feedback")) == 4


def test_each_model_has_the_best_of_the_rates_that_were_tried():
    on_text, on_tasks = results_of("rates", RESULTS), results_of("memory_rates", RESULTS)
    for name, best in studies.BEST_RATE.items():
        losses = {rate: studies.final(on_text[f"{name}-{rate:g}"]).mean for rate in studies.RATES}
        near = min(losses.values()) + studies.TOLERANCE
        assert best == min(rate for rate in losses if losses[rate] < near), name
    for task, rates in studies.BEST_MEMORY_RATE.items():
        for name in studies.MEMORY:
            loss_of = {
                rate: on_tasks[f"{task}-{name}-{rate:g}"][0].loss for rate in studies.MEMORY_RATES
            }
            assert rates[name] == min(loss_of, key=loss_of.__getitem__), f"{name}, {task}"


@pytest.mark.parametrize("name", SHIPPED)
def test_a_model_that_comes_along_writes(name: str):
    folder = RESULTS / name
    sizes = [file.stat().st_size for file in folder.rglob("*") if file.is_file()]
    assert sum(sizes) < studies.LARGEST
    assert json.loads((folder / "run.json").read_text("utf-8"))["corpus"]["path"] is None
    run = load_run(folder)
    written = generate(run.model().eval(), run.wording.prompt("ROMEO:"), 12)
    assert run.wording.decode(written[:, 0])


@pytest.mark.skipif("autoregressive" not in SHIPPED, reason="it is still to be trained")
def test_the_beginning_of_a_word_is_harder_to_guess_than_its_end():
    first, later = map(float, re.findall(r"(\d\.\d\d)", draw("trained.surprise").alt))
    assert first > 1.3 * later
    table = draw("trained.attention").table
    assert table is not None
    assert max(float(row[1]) for row in table.rows) > 0.4
