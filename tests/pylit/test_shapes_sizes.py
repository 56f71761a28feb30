"""Sizes for axes, names for sizes, and the texts that runs become."""

import itertools

import pytest

from pylit.runs.shapes.lines import Axes
from pylit.runs.shapes.sizes import UNKNOWN, Namer, assign, distinct_shapes, evaluate
from pylit.runs.shapes.trace import read_traces
from pylit.runs.shapes.tracer import NONE, TensorRecord

LETTERS = ["T", "S", "B", "H", "K", "F", "V", "L"]
SIZES = assign([*LETTERS, "C"], {"C": "H*K"})
NAMES = Namer(*SIZES)


def shown(text):
    """The name of the size that an expression gives in both runs."""
    return NAMES.name(*(evaluate(text, sizes) for sizes in SIZES))


@pytest.mark.parametrize("count", range(1, 9))
@pytest.mark.parametrize("derived", [{}, {"C": "H*K"}])
def test_axes_get_sizes_that_can_be_told_apart(count, derived):
    axes = ["H", "K", *LETTERS[:3], "F", "V", "L"][:count]
    made = derived if count >= 2 else {}
    first, second = assign([*axes, *made], made)
    assert len(set(first.values())) == len(set(second.values())) == len(first)
    assert all(first[axis] != second[axis] for axis in first)
    products = [
        (first[a] * first[b], second[a] * second[b])
        for a, b in itertools.combinations_with_replacement(first, 2)
    ]
    assert len(set(products)) == len(products)


def test_a_small_axis_is_small_unless_a_run_asks_for_it_by_keyword():
    text = "def trace_a(T, L, H, K, C): ...\n\n\ndef trace_b(T, H, K, C, *, L): ...\n"
    axes = Axes(derived={"C": "H*K"}, small=frozenset("L"))
    usual, larger = read_traces(text, "traces/m.py", axes)[0]
    assert {sizes["L"] for sizes in usual.sizes} == {3, 5}
    assert {sizes["L"] for sizes in larger.sizes} != {3, 5}


@pytest.mark.parametrize(
    ("size", "name"),
    [
        *(("T", "T"), ("C", "C"), ("H*K", "C"), ("H*F", "H·F"), ("T*T", "T²"), ("2*C", "2C")),
        *(("S+T", "T+S"), ("T-1", "T−1"), ("L+1", "L+1"), ("H*S*B", "H·S·B"), ("T-T+3", "3")),
        *(("(C+1)//2", "⌈C/2⌉"), ("C//2", "⌊C/2⌋"), ("V*V+T*T+17", UNKNOWN)),
    ],
)
def test_names_of_sizes(size, name):
    assert shown(size) == name


def test_one_run_alone_would_mistake_a_product_for_an_axis():
    """35 is T·B or C by the first run; the second says which."""
    first, second = {"T": 5, "B": 7, "C": 35}, {"T": 7, "B": 11, "C": 13}
    known = Namer(first, second)
    assert known.name(35, 77) == "T·B"
    assert known.name(35, 13) == "C"
    assert known.name(35, 35) == "35"


def test_expressions():
    sizes = {"T": 5, "S": 7, "H": 3, "K": 11}
    values = {"H·K": 33, "S + T": 12, "⌈K/2⌉": 6, "K//2": 5}
    values |= dict.fromkeys(["T/0", "unknown+1", "f(T)", ""])
    assert {text: evaluate(text, sizes) for text in values} == values


def sized(*dims, path="", dtype="float32", times=None):
    return (TensorRecord(path, dims, dtype, times),)


def texts(make):
    """The text of the records that `make` gives of the sizes of the axes, in two runs."""
    first, second = (make(**sizes) for sizes in SIZES)
    parts = distinct_shapes(first, second, NAMES)
    return [" ".join(filter(None, part)) for each in parts for part in each]


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        # One by one, in the order in which they came.
        (lambda T, S, **_: [sized(T), sized(S)], ["[T]", "[S]"]),
        (lambda T, **_: [NONE, sized(T)], ["None", "[T]"]),
        (lambda **_: [sized()], ["scalar"]),
        # Steps of a loop become a range.
        (lambda T, B, **_: [sized(n, B) for n in range(1, T + 1)], ["[1…T, B]"]),
        (lambda T, **_: [sized(n, n) for n in range(2, T)], ["[2…T−1, 2…T−1]"]),
        (lambda T, B, **_: [sized(B, times=n) for n in range(T)], ["0…T−1 × [B]"]),
    ],
)
def test_texts_of_the_shapes_that_runs_have_made(make, expected):
    assert texts(make) == expected
