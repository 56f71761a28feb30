"""What "auto" means, and what is said of the machine."""

import pytest
import torch
from small_runs import settings

from labml_nn.experiments.training.devices import Computing, hardware, pick_device
from labml_nn.experiments.training.record import commit

CPU, GPU = torch.device("cpu"), torch.device("cuda", 0)


def computing(device, model="autoregressive", **changes):
    return Computing(settings(**changes), device, model)


def test_the_processor_computes_in_full_precision():
    plain = computing(CPU)
    assert plain.dtype == torch.float32 and not plain.compiled
    assert not plain.scaler().is_enabled()
    with plain.autocast():
        assert not torch.is_autocast_enabled("cpu")


@pytest.mark.parametrize(("able", "dtype"), [(True, torch.bfloat16), (False, torch.float32)])
def test_a_gpu_takes_bfloat16_if_it_has_it(monkeypatch, able, dtype):
    asked = []

    def supported(including_emulation=True):
        asked.append(including_emulation)
        return able

    monkeypatch.setattr(torch.cuda, "is_bf16_supported", supported)
    assert computing(GPU).dtype == dtype
    assert asked == [False]
    assert computing(GPU, precision="float16").dtype == torch.float16


def test_who_is_compiled(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda including_emulation: True)
    assert computing(GPU).compiled
    assert not computing(GPU, "feedback").compiled
    assert not computing(GPU, initial_seq_len=3, grow_steps=4).compiled
    assert not computing(GPU, compile="no").compiled
    assert computing(CPU, "elman", compile="yes").compiled


def test_the_loss_is_what_is_compiled(monkeypatch):
    loss = torch.nn.Identity()
    monkeypatch.setattr(torch, "compile", lambda module: torch.nn.Sequential(module))
    assert computing(CPU).prepare(loss) is loss
    assert computing(CPU, compile="yes").prepare(loss)[0] is loss


def test_mixed_precision_is_on_inside_only():
    mixed = computing(CPU, precision="bfloat16")
    with mixed.autocast():
        product = torch.ones(3, 5) @ torch.ones(5, 2)
    assert product.dtype == torch.bfloat16
    assert not torch.is_autocast_enabled("cpu")


def test_devices_by_name():
    assert pick_device("cpu") == CPU
    expected = "cuda" if torch.cuda.is_available() else "cpu"
    assert pick_device("auto").type == expected


def test_the_machine_says_what_it_is():
    machine = hardware(CPU)
    assert set(machine) == {"device", "name", "cores", "threads"}
    assert machine["device"] == "cpu" and machine["name"]
    assert machine["threads"] == torch.get_num_threads() and machine["cores"] >= 1


def test_the_commit_is_that_of_a_checkout(monkeypatch):
    told = commit()
    assert told is None or len(told.removesuffix("-dirty")) == 40
    monkeypatch.setenv("PATH", "")
    assert commit() is None  # no git
