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


def shown(text: str) -> str:
    """The name of the size that an expression gives in both runs."""
    first, second = (evaluate(text, sizes) for sizes in SIZES)
    assert first is not None and second is not None
    return NAMES.name(first, second)


@pytest.mark.parametrize("count", range(1, 9))
@pytest.mark.parametrize("derived", [{}, {"C": "H*K"}])
def test_axes_get_sizes_that_can_be_told_apart(count: int, derived: dict[str, str]):
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
        ("T", "T"),
        ("C", "C"),
        ("H*K", "C"),
        ("H*F", "H·F"),
        ("T*T", "T²"),
        ("2*C", "2C"),
        ("S+T", "T+S"),
        ("T-1", "T−1"),
        ("L+1", "L+1"),
        ("H*S*B", "H·S·B"),
        ("(C+1)//2", "⌈C/2⌉"),
        ("C//2", "⌊C/2⌋"),
        ("T-T+3", "3"),
        ("V*V+T*T+17", UNKNOWN),
    ],
)
def test_names_of_sizes(size: str, name: str):
    assert shown(size) == name


def test_one_run_alone_would_mistake_a_product_for_an_axis():
    """35 is T·B or C by the first run; the second says which."""
    first, second = {"T": 5, "B": 7, "C": 35}, {"T": 7, "B": 11, "C": 13}
    known = Namer(first, second)
    assert known.name(35, 77) == "T·B"
    assert known.name(35, 13) == "C"
    assert known.name(35, 35) == "35"


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("H·K", 33),
        ("S + T", 12),
        ("⌈K/2⌉", 6),
        ("K//2", 5),
        ("T/0", None),
        ("unknown+1", None),
        ("f(T)", None),
        ("", None),
    ],
)
def test_expressions(text: str, value: int | None):
    assert evaluate(text, {"T": 5, "S": 7, "H": 3, "K": 11}) == value


def sized(*dims: int, path: str = "", dtype: str = "float32", times: int | None = None):
    return (TensorRecord(path, dims, dtype, times),)


def texts(first, second) -> list[str]:
    return [
        " ".join(filter(None, part))
        for parts in distinct_shapes(first, second, NAMES)
        for part in parts
    ]


def size(letter: str) -> tuple[int, int]:
    return SIZES[0][letter], SIZES[1][letter]


def test_forms_are_named_one_by_one_in_the_order_they_came():
    (t1, t2), (s1, s2) = size("T"), size("S")
    assert texts([sized(t1), sized(s1)], [sized(t2), sized(s2)]) == ["[T]", "[S]"]
    assert texts([NONE, sized(t1)], [NONE, sized(t2)]) == ["None", "[T]"]
    assert texts([sized()], [sized()]) == ["scalar"]


def test_steps_of_a_loop_become_a_range():
    (t1, t2), (b1, b2) = size("T"), size("B")
    ours = [sized(n, b1) for n in range(1, t1 + 1)]
    theirs = [sized(n, b2) for n in range(1, t2 + 1)]
    assert texts(ours, theirs) == ["[1…T, B]"]
    both = [sized(n, n) for n in range(2, t1)], [sized(n, n) for n in range(2, t2)]
    assert texts(*both) == ["[2…T−1, 2…T−1]"]
    listed = [sized(b1, times=n) for n in range(t1)], [sized(b2, times=n) for n in range(t2)]
    assert texts(*listed) == ["0…T−1 × [B]"]
