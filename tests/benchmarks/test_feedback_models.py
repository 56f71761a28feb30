"""Feedback transformers of the same size, found equal before a clock starts."""

import pytest
import torch

from benchmarks import feedback_models as room
from benchmarks.feedback_models import (
    LUCIDRAINS,
    PUBLISHED,
    PUBLISHED_KV,
    Size,
    check_equal,
    contenders,
)
from benchmarks.peers import MissingPeer

TINY = Size(width=12, heads=3, layers=2, steps=5, texts=4)
OURS = ("ours, plain", "ours, by hand")


def missing(name):
    raise MissingPeer(f"{name} is not installed")


def test_equal_to_the_published_one():
    forms = contenders(TINY, (PUBLISHED_KV, PUBLISHED, *OURS))
    check_equal(forms)
    assert len({forms[name].parameters for name in (PUBLISHED_KV, *OURS)}) == 1
    assert forms[PUBLISHED].parameters > forms[PUBLISHED_KV].parameters


def test_forms_of_a_gpu_are_not_for_a_processor():
    names = ("ours, by hand", "ours, graphs", "ours, triton")
    assert list(contenders(TINY, names)) == ["ours, by hand"]
    room.forget()


def test_what_differs_is_not_measured():
    forms = contenders(TINY, OURS)
    with torch.no_grad():
        next(forms["ours, by hand"].model.parameters()).mul_(1.1)
    with pytest.raises(SystemExit, match="of ours, by hand and ours, plain differ by"):
        check_equal(forms)


def test_a_missing_peer_is_a_line(monkeypatch, capsys):
    monkeypatch.setattr(room, "peer", missing)
    assert list(contenders(TINY, (LUCIDRAINS, "ours, plain"))) == ["ours, plain"]
    assert capsys.readouterr().out == (
        "No rows for feedback-transformer-pytorch: feedback_transformer_pytorch is not installed.\n"
    )


def test_without_a_compiler_there_are_no_rows_of_the_kernel(monkeypatch):
    monkeypatch.setenv("LABML_NN_KERNEL", "0")
    assert list(contenders(TINY, ("ours, plain", "ours, kernel"))) == ["ours, plain"]


def test_runs_do_what_they_say():
    (contender,) = contenders(TINY, ("ours, by hand",)).values()
    parameter = next(contender.model.parameters())
    before = parameter.detach().clone()
    contender.forward()()
    assert parameter.grad is None
    contender.backward()()
    assert parameter.grad is not None and parameter.grad.abs().sum() > 0
    torch.testing.assert_close(parameter.detach(), before)
    contender.train()()
    assert not torch.equal(parameter, before)


def test_operations_counted_one_by_one():
    # One layer, one step, one text, width 1: ten products of one number and two for the memory,
    # two operations each; and half a step to look back at, three times.
    assert Size(1, 1, 1, 1, 1).operations() == 24 + 3
    # All of it in proportion to texts; twice the steps are more than twice the work.
    assert TINY.but(texts=8).operations() == 2 * TINY.operations()
    assert TINY.but(steps=10).operations() > 2 * TINY.operations()
