"""Style sheet, scripts and fonts: small, whole, the same every time, and of enough contrast."""

import io
import re
from itertools import product
from pathlib import Path

import pytest
from fontTools.ttLib import TTFont
from page_tools import NODE_MODULES, THEME

from pylit import fontcut
from pylit.page import fonts
from pylit.page.assets import SCRIPTS, assets, compact, style_sheet

if not (NODE_MODULES / "@fontsource-variable").is_dir():
    pytest.skip("npm packages are not installed", allow_module_level=True)


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="module")
def made(cache: Path) -> dict[str, bytes]:
    """Everything; the fonts are cut aside, as a build of a new clone does it."""
    with fonts.cut_aside(NODE_MODULES, cache) as wait:
        assert not list(cache.iterdir()), "it does not wait"
        wait()
        assert len(list((cache / "fonts").iterdir())) == len(fonts.FACES)
    return dict(assets(THEME, NODE_MODULES, cache))


def test_the_files(made: dict[str, bytes]):
    names = {"serif", "serif-italic", "sans", "mono"}
    expected = {f"assets/fonts/{name}.woff2" for name in names}
    expected |= {f"assets/{name}" for name in ("site.css", *SCRIPTS)}
    assert set(made) == expected


def test_the_second_build_takes_fonts_from_the_cache(
    made: dict[str, bytes], cache: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(fontcut, "cut", lambda *_, **__: pytest.fail("cut again"))
    assert dict(assets(THEME, NODE_MODULES, cache)) == made


def test_no_process_is_started_for_fonts_that_are_kept_or_cannot_be_kept(
    made: dict[str, bytes], cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(fonts.subprocess, "Popen", lambda *_, **__: pytest.fail("started"))
    for folder, kept in ((NODE_MODULES, cache), (NODE_MODULES, None), (tmp_path, cache)):
        with fonts.cut_aside(folder, kept) as wait:
            wait()


def test_a_build_that_ends_early_leaves_no_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    started = []
    real = fonts.subprocess.Popen

    def kept(*arguments, **options):
        started.append(real(*arguments, **options))
        return started[-1]

    monkeypatch.setattr(fonts.subprocess, "Popen", kept)
    with pytest.raises(KeyboardInterrupt), fonts.cut_aside(NODE_MODULES, tmp_path):
        raise KeyboardInterrupt
    (process,) = started
    assert process.returncode is not None


def test_fonts_hold_what_pages_are_written_with(made: dict[str, bytes]):
    for face in fonts.FACES:
        font = TTFont(io.BytesIO(made[f"assets/fonts/{face.name}.woff2"]))
        characters = set(font.getBestCmap())
        assert set(map(ord, "Aaz09{}é“”’–…×")) <= characters
        axes = (
            [(axis.minValue, axis.maxValue) for axis in font["fvar"].axes] if "fvar" in font else []
        )
        assert axes == ([face.weights] if face.weights[0] != face.weights[1] else [])


def test_stand_ins_are_as_wide_as_the_fonts(made: dict[str, bytes]):
    css = made["assets/site.css"].decode()
    sizes = re.findall(r"size-adjust:([\d.]+)%", css)
    assert len(sizes) == len(fonts.FACES)
    assert all(85 < float(size) < 125 for size in sizes)


def test_comments_and_indentation_go_and_code_stays():
    text = (
        "/**\n * Long.\n */\n"
        "const url = `https://x`; // kept: it is not on a line of its own\n"
        "  // gone\n\n"
        "  f(/\\/\\*/);\n"
    )
    kept = "const url = `https://x`; // kept: it is not on a line of its own\nf(/\\/\\*/);\n"
    assert compact(text) == kept


def test_no_file_of_the_theme_is_long():
    long = {p.name: n for p in THEME.rglob("*.*") if (n := len(p.read_text().splitlines())) > 250}
    assert long == {}


def test_style_sheets_ask_for_nothing_outside(made: dict[str, bytes]):
    assert not re.search(rb"url\([\"']?(https?:|//)", made["assets/site.css"])
    assert b"@import" not in made["assets/site.css"]


COLOURS = dict(re.findall(r"--(\w+): light-dark\((#\w+,#\w+)\)", style_sheet(THEME)))
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


def test_contrast_of_known_pairs():
    assert contrast("#ffffff", "#000000") == pytest.approx(21)
    assert contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.005)


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
