"""The compiled feedback transformer at a first token, which has nothing to attend to."""

import pytest
import torch
from feedback_tools import C, H, tokens
from kernel_tools import assert_pair, pair

from labml_nn.kernels.build import BuildError, load
from labml_nn.transformers.feedback import FeedbackTransformer, by_hand, kernel
from labml_nn.transformers.feedback.memory import FeedbackMemory

N, T = 3, 9


@pytest.fixture(scope="module", autouse=True)
def library():
    """The kernel itself; without a compiler there is nothing to test."""
    try:
        return load(kernel.SOURCE)
    except BuildError as error:
        pytest.skip(str(error))


@pytest.mark.parametrize("kind", ["attention", "branch", "hidden"])
def test_everything_dropped_from_the_first_token_on(kind):
    models = pair(dropout=0.0)
    for model in models:
        for layer in model.train().layers:
            parts = {
                "attention": layer.attn.dropout,
                "branch": layer.dropout,
                "hidden": layer.feed_forward.dropout,
            }
            parts[kind].p = 1.0
    assert_pair(models, tokens(T, N, C))


def test_dropout_is_as_probable_in_the_first_step_as_in_others():
    """Nothing but branches: what the first token gets is added to it or is not."""
    compiled, _ = pair(n_layers=1, dropout=0.0)
    for layer in compiled.train().layers:
        layer.dropout.p = 0.25
    x = torch.zeros(2, 50, C)
    top, _ = by_hand.scan(compiled, x, FeedbackMemory.empty(x, (50, H, C // H), 1))
    assert 0.7 < top[0].count_nonzero() / top[0].numel() < 0.8


@pytest.mark.parametrize("length", [1, 2, 3])
def test_begins_with_the_first_token(monkeypatch, length):
    """The plain form takes no step, but for a text of one token."""
    steps = []
    climb = FeedbackTransformer._climb
    monkeypatch.setattr(
        FeedbackTransformer, "_climb", lambda *given: steps.append(1) or climb(*given)
    )
    compiled, plain = pair()
    x = tokens(length, N, C)
    y = compiled(x)
    assert len(steps) == (length == 1)
    torch.testing.assert_close(y.double(), plain(x.double()), rtol=1e-5, atol=1e-5)


def test_under_autocast_rows_have_the_type_of_the_plain_form():
    """Its first step decides, and a next step must be able to follow."""
    compiled, plain = pair()
    plain.float()
    found = []
    for model in (compiled, plain):
        with torch.autocast("cpu", torch.bfloat16):
            _, memory = model.scan(tokens(T, N, C))
            y, memory = model.step(tokens(N, C), memory)
        found.append((y.dtype, memory.keys.rows.dtype))
    assert found[0] == found[1] == (torch.float32, torch.bfloat16)


def test_padding_leaves_the_first_token_to_the_plain_form():
    """Each text begins at another step, and some have no row when others have one."""
    real = torch.ones(T, N, dtype=torch.bool)
    real[:4, 1] = False

    def padded(model, x):
        return model.scan(x, real=real)

    assert_pair(pair(), tokens(T, N, C), padded)


@pytest.mark.parametrize("horizon", [None, 3, 5])
def test_a_window_that_begins_among_rows_of_other_texts(horizon):
    """One text begins when others have rows, and these leave the window one by one."""
    real = torch.ones(4, N, dtype=torch.bool)
    real[:, 1] = real[2:, 0] = False

    def later(model, x):
        y, memory = model.scan(x[:4], real=real)
        z, memory = model.scan(x[4:], memory)
        return torch.cat([y, z]), memory

    assert_pair(pair(horizon=horizon), tokens(T + 3, N, C), later)
