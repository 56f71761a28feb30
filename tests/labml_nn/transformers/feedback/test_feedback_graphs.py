"""The feedback transformer in graphs, on a processor: places, copies, and who records when.

What stands in for a graph calls the function again and writes the results where the first ones
were. So what a graph does to tensors happens here too, and in double precision. At the end are
tests with real graphs, for a machine that has a GPU.
"""

import contextlib
import copy
import itertools
import pickle
import threading
import warnings
from types import SimpleNamespace
from weakref import WeakSet

import pytest
import torch
from feedback_tools import B, C, build, tokens
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

from labml_nn.transformers.feedback import by_hand, gpu
from labml_nn.transformers.feedback.by_hand import form as forms
from labml_nn.transformers.feedback.gpu import graphs, recording

N, T = 3, 9


class Rerun:
    """What a graph is to those who look at its tensors."""

    made = 0

    def __init__(self, function, device):
        Rerun.made += 1
        function()  # as for warming up
        self.function, self.results = function, tuple(part.clone() for part in function())
        for result in self.results:
            result.fill_(torch.nan)  # a graph that was recorded has not run

    def replay(self):
        for place, result in zip(self.results, self.function(), strict=True):
            place.copy_(result)


@pytest.fixture(autouse=True)
def _alone(monkeypatch):
    """Spans of four steps, an empty shelf, and everything said anew."""
    monkeypatch.setattr(forms, "STEPS", 4)
    monkeypatch.setattr(graphs, "TAPES", graphs.Tapes())
    monkeypatch.setattr(graphs, "TOLD", set())


@pytest.fixture
def rerun(monkeypatch):
    """A processor that can record."""
    monkeypatch.setattr(recording, "recorder", lambda device: Rerun)
    monkeypatch.setattr(Rerun, "made", 0)


def pair(**options):
    """The same model twice, in double precision: in graphs, and by hand."""
    played = build(True, **options).double()
    with_hand = copy.deepcopy(played)
    played.backend, with_hand.backend = "graphs", "by_hand"
    return played, with_hand


def everything(model, x, memory=None, **told):
    """Outputs, memory, and gradients of the input and of all parameters."""
    x = x.to(next(model.parameters())).requires_grad_()
    torch.manual_seed(3)
    y, memory = model.scan(x, memory, **told)
    outputs = (y, memory.keys.rows, memory.values.rows)
    total = sum((part * tokens(*part.shape, seed=i).to(y)).sum() for i, part in enumerate(outputs))
    found = torch.autograd.grad(total, [x, *model.parameters()], allow_unused=True)
    return [*outputs, *found]


def assert_same(got, expected):
    for mine, right in zip(got, expected, strict=True):
        if right is None:
            assert mine is None
        else:
            torch.testing.assert_close(mine, right, rtol=1e-10, atol=1e-12)


def assert_pair(models, x, **told):
    """Twice: the second time it is recorded, and the third it is played again."""
    for seed in range(3):
        text = x + seed
        assert_same(*(everything(model, text, **told) for model in models))


double = {"dtype": torch.float64}


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"norm_memory": True, "n_layers": 3},
        {"horizon": 3},
        {"horizon": 6, "max_distance": 2},
        {"dropout": 0.4},
        {"dropout": 0.2, "horizon": 3},
    ],
    ids=str,
)
@pytest.mark.parametrize("length", [2, 14])
def test_equals_the_form_by_hand(rerun, options, length):
    assert_pair(pair(**options), tokens(length, N, C, **double))
    assert Rerun.made == 2, "there and back, once"


def test_old_rows_and_padding(rerun):
    models, x = pair(horizon=6), tokens(T, N, C, **double)
    real = torch.ones(T, N, dtype=torch.bool)
    real[:2, 0] = real[:5, 1] = False
    assert_pair(models, x, real=real)
    with torch.no_grad():
        read = [model.scan(x, real=real)[1] for model in models]
    for _ in range(3):
        more = tokens(5, N, C, seed=4, **double)
        found = [everything(m, more, past) for m, past in zip(models, read, strict=True)]
        assert_same(*found)


@pytest.mark.parametrize("activation", [nn.GELU(), nn.ELU(0.5)], ids=repr)
def test_other_activations(rerun, activation):
    models = pair()
    for model in models:
        for layer in model.layers:
            layer.feed_forward.activation = activation
    assert_pair(models, tokens(T, N, C, **double))


def test_two_texts_before_either_is_gone_back_through(rerun):
    played, with_hand = pair(dropout=0.3)
    texts = [tokens(T, N, C, seed=seed, **double).requires_grad_() for seed in range(3)]

    def gradients(model):
        torch.manual_seed(5)
        outputs = [model(text) for text in texts]
        return [torch.autograd.grad(y.pow(3).sum(), x) for y, x in zip(outputs, texts, strict=True)]

    for _ in range(2):
        for mine, right in zip(gradients(played), gradients(with_hand), strict=True):
            torch.testing.assert_close(mine, right)


def test_a_graph_may_be_walked_twice_and_an_output_written_over(rerun):
    played, with_hand = pair()
    x = tokens(T, N, C, **double).requires_grad_()
    found = []
    for model in (played, played, with_hand):
        y = model(x)
        loss = (y * x.detach()).sum()
        y.detach().zero_()
        found.append(torch.autograd.grad(loss, x, retain_graph=True))
        torch.testing.assert_close(found[-1], torch.autograd.grad(loss, x))
    torch.testing.assert_close(found[1], found[2])


def test_parameters_may_change(rerun):
    """Weights are copied in at every text: one that was trained meanwhile counts."""
    models, x = pair(), tokens(T, N, C, **double)
    assert_pair(models, x)
    for model in models:
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.mul_(0.9)
    assert_pair(models, x)
    assert Rerun.made == 2


@torch.no_grad()
def test_reading_alone(rerun):
    played, with_hand = pair()
    x = tokens(T, N, C, **double)
    first = played(x)
    for _ in range(2):
        torch.testing.assert_close(played(x), with_hand(x))
    kept = played(x)
    played(x + 1)
    assert kept.equal(with_hand(x)), "of the text before, and not written over"
    assert first.equal(kept)
    assert Rerun.made == 1, "no way back"


def test_in_inference_mode_and_out_of_it(rerun):
    played, with_hand = pair()
    x = tokens(T, N, C, **double)
    expected = with_hand(x)
    for mode in (True, True, True, False, True):
        with torch.inference_mode(mode), torch.no_grad():
            torch.testing.assert_close(played(x), expected.detach())
    assert_pair((played, with_hand), x)


def test_a_shape_is_recorded_when_it_comes_again(rerun):
    played, _ = pair()
    made = []
    for length in (5, 6, 7, 6, 7, 7, 5):
        played(tokens(length, N, C, **double))
        made.append(Rerun.made)
    assert made == [0, 0, 0, 1, 2, 2, 3]


def test_shapes_types_and_choices_have_tapes_of_their_own(rerun, monkeypatch):
    played, _ = pair()

    def runs(model, *shape, times=2, **kind):
        for _ in range(times):
            model(tokens(*shape, **kind))
        return len(graphs.TAPES.tapes)

    assert runs(played, T, N, C, **double) == 1
    assert runs(played, T, N + 1, C, **double) == 2
    assert runs(played.eval(), T, N, C, **double) == 2, "without dropout that is the same"
    assert runs(copy.deepcopy(played).float(), T, N, C) == 3
    other = copy.deepcopy(played)
    for layer in other.layers:
        layer.feed_forward.activation = nn.SiLU()
    assert runs(other, T, N, C, **double) == 4
    assert runs(copy.deepcopy(other), T, N, C, times=1, **double) == 4, "copies share a tape"
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("medium")
    try:
        assert runs(played, T, N, C, **double) == 5
    finally:
        torch.set_float32_matmul_precision(before)


def test_the_oldest_has_to_go_and_what_it_read_does_not(rerun, monkeypatch):
    monkeypatch.setattr(graphs, "TAPES", graphs.Tapes(most=2))
    played, with_hand = pair()
    x = tokens(5, N, C, **double).requires_grad_()
    for _ in range(2):
        y = played(x)
    for length in (6, 7):
        for _ in range(2):
            played(tokens(length, N, C, **double))
    lengths = [len(tape.places[0]) + 1 for tape in graphs.TAPES.tapes.values()]
    assert lengths == [6, 7]
    torch.testing.assert_close(
        torch.autograd.grad(y.sum(), x), torch.autograd.grad(with_hand(x).sum(), x)
    )
    played(tokens(6, N, C, **double))
    for _ in range(2):
        played(x)
    lengths = [len(tape.places[0]) + 1 for tape in graphs.TAPES.tapes.values()]
    assert lengths == [6, 5], "the one that was not used for the longest time"
    for length in range(2, 60):
        graphs.TAPES.find(length, lambda: pytest.fail("met once"))
    assert len(graphs.TAPES.met) == 16 * 2
    graphs.forget()
    assert not graphs.TAPES.tapes and not graphs.TAPES.met


def test_copies_and_pickles(rerun):
    played, with_hand = pair()
    x = tokens(T, N, C, **double)
    for _ in range(2):
        played(x)
    for other in (copy.deepcopy(played), pickle.loads(pickle.dumps(played))):
        assert_same(everything(other, x), everything(with_hand, x))


def test_several_threads(rerun):
    played, with_hand = pair()
    texts = [tokens(T, N, C, seed=seed, **double) for seed in range(4)]
    expected = [with_hand(text) for text in texts]
    for _ in range(2):
        played(texts[0])
    found = {}

    def read(number):
        for _ in range(3):
            found[number] = played(texts[number])

    threads = [threading.Thread(target=read, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for number, right in enumerate(expected):
        torch.testing.assert_close(found[number], right)


def test_half_precision_around_it(rerun):
    played, with_hand = (model.float() for model in pair())
    x = tokens(T, N, C)
    for _ in range(3):
        with torch.autocast("cpu", torch.bfloat16):
            one, other = played(x), with_hand(x)
        torch.testing.assert_close(one, other)
    one.float().sum().backward()
    assert played.weights.grad.isfinite().all()


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


def warned(model, x):
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        results = [everything(model, x) for _ in range(3)]
    return results, [str(warning.message) for warning in told]


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
    monkeypatch.setattr(gpu, "BROKEN", set())
    played, with_hand = pair()
    played.backend = "triton"
    x = tokens(T, N, C, **double)
    results, told = warned(played, x)
    (line,) = told
    assert "it could not be launched: no such instruction. The form by hand runs" in line
    for result in results:
        assert_same(result, everything(with_hand, x))
    assert len(asked) == 1


def test_nothing_to_read(rerun):
    form = by_hand.form_of(pair()[0])
    assert graphs.unsuited(form, torch.empty(0, N, C)) == "there is nothing to read"
    assert graphs.unsuited(form, torch.empty(2, N, C)) is None


def test_gradients_of_gradients(rerun):
    played, _ = pair()
    x = tokens(T, N, C, **double).requires_grad_()
    for _ in range(2):
        y = played(x)
    with pytest.raises(RuntimeError, match=r"gradients of gradients .*backend = 'plain'"):
        torch.autograd.grad(y.sum(), x, create_graph=True)


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


def test_auto_takes_neither(rerun):
    played, _ = pair()
    played.backend = "auto"
    for _ in range(3):
        played(tokens(T, N, C, **double))
    assert Rerun.made == 0


def test_a_text_without_padding_keeps_no_place_for_it(rerun):
    played, _ = pair()
    for _ in range(2):
        played(tokens(T, B, C, **double))
    (tape,) = graphs.TAPES.tapes.values()
    assert tape.places[3] is None
    assert tape.places[0].shape == (T - 1, B, C), "the first token sees nothing"


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
