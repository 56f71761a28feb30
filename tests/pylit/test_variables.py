"""Where a name of a table of symbols stands in the code, and why it does not."""

import re
from pathlib import Path

import pytest
from linked_sources import Project

from pylit.source.names import Variables

LIBRARY = """
from typing import NamedTuple
from torch import nn
class Pair(NamedTuple):
    keys: int
    values: int
class Head(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(3, 5)
class Loose(Unknown):
    def __init__(self): self.linear = 1
"""
CODE = '''
"""Not here: query, keys."""
from torch import nn
from lib import Head, Loose, Pair
SIZE = 3

class Attention(nn.Module):
    scale: float
    def __init__(self, bias):
        super().__init__()
        self.query = Head()
        self.other = Loose()
        self.scale = SIZE  # scale
    def attend(self, query, key):
        scores = [query @ k for k in key]
        best = lambda query: query.max()
        return best(scores), self.scale
    async def forward(self, *, query, past: Pair, **rest):
        for step, (query, key) in enumerate(rest):
            past.keys[step] += key
        if (n := len(past.keys)) and "query" in f"{query}":
            print("größe", query=query, keys=n)
        return self.attend(self.query(query), self.query.linear.bias)
    def loss(self, x):
        return self.loss(x) + self.query.linear.weight

class Deep(Attention):
    def loss(self, x): return self.scale
'''
PROJECT = Project({"lib.py": LIBRARY, "m.py": CODE})
VARIABLES = Variables(PROJECT.resolver("m.py"))
LINES = PROJECT.modules["m.py"].source.lines


def places(name, within=""):
    """The lines on which a name stands, each with the name in guillemets."""
    found = VARIABLES.find(tuple(name.split(".")), within)
    assert not found.fault
    marked = {}
    for line, offset in sorted(found.places, reverse=True):
        text = marked.get(line, LINES[line - 1])
        marked[line] = text[:offset] + re.sub(r"\w+", r"«\g<0>»", text[offset:], count=1)
    return [text.strip() for _, text in sorted(marked.items())]


def test_a_name_stands_in_the_lines_that_follow_it():
    written = (Path(__file__).parent / "golden/variables.txt").read_text(encoding="utf-8")
    shown = []
    for line in re.findall(r"^(?:#.*|\S.*|)$", written, re.MULTILINE):
        shown.append(line)
        if line and not line.startswith("#"):
            shown += [f"    {place}" for place in places(*line.split(" of "))]
    assert shown == written.split("\n")


@pytest.mark.parametrize(
    ("name", "within", "fault", "near"),
    [
        ("scores", "forward", "`forward` has no `scores`", "rest"),
        ("keyz", "attend", "`attend` has no `keyz`", "key"),
        ("query", "atend", "`m` has no function or class `atend`", "attend"),
    ],
)
def test_what_is_not_there(name, within, fault, near):
    found = VARIABLES.find((name,), within)
    assert (found.fault, found.places) == (fault, frozenset())
    assert found.hint == f"did you mean `{near}`?"
