"""What the forms of an Elman layer cost beside nn.RNN: forward alone, and with backward.

    python benchmarks/elman_forms.py
    python benchmarks/elman_forms.py --sizes 256x32x256 --rounds 31

prints the table of `labml_nn/recurrent/elman/layer.py`. A size is steps x sequences x units, with
as many features going in. The forms take turns, round by round, so that whatever else the machine
does meets all of them, and the median of the rounds is reported. Time is the processor's.
"""

import argparse
import statistics
import time
from collections.abc import Callable

import torch
from torch import Tensor

from labml_nn.recurrent.elman import ElmanLayer
from labml_nn.recurrent.elman.torch_rnn import from_torch_rnn

Run = Callable[[Tensor], Tensor]


def forms(units: int) -> dict[str, Run]:
    """The same layer, four times."""
    torch.manual_seed(0)
    rnn = torch.nn.RNN(units, units)
    layer = from_torch_rnn(rnn).layers[0]
    assert isinstance(layer, ElmanLayer)

    def form(name: str) -> Run:
        return lambda x: getattr(layer, name)(x, layer.initial(x.shape[1]))

    return {name: form(name) for name in ("loop", "unrolled", "kernel")} | {
        "nn.RNN": lambda x: rnn(x)[0]
    }


def milliseconds(run: Run, x: Tensor, backward: bool) -> float:
    """How long the processor works at one call."""
    start = time.process_time()
    with torch.set_grad_enabled(backward):
        states = run(x)
    if backward:
        states.square().mean().backward()
    return 1000 * (time.process_time() - start)


def measure(steps: int, batch: int, units: int, rounds: int) -> dict[str, tuple[float, float]]:
    """Median milliseconds of each form, forward and with backward."""
    runs = forms(units)
    x = torch.randn(steps, batch, units, requires_grad=True)
    times: dict[tuple[str, bool], list[float]] = {}
    for number in range(rounds + 1):
        for name, run in runs.items():
            for backward in (False, True):
                taken = milliseconds(run, x, backward)
                if number:  # the first round only warms up
                    times.setdefault((name, backward), []).append(taken)
    return {
        name: (statistics.median(times[name, False]), statistics.median(times[name, True]))
        for name in runs
    }


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--sizes", nargs="+", default=["256x32x256", "256x8x128", "256x1x64"])
    parser.add_argument("--rounds", type=int, default=21)
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    print(f"float32, {options.threads} CPU threads, torch {torch.__version__}\n")
    for size in options.sizes:
        steps, batch, units = map(int, size.split("x"))
        print(f"| {size} | forward | with backward |\n|:--|--:|--:|")
        for name, (forward, both) in measure(steps, batch, units, options.rounds).items():
            print(f"| {name} | {forward:.2f} ms | {both:.2f} ms |")
        print()


if __name__ == "__main__":
    main()
