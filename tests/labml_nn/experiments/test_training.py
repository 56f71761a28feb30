"""Hyperparameters, updates, and the loop: what it learns, leaves behind and survives."""

import copy
import errno
import json
import math
import signal
import threading
from unittest.mock import Mock

import pytest
import torch
from small_runs import MODELS, Interrupts, model_for, resumed, settings, task_for, training

import labml_nn
from labml_nn.experiments import checkpoint
from labml_nn.experiments.checkpoint import RunError, load_run
from labml_nn.experiments.distributed import World
from labml_nn.experiments.presets import learning_rate_share, seq_len_at
from labml_nn.experiments.reporters import Reporter
from labml_nn.experiments.trainer import (
    NotFiniteError,
    Update,
    dtype_of,
    is_compiled,
    pick_device,
    roles,
)

CPU = torch.device("cpu")
FULL = OSError(errno.ENOSPC, "No space left on device")


# Configuration and schedule.
@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"steps": 0}, "`steps` (0) must be at least 1"),
        ({"seed": 2**63}, "must be from 0 to 2**63 - 1"),
        ({"save_every": 1.5}, "`save_every` (1.5) must be a whole number, not a float"),
        ({"batch_size": 7, "accumulate": 3}, "by `accumulate` (3); try 9"),
        ({"learning_rate": 0.0}, "`learning_rate` (0.0) must be above 0 and finite"),
        ({"weight_decay": math.nan}, "`weight_decay` (nan) must be at least 0"),
        ({"final_learning_rate": 1.1}, "a share of the highest, 0 to 1"),
        ({"beta1": 1.0}, "`beta1` (1.0) must be at least 0 and less than 1"),
        ({"beta2": "x"}, "`beta2` ('x') must be a number, not a str"),
        ({"optimizer": "adam"}, "there is no choice of `optimizer` 'adam'; did you mean 'adamw'?"),
        ({"device": "gpu"}, "`device` ('gpu') must be auto, cpu, cuda"),
        ({"initial_seq_len": 65}, "`initial_seq_len` (65) must be at most `seq_len` (64)"),
        ({"stepz": 3}, "there is no field of TrainingConfig 'stepz'; did you mean 'steps'?"),
    ],
    ids=str,
)  # fmt: skip
def test_impossible_hyperparameters(unhooked, values, message):
    config = unhooked("labml_nn.experiments.presets").TrainingConfig
    with pytest.raises((ValueError, TypeError)) as caught:
        config.of(values)
    assert message in str(caught.value)


def test_the_learning_rate_rises_and_falls():
    config = settings(steps=100, warmup_steps=10, final_learning_rate=0.1)
    shares = [learning_rate_share(step, config) for step in range(101)]
    assert shares[:10] == pytest.approx([0.1 * (i + 1) for i in range(10)])
    cosines = [(1 + math.cos(math.pi * t / 90)) / 2 for t in range(1, 91)]
    assert shares[10:100] == pytest.approx([0.1 + 0.9 * share for share in cosines])
    assert shares[100] == pytest.approx(0.1)
    assert learning_rate_share(4, settings(steps=5, warmup_steps=5)) == 1.0


def test_sequences_grow_and_either_field_switches_it_off():
    config = settings(seq_len=7, initial_seq_len=3, grow_steps=4)
    assert [seq_len_at(step, config) for step in range(6)] == [3, 4, 5, 6, 7, 7]
    assert config.grows
    for off in ({"initial_seq_len": 3}, {"grow_steps": 4}):
        assert not settings(**off).grows
        assert seq_len_at(0, settings(**off)) == 7


# One update.
def update_of(model, config):
    return Update(model, config, CPU, World())


def prepared(name="elman", config=None, **fields):
    """A task, a model, and what updates it."""
    config = config or settings()
    task = task_for(name, config)
    model = model_for(name, task, **fields)
    return task, model, update_of(model, config)


def moved(model, config, task, steps=2):
    """A copy of the model after some updates."""
    model = copy.deepcopy(model)
    update = update_of(model, config)
    for step in range(steps):
        update(step, task.batch(step), 1.0)
    return model, update


@pytest.mark.parametrize("name", MODELS)
def test_every_parameter_has_one_role(name):
    model = model_for(name)
    found = roles(model)
    grouped = [parameter for role in found for parameter in role]
    assert {id(p) for p in grouped} == {id(p) for p in model.parameters()}
    assert len(grouped) == len({id(p) for p in grouped})
    assert all(p.dim() == 2 for p in found.matrices) and all(p.dim() >= 2 for p in found.tables)
    assert any(p.shape[0] == model.config.n_vocab for p in found.tables)
    assert not any(p.shape[0] == model.config.n_vocab for p in found.matrices)
    next(model.parameters()).requires_grad_(False)
    assert len([p for role in roles(model) for p in role]) == len(grouped) - 1


def test_an_update_is_adamw_with_clipping_and_decay():
    """Written out with PyTorch's own optimizer."""
    config = settings(clip_norm=0.1, weight_decay=0.3, beta1=0.8, beta2=0.95)
    task, model, update = prepared("elman", config, dropout_prob=0.0)
    expected, total = copy.deepcopy(model), 0.0
    matrices, tables, vectors = roles(expected)
    decayed = {"params": [*matrices, *tables], "weight_decay": 0.3}
    groups = [decayed, {"params": vectors, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=0.01, betas=(0.8, 0.95))
    for step, share in enumerate((1.0, 0.5, 0.25)):
        batch = task.batch(step)
        update(step, batch, share)
        for group in optimizer.param_groups:
            group["lr"] = 0.01 * share
        optimizer.zero_grad()
        loss = expected.loss(batch.tokens, batch.targets)
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(expected.parameters(), 0.1)
        assert update.norm == pytest.approx(norm.item(), rel=1e-5) and norm > 0.1
        optimizer.step()
        total += loss.item()
    assert update.total_loss() == pytest.approx(total, rel=1e-6)
    assert update.learning_rate == 0.0025
    for a, b in zip(model.parameters(), expected.parameters(), strict=True):
        torch.testing.assert_close(a, b, atol=1e-6, rtol=1e-5)
    update.clear()
    assert update.total_loss() == 0


def test_muon_trains_matrices_and_adamw_the_rest():
    config = settings(optimizer="muon", muon_learning_rate=0.05)
    _, model, update = prepared("autoregressive", config)
    muon, adamw = update.optimizers
    trained = {id(p) for group in muon.param_groups for p in group["params"]}
    assert trained == {id(p) for p in roles(model).matrices}
    assert muon.param_groups[0]["lr"] == 0.05 and adamw.param_groups[0]["lr"] == 0.01


@pytest.mark.parametrize("name", MODELS)
def test_accumulated_gradients_make_the_same_update(name):
    """Also where micro-batches have different numbers of targets, as with replies."""
    whole, parts = (settings(batch_size=6, clip_norm=0.5, seq_len=29, accumulate=n) for n in (1, 3))
    task = task_for(name, whole)
    sizes = {"max_len": 30} if "max_len" in MODELS[name] else {}
    model = model_for(name, task, dropout_prob=0.0, **sizes).double()
    one, first = moved(model, whole, task)
    other, second = moved(model, parts, task)
    assert first.norm == pytest.approx(second.norm, rel=1e-9)
    assert first.total_loss() == pytest.approx(second.total_loss(), rel=1e-6)
    for a, b in zip(one.parameters(), other.parameters(), strict=True):
        torch.testing.assert_close(a, b, atol=1e-10, rtol=1e-8)


def test_dropout_is_a_function_of_seed_and_step():
    task, model, update = prepared(dropout_prob=0.4)
    batch, losses = task.batch(0), []
    for step in (0, 0, 1):
        update.clear()
        torch.rand(17)
        update(step, batch, 1e-12)  # nothing is learned, only the masks differ
        losses.append(update.total_loss())
    other = update_of(model, settings(seed=2))
    other(0, batch, 1e-12)
    assert losses[0] == pytest.approx(losses[1], abs=1e-6)
    assert min(abs(loss - losses[0]) for loss in (losses[2], other.total_loss())) > 1e-5


@pytest.mark.parametrize("optimizer", ["adamw", "muon"])
def test_a_gradient_that_is_not_finite_changes_nothing(optimizer):
    task, model, update = prepared("elman", settings(optimizer=optimizer))
    update(0, task.batch(0), 1.0)
    before, state = copy.deepcopy(model.state_dict()), copy.deepcopy(update.state())
    hook = model.embedding.weight.register_hook(lambda gradient: gradient * torch.nan)
    with pytest.raises(NotFiniteError):
        update(1, task.batch(1), 1.0)
    assert all(torch.equal(t, before[name]) for name, t in model.state_dict().items())
    steps = [each["step"] for each in state["optimizers"][-1]["state"].values()]
    assert steps == [e["step"] for e in update.state()["optimizers"][-1]["state"].values()]
    hook.remove()
    update(1, task.batch(1), 1.0)
    model.loss = lambda tokens, targets: type(model).loss(model, tokens, targets) + torch.inf
    with pytest.raises(NotFiniteError):
        update(2, task.batch(2), 1.0)


@pytest.mark.parametrize("precision", ["bfloat16", "float16"])
def test_mixed_precision_stays_close(precision):
    task = task_for("autoregressive", settings())
    model = model_for("autoregressive", task, dropout_prob=0.0)
    _, one = moved(model, settings(precision="float32"), task, steps=3)
    mixed, other = moved(model, settings(precision=precision), task, steps=3)
    assert {p.dtype for p in mixed.parameters()} == {torch.float32}
    assert one.total_loss() != other.total_loss()
    assert one.total_loss() == pytest.approx(other.total_loss(), rel=0.01)
    assert other.scaler.is_enabled() == (precision == "float16")


def test_the_scaler_skips_steps_and_gives_up_in_the_end():
    task, model, update = prepared("elman", settings(precision="float16"))
    update.scaler = torch.amp.GradScaler("cpu", init_scale=2.0**40)
    before = model.embedding.weight.detach().clone()
    update(0, task.batch(0), 1.0)
    assert torch.equal(model.embedding.weight, before) and update.scaler.get_scale() == 2.0**39
    for step in range(1, 40):
        update(step, task.batch(step), 1.0)
    assert not torch.equal(model.embedding.weight, before)
    model.embedding.weight.register_hook(lambda gradient: gradient * torch.inf)
    with pytest.raises(NotFiniteError):
        for step in range(80):
            update(step, task.batch(step), 1.0)


def test_what_auto_means(monkeypatch):
    assert pick_device("auto").type == ("cuda" if torch.cuda.is_available() else "cpu")
    with pytest.raises(ValueError, match=r"there is no device 'cuda:7' here.*has cpu"):
        pick_device("cuda:7")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    assert pick_device("auto").type == "cuda" and pick_device("cuda:1").index == 1
    cuda = torch.device("cuda")
    for able, dtype in ((True, torch.bfloat16), (False, torch.float32)):
        monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda able=able, **_: able)
        assert dtype_of(settings(), cuda) == dtype
    assert dtype_of(settings(), CPU) == torch.float32
    assert is_compiled(settings(), cuda, "autoregressive")
    assert not is_compiled(settings(compile="no"), cuda, "autoregressive")
    assert not is_compiled(settings(), cuda, "elman")
    assert not is_compiled(settings(), CPU, "autoregressive")
    assert is_compiled(settings(compile="yes"), CPU, "elman")


# The loop.
def events_of(reporter):
    """What a mock heard: events with their step or text."""
    return [
        (name, getattr(given[0], "step", given[0])) if given and name != "begin" else (name,)
        for name, given, _ in reporter.method_calls
    ]


@pytest.mark.parametrize("name", MODELS)
def test_models_learn(name):
    trainer = training(name, steps=40, learning_rate=0.02, evaluate_every=0, sample_every=0)
    before = trainer.validate()
    result = trainer.train()
    assert result.stopped == "finished" and result.step == 40
    assert result.validation_loss == result.best_validation_loss < before - 0.2
    assert result.validation_loss == pytest.approx(trainer.validate(), rel=1e-9)
    assert result.seconds > 0 and result.process_seconds > 0
    assert result.tokens == sum(trainer.task.batch(step).count for step in range(40))


def test_the_validation_loss_is_the_mean_over_all_targets():
    trainer, total, counts = training("encoder_decoder"), 0.0, []
    trainer.model.eval()
    for batch in trainer.task.validation():
        total += trainer.model.loss(batch.tokens, batch.targets).item() * batch.count
        counts.append(batch.count)
    trainer.model.train()
    assert trainer.validate() == pytest.approx(total / sum(counts), rel=1e-6)
    assert trainer.model.training and len(set(counts)) > 1


def test_events_and_their_order(tmp_path):
    heard = Mock(spec=Reporter)
    training("elman", tmp_path / "run", reporters=[heard]).train()
    assert events_of(heard) == [
        ("begin",),
        ("saved", 0),
        *(("update", step) for step in (1, 2, 3)),
        *((event, 3) for event in ("validated", "sampled", "saved")),
        *(("update", step) for step in (4, 5, 6)),
        *((event, 6) for event in ("validated", "sampled", "saved", "end")),
        ("close",),
    ]
    seen = heard.update.call_args.kwargs
    assert seen["tokens"] == 6 * 4 * 7 and seen["learning_rate"] == pytest.approx(0.001)
    assert seen["tokens_per_second"] > 0 and seen["gradient_norm"] > 0
    text = heard.sampled.call_args[0][1]
    assert text.startswith("\n") and len(text) == 6
    heard = Mock(spec=Reporter)
    training(reporters=[heard], evaluate_every=0, sample_every=0, save_every=0).train()
    assert [e for e in events_of(heard) if e[0][0] in "vs"] == [("validated", 6), ("sampled", 6)]


def test_the_run_folder(tmp_path):
    folder = tmp_path / "some" / "run"
    trainer = training("elman", folder, about={"experiment": "elman", "preset": "tiny"})
    result = trainer.train()
    assert sorted(path.name for path in folder.iterdir()) == [
        *("checkpoint.pt", "curve.svg", "model", "result.json"),
        *("run.json", "samples.txt", "vocabulary.json"),
    ]
    run = load_run(folder)
    values = run.result()
    assert values["run"] == json.loads((folder / "run.json").read_text()) == run.about
    assert values["parameters"] == sum(p.numel() for p in trainer.model.parameters())
    assert values["result"]["validation_loss"] == pytest.approx(result.validation_loss, rel=1e-6)
    assert [point[0] for point in values["curve"]["validation"]] == [3, 6]
    assert [each["step"] for each in values["samples"]] == [3, 6]
    assert run.about["experiment"] == "elman"
    assert run.training == trainer.config and run.vocabulary == trainer.task.vocabulary
    assert run.wording.prompt("so")[:, 0].tolist() == trainer.task.prompt("so")[:, 0].tolist()


def test_the_best_model_is_kept_and_waits_for_the_disk(tmp_path, monkeypatch):
    trainer, kept = training("elman", tmp_path, steps=8, evaluate_every=2), {}
    losses = {2: 3.0, 4: 2.0, 6: 2.5, 8: 2.6}

    def validate():
        kept[trainer.history.step] = copy.deepcopy(trainer.model.state_dict())
        return losses[trainer.history.step]

    trainer.validate = validate
    save = type(trainer.model).save

    def refuse(model, folder):
        if trainer.history.step in (4, 5, 6):
            raise FULL
        save(model, folder)

    monkeypatch.setattr(type(trainer.model), "save", refuse)
    result = trainer.train()
    assert (result.validation_loss, result.best_validation_loss) == (2.6, 2.0)
    saved = labml_nn.load(tmp_path / "model").state_dict()
    assert all(torch.equal(saved[name], tensor) for name, tensor in kept[4].items())


def test_evaluation_and_samples_change_nothing():
    plain = training("autoregressive", evaluate_every=0, sample_every=0)
    curious = training("autoregressive", evaluate_every=1, sample_every=1)
    torch.manual_seed(11)
    state = torch.get_rng_state()
    plain.train()
    curious.train()
    assert torch.equal(torch.get_rng_state(), state)
    for one, other in zip(plain.model.parameters(), curious.model.parameters(), strict=True):
        assert torch.equal(one, other)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_stops_it_in_order(number, tmp_path):
    handlers = [signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)]
    heard = Mock(spec=Reporter)
    result = training("elman", tmp_path, reporters=[Interrupts(2, number), heard]).train()
    assert result.stopped == "interrupted" and result.step == 2
    assert result.validation_loss is None and result.train_loss > 0
    assert events_of(heard)[-3:] == [("saved", 2), ("end", 2), ("close",)]
    assert load_run(tmp_path).model().name == "elman"
    assert load_run(tmp_path).result()["result"]["stopped"] == "interrupted"
    assert [signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)] == handlers


def test_a_second_signal_acts_as_usual(tmp_path):
    # A shell starts what runs in the background with signals ignored.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    heard = Mock(spec=Reporter)
    with pytest.raises(KeyboardInterrupt):
        training("elman", tmp_path, reporters=[heard, Interrupts(2, times=2)]).train()
    signal.signal(signal.SIGINT, before)
    assert events_of(heard)[-2:] == [("update", 2), ("close",)]
    assert training(reporters=[Interrupts(6)]).train().stopped == "finished"  # too late
    results = []
    thread = threading.Thread(target=lambda: results.append(training().train()))
    thread.start()
    thread.join()
    assert results[0].stopped == "finished"


def test_a_loss_that_is_not_finite_ends_it(tmp_path):
    heard = Mock(spec=Reporter)
    changes = {"clip_norm": 0.0, "precision": "bfloat16"}
    trainer = training("elman", tmp_path, reporters=[heard], **changes)
    trainer.model.embedding.weight.register_hook(
        lambda gradient: gradient * (torch.nan if trainer.history.step >= 4 else 1)
    )
    result = trainer.train()
    assert result.stopped == "not finite" and result.step == 4
    for part in ("after 4 updates", "checkpoint of step 3 is intact", "`learning_rate` than 0.01"):
        assert part in trainer.trouble
    assert ("warned", trainer.trouble) in events_of(heard)
    assert all(p.isfinite().all() for p in trainer.model.parameters())
    again = resumed("elman", tmp_path, **changes)
    assert again.history.step == 3 and again.train().stopped == "finished"
    trainer = training("elman")
    trainer.validate = lambda: math.inf
    result = trainer.train()
    assert (result.stopped, result.step, result.best_validation_loss) == ("not finite", 3, None)
    assert "the validation loss was not finite after 3 updates" in trainer.trouble


@pytest.mark.parametrize("until", [4, 10**9])
def test_a_disk_that_is_full(tmp_path, monkeypatch, until):
    """For a while it costs a warning, and at the end it is an error; nothing is lost."""
    write, heard = checkpoint.write_checkpoint, Mock(spec=Reporter)

    def refuse(path, state):
        if 3 <= state["history"]["step"] < until:
            raise FULL
        write(path, state)

    monkeypatch.setattr(checkpoint, "write_checkpoint", refuse)
    trainer = training("elman", tmp_path, reporters=[heard])
    if until == 4:
        assert trainer.train().stopped == "finished"
    else:
        with pytest.raises(RunError, match=r"checkpoint after 6 .*step 0 is intact\. Free some"):
            trainer.train()
    warnings = [event[1] for event in events_of(heard) if event[0] == "warned"]
    assert warnings[0].startswith("the disk refused the checkpoint after 3 updates (No space")
    again = resumed("elman", tmp_path)
    assert again.history.step == (6 if until == 4 else 0)


def test_all_reporters_are_closed():
    first, second = Mock(spec=Reporter), Mock(spec=Reporter)
    second.validated.side_effect = second.close.side_effect = ZeroDivisionError
    with pytest.raises(ZeroDivisionError):
        training("elman", reporters=[second, first]).train()
    assert first.close.call_count == second.close.call_count == 1


def test_a_folder_that_is_taken_is_left_alone(tmp_path):
    run, mine = tmp_path / "run", tmp_path / "mine"
    training("elman", run).train()
    before = (run / "checkpoint.pt").read_bytes()
    mine.mkdir()
    (mine / "letter.txt").touch()
    for folder, said in (
        (run, "there is a run in .*run already; continue it .*--resume"),
        (mine, "is not empty and holds no run"),
        (mine / "letter.txt", "is a file; choose another"),
    ):
        with pytest.raises(RunError, match=said):
            training("elman", folder).train()
    assert (run / "checkpoint.pt").read_bytes() == before
    assert [path.name for path in mine.iterdir()] == ["letter.txt"]


def test_one_training_in_a_folder(tmp_path):
    """Another one may not continue the run meanwhile, but afterwards."""
    refused = []

    class Second(Reporter):
        def update(self, step, *given, **more):
            if step == 4:
                with pytest.raises(RunError, match="another process is training in"):
                    resumed("elman", tmp_path).train()
                refused.append(step)

    training("elman", tmp_path, reporters=[Second()]).train()
    assert refused == [4]
    assert resumed("elman", tmp_path).train().stopped == "finished"
