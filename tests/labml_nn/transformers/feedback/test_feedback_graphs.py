"""The feedback transformer in graphs, on a processor: places, copies, and who records when."""

import copy
import pickle
import threading

import pytest
import torch
from feedback_tools import B, C, tokens
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
    rerun,
)
from torch import nn

from labml_nn.transformers.feedback import by_hand
from labml_nn.transformers.feedback.gpu import graphs

__all__ = ["alone", "rerun"]
pytestmark = pytest.mark.usefixtures("alone")


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
