"""An exercise whose answer prints a number: the one that its page says."""

import importlib
import re
from pathlib import Path

FOLDER = Path(__file__).parents[3] / "labml_nn" / "transformers"


def test_positions_that_look_alike(capsys):
    page = (FOLDER / "positional_encoding.py").read_text(encoding="utf-8")
    block = re.findall(r"^# ```python\n(.*?)^# ```$", page, re.M | re.S)[0]
    library = vars(importlib.import_module("labml_nn.transformers.positional_encoding"))
    exec(re.sub(r"^# ?", "", block, flags=re.M), dict(library))
    assert re.fullmatch(r"tensor\(6\.0\d+e-05, dtype=torch\.float64\)\n", capsys.readouterr().out)
