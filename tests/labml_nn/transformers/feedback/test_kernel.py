"""The compiled feedback transformer: against the form by hand, and the plain form."""

import copy
import ctypes
import pickle
import re

import pytest
import torch
from feedback_tools import B, C, build, tokens
from kernel_tools import assert_close, assert_pair, everything, pair
from torch import nn

from labml_nn.kernels.build import BuildError, load
from labml_nn.kernels.call import Spare
from labml_nn.transformers.feedback import by_hand, kernel
from labml_nn.transformers.feedback.by_hand import form as forms
from labml_nn.transformers.feedback.kernel import run as running
from labml_nn.transformers.feedback.kernel.task import Caller, Task

N, T = 3, 9


@pytest.fixture(scope="module", autouse=True)
def library():
    """The kernel itself, built once a machine; without a compiler there is nothing to test."""
    try:
        return load(kernel.SOURCE)
    except BuildError as error:
        pytest.skip(str(error))


@pytest.fixture(autouse=True)
def short_spans(monkeypatch):
    """Spans of four steps, so that a text of nine tokens has a first, a middle and a last."""
    monkeypatch.setattr(forms, "STEPS", 4)
    monkeypatch.setattr(kernel.KERNEL, "told", set())


@pytest.mark.parametrize("length", [2, 5, T, 14])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"norm_memory": True, "n_layers": 3},
        {"horizon": 3},
        {"horizon": 1, "norm_memory": True},
        {"horizon": 6, "max_distance": 2},
        {"max_distance": 4, "n_layers": 1},
    ],
    ids=str,
)
def test_equals_the_plain_form(options, length):
    assert_pair(pair(**options), tokens(length, N, C))


@pytest.mark.parametrize("width_heads", [(7, 7), (18, 1), (40, 5), (66, 2), (35, 5)], ids=str)
@pytest.mark.parametrize("batch", [1, 2, 13])
def test_any_width_and_batch(width_heads, batch):
    """Less than a vector, more than one, and never a multiple of it."""
    width, heads = width_heads
    assert_pair(pair(d_model=width, heads=heads, n_layers=2), tokens(11, batch, width))


def test_a_text_of_several_whole_spans(monkeypatch):
    monkeypatch.setattr(forms, "STEPS", 32)
    assert_pair(pair(horizon=41, n_layers=1), tokens(70, B, C))


@pytest.mark.parametrize("options", [{}, {"horizon": 7}, {"max_distance": 4}], ids=str)
def test_a_piece_longer_than_a_panel(monkeypatch, options):
    """Rows of a piece end anywhere in a panel of memory."""
    monkeypatch.setattr(forms, "STEPS", 32)
    # The gradient of two shares is a small difference of large sums: by hand, in single precision,
    # it is right to 1e-5 only too.
    for length in (21, 45):
        assert_pair(pair(n_layers=1, **options), tokens(length, N, C), tolerance=3e-5)


def test_pieces_of_a_span(monkeypatch):
    """A span of 32 steps is gone back through in pieces, of which the first is shorter."""
    monkeypatch.setattr(forms, "STEPS", 32)
    monkeypatch.setattr(running, "steps_of_a_piece", lambda *_: 5)
    assert_pair(pair(n_layers=1, norm_memory=True), tokens(45, N, C))


def test_pieces_are_shorter_where_texts_are_long_or_many():
    assert running.steps_of_a_piece(16, 100_000) == 16
    assert running.steps_of_a_piece(16, 700_000) == 11
    assert running.steps_of_a_piece(16, 2**24) == 8
    assert running.steps_of_a_piece(1, 2**24) == 128
    assert running.steps_of_a_piece(1000, 2**24) == 1


@pytest.mark.parametrize("vectors", ["AVX2", "DEFAULT"])
def test_other_processors(monkeypatch, vectors):
    """The same source for vectors of 8 and of 4, which this processor has too."""
    if vectors == "AVX2" and torch.backends.cpu.get_cpu_capability() == "DEFAULT":
        pytest.skip("this processor has no such vectors")
    monkeypatch.setattr(kernel.KERNEL, "found", load(kernel.SOURCE, vectors))
    monkeypatch.setattr(forms, "STEPS", 32)
    for options, length, batch in (
        ({"horizon": 3}, 14, 3),
        ({"d_model": 40, "heads": 5, "n_layers": 1}, 11, 13),
        ({"norm_memory": True, "max_distance": 4}, 20, 7),
    ):
        x = tokens(length, batch, options.get("d_model", C))
        assert_pair(pair(**options), x)


@pytest.mark.parametrize("horizon", [None, 5])
def test_goes_on_from_a_memory_with_its_gradients(horizon):
    def in_pieces(model, x):
        y, memory = model.scan(x[:6])
        z, memory = model.scan(x[6:8], memory)
        last, memory = model.step(x[8], memory)
        return torch.cat([y, z, last[None]]), memory

    assert_pair(pair(horizon=horizon), tokens(T, N, C), in_pieces)


@pytest.mark.parametrize("horizon", [None, 4])
def test_padding(horizon):
    real = torch.ones(T, N, dtype=torch.bool)
    real[:3, 0] = real[5:, 1] = real[4, 2] = False

    def padded(model, x):
        y, memory = model.scan(x, real=real)
        z, memory = model.scan(x.flip(0), memory)
        return torch.cat([y, z]), memory

    assert_pair(pair(horizon=horizon), tokens(T, N, C), padded)


@pytest.mark.parametrize("options", [{}, {"horizon": 4, "norm_memory": True}], ids=str)
def test_dropout_is_that_of_the_form_by_hand(options):
    """The same masks, from the same seed, on both ways, where both begin with the same token."""
    compiled, _ = pair(dropout=0.4, **options)
    by = copy.deepcopy(compiled)
    by.backend = "by_hand"
    with torch.no_grad():
        _, memory = compiled.scan(tokens(2, N, C, seed=5))

    def read_on(model, x):
        return model.scan(x, memory)

    found = []
    for model in (compiled, by):
        torch.manual_seed(5)
        found.append(everything(model, tokens(T, N, C), read_on))
    assert_close(*found)
    torch.manual_seed(6)
    assert not torch.allclose(everything(compiled, tokens(T, N, C), read_on)[0], found[0][0])


def test_one_thread_and_more_agree_to_the_last_bit():
    """Texts are shared among threads, and no sum is: outputs, memory, the gradient of the text."""
    model, _ = pair()
    before, found = torch.get_num_threads(), []
    try:
        for threads in (1, 2, 5):
            torch.set_num_threads(threads)
            found.append(everything(model, tokens(T, N, C))[:4])
    finally:
        torch.set_num_threads(before)
    for other in found[1:]:
        torch.testing.assert_close(other, found[0], rtol=0, atol=0)


def test_the_same_with_and_without_gradients():
    model, _ = pair()
    x = tokens(T, N, C)
    with torch.no_grad():
        y, memory = model.scan(x)
    expected, expected_memory = model.scan(x)
    assert not y.requires_grad
    assert torch.equal(y, expected)
    assert torch.equal(memory.values.rows, expected_memory.values.rows)


def test_two_ways_there_before_one_back():
    model, plain = pair()
    xs = [tokens(T, N, C, seed=seed) for seed in (1, 2)]

    def gradients(model):
        model.zero_grad()
        dtype = next(model.parameters()).dtype
        sum(model(x.to(dtype)).square().sum() for x in xs).backward()
        return [None if p.grad is None else p.grad.double() for p in model.parameters()]

    assert_close(gradients(model), gradients(plain))


def test_saved_tensors_may_go_elsewhere_and_come_back():
    """Then they have no room behind them."""
    model, _ = pair()
    expected = everything(model, tokens(T, N, C))
    with torch.autograd.graph.saved_tensors_hooks(torch.clone, torch.clone):
        got = everything(model, tokens(T, N, C))
    torch.testing.assert_close(got, expected, rtol=0, atol=0)


def test_what_a_call_before_has_left_is_not_read(monkeypatch):
    """Its memory is used again, whatever it holds."""
    take = Spare.take
    monkeypatch.setattr(Spare, "take", lambda *given: take(*given).fill_(torch.nan))
    for options in ({}, {"horizon": 3, "norm_memory": True}, {"max_distance": 4}):
        assert_pair(pair(**options), tokens(T, N, C))


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))])
def test_copies(copied):
    model, _ = pair()
    x = tokens(T, N, C)
    y = model(x)
    y.sum().backward()
    assert torch.equal(copied(model)(x), y)


def test_input_with_gaps_in_memory():
    model, _ = pair()
    x = tokens(N, T, 2 * C)
    assert torch.equal(
        model(x.mT[:, ::2].permute(2, 0, 1)), model(x.mT[:, ::2].permute(2, 0, 1).clone())
    )


def test_what_is_not_a_number_stays_so():
    """A run that has gone wrong must not look as if it had not."""
    model, _ = pair()
    x = tokens(T, N, C)
    x[3, 1] = float("nan")
    y = model(x)
    assert y[3:, 1].isnan().all()
    assert not y[:3].isnan().any()
    assert not y[:, [0, 2]].isnan().any()


def test_gradients_of_gradients_are_refused():
    model, _ = pair()
    x = tokens(T, N, C).requires_grad_()
    with pytest.raises(RuntimeError, match=re.escape("set `backend = 'plain'`")):
        torch.autograd.grad(model(x).sum(), x, create_graph=True)


def count_calls(monkeypatch):
    calls = []

    def counted(*args):
        calls.append(args)
        return real(*args)

    real = kernel.recur
    monkeypatch.setattr(by_hand.kernel, "recur", counted)
    return calls


def test_it_is_chosen_by_itself(monkeypatch):
    calls = count_calls(monkeypatch)
    model = build(True)
    model(tokens(T, N, C))
    assert model.backend == "auto"
    assert len(calls) == 1
    model.backend = "by_hand"
    model(tokens(T, N, C))
    assert len(calls) == 1


def double(model):
    return model.double(), torch.float64


def gated(model):
    for layer in model.layers:
        network = layer.feed_forward
        network.is_gated = True
        network.linear_v = nn.Linear(C, network.layer1.out_features)
    return model, torch.float32


def bent(model):
    for layer in model.layers:
        del layer.feed_forward.activation
        layer.feed_forward.activation = nn.GELU()
    return model, torch.float32


@pytest.mark.parametrize(
    ("change", "reason"),
    [(double, "float64"), (gated, "no gate"), (bent, "ReLU")],
)
def test_what_it_does_not_know_the_form_by_hand_does(monkeypatch, change, reason):
    calls = count_calls(monkeypatch)
    model, dtype = change(build(True))
    x = tokens(T, N, C).to(dtype)
    y = model(x)  # without a word, since nobody asked for the kernel
    model.backend = "kernel"
    with pytest.warns(RuntimeWarning, match=reason) as told:
        assert torch.equal(model(x), y)
        model(x)
    assert len(told) == 1
    assert not calls


def test_it_is_switched_off_by_the_environment(monkeypatch):
    calls = count_calls(monkeypatch)
    monkeypatch.setenv("LABML_NN_KERNEL", "0")
    model = build(True)
    model(tokens(T, N, C))
    model.backend = "kernel"
    with pytest.warns(RuntimeWarning, match="LABML_NN_KERNEL"):
        model(tokens(T, N, C))
    assert not calls


def test_half_precision_around_it(monkeypatch):
    """The loop itself is in float32, under autocast too."""
    calls = count_calls(monkeypatch)
    model, _ = pair()
    x = tokens(T, N, C)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y = model(x)
    assert len(calls) == 1
    torch.testing.assert_close(y.float(), model(x), rtol=0.1, atol=0.2)


def test_both_languages_mean_the_same_structure(library):
    assert library.task_size == ctypes.sizeof(Task)
    header = (kernel.SOURCE.folder / "task.h").read_text()
    body = header[header.index("struct Task {") : header.index("Size steps() const")]
    body = re.sub(r"//.*", "", body.removeprefix("struct Task {"))
    declared = [
        name
        for line in body.split(";")
        for name in re.findall(r"\b([a-z_]+)\b(?=,|$)", line.strip())
    ]
    assert declared == [name for name, _ in Task._fields_]


def test_weights_are_packed_in_the_order_in_which_they_are_read(library):
    caller = Caller(library, 1, 1, 1, torch.zeros(1))
    columns, terms = caller.panel + 3, 5
    maps = torch.arange(2.0 * terms * columns).view(2, terms, columns)
    packed = caller.pack(maps).contiguous()
    assert packed.shape == (2, 2, terms, caller.panel)
    assert torch.equal(packed[1, 0, 4], maps[1, 4, : caller.panel])
    assert torch.equal(packed[0, 1, 2, :3], maps[0, 2, caller.panel :])
    assert not packed[:, 1, :, 3:].any()
