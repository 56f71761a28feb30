"""What is asked of CUDA, what must not be recorded, and who runs where nothing can be.

At the end are tests with real graphs, for a machine that has a GPU.
"""

import contextlib
import itertools
from types import SimpleNamespace
from weakref import WeakSet

import pytest
import torch
from feedback_tools import C, tokens
from graphs_tools import (
    N,
    Rerun,
    T,
    alone,
    assert_pair,
    assert_same,
    double,
    everything,
    pair,
    warned,
)
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

from labml_nn.transformers.feedback import gpu
from labml_nn.transformers.feedback.gpu import graphs, recording

__all__ = ["alone"]
pytestmark = pytest.mark.usefixtures("alone")


# What a graph cannot have.


class Watch(TorchDispatchMode):
    """No question to the device, no chance, and nothing that goes over to the processor."""

    FORBIDDEN = ("_local_scalar_dense", "nonzero", "bernoulli", "rand", "_to_copy", "unique")

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        name = function.overloadpacket.__name__
        assert not name.startswith(self.FORBIDDEN), f"{name} cannot be recorded"
        return function(*args, **(kwargs or {}))


@pytest.mark.parametrize(
    "options",
    [{}, {"dropout": 0.3, "horizon": 8}, {"norm_memory": True}, {"max_distance": 3}],
    ids=str,
)
def test_what_is_recorded_can_be(monkeypatch, options):
    class Watched(Rerun):
        def __init__(self, function, device):
            def watched():
                with Watch():
                    return function()

            super().__init__(watched, device)

    monkeypatch.setattr(recording, "recorder", lambda device: Watched)
    real = torch.ones(T, N, dtype=torch.bool)
    real[:2, 1] = False
    played, _ = pair(**options)
    x = tokens(T, N, C, **double)
    with torch.no_grad():
        past = played.scan(x, real=real)[1]
    for _ in range(2):
        everything(played, x, past)
    with_padding = [tape.places[3] is not None for tape in graphs.TAPES.tapes.values()]
    assert any(with_padding)


@pytest.mark.parametrize("backend", ["graphs", "triton"])
def test_on_a_processor_one_warning_and_the_form_by_hand(backend):
    played, with_hand = pair()
    played.backend = backend
    x = tokens(T, N, C, **double)
    results, told = warned(played, x)
    (line,) = told
    assert f"backend = '{backend}' of the feedback transformer is not used: it runs on" in line
    assert "and the text is on cpu. The form by hand runs, with the same results" in line
    for result in results:
        assert_same(result, everything(with_hand, x))


def test_what_cannot_be_recorded_runs_by_hand(monkeypatch):
    tried = []

    def refuses(function, device):
        tried.append(device)
        raise RuntimeError("CUDA error: out of places\nand much more")

    monkeypatch.setattr(recording, "recorder", lambda device: refuses)
    played, with_hand = pair()
    x = tokens(T, N, C, **double)
    results, told = warned(played, x)
    (line,) = told
    assert "something could not be recorded: CUDA error: out of places. The form by hand" in line
    for result in results:
        assert_same(result, everything(with_hand, x))
    assert len(tried) == 2, "there and back, and not again"


def test_a_kernel_that_cannot_be_made(monkeypatch):
    asked = []

    def recur(*_):
        asked.append(1)
        raise ValueError("no such instruction\n  at line 7")

    monkeypatch.setattr(gpu.kernel, "unsuited", lambda form, x_seq: None)
    monkeypatch.setattr(gpu.kernel, "recur", recur)
    played, with_hand = pair()
    played.backend = "triton"
    x = tokens(T, N, C, **double)
    results, told = warned(played, x)
    (line,) = told
    assert "it could not be launched: no such instruction. The form by hand runs" in line
    for result in results:
        assert_same(result, everything(with_hand, x))
    assert len(asked) == 1


# What is asked of CUDA.


@pytest.fixture
def cuda(monkeypatch):
    """What is asked of CUDA, in order, and nothing done."""
    asked = []

    @contextlib.contextmanager
    def around(what):
        asked.append(f"begin {what}")
        yield
        asked.append(f"end {what}")

    def note(what):
        return lambda *_: asked.append(what)

    def stream(name):
        waits = {"wait_stream": note(f"{name} waits"), "wait_event": note(f"{name} waits for end")}
        end = lambda: asked.append(f"{name} ends") or "end"  # noqa: E731
        return SimpleNamespace(cuda_stream=name, record_event=end, **waits)

    graph = type("CUDAGraph", (), {"replay": note("replay")})
    monkeypatch.setattr(recording, "_ALIVE", WeakSet())
    monkeypatch.setattr(recording, "_ENDS", {})
    monkeypatch.setattr(recording, "_POOLS", {})
    for name, stand_in in {
        "CUDAGraph": graph,
        "graph": lambda graph, pool, stream, capture_error_mode: around(
            f"{capture_error_mode} recording on {stream.cuda_stream} in {pool}"
        ),
        "graph_pool_handle": lambda: "pool",
        "stream": lambda stream: around(stream.cuda_stream),
        "device": lambda device: around(str(device)),
        "current_stream": lambda device: stream("here"),
        "Stream": lambda device: stream("aside"),
    }.items():
        monkeypatch.setattr(torch.cuda, name, stand_in)
    return asked


def test_what_is_asked_of_cuda(cuda):
    """Warm-up on another stream, recording there, and one launch from then on."""
    device = torch.device("cuda", 1)

    def function():
        cuda.append("run")
        return (torch.ones(()),)

    graph = recording.Graph(function, device)
    graph.replay()
    recorded = "thread_local recording on aside in pool"
    assert cuda == [
        *("aside waits", "begin aside", "run", f"begin {recorded}", "run", f"end {recorded}"),
        *("end aside", "here waits", "replay"),
    ]
    assert graph.results[0] == 1


def test_turns_follow_one_another_on_the_device(cuda):
    device = torch.device("cuda", 1)
    for _ in range(2):
        with recording.turn(device):
            cuda.append("mine")
    first = ["begin cuda:1", "mine", "here ends", "end cuda:1"]
    assert cuda == [*first, first[0], "here waits for end", *first[1:]]


def test_no_two_graphs_are_recorded_on_one_stream(monkeypatch):
    """PyTorch hands out a few streams in turn."""

    class Alive:
        def __init__(self):
            self.stream = recording._free_stream(torch.device("cuda"))
            recording._ALIVE.add(self)

    numbers = itertools.cycle(range(3))
    monkeypatch.setattr(recording, "_ALIVE", WeakSet())
    monkeypatch.setattr(
        torch.cuda, "Stream", lambda device: SimpleNamespace(cuda_stream=next(numbers))
    )
    graphs_alive = [Alive(), Alive()]
    next(numbers)
    graphs_alive.append(Alive())
    assert sorted(graph.stream.cuda_stream for graph in graphs_alive) == [0, 1, 2]
    with pytest.raises(RuntimeError, match="there is a graph on every stream"):
        Alive()
    gone = graphs_alive.pop(1).stream.cuda_stream
    assert Alive().stream.cuda_stream == gone


# On a GPU.

on_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")


@pytest.mark.gpu
@on_gpu
@pytest.mark.parametrize(
    "options",
    [{}, {"norm_memory": True}, {"horizon": 3}, {"dropout": 0.3}, {"max_distance": 3}],
    ids=str,
)
def test_real_graphs(options):
    models = [model.cuda() for model in pair(**options)]
    x = tokens(14, N, C, **double).cuda()
    assert_pair(models, x)
    there, back = graphs.TAPES.tapes.values()
    assert isinstance(there.recording, recording.Graph)
    assert isinstance(back.recording, recording.Graph)


@pytest.mark.gpu
@on_gpu
def test_real_graphs_with_an_activation_that_autograd_knows():
    models = [model.cuda() for model in pair()]
    for model in models:
        for layer in model.layers:
            layer.feed_forward.activation = nn.GELU()
    assert_pair(models, tokens(T, N, C, **double).cuda())
    assert len(graphs.TAPES.tapes) == 2


@pytest.mark.gpu
@on_gpu
def test_real_graphs_of_two_texts_and_on_two_streams():
    played, with_hand = (model.cuda() for model in pair())
    texts = [tokens(T, N, C, seed=seed, **double).cuda().requires_grad_() for seed in range(4)]
    for _ in range(2):
        played(texts[0])
    streams = [torch.cuda.Stream() for _ in texts]
    outputs = []
    for text, stream in zip(texts, streams, strict=True):
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            outputs.append(played(text))
    torch.cuda.synchronize()
    for text, output in zip(texts, outputs, strict=True):
        right = with_hand(text)
        torch.testing.assert_close(output, right)
        torch.testing.assert_close(
            torch.autograd.grad(output.sum(), text), torch.autograd.grad(right.sum(), text)
        )


@pytest.mark.gpu
@on_gpu
def test_inside_somebody_elses_graph():
    played, with_hand = (model.cuda() for model in pair())
    x = tokens(T, N, C, **double).cuda()
    with torch.no_grad():
        for model in (played, with_hand):
            for _ in range(2):
                expected = model(x)
        graph = torch.cuda.CUDAGraph()
        told = pytest.warns(RuntimeWarning, match="somebody is recording already")
        with told, torch.cuda.graph(graph):
            y = played(x)
        graph.replay()
    torch.testing.assert_close(y, expected)


@pytest.mark.gpu
@on_gpu
def test_a_real_graph_that_asks_for_a_number():
    """Recording fails, and what comes after it runs."""
    device = torch.device("cuda", torch.cuda.current_device())
    x = torch.ones(3, device=device)
    here = torch.cuda.current_stream(device)
    with torch.no_grad():
        with pytest.raises(RuntimeError):
            recording.Graph(lambda: (x * x.sum().item(),), device)
        assert torch.cuda.current_stream(device) == here
        graph = recording.Graph(lambda: (x + 1,), device)
        x.fill_(5)
        graph.replay()
    assert graph.results[0].tolist() == [6, 6, 6]
