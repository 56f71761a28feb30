"""How much memory a run needs, by what PyTorch's allocator says of itself."""

import os

os.environ.setdefault("KINETO_LOG_LEVEL", "99")  # the profiler talks otherwise

import torch

from benchmarks.contest import Run


def peak(run: Run) -> float:
    """The most MiB that tensors took at any moment of a run, beyond what was there before it.

    The profiler notes every block that is taken or given back, and their sum is followed. Unlike
    the size of the process it does not depend on what ran before, and it is the same every time.
    What a compiled kernel takes for itself, without asking PyTorch, is not seen.
    """
    activities = [torch.profiler.ProfilerActivity.CPU]
    with torch.profiler.profile(activities=activities, profile_memory=True) as profile:
        run()
    assert profile.profiler is not None
    assert profile.profiler.kineto_results is not None
    events = profile.profiler.kineto_results.events()
    changes = [(event.start_ns(), event.nbytes()) for event in events if event.name() == "[memory]"]
    held = most = 0
    for _, change in sorted(changes, key=lambda change: change[0]):
        held += change
        most = max(most, held)
    return most / 2**20
