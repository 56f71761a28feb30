"""What a line shows, for each kind of thing that a line can do to a tensor."""

from pathlib import Path

from shape_tools import HEAD, shapes_of, told

FIRST = HEAD.count("\n") + 1


def line_of(code: str, text: str) -> int:
    """The number of a line of a module."""
    return FIRST + next(i for i, line in enumerate(code.split("\n")) if text in line)


def test_tuples_of_targets_and_the_rest_of_them(tmp_path: Path):
    code = """\
    def f(x):
        (a, b), c = (x, x[0]), 3
        first, *others = x.unbind(0)
        return a, b
    """
    assert told(code, "def trace(T, B): f(torch.zeros(T, B))", tmp_path) == {
        "def f(x):": "x [T, B]",
        "(a, b), c = (x, x[0]), 3": "a [T, B] b [B]",
        "first, *others = x.unbind(0)": "first [B] others T−1 × [B]",
        "return a, b": "returns [T, B], [B]",
    }


def test_changes_in_place(tmp_path: Path):
    code = """\
    def f(x, out):
        x += 1
        x[0] = 2
        x.mul_(3)
        torch.add(x, 1, out=out)
        nn.init.zeros_(x)
        x.sum()
        y = x[0].mul_(2)
    """
    trace = "def trace(T, B): f(torch.zeros(T, B), torch.zeros(T, B))"
    assert told(code, trace, tmp_path) == {
        "def f(x, out):": "x [T, B] out [T, B]",
        "x += 1": "x [T, B]",
        "x[0] = 2": "x [T, B]",
        "x.mul_(3)": "x [T, B]",
        "torch.add(x, 1, out=out)": "out [T, B]",
        "nn.init.zeros_(x)": "x [T, B]",
        "y = x[0].mul_(2)": "y [B]",
    }


def test_loops_comprehensions_and_lambdas(tmp_path: Path):
    code = """\
    def f(x):
        for i, row in enumerate(x):
            row = row.unsqueeze(0)
        lengths = [len(part) for part in x.unbind(1)]
        every = {i: half.shape for i, half in enumerate(x.split(1))}
        total = sum(one.sum() for one in x)
        apply = lambda z: z.sum(0)
        return apply(x)
    """
    assert told(code, "def trace(T, B): f(torch.zeros(T, B))", tmp_path) == {
        "def f(x):": "x [T, B]",
        "for i, row in enumerate(x):": "row [B]",
        "row = row.unsqueeze(0)": "row [1, B]",
        "lengths = [len(part) for part in x.unbind(1)]": "part [T]",
        "every = {i: half.shape for i, half in enumerate(x.split(1))}": "half [1, B]",
        "total = sum(one.sum() for one in x)": "one [B] total scalar",
        "apply = lambda z: z.sum(0)": "z [T, B] returns [B]",
        "return apply(x)": "returns [B]",
    }


def test_what_an_exception_cut_short_has_made_nothing(tmp_path: Path):
    code = """\
    def f(x):
        try:
            x = x.view(-1, 10_007)
        except RuntimeError:
            x = x[None]
        return x
    """
    assert told(code, "def trace(T, B): f(torch.zeros(T, B))", tmp_path) == {
        "def f(x):": "x [T, B]",
        "x = x[None]": "x [1, T, B]",
        "return x": "returns [1, T, B]",
    }


def test_values_that_hold_tensors(tmp_path: Path):
    code = """\
    from dataclasses import dataclass
    from typing import NamedTuple

    class Pair(NamedTuple):
        keys: Tensor
        values: Tensor

    @dataclass
    class State:
        pair: Pair
        length: int

    def f(x):
        pair = Pair(x, x)
        layers = (pair, pair)
        return State(pair, 1), x[0]
    """
    assert told(code, "def trace(T, B): f(torch.zeros(T, B))", tmp_path) == {
        "def f(x):": "x [T, B]",
        "pair = Pair(x, x)": ".keys, .values [T, B]",
        "layers = (pair, pair)": ".keys, .values 2 × [T, B]",
        "return State(pair, 1), x[0]": "returns .pair.keys, .pair.values [T, B], [B]",
    }


def test_a_signature_is_told_only_where_it_says_something_else(tmp_path: Path):
    code = """\
    def f(
        x: Float[Tensor, "T B"],
        mask: Bool[Tensor, "T #B"],
        ids: Int[Tensor, "T"],
        any: Float[Tensor, "*axes B"],
        n: int | None = None,
        other: Float[Tensor, "T B"] | None = None,
    ) -> Float[Tensor, "T B"]:
        return x
    """
    trace = """
    def trace(T, B):
        f(torch.zeros(T, B), torch.ones(T, 1) > 0, torch.arange(T), torch.zeros(T, B))
    """
    assert told(code, trace, tmp_path) == {
        'mask: Bool[Tensor, "T #B"],': "mask [T, 1] bool",
        'any: Float[Tensor, "*axes B"],': "any [T, B]",
        'other: Float[Tensor, "T B"] | None = None,': "other None",
        "return x": "returns [T, B]",
    }


def test_lines_that_no_run_came_to(tmp_path: Path):
    code = '''\
def f(x):
    """Says nothing."""
    if x.shape[0] == 0:
        raise ValueError(
            "empty"
        )
    elif x.dim() > 5:
        y = 1
    else:
        y = 2
    return y


class C:
    a = 1

    def never(self):
        return 1


def stub(x): ...
'''
    shapes = shapes_of(code, "def trace(T): f(torch.zeros(T))", tmp_path)
    lines = (HEAD + code).split("\n")
    assert [lines[n - 1].strip() for n in sorted(shapes.unreached)] == [
        "raise ValueError(",
        '"empty"',
        ")",
        "y = 1",
        "return 1",
    ]
    assert line_of(code, "y = 2") not in shapes.unreached


def test_properties_are_not_asked(tmp_path: Path):
    code = """\
    class C:
        asked = 0

        @property
        def grows(self):
            C.asked += 1
            return torch.zeros(1)

    def f(c):
        other = c.grows if False else 1
        assert C.asked == 0
    """
    assert told(code, "def trace(T): f(C())", tmp_path) == {}
