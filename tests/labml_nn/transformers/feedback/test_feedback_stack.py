"""A stack that grows in place must be, to autograd, what `torch.stack` is."""

import copy
import pickle

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from labml_nn.transformers.feedback.stack import PersistentStack, Stack


def grow(rows, capacity=2):
    """The stacks of 1, 2, … rows; small blocks, so that they have to move."""
    stack = PersistentStack.start(rows[0], capacity=capacity)
    stacks = [stack]
    for row in rows[1:]:
        stack = stack.append(row)
        stacks.append(stack)
    return stacks


def recurrence(x, stacked):
    """A little feedback model. `stacked` turns the rows so far into a tensor."""
    rows = []
    for row in x.unbind(0):
        if rows:
            past = stacked(rows)
            for _ in range(2):  # two readers of the same stack, as two layers would be
                weights = (past * row).sum(-1, keepdim=True).softmax(0)
                row = row + (weights * past).sum(0)
        rows.append(row.tanh())
    return torch.stack(rows)


def with_persistent_stack(x):
    stack = None

    def stacked(rows):
        nonlocal stack
        stack = stack.append(rows[-1]) if stack else PersistentStack.start(rows[-1], capacity=2)
        return stack.rows

    return recurrence(x, stacked)


def inputs(*shape):
    generator = torch.Generator().manual_seed(0)
    return torch.randn(*shape, dtype=torch.float64, generator=generator).requires_grad_()


def test_rows_are_those_that_were_appended():
    rows = inputs(7, 2, 3)
    for length, stack in enumerate(grow(rows), start=1):
        assert len(stack) == length
        assert torch.equal(stack.rows, rows[:length])


def test_gradient_by_hand():
    """Row 0 is read by stacks 1, 2 and 3, with weights 1, 10 and 100; row 2 by the last alone."""
    rows = [torch.zeros(2, requires_grad=True) for _ in range(3)]
    loss = sum(10**i * stack.rows.sum() for i, stack in enumerate(grow(rows)))
    loss.backward()
    assert [row.grad.tolist() for row in rows] == [[111.0, 111.0], [110.0, 110.0], [100.0, 100.0]]


def test_recurrence_has_the_gradients_of_torch_stack():
    x = inputs(9, 2, 3)
    expected, got = recurrence(x, torch.stack), with_persistent_stack(x)
    torch.testing.assert_close(got, expected)
    weight = torch.linspace(-1, 1, got.numel(), dtype=torch.float64).view_as(got)
    for loss in (got, expected):
        x.grad = None
        (loss * weight).sum().backward()
        gradient = x.grad
    torch.testing.assert_close(
        torch.autograd.grad((with_persistent_stack(x) * weight).sum(), x)[0], gradient
    )


def test_first_and_second_derivatives_numerically():
    x = inputs(5, 1, 2)
    assert torch.autograd.gradcheck(with_persistent_stack, (x,))
    assert torch.autograd.gradgradcheck(with_persistent_stack, (x,))


def test_two_versions_grow_from_the_same_stack():
    """The second to append must not write over the row of the first."""
    rows = inputs(4, 3)
    base = grow(rows[:2], capacity=8)[-1]
    left, right = base.append(rows[2]), base.append(rows[3])
    assert torch.equal(base.rows, rows[:2])
    assert torch.equal(left.rows, rows[[0, 1, 2]])
    assert torch.equal(right.rows, rows[[0, 1, 3]])
    assert torch.equal(left.append(rows[0]).rows, rows[[0, 1, 2, 0]])
    assert torch.equal(right.append(rows[1]).rows, rows[[0, 1, 3, 1]])
    (10 * left.rows + right.rows).sum().backward()
    assert rows.grad[:, 0].tolist() == [11.0, 11.0, 10.0, 1.0]


@settings(deadline=None, max_examples=60)
@given(st.integers(1, 4), st.lists(st.integers(0, 10**6), min_size=1, max_size=30))
def test_any_tree_of_versions_keeps_every_version(capacity, choices):
    """Append to any version there is, in any order: all of them stay what they were."""
    versions = [(PersistentStack.start(torch.tensor([0.0]), capacity=capacity), [0.0])]
    for number, choice in enumerate(choices, start=1):
        stack, history = versions[choice % len(versions)]
        row = float(number)
        versions.append((stack.append(torch.tensor([row])), [*history, row]))
    for stack, history in versions:
        assert stack.rows.flatten().tolist() == history


def test_rows_are_shared_not_copied():
    stack = PersistentStack.start(torch.zeros(3), capacity=8)
    longer = stack.append(torch.ones(3))
    assert longer.rows.data_ptr() == stack.rows.data_ptr()


def test_growing_copies_each_row_about_once():
    """4096 rows from a block of 16 move 8 times: 16 + 32 + … + 2048 = 4080 rows in all."""
    stack, moved, row = PersistentStack.start(torch.zeros(1)), 0, torch.zeros(1)
    for _ in range(4095):
        longer = stack.append(row)
        if longer.storage is not stack.storage:
            moved += len(stack)
        stack = longer
    assert (len(stack), moved) == (4096, 4080)


def test_known_length_needs_one_block():
    stack = PersistentStack.start(torch.zeros(1), capacity=1).append(torch.zeros(1), capacity=50)
    assert stack.storage.tensor.shape[0] == 50


def test_detach_cuts_the_history_and_nothing_else():
    rows = inputs(3, 2)
    stack = grow(rows[:2])[-1].detach()
    assert not stack.rows.requires_grad
    longer = stack.append(rows[2])
    assert torch.equal(longer.rows, rows)
    longer.rows.sum().backward()
    assert rows.grad[:, 0].tolist() == [0.0, 0.0, 1.0]


@pytest.mark.parametrize("clone", [copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))])
def test_copies_go_on_by_themselves(clone):
    rows = inputs(4, 2).detach()
    original = grow(rows[:2], capacity=8)[-1]
    copied = clone(original)
    assert torch.equal(copied.append(rows[2]).rows, rows[:3])
    assert torch.equal(original.append(rows[3]).rows, rows[[0, 1, 3]])


def test_a_block_from_inference_mode_is_read_but_not_written_elsewhere():
    rows = inputs(3, 2).detach()
    with torch.inference_mode():
        stack = grow(rows[:2], capacity=8)[-1]
        assert stack.append(rows[2]).storage is stack.storage
        again = grow(rows[:2], capacity=8)[-1]
    longer = again.append(rows[2])
    assert torch.equal(longer.rows, rows)
    assert not longer.storage.tensor.is_inference()


def test_a_row_must_fit():
    stack = PersistentStack.start(torch.zeros(2, 3))
    with pytest.raises(ValueError, match=r"row of shape \[1, 3\].*rows of shape \[2, 3\]"):
        stack.append(torch.zeros(1, 3))
    with pytest.raises(TypeError, match=r"row of torch.float64.*stack of torch.float32"):
        stack.append(torch.zeros(2, 3, dtype=torch.float64))


def test_old_interface():
    rows, stack = inputs(5, 2, 3), Stack(2)
    for n, row in enumerate(rows):
        stack.append(n, row)
        assert torch.equal(stack.get(), rows[: n + 1])


def test_old_interface_need_not_be_read_between_rows():
    rows, stack = inputs(3, 2), Stack(4)
    for n, row in enumerate(rows):
        stack.append(n, row)
    stack.get().sum().backward()
    assert torch.equal(rows.grad, torch.ones_like(rows))


def test_old_interface_begins_anew_without_harm_to_the_sequence_before():
    first, second, stack = inputs(2, 3), inputs(4, 2), Stack(2)
    for n, row in enumerate(first):
        stack.append(n, row)
    of_first = stack.get()
    for n, row in enumerate(second):  # rows of another size, and more of them
        stack.append(n, row)
    (of_first * 2).sum().backward()
    (stack.get() * 3).sum().backward()
    assert torch.equal(first.grad, torch.full_like(first, 2))
    assert torch.equal(second.grad, torch.full_like(second, 3))


def test_old_interface_errors():
    with pytest.raises(ValueError, match=r"`max_len` \(0\) must be at least 1"):
        Stack(0)
    stack = Stack(2)
    with pytest.raises(ValueError, match="empty; `append` a row before `get`"):
        stack.get()
    stack.append(0, torch.zeros(3))
    with pytest.raises(ValueError, match=r"row 2 cannot follow 1 rows; the next row is `n` = 1"):
        stack.append(2, torch.zeros(3))
    stack.free()
    with pytest.raises(ValueError, match="empty"):
        stack.get()
