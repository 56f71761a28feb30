"""Where a benchmark runs, and what is counted of a GPU. Nearly all of it without one."""

from types import SimpleNamespace

import pytest
import torch
from torch._C._autograd import DeviceType

from benchmarks import device as room
from benchmarks.command import go_through, options
from benchmarks.device import CPU, Place, launches, place_of
from benchmarks.record import read, record

gpu = pytest.mark.gpu
GPU = Place(torch.device("cuda"), 1)


@pytest.fixture
def _as_if_there_were_one(monkeypatch):
    """What stands in for a GPU. What is waited for is written down."""
    waited = []
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda device: waited.append(device.type))
    about = SimpleNamespace(name="Abacus", total_memory=2**31, multi_processor_count=7)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: about)
    monkeypatch.setattr(room, "matmul_rate", lambda device, dtype: 1000.0)
    before = torch.get_float32_matmul_precision()
    yield waited
    torch.set_float32_matmul_precision(before)


def test_a_processor_waits_for_nobody():
    def run():
        return None

    assert CPU.waiting(run) is run
    assert CPU.counted(run, 1.0, 5) == {}
    assert CPU.suffix == ""


def test_a_clock_stops_when_the_gpu_has_done_its_work(_as_if_there_were_one):
    done = []
    for run in GPU.all_waiting({"one": lambda: done.append(1)}).values():
        run()
    assert (done, _as_if_there_were_one) == ([1, 1], ["cuda", "cuda"]), "once before"


def test_no_gpu(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(SystemExit, match=r"--device cuda: PyTorch .*; leave the flag out"):
        place_of("cuda")
    with pytest.raises(SystemExit, match="say --device cuda too"):
        place_of("cpu", tf32=True)


def event(name, device=DeviceType.CPU):
    return SimpleNamespace(name=name, device_type=device)


def test_launches_are_counted():
    on = DeviceType.CUDA
    events = [
        *(event("cudaLaunchKernel"), event("cudaLaunchKernelExC"), event("cuLaunchKernel")),
        *(event("cudaMemcpyAsync"), event("cudaDeviceSynchronize"), event("aten::mm")),
        *(event("gemm", on), event("Memcpy DtoD", on), event("softmax", on), event("gemm", on)),
    ]
    assert launches(events) == {"launches": 4, "kernels": 3}


def test_a_graph_is_one_launch():
    kernels = [event(f"kernel {number}", DeviceType.CUDA) for number in range(50)]
    assert launches([event("cudaGraphLaunch"), *kernels]) == {"launches": 1, "kernels": 50}


def test_tokens_per_second(_as_if_there_were_one, monkeypatch):
    monkeypatch.setattr(room, "seen", lambda run: [event("cudaGraphLaunch")])
    counted = GPU.counted(lambda: None, 4.0, tokens=300)
    assert counted == {"tokens_s": 75_000, "launches": 1, "kernels": 0}


def test_what_a_gpu_did_has_a_file_of_its_own(_as_if_there_were_one, tmp_path):
    place = place_of("cuda", threads=3, tf32=True)
    assert torch.get_float32_matmul_precision() == "high"
    made = {"rates": place.rates()}
    path = record("mill", made, threads=3, place=place, folder=tmp_path)
    assert path.name == "mill-cuda-tf32.json"
    (table,) = read(path)
    assert table["matmul_gflops"] == 1000
    assert table["machine"]["processor"] == "Abacus, 2 GiB"
    assert [row["type"] for row in table["rows"]] == ["float32", "tf32", "bfloat16"]
    assert torch.get_float32_matmul_precision() == "high", "as before"


def test_forms_are_found_equal_with_all_digits(_as_if_there_were_one):
    place = place_of("cuda", tf32=True)
    found = []
    place.check(lambda: found.append(torch.get_float32_matmul_precision()))
    place_of("cuda").check(lambda: found.append(torch.get_float32_matmul_precision()))
    assert found == ["highest", "highest"]


def test_only_the_tables_that_are_asked_for(capsys):
    parts = {
        "speed": lambda: {"speed": [{"ms": 1.5, "launches": None}]},
        "memory": lambda: pytest.fail("not asked for"),
    }
    arguments = ["--quick", "--tables", "speed"]
    chosen = options("About.", arguments, tables=parts)
    go_through("mill", chosen, parts, {"speed": ("Mills", ["ms", "launches"])})
    told = capsys.readouterr().out
    assert "| ms |" in told, "and no column in which nothing stands"


def test_no_such_table(capsys):
    with pytest.raises(SystemExit):
        options("About.", ["--tables", "sped"], tables=("speed", "memory"))
    assert "invalid choice: 'sped' (choose from" in capsys.readouterr().err


@gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
def test_what_a_real_one_does():
    place = place_of("cuda")
    x = torch.randn(512, 512, device="cuda")
    counted = place.counted(lambda: (x @ x).relu(), 1.0, tokens=1)
    assert counted["launches"] >= 2 and counted["kernels"] >= 2
    assert place.peak(lambda: (x @ x).relu()) == pytest.approx(2, rel=0.1)
    assert room.matmul_rate(place.device, torch.float32, size=512, rounds=2) > 0
