"""A module with everything in it, and what its page shows: the files in ``golden/shapes``."""

from pathlib import Path

from shape_tools import AXES, module_of, plain, run

from pylit.shapes.check import check
from pylit.shapes.lines import module_lines
from pylit.shapes.plan import read_plan

GOLDEN = Path(__file__).with_name("golden") / "shapes"


def test_a_run_becomes_the_golden_listing(tmp_path: Path):
    source = (GOLDEN / "memory.py").read_text(encoding="utf-8")
    module = module_of(source, tmp_path)
    plan = read_plan(source)
    traced = run(module, (GOLDEN / "memory.trace.py").read_text(encoding="utf-8"))
    shapes = module_lines(source, plan, traced)
    listing = []
    for number, line in enumerate(source.split("\n"), start=1):
        rail = ":" if number in shapes.unreached else " "
        chip = plain(shapes.chips.get(number, ""))
        listing.append(f"{rail}{line:92}{chip}".rstrip())
    assert "\n".join(listing).rstrip() + "\n" == (GOLDEN / "memory.txt").read_text(encoding="utf-8")
    assert check(module, plan, traced, AXES) == ()
