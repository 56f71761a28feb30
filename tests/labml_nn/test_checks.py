"""Argument checks: what passes, and which error names what."""

import numpy as np
import pytest
import torch

MODULE = "labml_nn.checks"
OF_TRANSFORMERS = "labml_nn.transformers.checks"


def ints(*shape):
    return torch.zeros(shape, dtype=torch.int64)


def test_numbers_of_numpy_and_tensors_without_values_pass(unhooked):
    checks = unhooked(MODULE)
    checks.check_sizes(d_model=1, heads=np.int64(3))
    checks.check_probability(dropout=0.0, dropout_prob=1, attention=np.float32(0.1))
    checks.check_integers("x", ints(2).int(), "B")
    checks.check_vocabulary(ints(0), 5)
    checks.check_lengths(ints(2).to("meta"), 3, shortest=1)
    checks.check_tokens(ints(5, 2).to("meta"), 7)


NAMES = ["elman", "feedback"]
TWO = {"lengths": ints(2), "max_len": 3}


@pytest.mark.parametrize(
    ("check", "arguments", "error", "message"),
    [
        ("sizes", {"n": np.float32(2)}, TypeError, "`n` .* whole number, not a float32"),
        ("sizes", {"n": True}, TypeError, r"`n` \(True\)"),
        ("same_width", {"d_model": 64, "a": 64, "attn": 32}, ValueError, "`attn` has width 32, "),
        ("heads", (4, 10), ValueError, r"divisible by `heads` \(4\); try 12"),
        ("heads", (4, 2), ValueError, "try 4$"),
        ("probability", {"p": float("nan")}, ValueError, r"`p` \(nan\)"),
        ("probability", {"p": True}, TypeError, r"`p` \(True\)"),
        ("known", ("model", "Fedback", NAMES), ValueError, r"'Fedback'; did you mean 'feedback'\?"),
        ("known", ("model", "xyz", NAMES), ValueError, "no model 'xyz'; known: elman, feedback"),
        ("known", ("model", 5, NAMES), TypeError, r"model \(5\) must be a string, not a int; know"),
        ("tokens", ([1], 5), TypeError, r"`tokens` is a list; .* torch.as_tensor\(tokens\)"),
        ("tokens", (torch.zeros(5, 2), 5), TypeError, r"dtype torch.float32; .*tokens.long\(\)"),
        ("tokens", (ints(5), 5), ValueError, r"\[5\].*tokens\[:, None\]"),
        ("tokens", (ints(5, 2, 1), 5), ValueError, r"\[5, 2, 1\]; expected \[T, B\]$"),
        ("tokens", (ints(0, 2), 5), ValueError, "the sequence is empty; .* T to be"),
        ("integers", ("n", ints(0), "B"), ValueError, "the batch is empty; .* B to be"),
        ("tokens", (ints(2, 2) + 5, 5), ValueError, "holds 5; .* from 0 to 4"),
        ("vocabulary", (torch.tensor([-1, 9]), 5), ValueError, "`tokens` holds -1"),
        ("lengths", (torch.tensor([2, 4]), 3), ValueError, r"from 2 to 4; .* 0 to max_len \(3\)"),
        ("lengths", (torch.tensor([-1, 4]), None), ValueError, "from -1 to 4"),
        ("lengths", (ints(2, 2), 3), ValueError, r"`lengths` .*expected \[B\]"),
        ("lengths", {**TWO, "count": 3}, ValueError, "2 numbers for 3 sequences; expected one for"),
        ("lengths", {**TWO, "shortest": 1}, ValueError, "from 0 to 0; expected 1 to max_len"),
        ("log_probabilities", (torch.tensor([-1.0, 2.0]),), ValueError, "2, .*log_softmax"),
        ("attention_inputs", (torch.ones(3, 4),) * 3, ValueError, r"\[3, 4\]; .*query\[:, None\]"),
    ],
)
def test_what_is_wrong_is_named(unhooked, check, arguments, error, message):
    of_transformers = check in ("log_probabilities", "attention_inputs")
    function = getattr(unhooked(OF_TRANSFORMERS if of_transformers else MODULE), f"check_{check}")
    with pytest.raises(error, match=message):
        function(**arguments) if isinstance(arguments, dict) else function(*arguments)


def test_values_in_a_compiled_graph_cannot_be_read(unhooked):
    checks = unhooked(MODULE)

    def call(tokens, lengths):
        checks.check_tokens(tokens, 5)
        checks.check_lengths(lengths, 3)
        return tokens + 1

    compiled = torch.compile(call, fullgraph=True, backend="eager")
    assert compiled(ints(3, 2), ints(2)).shape == (3, 2)
