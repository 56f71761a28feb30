"""The loss on the whole split: weighed, without dropout, whoever shares the work."""

import pytest
import torch
from small_runs import MODELS, model_for, settings, task_for

from labml_nn.experiments.distributed import World
from labml_nn.experiments.training.validation import validation_loss


class Alone(World):
    """One of several processes, whose sums are only its own."""

    def sum(self, *numbers):
        SUMS.append(numbers)
        return numbers


SUMS = []


@pytest.mark.parametrize("name", MODELS)
def test_every_target_counts_once(name):
    task = task_for(name, settings(batch_size=2, seq_len=29))
    model = model_for(name, task).eval()
    batches = list(task.validation())
    with torch.no_grad():
        losses = [model.loss(each.tokens, each.targets).double() for each in batches]
    counts = [each.count for each in batches]
    expected = sum(n * float(loss) for n, loss in zip(counts, losses, strict=True)) / sum(counts)
    plain = sum(map(float, losses)) / len(losses)
    assert validation_loss(model, task) == pytest.approx(expected, rel=1e-9)
    assert abs(expected - plain) > 1e-6  # to forget the weights would be noticed


@pytest.mark.parametrize("name", ["autoregressive", "encoder_decoder"])
def test_it_does_not_depend_on_the_batch_size(name):
    model = model_for(name).double()
    losses = [
        validation_loss(model, task_for(name, settings(batch_size=size))) for size in (1, 3, 16)
    ]
    assert losses == pytest.approx([losses[0]] * 3, rel=1e-9)


def test_nothing_is_changed():
    task = task_for("autoregressive")
    model = model_for("autoregressive", task, dropout_prob=0.5)
    model.stack.eval()
    modes = [module.training for module in model.modules()]
    state = torch.get_rng_state()
    first, second = validation_loss(model, task), validation_loss(model, task)
    assert first == second
    assert [module.training for module in model.modules()] == modes
    assert torch.equal(torch.get_rng_state(), state)
    assert all(parameter.grad is None for parameter in model.parameters())


def test_processes_share_the_work():
    task = task_for("elman", settings(batch_size=2))
    model = model_for("elman", task)
    whole = validation_loss(model, task)
    SUMS.clear()
    for rank in range(3):
        validation_loss(model, task, world=Alone(rank, 3))
    totals, counts = zip(*SUMS, strict=True)
    assert len(set(counts)) > 1
    assert sum(totals) / sum(counts) == pytest.approx(whole, rel=1e-12)
