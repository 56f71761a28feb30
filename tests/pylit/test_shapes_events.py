"""What a line shows, for each kind of thing that a line can do to a tensor.

In the golden file, the comment behind a line is its chip. Behind a line that no run came to, it is
NEVER. There is no comment where there is nothing to say.
"""

from pathlib import Path

from shape_tools import HEAD, plain, shapes_of

CODE = (Path(__file__).parent / "golden/shapes.txt").read_text(encoding="utf-8")
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
