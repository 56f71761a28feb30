"""Style sheet, scripts and fonts: small, whole, the same every time, and of enough contrast."""

import io
import re
from itertools import product
from pathlib import Path

import pytest
from fontTools.ttLib import TTFont

from pylit import fonts
from pylit.assets import SCRIPTS, assets, style_sheet
from pylit.node.process import MODULES
from pylit.outcome import THEME

if not (MODULES / "@fontsource-variable").is_dir():
    pytest.skip("npm packages are not installed", allow_module_level=True)


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="module")
def made(cache: Path) -> dict[str, bytes]:
    return dict(assets(THEME, MODULES, cache))


def test_the_files(made: dict[str, bytes]):
    names = {"serif", "serif-italic", "sans", "mono"}
    expected = {f"assets/fonts/{name}.woff2" for name in names}
    expected |= {f"assets/{name}" for name in ("site.css", *SCRIPTS)}
    assert set(made) == expected


def test_the_second_build_takes_fonts_from_the_cache(
    made: dict[str, bytes], cache: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(fonts, "cut", lambda *_, **__: pytest.fail("cut again"))
    assert dict(assets(THEME, MODULES, cache)) == made


def test_fonts_hold_what_pages_are_written_with(made: dict[str, bytes]):
    for face in fonts.FACES:
        font = TTFont(io.BytesIO(made[f"assets/fonts/{face.name}.woff2"]))
        characters = set(font.getBestCmap())
        assert set(map(ord, "Aaz09{}é“”’–…×")) <= characters
        axes = (
            [(axis.minValue, axis.maxValue) for axis in font["fvar"].axes] if "fvar" in font else []
        )
        assert axes == ([face.weights] if face.weights[0] != face.weights[1] else [])


def test_style_sheets_ask_for_nothing_outside(made: dict[str, bytes]):
    assert not re.search(rb"url\([\"']?(https?:|//)", made["assets/site.css"])
    assert b"@import" not in made["assets/site.css"]


COLOURS = dict(re.findall(r"--(\w+):light-dark\((#\w+,#\w+)\)", style_sheet(THEME)))
#: Where each colour of text stands.
GROUNDS = {
    "page": "text muted link good bad number definition line",
    "code": "text muted link keyword string number definition builtin line shape",
    "chip": "text muted link",
    "mark": "text muted link",
    "lit": "text muted link definition builtin",
}


def luminance(colour: str) -> float:
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    """As WCAG 2 defines it."""
    high, low = sorted([luminance(one), luminance(other)], reverse=True)
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("theme", [0, 1], ids=["light", "dark"])
def test_every_colour_of_text_stands_out_from_its_ground(theme: int):
    found = {name: pair.split(",")[theme] for name, pair in COLOURS.items()}
    low = {}
    for ground, names in GROUNDS.items():
        for name, paper in product(names.split(), [found[ground]]):
            ratio = contrast(found[name], paper)
            if ratio < 4.75:
                low[name, ground] = round(ratio, 2)
    assert low == {}
