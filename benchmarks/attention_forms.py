"""What the three forms of attention cost: time and memory of forward and backward.

    python benchmarks/attention_forms.py
    python benchmarks/attention_forms.py --lengths 128 512 --rounds 51 --threads 2

prints the table of `labml_nn/transformers/scaled_dot_product.py`. The forms take turns, round by
round, so that whatever else the machine does meets all of them, and the median of the rounds is
reported. Time is the processor's, summed over threads. Memory is the most that PyTorch's allocator
held at once beyond the inputs.
"""

import argparse
import os
import statistics
import time
from collections.abc import Callable

os.environ.setdefault("KINETO_LOG_LEVEL", "99")  # the profiler talks otherwise

import torch
from torch import Tensor

from labml_nn.transformers.scaled_dot_product import (
    einsum_attention,
    fused_attention,
    matmul_attention,
)
from labml_nn.transformers.utils import subsequent_mask

FORMS = {"einsum": einsum_attention, "matmul": matmul_attention, "fused": fused_attention}


def workload(form: Callable[..., Tensor], shape: tuple[int, ...]) -> Callable[[], None]:
    """One forward and backward of self-attention under a causal mask."""
    torch.manual_seed(0)
    query, key, value = (torch.randn(shape, requires_grad=True) for _ in range(3))
    mask = subsequent_mask(shape[0])[..., None]
    cotangent = torch.randn(shape)

    def run() -> None:
        result = form(query, key, value, mask)
        torch.autograd.grad(result, (query, key, value), cotangent)

    return run


def peak_memory(run: Callable[[], None]) -> int:
    """The most bytes that were allocated at once while `run` ran, inputs not counted."""
    activities = [torch.profiler.ProfilerActivity.CPU]
    with torch.profiler.profile(activities=activities, profile_memory=True) as profile:
        run()
    records = profile.profiler.kineto_results.events()
    changes = [
        (event.start_ns(), event.nbytes()) for event in records if event.name() == "[memory]"
    ]
    held = peak = 0
    for _, change in sorted(changes, key=lambda record: record[0]):
        held += change
        peak = max(peak, held)
    return peak


def milliseconds(run: Callable[[], None]) -> float:
    """How long the processor works at one call."""
    start = time.process_time()
    run()
    return 1000 * (time.process_time() - start)


def measure(length: int, shape: tuple[int, ...], rounds: int) -> dict[str, tuple[float, float]]:
    """Median milliseconds and peak mebibytes of each form."""
    runs = {name: workload(form, (length, *shape)) for name, form in FORMS.items()}
    times: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(rounds + 1):
        for name, run in runs.items():
            times[name].append(milliseconds(run))
    return {  # the first round only warms up
        name: (statistics.median(times[name][1:]), peak_memory(run) / 2**20)
        for name, run in runs.items()
    }


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--lengths", type=int, nargs="+", default=[128, 512, 1024])
    parser.add_argument("--batch", type=int, default=2)
    parser.add_argument("--heads", type=int, default=8)
    parser.add_argument("--d-k", type=int, default=32)
    parser.add_argument("--rounds", type=int, default=21)
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)

    shape = (options.batch, options.heads, options.d_k)
    print(
        f"T = S, [B, H, K] = {list(shape)}, float32, causal mask, forward and backward, "
        f"{options.threads} CPU threads, torch {torch.__version__}\n"
    )
    print(f"| T | {' | '.join(FORMS)} |")
    print("|--:|" + "--:|" * len(FORMS))
    for length in options.lengths:
        costs = measure(length, shape, options.rounds)
        cells = [f"{ms:.1f} ms, {mib:.1f} MiB" for ms, mib in costs.values()]
        print(f"| {length} | {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
