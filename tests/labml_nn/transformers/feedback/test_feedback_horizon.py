"""A memory that is a window: of the right rows, with the right gradients, in bounded space."""

import copy
import pickle

import pytest
import torch
from feedback_tools import BOTH, COMPILED, B, C, build, gradients, plain, tokens
from hypothesis import given, settings
from hypothesis import strategies as st

from labml_nn.transformers.feedback.stack import PersistentStack

HORIZON = 4
T = 11  # longer than a block of 2 * HORIZON rows


def windows(rows, horizon, capacity=2):
    """The stacks after each row."""
    stacks = [PersistentStack.start(rows[0], capacity=capacity)]
    for row in rows[1:]:
        stacks.append(stacks[-1].append(row, horizon=horizon))
    return stacks


def inputs(*shape):
    generator = torch.Generator().manual_seed(0)
    return torch.randn(*shape, dtype=torch.float64, generator=generator).requires_grad_()


# The stack.


@pytest.mark.parametrize("horizon", [1, 2, 3, 7, 20])
@pytest.mark.parametrize("capacity", [1, 5, 40])
def test_a_window_holds_the_last_rows_and_their_gradients(horizon, capacity):
    rows = inputs(17, 2, 3)
    stacks = windows(rows, horizon, capacity)
    for end, stack in enumerate(stacks, start=1):
        assert torch.equal(stack.rows, rows[max(0, end - horizon) : end])
    weight = tokens(17, horizon, 2, 3).double()
    got = sum((w[: len(s)] * s.rows).sum() for w, s in zip(weight, stacks, strict=True))
    plainly = [rows[max(0, end - horizon) : end] for end in range(1, 18)]
    expected = sum((w[: len(s)] * s).sum() for w, s in zip(weight, plainly, strict=True))
    torch.testing.assert_close(torch.autograd.grad(got, rows), torch.autograd.grad(expected, rows))


def test_first_and_second_derivatives_of_a_window():
    def last_window(x):
        return (windows(x.tanh(), 2)[-1].rows ** 3).sum()

    x = inputs(5, 2)
    assert torch.autograd.gradcheck(last_window, (x,))
    assert torch.autograd.gradgradcheck(last_window, (x,))


def test_a_dropped_row_has_no_gradient():
    rows = inputs(5, 2)
    (gradient,) = torch.autograd.grad(windows(rows, 3)[-1].rows.sum(), rows)
    assert gradient[:, 0].tolist() == [0.0, 0.0, 1.0, 1.0, 1.0]


@settings(deadline=None, max_examples=60)
@given(
    st.integers(1, 4),
    st.lists(st.tuples(st.integers(0, 10**6), st.integers(1, 5)), min_size=1, max_size=30),
)
def test_any_tree_of_windows_keeps_every_version(capacity, choices):
    versions = [(PersistentStack.start(torch.tensor([0.0]), capacity=capacity), [0.0])]
    for number, (choice, horizon) in enumerate(choices, start=1):
        stack, history = versions[choice % len(versions)]
        row = float(number)
        longer = stack.append(torch.tensor([row]), horizon=horizon)
        versions.append((longer, [*history, row][-horizon:]))
    for stack, history in versions:
        assert stack.rows.flatten().tolist() == history


def test_a_window_copies_each_row_about_once_and_takes_two_blocks_of_space():
    horizon, steps, moved, sizes = 64, 4000, 0, set()
    stack, row = PersistentStack.start(torch.zeros(1)), torch.zeros(1)
    for _ in range(steps):
        longer = stack.append(row, horizon=horizon)
        if longer.storage is not stack.storage:
            moved += min(len(stack), horizon - 1)
        stack = longer
        sizes.add(stack.storage.tensor.shape[0])
    assert len(stack) == horizon
    assert moved <= 1.01 * steps
    assert max(sizes) <= 2 * horizon


@pytest.mark.parametrize("clone", [copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))])
def test_copies_of_a_window_go_on_by_themselves(clone):
    rows = inputs(6, 2).detach()
    original = windows(rows[:4], 3, capacity=8)[-1]
    copied = clone(original)
    assert torch.equal(copied.append(rows[4], horizon=3).rows, rows[2:5])
    assert torch.equal(original.append(rows[5], horizon=3).rows, rows[[2, 3, 5]])


def test_a_detached_window_is_the_same_window():
    rows = inputs(6, 2)
    stack = windows(rows[:5], 3, capacity=8)[-1].detach()
    longer = stack.append(rows[5], horizon=3)
    assert torch.equal(longer.rows, rows[3:])
    longer.rows.sum().backward()
    assert rows.grad[:, 0].tolist() == [0.0] * 5 + [1.0]


def test_a_stack_of_given_rows():
    rows = inputs(5, 2)
    stack = PersistentStack.of(rows[:3])
    assert len(PersistentStack.of(rows[:0])) == 0
    longer = stack.append(rows[3], horizon=3)
    assert torch.equal(longer.rows, rows[1:4])
    longer.rows.sum().backward()
    assert rows.grad[:, 0].tolist() == [0.0, 1.0, 1.0, 1.0, 0.0]


# The models.


def windowed(shared, horizon=HORIZON, **options):
    return build(shared, horizon=horizon, max_distance=horizon, **options)


@BOTH
@pytest.mark.parametrize("horizon", [1, 2, HORIZON, T - 2, T - 1, T, 50])
def test_equals_the_plain_loop_over_a_window(shared, horizon):
    model, x = windowed(shared, horizon), tokens(T, B, C)
    got, expected = model(x), plain(model, x, horizon)
    torch.testing.assert_close(got, expected)
    torch.testing.assert_close(gradients(model, got), gradients(model, expected))


@BOTH
def test_a_horizon_beyond_the_text_changes_nothing(shared):
    model, x = windowed(shared, T), tokens(T, B, C)
    everything = build(shared, max_distance=T)
    everything.load_state_dict(model.state_dict())
    assert torch.equal(model(x), everything(x))
    assert not torch.equal(windowed(shared, T - 2)(x), model(x))


@BOTH
@settings(deadline=None, max_examples=10)
@given(cuts=st.sets(st.integers(1, T - 1)))
def test_pieces_of_any_length_equal_the_whole(shared, cuts):
    model, x, memory, outputs = windowed(shared), tokens(T, B, C), None, []
    for piece in torch.tensor_split(x, sorted(cuts)):
        y, memory = model.scan(piece, memory)
        outputs.append(y)
        assert len(memory) <= HORIZON
        assert memory.keys.storage.tensor.shape[0] <= 2 * HORIZON
    whole = model(x)
    torch.testing.assert_close(torch.cat(outputs), whole)
    torch.testing.assert_close(
        gradients(model, torch.cat(outputs)), gradients(model, whole), rtol=1e-4, atol=1e-5
    )


@BOTH
def test_steps_equal_the_whole(shared):
    model, x, memory = windowed(shared), tokens(T, B, C), None
    whole = model(x)
    for t in range(T):
        y, memory = model.step(x[t], memory)
        torch.testing.assert_close(y, whole[t], rtol=1e-5, atol=1e-5)
        assert len(memory) == min(t + 1, HORIZON)


@BOTH
def test_an_older_window_stays_good(shared):
    model, x = windowed(shared), tokens(T, B, C)
    _, memory = model.scan(x[:6])
    for last in ([6, 7, 8], [9, 10]):
        y, _ = model.scan(x[last], memory)
        torch.testing.assert_close(y, model(x[[*range(6), *last]])[6:])


@BOTH
def test_a_window_of_embeddings_lets_nothing_older_through(shared):
    """With all of the memory's shares on the embeddings there is no chain to travel along."""
    model, x = windowed(shared), tokens(T, B, C).requires_grad_()
    with torch.no_grad():
        model.weights.copy_(torch.tensor([0.0, -torch.inf, -torch.inf]))
    (gradient,) = torch.autograd.grad(model(x)[-1].square().sum(), x)
    felt = gradient.abs().sum((1, 2)) > 0
    assert felt.tolist() == [False] * (T - 1 - HORIZON) + [True] * (HORIZON + 1)


@BOTH
def test_news_travels_farther_than_a_step_looks(shared):
    model, x = windowed(shared), tokens(T, B, C).requires_grad_()
    (gradient,) = torch.autograd.grad(model(x)[-1].square().sum(), x)
    assert (gradient.abs().sum((1, 2)) > 0).all()


@BOTH
def test_two_forward_passes_before_a_backward_pass(shared):
    model, first, second = windowed(shared), tokens(T, B, C), tokens(T, B, C, seed=2)
    expected = gradients(model, model(first))
    output = model(first)
    model(second)
    torch.testing.assert_close(gradients(model, output), expected)


@BOTH
def test_gradients_numerically(shared):
    model = windowed(shared, 2, n_layers=2, d_model=2, heads=1).double()
    assert torch.autograd.gradcheck(model, (tokens(5, 1, 2, dtype=torch.float64).requires_grad_(),))


@BOTH
@COMPILED
def test_compiled_in_one_graph(unhooked, shared):
    package = unhooked("labml_nn.transformers.feedback")
    model, x = windowed(shared, 2, package=package), tokens(5, B, C)
    torch._dynamo.reset()
    got = torch.compile(model, fullgraph=True, backend="aot_eager")(x)
    torch.testing.assert_close(got, model(x))
    torch.testing.assert_close(gradients(model, got), gradients(model, model(x)))


@BOTH
@COMPILED
def test_compiled_steps(unhooked, shared):
    """Long enough for the window to slide and to move to another block, more than once."""
    package = unhooked("labml_nn.transformers.feedback")
    model, x, memory, outputs = windowed(shared, package=package), tokens(19, B, C), None, []
    torch._dynamo.reset()
    step = torch.compile(model.step, fullgraph=True, backend="eager")
    with torch.no_grad():
        for token in x:
            y, memory = step(token, memory)
            outputs.append(y)
        torch.testing.assert_close(torch.stack(outputs), model(x))


def test_functional_gradients():
    model, x = windowed(True), tokens(T, B, C)
    parameters = dict(model.named_parameters())

    def loss(given):
        return torch.func.functional_call(model, given, (x,)).square().sum()

    got = torch.func.grad(loss)(parameters)
    expected = torch.autograd.grad(loss(parameters), list(parameters.values()))
    torch.testing.assert_close(tuple(got.values()), expected)


def test_wrong_horizons(unhooked):
    package = unhooked("labml_nn.transformers.feedback")
    with pytest.raises(ValueError, match=r"`horizon` \(0\) must be at least 1"):
        build(True, horizon=0, package=package)
    long, short = (windowed(False, horizon, package=package) for horizon in (7, 4))
    _, memory = long.scan(tokens(T, B, C))
    with pytest.raises(ValueError, match=r"`memory` has 7 rows, and this model keeps horizon = 4"):
        short.scan(tokens(), memory)
