"""What a line shows, for each kind of thing that a line can do to a tensor.

The comment behind a line is its chip; behind one that no run came to it is NEVER, and there is none
where there is nothing to say.
"""

from shape_tools import HEAD, plain, shapes_of

CODE = '''\
from dataclasses import dataclass
from typing import NamedTuple

def tuples(x):  # x [T, B]
    (a, b), c = (x, x[0]), 3  # a [T, B] b [B]
    first, *others = x.unbind(0)  # first [B] others T−1 × [B]
    return a, b  # returns [T, B], [B]

def changes(x, out):  # x [T, B] out [T, B]
    x += 1  # x [T, B]
    x[0] = 2  # x [T, B]
    x.mul_(3)  # x [T, B]
    torch.add(x, 1, out=out)  # out [T, B]
    nn.init.zeros_(x)  # x [T, B]
    x.sum()
    y = x[0].mul_(2)  # y [B]

def loops(x):  # x [T, B]
    for i, row in enumerate(x):  # row [B]
        row = row.unsqueeze(0)  # row [1, B]
    lengths = [len(part) for part in x.unbind(1)]  # part [T]
    every = {i: half.shape for i, half in enumerate(x.split(1))}  # half [1, B]
    longer = [  # longer B × scalar
        (column * 2).sum()
        for column in x.unbind(1)  # column [T]
        if len(column) > 1
    ]
    total = sum(one.sum() for one in x)  # one [B] total scalar
    apply = lambda z: z.sum(0)  # z [T, B] returns [B]
    return apply(x)  # returns [B]

def cut_short(x):  # x [T, B]
    try:
        x = x.view(-1, 10_007)
    except RuntimeError:
        x = x[None]  # x [1, T, B]
    return x  # returns [1, T, B]

class Pair(NamedTuple):
    keys: Tensor
    values: Tensor

@dataclass
class State:
    pair: Pair
    length: int

def holders(x):  # x [T, B]
    pair = Pair(x, x)  # .keys, .values [T, B]
    layers = (pair, pair)  # .keys, .values 2 × [T, B]
    return State(pair, 1), x[0]  # returns .pair.keys, .pair.values [T, B], [B]

def declared(
    x: Float[Tensor, "T B"],
    mask: Bool[Tensor, "T #B"],  # mask [T, 1] bool
    ids: Int[Tensor, "T"],
    any: Float[Tensor, "*axes B"],  # any [T, B]
    n: int | None = None,
    other: Float[Tensor, "T B"] | None = None,  # other None
) -> Float[Tensor, "T B"]:
    return x  # returns [T, B]

def reached(t):  # t [T]
    """Says nothing."""
    if t.shape[0] == 0:
        raise ValueError(  # NEVER
            "empty"  # NEVER
        )  # NEVER
    elif t.dim() > 5:
        y = 1  # NEVER
    else:
        y = 2
    while True:
        global unused
        size: int
        break
    return y

class Never:
    a = 1

    def never(self):
        return 1  # NEVER

def stub(x): ...

class Property:
    asked = 0

    @property
    def grows(self):
        Property.asked += 1  # NEVER
        return torch.zeros(1)  # NEVER

def properties(c):
    other = c.grows if False else 1
    assert Property.asked == 0
'''
RUN = """
def trace(T, B):
    x = torch.zeros(T, B)
    changes(x.clone(), x.clone())
    for function in (tuples, loops, cut_short, holders):
        function(x)
    declared(x, torch.ones(T, 1) > 0, torch.arange(T), x)
    reached(torch.zeros(T))
    properties(Property())
"""


def test_each_line_shows_what_it_made(tmp_path):
    shapes = shapes_of(CODE, RUN, tmp_path)
    shown = {line: plain(chip) for line, chip in shapes.chips.items()}
    shown |= dict.fromkeys(shapes.unreached, "NEVER")
    listing = []
    for number, line in enumerate((HEAD + CODE).split("\n"), start=1):
        chip = shown.get(number, "")
        listing.append(line.split("  # ")[0] + (f"  # {chip}" if chip else ""))
    assert "\n".join(listing) == HEAD + CODE
