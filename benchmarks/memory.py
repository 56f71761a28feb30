"""How much memory a run needs, by what PyTorch's allocator says of itself."""

import gc
import os

os.environ.setdefault("KINETO_LOG_LEVEL", "99")  # the profiler talks otherwise

from torch._C._autograd import _disable_profiler, _enable_profiler, _prepare_profiler
from torch._C._profiler import (
    ProfilerActivity,
    ProfilerConfig,
    ProfilerState,
    RecordScope,
    _ExperimentalConfig,
)

from benchmarks.contest import Run
from labml_nn.kernels.call import let_go

CPU = {ProfilerActivity.CPU}


def peak(run: Run) -> float:
    """The most MiB that tensors took at any moment of a run, beyond what was there before it.

    PyTorch's profiler notes every block that is taken or given back, and their sum is followed.
    Unlike the size of the process it does not depend on what ran before, and it is the same every
    time. What a compiled kernel takes for itself, without asking PyTorch, is not seen.

    `torch.profiler.profile` would note every operation as well, and a loop over 512 tokens has
    millions: gigabytes of notes. So what is behind it is called, for operations that nobody does.
    """
    gc.collect()
    let_go()  # what kernels have kept for their next call counts too
    config = ProfilerConfig(
        ProfilerState.KINETO, False, True, False, False, False, _ExperimentalConfig()
    )
    _prepare_profiler(config, CPU)
    _enable_profiler(config, CPU, {RecordScope.USER_SCOPE})  # type: ignore[call-arg]
    try:
        run()
    finally:
        results = _disable_profiler()
    changes = [
        (event.start_ns(), event.nbytes())  # type: ignore[attr-defined]
        for event in results.events()
        if event.name() == "[memory]"
    ]
    held = most = 0
    for _, change in sorted(changes, key=lambda change: change[0]):
        held += change
        most = max(most, held)
    return most / 2**20
