"""Studies: what is declared, and that it is fair where it says so."""

import json
from pathlib import Path
from typing import Any

import pytest
from test_results import RESULT

from labml_nn.experiments.experiment import experiments
from labml_nn.experiments.studies import (
    BEST_RATE,
    COMMON,
    MODELS,
    STUDIES,
    Job,
    Run,
    jobs,
    results_of,
)
from labml_nn.experiments.studies.runner import LARGEST, plain
from labml_nn.experiments.training.config import TrainingConfig
from labml_nn.registry import models

LETTERS = {"n_vocab": 65}
REPLIES = {"n_vocab": 68, "padding_token": 65, "start_token": 66, "end_token": 67}


def fields(run: Run) -> dict[str, Any]:
    experiment = experiments()[run.experiment]
    known = experiment.preset(run.preset).model if run.preset else {}
    own = REPLIES if experiment.task == "replies" else LETTERS
    return {**known, **run.model, **own, **_longest(run)}


def _longest(run: Run) -> dict[str, int]:
    return {} if run.experiment == "elman" else {"max_len": 64}


def size(run: Run) -> int:
    """Parameters of a run's model."""
    model = models()[experiments()[run.experiment].model].load_class().from_config(fields(run))
    return sum(parameter.numel() for parameter in model.parameters())


def test_models_have_equal_parameters():
    sizes = {name: size(run) for name, run in STUDIES["models"].runs.items()}
    assert set(sizes) == {entry.name for entry in models()}
    first = sizes["autoregressive"]
    assert all(abs(n / first - 1) < 0.02 for n in sizes.values()), sizes


def test_models_are_asked_alike_but_for_the_size_of_steps():
    trainings = [dict(run.training) for run in STUDIES["models"].runs.values()]
    rates = [training.pop("learning_rate") for training in trainings]
    assert all(training == trainings[0] for training in trainings)
    assert rates == list(BEST_RATE.values())
    # A constant rate, so that any point of the curve may be compared.
    assert trainings[0]["final_learning_rate"] == 1.0


def test_each_rate_was_one_of_those_that_were_tried_on_another_seed():
    tried = STUDIES["rates"]
    for name in MODELS:
        rates = {
            run.training["learning_rate"]
            for label, run in tried.runs.items()
            if label.startswith(f"{name}-")
        }
        assert len(rates) == 4 and BEST_RATE[name] in rates
    assert not set(tried.seeds) & set(STUDIES["models"].seeds)


def test_depths_differ_in_nothing_but_depth_and_feedback():
    runs = STUDIES["feedback_depth"].runs
    for label, run in runs.items():
        kind, _, layers = label.rpartition("-")
        model = {**run.model}
        assert model.pop("n_layers") == int(layers)
        assert model.pop("positions", None) == ("rotary" if kind == "transformer" else None)
        assert model == {"d_model": 64, "heads": 4, "dropout_prob": 0.0}
        assert run.training == COMMON


@pytest.mark.parametrize(("study", "field"), [("heads", "heads"), ("positions", "positions")])
def test_ablations_change_one_field(study: str, field: str):
    runs = STUDIES[study].runs
    assert {label: str(run.model[field]) for label, run in runs.items()} == {
        label: label for label in runs
    }
    rest = [{k: v for k, v in run.model.items() if k != field} for run in runs.values()]
    assert all(other == rest[0] for other in rest)
    assert all(run.training == COMMON for run in runs.values())


@pytest.mark.parametrize("label", STUDIES["shipped"].runs)
def test_what_comes_along_is_small(label: str):
    run = STUDIES["shipped"].runs[label]
    # The files hold a header and a configuration besides.
    assert 4 * size(run) + 10_000 < LARGEST
    assert label == run.experiment


@pytest.mark.parametrize("study", STUDIES)
def test_every_run_can_be_built(study: str):
    for run in STUDIES[study].runs.values():
        experiment = plain(run)
        preset = run.preset or "tiny"
        config = experiment.training(preset, dict(run.training))
        assert config.device == "cpu"
        assert size(run) > 50_000
        if run.preset is None:
            # Nothing comes from a preset, which may change.
            assert config == TrainingConfig.of(run.training)
            assert experiment.model_fields(preset) == {}


def test_a_run_of_two_studies_is_made_once():
    job = Job("heads", "4", 2)
    assert job.first == Job("feedback_depth", "transformer-4", 2)
    assert Job("positions", "rotary", 2).first == job.first
    assert job.kept(Path("r")) == Path("r/feedback_depth/transformer-4-seed2.json")
    found = list(jobs())
    assert job not in found and job.first in found
    assert len(found) == len(set(found))
    # Asked for alone, a study gets all that it needs.
    assert job.first in list(jobs(["heads"])) and len(list(jobs(["heads"]))) == 12


def test_a_model_that_comes_along_is_no_run_of_a_study():
    assert Job("shipped", "elman", 1).kept(Path("r")) == Path("r/elman/result.json")
    kept = [job.kept(Path("r")) for job in jobs()]
    assert len(kept) == len(set(kept))


def test_names_of_jobs():
    assert Job.of("feedback_depth/feedback-2/seed3") == Job("feedback_depth", "feedback-2", 3)
    assert all(Job.of(str(job)) == job for job in jobs())


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("haeds/2/seed1", "no study 'haeds'; did you mean 'heads'"),
        ("heads/3/seed1", "no run of heads '3'"),
        ("heads/2/seed7", "no seed '7' in heads; its seeds are 1, 2, 3"),
        ("heads/2", "no seed '' in heads"),
    ],
)
def test_a_job_that_nobody_declared(name: str, message: str):
    with pytest.raises(ValueError, match=message):
        Job.of(name)
    with pytest.raises(ValueError, match="no study 'moddels'; did you mean 'models'"):
        list(jobs(["moddels"]))


def test_a_missing_result_is_asked_for_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Pages are made anew when a file appears that was opened in vain, not one looked for."""
    opened = []
    read_text = Path.read_text
    monkeypatch.setattr(Path, "exists", lambda path: pytest.fail(f"looked for {path}"))
    monkeypatch.setattr(
        Path, "read_text", lambda path, **how: opened.append(path) or read_text(path, **how)
    )
    assert not any(results_of("heads", tmp_path).values())
    assert set(opened) == {job.kept(tmp_path) for job in jobs(["heads"])}


def test_results_of_a_study_that_is_half_done(tmp_path: Path):
    for seed in (1, 3):
        path = Job("heads", "2", seed).kept(tmp_path)
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps(RESULT), encoding="utf-8")
    found = results_of("heads", tmp_path)
    assert {label: len(results) for label, results in found.items()} == {
        "1": 0,
        "2": 2,
        "4": 0,
        "8": 0,
    }
    assert found["2"][1].loss == 2.5
    with pytest.raises(ValueError, match="no study 'head'"):
        results_of("head", tmp_path)
