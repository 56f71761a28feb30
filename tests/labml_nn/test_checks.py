"""Argument checks: what passes, and which error names what."""

import numpy as np
import pytest
import torch

MODULE = "labml_nn.checks"


def ints(*shape):
    return torch.zeros(shape, dtype=torch.int64)


def test_what_is_right_passes(unhooked):
    checks = unhooked(MODULE)
    checks.check_sizes(d_model=1, heads=np.int64(3))
    checks.check_same_width(d_model=4, self_attn=4, feed_forward=None)
    checks.check_same_width(d_model=None, self_attn=4)
    checks.check_probability(dropout=0.0, dropout_prob=1, attention=np.float32(0.1))
    checks.check_bool(bias=True, tied=False)
    checks.check_heads(3, 12)
    checks.check_known("model", "elman", iter(["elman", "feedback"]))
    checks.check_integers("x", ints(2).int(), "B")
    checks.check_lengths(torch.tensor([0, 3]), 3)
    checks.check_lengths(torch.tensor([0, 3]), None)
    checks.check_prompt_lengths(torch.tensor([1, 3]), ints(3, 2))
    checks.check_tokens(torch.tensor([[0, 4]]), 5)
    checks.check_vocabulary(ints(0), 5)


def test_values_on_meta_cannot_be_read(unhooked):
    checks = unhooked(MODULE)
    checks.check_lengths(ints(2).to("meta"), 3)
    checks.check_prompt_lengths(ints(2).to("meta"), ints(3, 2))
    checks.check_tokens(ints(5, 2).to("meta"), 7)


WRONG = [
    (lambda c: c.check_sizes(a=1, n=0), ValueError, r"`n` \(0\) must be at least 1"),
    (lambda c: c.check_sizes(n=np.float32(2)), TypeError, "`n` .* whole number, not a float32"),
    (lambda c: c.check_sizes(n=True), TypeError, r"`n` \(True\)"),
    (lambda c: c.check_sizes(n="12"), TypeError, r"`n` \('12'\).* not a str"),
    (
        lambda c: c.check_same_width(d_model=64, a=64, attn=32),
        ValueError,
        "`attn` has width 32, but `d_model` is 64",
    ),
    (lambda c: c.check_heads(4, 10), ValueError, r"divisible by `heads` \(4\); try 8 or 12"),
    (lambda c: c.check_heads(4, 2), ValueError, "try 4$"),
    (lambda c: c.check_heads(0, 2), ValueError, r"`heads` \(0\)"),
    (lambda c: c.check_probability(p=1.5), ValueError, r"`p` \(1.5\) must be from 0 to 1"),
    (lambda c: c.check_probability(p=-0.1), ValueError, r"`p` \(-0.1\)"),
    (lambda c: c.check_probability(p=float("nan")), ValueError, r"`p` \(nan\)"),
    (lambda c: c.check_probability(p=True), TypeError, r"`p` \(True\)"),
    (lambda c: c.check_probability(p="0.1"), TypeError, "`p` .* a number from 0 to 1, not a str"),
    (lambda c: c.check_bool(a=True, bias="no"), TypeError, r"`bias` \('no'\) must be True or"),
    (lambda c: c.check_bool(bias=1), TypeError, r"`bias` \(1\)"),
    (
        lambda c: c.check_known("model", "fedback", ["elman", "feedback"]),
        ValueError,
        r"no model 'fedback'; did you mean 'feedback'\? known: elman, feedback",
    ),
    (lambda c: c.check_known("model", "xyz", ["elman"]), ValueError, "'xyz'; known: elman"),
    (
        lambda c: c.check_known("model", 5, ["elman"]),
        TypeError,
        r"model \(5\) must be a string, not a int; known: elman",
    ),
    (lambda c: c.check_tokens([1], 5), TypeError, "`tokens` is a list; expected a tensor"),
    (lambda c: c.check_tokens(torch.zeros(5, 2), 5, name="src"), TypeError, "`src` has dtype"),
    (lambda c: c.check_tokens(ints(5), 5, name="src"), ValueError, r"\[5\].*src\[:, None\]"),
    (lambda c: c.check_tokens(ints(5, 2, 1), 5), ValueError, r"\[5, 2, 1\]; expected \[T, B\]$"),
    (lambda c: c.check_tokens(ints(0, 2), 5), ValueError, "the sequence is empty; .* T to be"),
    (lambda c: c.check_integers("n", ints(0), "B"), ValueError, "the batch is empty; .* B to be"),
    (lambda c: c.check_tokens(ints(2, 2) + 5, 5), ValueError, "holds 5; .* from 0 to 4"),
    (lambda c: c.check_vocabulary(torch.tensor([-1, 9]), 5, name="y"), ValueError, "`y` holds -1"),
    (
        lambda c: c.check_lengths(torch.tensor([2, 4]), 3),
        ValueError,
        r"`lengths` go from 2 to 4; expected 0 to max_len \(3\)",
    ),
    (lambda c: c.check_lengths(torch.tensor([-1, 4]), None), ValueError, r"from -1 to 4"),
    (lambda c: c.check_lengths(ints(2, 2), 3), ValueError, r"`lengths` .*expected \[B\]"),
    (
        lambda c: c.check_prompt_lengths(torch.tensor([1, 3]), ints(3, 3)),
        ValueError,
        "`lengths` has 2 numbers for 3 prompts",
    ),
    (
        lambda c: c.check_prompt_lengths(torch.tensor([0, 3]), ints(3, 2)),
        ValueError,
        "`lengths` holds 0: a prompt is empty",
    ),
]


@pytest.mark.parametrize(("call", "error", "message"), WRONG)
def test_what_is_wrong_is_named(unhooked, call, error, message):
    with pytest.raises(error, match=message):
        call(unhooked(MODULE))


def test_values_in_a_compiled_graph_cannot_be_read(unhooked):
    checks = unhooked(MODULE)

    def call(tokens, lengths):
        checks.check_tokens(tokens, 5)
        checks.check_lengths(lengths, 3)
        return tokens + 1

    compiled = torch.compile(call, fullgraph=True, backend="eager")
    assert compiled(ints(3, 2), ints(2)).shape == (3, 2)
