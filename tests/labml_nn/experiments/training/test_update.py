"""One update: in pieces, clipped, in mixed precision, and refused."""

import copy

import pytest
import torch
from small_runs import MODELS, model_for, settings, task_for

from labml_nn.experiments.distributed import World
from labml_nn.experiments.training.devices import Computing
from labml_nn.experiments.training.update import NotFiniteError, Update

CPU = torch.device("cpu")


def update_of(model, config):
    return Update(model, config, Computing(config, CPU, model.name), World())


def moved(model, config, task, steps=2):
    """What some updates make of a copy."""
    model = copy.deepcopy(model)
    update = update_of(model, config)
    for step in range(steps):
        update(step, task.batch(step), 1.0)
    return model, update


@pytest.mark.parametrize("name", MODELS)
def test_pieces_make_the_same_update(name):
    """Also where pieces hold different numbers of targets, as with replies."""
    whole = settings(batch_size=6, clip_norm=0.5, seq_len=29)
    pieces = settings(batch_size=6, clip_norm=0.5, seq_len=29, accumulate=3)
    task = task_for(name, whole)
    model = model_for(name, task, dropout_prob=0.0).double()
    if name == "encoder_decoder":
        batch = task.batch(0)
        assert len({batch.columns(i, i + 2).count for i in (0, 2, 4)}) > 1
    one, first = moved(model, whole, task)
    other, second = moved(model, pieces, task)
    assert float(first.norm) == pytest.approx(float(second.norm), rel=1e-9)
    assert first.look() == pytest.approx(second.look(), rel=1e-6)
    for a, b in zip(one.parameters(), other.parameters(), strict=True):
        torch.testing.assert_close(a, b, atol=1e-10, rtol=1e-8)


def test_the_loss_is_that_of_the_batch():
    config = settings()
    task = task_for("elman", config)
    model = model_for("elman", task, dropout_prob=0.0)
    batch = task.batch(0)
    expected = model.loss(batch.tokens, batch.targets).item()
    _, update = moved(model, config, task, steps=1)
    assert update.look() == pytest.approx(expected, rel=1e-6)
    update.clear()
    assert update.look() == 0


@pytest.mark.parametrize(("clip_norm", "longest"), [(0.01, 0.01), (0.0, None), (1e6, None)])
def test_long_gradients_are_shortened(clip_norm, longest):
    config = settings(clip_norm=clip_norm)
    task = task_for("elman", config)
    model = model_for("elman", task, dropout_prob=0.0)
    batch = task.batch(0)
    model.loss(batch.tokens, batch.targets).backward()
    length = torch.cat([p.grad.flatten() for p in model.parameters()]).norm()
    trained, update = moved(model, config, task, steps=1)
    assert float(update.norm) == pytest.approx(float(length), rel=1e-5)
    after = torch.cat([p.grad.flatten() for p in trained.parameters()]).norm()
    assert float(after) == pytest.approx(longest or float(length), rel=1e-3)


def test_dropout_is_decided_by_the_step():
    """Whatever was drawn before, and not the same at every step."""
    config = settings()
    task = task_for("elman", config)
    model = model_for("elman", task, dropout_prob=0.4)
    one, _ = moved(model, config, task)
    torch.rand(17)
    other, _ = moved(model, config, task)
    another, _ = moved(model, settings(seed=2), task)
    assert torch.equal(one.embedding.weight, other.embedding.weight)
    assert not torch.equal(one.embedding.weight, another.embedding.weight)
    update, batch = update_of(model, config), task.batch(0)
    losses = []
    for step in (0, 0, 1):
        update.clear()
        update(step, batch, 1e-12)  # nothing is learned, only the masks differ
        losses.append(update.look())
    assert losses[0] == pytest.approx(losses[1], abs=1e-6)
    assert abs(losses[2] - losses[0]) > 1e-5


@pytest.mark.parametrize("optimizer", ["adamw", "muon"])
def test_numbers_that_are_none_change_nothing(optimizer):
    config = settings(optimizer=optimizer)
    task = task_for("elman", config)
    model, update = moved(model_for("elman", task), config, task)
    update = update_of(model, config)
    update(0, task.batch(0), 1.0)
    before = copy.deepcopy(model.state_dict())
    state = copy.deepcopy(update.state())
    hook = model.output_bias.register_hook(lambda gradient: gradient * torch.nan)
    with pytest.raises(NotFiniteError) as error:
        update(1, task.batch(1), 1.0)
    assert error.value.made == 1
    for name, tensor in model.state_dict().items():
        assert torch.equal(tensor, before[name]), name
    steps = [each["step"] for each in state["optimizers"][-1]["state"].values()]
    after = [each["step"] for each in update.state()["optimizers"][-1]["state"].values()]
    assert steps == after
    hook.remove()
    update(1, task.batch(1), 1.0)  # and it can go on
    assert update.look() > 0


def test_an_infinite_loss_with_finite_gradients_is_noticed_too():
    config = settings()
    task = task_for("elman", config)
    model = model_for("elman", task)
    model.loss = lambda tokens, targets: type(model).loss(model, tokens, targets) + torch.inf
    with pytest.raises(NotFiniteError):
        update_of(model, config)(0, task.batch(0), 1.0)


@pytest.mark.parametrize("precision", ["bfloat16", "float16"])
def test_mixed_precision_stays_close(precision):
    """Parameters stay in float32, and the loss is nearly that of float32."""
    task = task_for("autoregressive", settings())
    model = model_for("autoregressive", task, dropout_prob=0.0)
    _, one = moved(model, settings(precision="float32"), task, steps=3)
    mixed, other = moved(model, settings(precision=precision), task, steps=3)
    assert {p.dtype for p in mixed.parameters()} == {torch.float32}
    assert one.look() != other.look()
    assert one.look() == pytest.approx(other.look(), rel=0.01)
    assert other.scaler.is_enabled() == (precision == "float16")


def test_the_scaler_leaves_out_steps_that_were_scaled_too_far():
    config = settings(precision="float16")
    task = task_for("elman", config)
    model = model_for("elman", task)
    update = update_of(model, config)
    update.scaler = torch.amp.GradScaler("cpu", init_scale=2.0**40)
    before = model.output_bias.detach().clone()
    update(0, task.batch(0), 1.0)
    assert torch.equal(model.output_bias, before)
    assert update.scaler.get_scale() == 2.0**39
    for step in range(1, 40):
        update(step, task.batch(step), 1.0)
    assert not torch.equal(model.output_bias, before)
    assert update.look() > 0


def test_a_scaler_that_finds_no_scale_gives_up():
    config = settings(precision="float16")
    task = task_for("elman", config)
    model = model_for("elman", task)
    update = update_of(model, config)
    model.output_bias.register_hook(lambda gradient: gradient * torch.inf)
    update.scaler = torch.amp.GradScaler("cpu", init_scale=2.0**-9)
    for step in range(2):
        update(step, task.batch(step), 1.0)
    with pytest.raises(NotFiniteError):
        update.look()


def test_state_goes_on_where_it_was():
    config = settings(optimizer="muon")
    task = task_for("autoregressive", config)
    model, update = moved(model_for("autoregressive", task), config, task)
    twin = copy.deepcopy(model)
    other = update_of(twin, config)
    other.restore(copy.deepcopy(update.state()))
    update(2, task.batch(2), 0.5)
    other(2, task.batch(2), 0.5)
    for a, b in zip(model.parameters(), twin.parameters(), strict=True):
        assert torch.equal(a, b)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_a_gpu_leaves_out_what_is_no_number_without_being_asked():
    config = settings(device="cuda")
    task = task_for("elman", config)
    gpu = torch.device("cuda")
    model = model_for("elman", task).to(gpu)
    update = Update(model, config, Computing(config, gpu, model.name), World())
    update(0, task.batch(0), 1.0)
    before = copy.deepcopy(model.state_dict())
    hook = model.output_bias.register_hook(lambda gradient: gradient * torch.nan)
    update(1, task.batch(1), 1.0)
    hook.remove()
    update(2, task.batch(2), 1.0)
    for name, tensor in model.state_dict().items():
        assert torch.equal(tensor, before[name]), name
    with pytest.raises(NotFiniteError) as error:
        update.look()
    assert error.value.made == 1
