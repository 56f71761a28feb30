"""The window that slides by halves, with a model that records what it is given.

That a window is a value, and how much a token costs, is tested with all language models.
"""

import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from labml_nn.transformers.mha import KVCache
from labml_nn.transformers.sliding_window import run_in_window

PAD = 0


def begin(t: int, length: int) -> int:
    """s(t), found by stepping: a full context drops half of its tokens, or one."""
    start = 0
    for now in range(t + 1):
        if now - start == length:
            start += max(1, length // 2)
    return start


def run(tokens: Tensor, positions: Tensor, real: Tensor | None, caches: list[KVCache]) -> Tensor:
    """Row t holds all tokens that query t may attend to, as digits in base 100."""
    assert len(caches) == 1 and positions.min() >= 0
    assert caches[0].positions is positions
    token = torch.where(tokens == PAD, torch.nan, tokens.double())
    keys, values = caches[0].append(
        *(x.double()[..., None, None] for x in (positions.expand_as(tokens), token))
    )
    T, S = len(tokens), len(keys)
    visible = (torch.arange(S) <= torch.arange(S - T, S)[:, None])[:, :, None]
    if real is not None:
        assert real.shape == (S, tokens.shape[1])
        visible = visible & real
    digits = torch.where(visible, (values * 100.0**keys)[None, ..., 0, 0], 0.0)
    return digits.sum(1)[..., None]


def call(tokens, window=None, model=run, max_len=4, padding_token=None):
    return run_in_window(
        model, tokens, window, n_layers=1, max_len=max_len, padding_token=padding_token
    )


def number(sequence: list[int], t: int, length: int) -> float:
    context = sequence[begin(t, length) : t + 1]
    return float(sum(token * 100.0**position for position, token in enumerate(context)))


def column(sequence) -> Tensor:
    return torch.tensor(list(sequence))[:, None]


sequences = st.lists(st.integers(1, 99), min_size=1, max_size=25)
lengths = st.integers(1, 6)


@settings(deadline=None)
@given(sequence=sequences, length=lengths, data=st.data())
def test_any_chunks_give_the_definition(sequence, length, data):
    window, outputs, rest = None, [], column(sequence)
    while len(rest):
        n = data.draw(st.integers(1, len(rest)))
        x, window = call(rest[:n], window, max_len=length)
        outputs.append(x)
        rest = rest[n:]
        assert 1 <= len(window.tokens) <= length
    expected = [number(sequence, t, length) for t in range(len(sequence))]
    assert torch.cat(outputs).flatten().tolist() == expected


@settings(deadline=None)
@given(sequence=st.lists(st.integers(0, 99), min_size=1, max_size=25), length=lengths)
def test_padding_takes_room_and_no_position(sequence, length):
    tokens = torch.stack([torch.tensor(sequence), torch.arange(1, len(sequence) + 1)], dim=1)
    x, _ = call(tokens, max_len=length, padding_token=PAD)
    for t, token in enumerate(sequence):
        context = [each for each in sequence[begin(t, length) : t + 1] if each != PAD]
        if token != PAD:
            assert x[t, 0] == sum(each * 100.0**p for p, each in enumerate(context))
        assert x[t, 1] == number(list(range(1, 26)), t, length)
