"""What a feedback transformer costs beside the published one: time and memory, in one run.

    python benchmarks/feedback.py
    python benchmarks/feedback.py --settings A B --rounds 7 --threads 2 --json feedback.json
    python benchmarks/feedback.py --memory 128 256 512

The published `FeedbackTransformerKV` of labml-nn 0.5.1 (in `.cache/oracle`, put there by
`make install`), our plain loop, our form by hand and the kernel have the same parameters, and
agree before a clock is started. They take turns, round by round, so that whatever else the machine
does meets all of them; the median of the rounds is reported, and the median of the ratios of each
round.
Training is forward, backward and a step of AdamW. Time is the clock's, and the processor's beside
it, which a busy machine disturbs less. Memory is the peak of what tensors take, forward and
backward.
"""

import argparse
import json
import platform
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import torch
from torch import Tensor, nn

ROOT = Path(__file__).parents[1]
PUBLISHED = ROOT / ".cache" / "oracle"
#: width, heads, layers, steps, texts
SETTINGS = {"A": (128, 4, 4, 128, 16), "B": (256, 8, 6, 256, 8), "tiny": (16, 2, 2, 12, 3)}
#: ours, and the `backend=` of each
FORMS = {"plain": "plain", "by hand": "by_hand", "kernel": "kernel"}
NAMES = ("published", "plain", "by hand", "kernel")


def published_model(width: int, heads: int, layers: int) -> nn.Module:
    """The published model. It has the import name of ours, so it is imported first, and let go of.

    It calls `labml`, an experiment tracker, while it computes; a stub with any name will do.
    """
    if not (PUBLISHED / "labml_nn").is_dir():
        raise SystemExit(f"{PUBLISHED} does not hold labml-nn 0.5.1; run `make install`")
    stubs = ("labml", "labml.logger", "labml.utils", "labml_nn.transformers.configs")
    # Ours may have been imported by an earlier setting: it steps aside for a moment.
    ours = _take_out()
    for name in stubs:
        sys.modules[name] = MagicMock(name=name)
    sys.path.insert(0, str(PUBLISHED))
    try:
        from labml_nn.transformers import feedback
        from labml_nn.transformers.feed_forward import FeedForward

        assert PUBLISHED in Path(str(feedback.__file__)).parents, feedback.__file__
        attention: Any = feedback.FeedbackAttention
        model: Any = feedback.FeedbackTransformerKV
        layer = feedback.FeedbackTransformerLayer(
            d_model=width,
            attn=attention(heads, width, 0.0, is_kv_precomputed=True),
            feed_forward=FeedForward(width, 4 * width, 0.0),
            dropout_prob=0.0,
        )
        built: nn.Module = model(layer, layers, width, heads)
        return built
    finally:
        sys.path.remove(str(PUBLISHED))
        _take_out()
        sys.modules.update(ours)


def _take_out() -> dict[str, Any]:
    names = [name for name in sys.modules if name.split(".")[0] in ("labml", "labml_nn")]
    return {name: sys.modules.pop(name) for name in names}


def our_model(width: int, heads: int, layers: int, backend: str, **options: Any) -> nn.Module:
    """Ours, of the same size."""
    sys.path.insert(0, str(ROOT))
    from labml_nn.transformers import feedback

    layer = feedback.FeedbackTransformerLayer(
        d_model=width,
        attn=feedback.FeedbackAttention(heads, width, 0.0, is_kv_precomputed=True, **options),
        feed_forward=feedback.FeedForward(width, 4 * width, 0.0),
        dropout_prob=0.0,
    )
    return feedback.FeedbackTransformerKV(layer, layers, width, heads, backend=backend)


def models(setting: str) -> dict[str, nn.Module]:
    """The same model, in each form."""
    width, heads, layers, _, _ = SETTINGS[setting]
    torch.manual_seed(0)
    first = published_model(width, heads, layers)
    with torch.no_grad():
        for parameter in first.parameters():
            parameter.add_(torch.randn_like(parameter) / 50)
    all_models = {"published": first}
    for name, backend in FORMS.items():
        all_models[name] = our_model(width, heads, layers, backend)
        all_models[name].load_state_dict(first.state_dict())
    return all_models


def trainer(model: nn.Module) -> Callable[[Tensor], None]:
    """Forward, backward, and a step."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-6)

    def train(x: Tensor) -> None:
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()

    return train


def reader(model: nn.Module) -> Callable[[Tensor], None]:
    """Forward alone."""

    def read(x: Tensor) -> None:
        with torch.no_grad():
            model(x)

    return read


def clock(run: Callable[[Tensor], None], x: Tensor) -> tuple[float, float]:
    """Milliseconds by the clock, and of the processor."""
    wall, processor = time.perf_counter(), time.process_time()
    run(x)
    return 1000 * (time.perf_counter() - wall), 1000 * (time.process_time() - processor)


def measure(setting: str, rounds: int) -> Iterator[dict[str, Any]]:
    """One row for each form and kind of work."""
    *_, steps, texts = SETTINGS[setting]
    x = torch.randn(steps, texts, SETTINGS[setting][0])
    forms = models(setting)
    with torch.no_grad():
        expected = forms["published"](x)
        for name, model in forms.items():
            torch.testing.assert_close(model(x), expected, rtol=1e-4, atol=1e-4, msg=name)
    for work, maker in (("train", trainer), ("forward", reader)):
        runs = {name: maker(model) for name, model in forms.items()}
        times: dict[str, list[tuple[float, float]]] = {name: [] for name in runs}
        for number in range(rounds + 1):
            for name, run in runs.items():
                taken = clock(run, x)
                if number:  # the first round only warms up
                    times[name].append(taken)
        for name, taken_by in times.items():
            pairs = list(zip(times["published"], taken_by, strict=True))
            yield {
                "setting": setting,
                "work": work,
                "form": name,
                "ms": statistics.median(wall for wall, _ in taken_by),
                "cpu_ms": statistics.median(cpu for _, cpu in taken_by),
                "ratio": statistics.median(a[0] / b[0] for a, b in pairs),
                "cpu_ratio": statistics.median(a[1] / b[1] for a, b in pairs),
            }


def peak(model: nn.Module, x: Tensor) -> float:
    """The most that tensors took at any moment of a forward and a backward pass, in MiB."""
    for parameter in model.parameters():
        parameter.grad = torch.zeros_like(parameter)
    with torch.profiler.profile(profile_memory=True) as profile:
        model(x).square().mean().backward()
    assert profile.profiler is not None
    events = profile.profiler.kineto_results.events()
    now, most = 0, 0
    for event in sorted(events, key=lambda event: event.start_ns()):
        if event.name() == "[memory]":
            now += event.nbytes()
            most = max(most, now)
    return most / 2**20


def memory(lengths: list[int]) -> Iterator[dict[str, Any]]:
    """Rows of peaks, in setting A, at several lengths."""
    width, heads, layers, _, texts = SETTINGS["A"]
    forms = {
        "published": published_model(width, heads, layers),
        **{name: our_model(width, heads, layers, backend) for name, backend in FORMS.items()},
    }
    for length in lengths:
        x = torch.randn(length, texts, width)
        for name, model in forms.items():
            yield {"length": length, "form": name, "mib": peak(model, x)}


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--settings", nargs="*", default=["A", "B"], choices=list(SETTINGS))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--memory", nargs="*", type=int, default=[], metavar="LENGTH")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    machine = f"{platform.machine()}, {options.threads} threads, torch {torch.__version__}"
    print(f"float32 on the CPU, {machine}\n")

    rows: list[dict[str, Any]] = []
    print("| setting | work | form | ms | ratio | processor ms | ratio |")
    print("|:--|:--|:--|--:|--:|--:|--:|")
    for setting in options.settings:
        for row in measure(setting, options.rounds):
            rows.append(row)
            numbers = f"{row['ms']:.0f} | {row['ratio']:.2f}"
            numbers += f" | {row['cpu_ms']:.0f} | {row['cpu_ratio']:.2f}"
            print(f"| {setting} | {row['work']} | {row['form']} | {numbers} |", flush=True)
    if options.memory:
        print("\n| steps | form | MiB |\n|--:|:--|--:|")
    for row in memory(options.memory) if options.memory else ():
        rows.append(row)
        print(f"| {row['length']} | {row['form']} | {row['mib']:.0f} |", flush=True)
    if options.json:
        options.json.write_text(json.dumps({"machine": machine, "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
