"""What it was measured on."""

import json

import torch

from benchmarks.machine import machine, matmul_gflops


def test_it_can_be_written_and_names_what_matters():
    told = machine()
    assert json.loads(json.dumps(told)) == told
    assert told["torch"] == torch.__version__
    assert told["cores"] >= 1
    assert told["processor"]


def test_the_rate_of_products_leaves_threads_alone():
    before = torch.get_num_threads()
    assert matmul_gflops(2, size=64, rounds=1) > 0
    assert torch.get_num_threads() == before
