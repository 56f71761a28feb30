"""The window that slides by halves, with a reader that writes down what it was given."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from labml_nn.transformers.mha import KeysValues
from labml_nn.transformers.window import Window, read_by_halves

B, PAD = 2, 0


def begin(t: int, length: int) -> int:
    """s(t), found by walking: a full window lets go of half, or of one if there is no half."""
    start = 0
    for now in range(t + 1):
        if now - start == length:
            start += max(1, length // 2)
    return start


def read(
    tokens: Tensor, positions: Tensor, mask: Tensor | None, past: tuple[KeysValues, ...] | None
) -> tuple[Tensor, tuple[KeysValues, ...]]:
    """Row t is what a query at t can see, in base 100: each token, weighted by its position."""
    token = torch.where(tokens == PAD, torch.nan, tokens.double())
    keys, values = (x.double()[..., None, None] for x in (positions.expand_as(tokens), token))
    if past is not None:
        keys, values = (torch.cat(pair) for pair in zip(past[0], (keys, values), strict=True))
    assert positions.min() >= 0
    seen = torch.ones(len(tokens), len(keys), 1, dtype=torch.bool) if mask is None else mask
    assert seen.shape[:2] == (len(tokens), len(keys))
    parts = torch.where(seen, (values * 100.0**keys)[None, ..., 0, 0], 0.0)
    return parts.sum(1)[..., None], (KeysValues(keys, values),)


def naive(text: list[int], t: int, length: int) -> float:
    window = text[begin(t, length) : t + 1]
    return float(sum(token * 100.0**position for position, token in enumerate(window)))


def column(text: list[int]) -> Tensor:
    return torch.tensor(text)[:, None]


texts = st.lists(st.integers(1, 99), min_size=1, max_size=25)
lengths = st.integers(1, 6)


@settings(deadline=None)
@given(text=texts, length=lengths, data=st.data())
def test_any_cut_is_the_definition(text, length, data):
    window, rows, rest = None, [], column(text)
    while len(rest):
        n = data.draw(st.integers(1, len(rest)))
        new, window = read_by_halves(rest[:n], window, read, max_len=length, padding_token=None)
        rows.append(new)
        rest = rest[n:]
        assert 1 <= len(window.tokens) <= length
    expected = [naive(text, t, length) for t in range(len(text))]
    assert torch.cat(rows).flatten().tolist() == expected


@settings(deadline=None)
@given(text=st.tuples(texts, texts), length=lengths, data=st.data())
def test_padding_takes_no_place(text, length, data):
    """Two sequences with holes anywhere: each is read as if it were alone and without holes."""
    n = max(map(len, text)) + 3
    spread = torch.full((n, B), PAD)
    where = [sorted(data.draw(st.permutations(range(n)))[: len(each)]) for each in text]
    for b, each in enumerate(text):
        spread[where[b], b] = torch.tensor(each)
    window, rows, rest = None, [], spread
    while len(rest):
        k = data.draw(st.integers(1, len(rest)))
        new, window = read_by_halves(rest[:k], window, read, max_len=length, padding_token=PAD)
        rows.append(new)
        rest = rest[k:]
        assert window.real.sum(0).max() <= length
    for b, each in enumerate(text):
        expected = [naive(each, t, length) for t in range(len(each))]
        assert torch.cat(rows)[where[b], b, 0].tolist() == expected


def test_closed_form_of_the_page():
    for length in range(1, 12):
        jump = max(1, length // 2)
        for t in range(60):
            assert begin(t, length) == jump * max(0, (t - length) // jump + 1)


def test_positions_stay_in_the_window_and_work_is_bounded():
    reads = []

    def count(tokens, positions, mask, past):
        assert positions.max() < 8
        reads.append(len(tokens))
        return read(tokens % 100, positions, mask, past)

    window = None
    for token in column(list(range(1, 1001))):
        _, window = read_by_halves(token[None], window, count, max_len=8, padding_token=None)
    assert sum(reads) < 2 * 1000
    assert set(reads) == {1, 5}  # one token, or what stays of the window and one token


def test_padding_alone_does_not_make_the_window_longer():
    """A batch in which nobody has anything left to say costs what it costs."""
    _, window = read_by_halves(
        column([1, 2, 3]).expand(-1, B), None, read, max_len=4, padding_token=PAD
    )
    for _ in range(50):
        padding = torch.full((1, B), PAD)
        _, window = read_by_halves(padding, window, read, max_len=4, padding_token=PAD)
        assert len(window.tokens) <= 8
    token = torch.full((1, B), 4)
    rows, _ = read_by_halves(token, window, read, max_len=4, padding_token=PAD)
    assert rows.flatten().tolist() == [4_03_02_01] * B


def test_one_token_needs_no_mask_unless_there_is_padding():
    masks = []

    def watch(tokens, positions, mask, past):
        masks.append(mask)
        return read(tokens, positions, mask, past)

    for padding_token in (None, PAD):
        _, window = read_by_halves(
            column([1, 2, 3]), None, watch, max_len=8, padding_token=padding_token
        )
        read_by_halves(column([4]), window, watch, max_len=8, padding_token=padding_token)
    assert masks[1] is None
    assert [tuple(mask.shape) for mask in masks if mask is not None] == [
        (3, 3, 1),
        (3, 3, 1),
        (1, 4, 1),
    ]


def test_a_window_is_a_value():
    _, window = read_by_halves(column([1, 2, 3]), None, read, max_len=4, padding_token=None)
    before = [x.clone() for x in (window.tokens, window.real, *window.layers[0])]
    for _ in range(2):
        read_by_halves(column([4, 5, 6]), window, read, max_len=4, padding_token=None)
    after = [window.tokens, window.real, *window.layers[0]]
    assert all(torch.equal(a, b) for a, b in zip(after, before, strict=True))


def test_a_window_has_no_gradients_but_the_rows_have():
    weight = torch.ones((), dtype=torch.float64, requires_grad=True)

    def scaled(tokens, positions, mask, past):
        rows, ((keys, values),) = read(tokens, positions, mask, past)
        return rows * weight, (KeysValues(keys, values * weight),)

    rows, window = read_by_halves(column([1, 2, 3]), None, scaled, max_len=2, padding_token=None)
    assert rows.requires_grad
    assert not window.layers[0].values.requires_grad


@pytest.mark.parametrize(
    ("window", "error", "message"),
    [
        ((torch.zeros(1),), TypeError, "`state` is a tuple; expected the state that the model"),
        (
            Window(torch.ones(3, 5, dtype=torch.long), torch.ones(3, 5).bool(), ()),
            ValueError,
            r"`state` is that of 5 sequences, and `tokens` has shape \[1, 2\]; expected B = 5",
        ),
        (
            Window(torch.ones(9, B, dtype=torch.long), torch.ones(9, B).bool(), ()),
            ValueError,
            "holds 9 tokens, and the context has room for max_len = 8",
        ),
    ],
)
def test_what_is_no_window(unhooked, window, error, message):
    module = unhooked("labml_nn.transformers.window")
    if isinstance(window, Window):
        window = module.Window(*window)
    tokens = torch.ones(1, B, dtype=torch.long)
    with pytest.raises(error, match=message):
        module.read_by_halves(tokens, window, read, max_len=8, padding_token=None)
