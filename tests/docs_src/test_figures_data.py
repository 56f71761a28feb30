"""The figures of the site: what their runs gave, and that every one is shown somewhere."""

import re

import pytest
from drawn_figures import NAMES, ROOT, draw, load, made_anew, run

from pylit.figures.draw import Figure, Table


def test_every_figure_is_on_a_page():
    folders = {"labml_nn": "*.py", "docs_src/pages": "*.md", "docs_src/notes": "*.md"}
    texts = [
        path.read_text(encoding="utf-8")
        for folder, kind in folders.items()
        for path in (ROOT / folder).rglob(kind)
    ]
    assert set(NAMES) <= set(re.findall(r"\((?:figure|table):([\w.]+)", "".join(texts)))


@pytest.mark.parametrize("name", NAMES)
def test_a_figure_is_small_and_fits_on_a_phone_and_is_the_same_every_time(name: str):
    figure, again = run(name), made_anew(name)
    if isinstance(figure, Table):
        assert len(figure.cells()) < 10_000
        assert isinstance(again, Table) and figure.cells() == again.cells()
        return
    # Wider ones have large letters; in the browser each letter is measured at each width.
    assert all(panel.width <= 600 for panel in figure.panels)
    picture = figure.picture()
    assert len(figure.alt) > 60 and len(picture) + len(figure.below()) < 20_000
    assert isinstance(again, Figure) and picture == again.picture()
    if figure.table is not None:
        assert {len(row) for row in figure.table.rows} == {len(figure.table.head)}


def rows(name: str) -> list[list[str]]:
    """The table that stands under a figure."""
    table = draw(name).table
    assert table is not None
    return table.rows


def test_chains_are_as_long_as_the_page_says():
    """L layers in a transformer, L times T in one with feedback."""
    assert rows("chains.unrolled") == [[str(t), "2", str(2 * t)] for t in range(1, 6)]


def test_masks_are_those_of_the_page():
    assert re.findall(r"(\d+) squares", draw("masks.three").alt) == ["21", "24", "18"]
    # Three positions through one layer, and two more through each other one.
    assert re.findall(r"\d", draw("masks.windows").alt) == ["3", "5", "7"]


def test_heads_look_where_they_were_told_to():
    for row, back in zip(rows("heads.by_hand"), (0, 1, 4), strict=True):
        weights = [float(cell) for cell in row[1:]]
        assert weights.index(max(weights)) == back
        assert max(weights) > 0.6


def test_gradients_vanish_as_the_table_of_the_page_says():
    lengths = {row[0]: [float(cell) for cell in row[1:]] for row in rows("elman.vanishing")}
    assert lengths["0.5"][2] < 1e-9
    assert 1e-4 < lengths["1.0"][2] < 1e-2
    assert 0.1 < lengths["1.5"][3] < 10
    assert lengths["2.0"][3] > 100
    arrived = [float(cell) for _, cell in rows("elman.unrolled")]
    assert arrived == sorted(arrived)
    assert arrived[-1] == 1


def test_counts_are_those_of_the_formulas():
    counts = load("counts")
    V, L, C, F, T = 65, 4, 128, 512, 256
    config = counts.AutoregressiveConfig(n_vocab=V)
    parameters, work = counts._parameters(config), counts._work(config)
    assert parameters["attention, maps"] == L * 4 * (C * C + C)
    assert parameters["feed-forward"] == L * (2 * C * F + F + C)
    assert sum(parameters.values()) == 801_729
    # A product of matrices takes two FLOP for each number of a matrix and each row.
    assert work["attention, maps"] == 2 * L * 4 * C * C
    assert work["attention, weights"] == 2 * L * 2 * T * C
    assert work["feed-forward"] == 2 * L * 2 * C * F
    assert work["tokens in and out"] == 2 * V * C


def test_counts_of_two_halves_are_those_of_the_paper():
    found = {row[0]: row[1:] for row in rows("counts.encoder_decoder")}
    assert found["encoder self-attention"][0] == found["cross-attention"][0] == "6.3 M"
    assert found["encoder feed-forward"][0] == "12.6 M"
    # 4 maps and 2 products with weights, 6 layers, 32 rows, 2 FLOP each.
    attention = 6 * 32 * 2 * (4 * 512**2 + 2 * 32 * 512)
    assert found["encoder self-attention"][1] == f"{attention / 1e6:.3g} M"
    assert found["generator"][1] == f"{32 * 2 * 512 * 37_000 / 1e9:.3g} G"
