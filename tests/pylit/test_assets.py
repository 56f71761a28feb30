"""Style sheet, scripts and fonts: small, whole, the same every time, and of enough contrast."""

import io
import re
from itertools import product
from pathlib import Path

import pytest
from fontTools.ttLib import TTFont

from pylit.node.process import MODULES
from pylit.outputs import fonts
from pylit.outputs.assets import SCRIPTS, assets, contrast, style_sheet
from pylit.site.options import THEME

if not (MODULES / "@fontsource-variable").is_dir():
    pytest.skip("npm packages are not installed", allow_module_level=True)


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="module")
def made(cache: Path) -> dict[str, bytes]:
    return dict(assets(THEME, Path(), MODULES, cache))


def test_the_files_are_the_same_with_fonts_from_the_cache(made, cache, monkeypatch):
    names = [f"fonts/{name}.woff2" for name in ("serif", "serif-italic", "sans", "mono")]
    names += ["site.css", "replay.css", "compare.css", *SCRIPTS]
    assert set(made) == {f"assets/{name}" for name in names}
    monkeypatch.setattr(fonts, "_cut", lambda *_, **__: pytest.fail("cut again"))
    assert dict(assets(THEME, Path(), MODULES, cache)) == made


def test_a_site_adds_scripts_of_its_figures(made: dict[str, bytes], cache: Path, tmp_path: Path):
    (tmp_path / "figures").mkdir()
    (tmp_path / "figures/bars.js").write_text("// Bars.\nstages.bars = () => 1;\n")
    own = dict(assets(THEME, tmp_path, MODULES, cache))
    assert {name for name in made if own[name] != made[name]} == {"assets/figures.js"}
    assert b"stages.bars = () => 1;\n})();" in own["assets/figures.js"]


def test_fonts_hold_what_pages_are_written_with(made: dict[str, bytes]):
    for face in fonts.FONTS:
        font = TTFont(io.BytesIO(made[f"assets/fonts/{face.name}"]))
        assert set(map(ord, "Aaz09{}é“”’–…×")) <= set(font.getBestCmap())
        axes = font["fvar"].axes if "fvar" in font else []
        weights = [face.weights] if face.weights[0] != face.weights[1] else []
        assert [(axis.minValue, axis.maxValue) for axis in axes] == weights


#: How often letters occur in English, per thousand characters of text.
FREQUENCY = dict(zip(" etaoinsrhldcumfpgwybvkxjqz", [
    183, 102, 75, 65, 62, 57, 57, 53, 50, 50, 33, 33, 22, 23, 20, 20, 15, 16, 17, 14, 13, 8, 6,
    1, 1, 1, 1,
], strict=True))  # fmt: skip
#: The mean width of these letters in fonts that readers have, in em.
WIDTHS = {
    "Georgia": 0.4447, "Gelasio": 0.4447, "Times New Roman": 0.4003, "Liberation Serif": 0.4003,
    "DejaVu Serif": 0.515, "Arial": 0.4423, "Helvetica": 0.4423, "Liberation Sans": 0.4423,
    "Roboto": 0.4406, "Noto Sans": 0.4698, "DejaVu Sans": 0.5046, "Menlo": 0.602,
    "Consolas": 0.5498, "DejaVu Sans Mono": 0.602, "Liberation Mono": 0.6, "Noto Sans Mono": 0.6,
}  # fmt: skip


def test_stand_ins_are_as_wide_and_as_high_as_their_fonts(made: dict[str, bytes]):
    rules = re.findall(r"@font-face \{(.*?)\}", (THEME / "fonts.css").read_text(), re.DOTALL)
    stood_in = 0
    for rule in rules:
        if found := re.search(r"fonts/([\w-]+\.woff2)", rule):
            font = TTFont(io.BytesIO(made[f"assets/{found[0]}"]))
            glyphs, unit = font.getBestCmap(), font["head"].unitsPerEm
            widths = [font["hmtx"][glyphs[ord(letter)]][0] * n for letter, n in FREQUENCY.items()]
            mean = sum(widths) / sum(FREQUENCY.values()) / unit
            heights = [font["hhea"].ascent / unit, -font["hhea"].descent / unit]
            continue
        scale, *overrides = (float(number) / 100 for number in re.findall(r"([\d.]+)%", rule))
        assert [scale * each for each in overrides] == pytest.approx(heights, abs=0.001)
        for stand_in in re.findall(r'local\("(.*?)"\)', rule):
            assert scale * WIDTHS[stand_in] == pytest.approx(mean, abs=0.0005)
            stood_in += 1
    assert stood_in == 5 + 5 + 6 + 5


def test_style_sheets_ask_for_nothing_outside(made: dict[str, bytes]):
    assert not re.search(rb"url\([\"']?(https?:|//)", made["assets/site.css"])
    assert b"@import" not in made["assets/site.css"]


COLOURS = re.findall(
    r"--(\w+):light-dark\((#\w+),(#\w+)\)", style_sheet(sorted(THEME.glob("css/*.css")))
)
#: Where each colour of text stands.
GROUNDS = {
    "page": "text muted link good bad number definition line keyword",
    "code": "text muted link keyword string number definition builtin line shape",
    "chip": "text muted link",
    "mark": "text muted link",
    "lit": "text muted link definition builtin",
}


#: The colours of tones, and the strongest ground that `grid` gives a cell with words of a colour:
#: those in the background are muted.
TONES = re.findall(r"\.t\d\{color:var\(--(\w+)\)\}", style_sheet(THEME.glob("css/58-*.css")))
ON_CELLS = {"text": 0.4, "muted": 0.2}


@pytest.mark.parametrize("theme", [1, 2], ids=["light", "dark"])
def test_text_and_numbers_stand_out_from_their_grounds(theme: int):
    colours = {found[0]: found[theme] for found in COLOURS}
    for ground, names in GROUNDS.items():
        for name in names.split():
            assert contrast(colours[name], colours[ground]) >= 4.75, (name, ground)
    assert len(TONES) == 7
    for tone, (words, strength) in product(TONES, ON_CELLS.items()):
        pairs = zip(*(bytes.fromhex(colours[c][1:]) for c in ("page", tone)), strict=True)
        cell = "#" + bytes(round(p + (t - p) * strength) for p, t in pairs).hex()
        assert contrast(colours[words], cell) >= 4.5, (words, tone)


def test_what_scripts_say_can_be_translated():
    """Each sentence is a literal, which `_` gets with a value for each of its places."""
    docs = THEME.parents[1] / "docs_src"
    scripts = [*THEME.glob("js/*/*.js"), *docs.glob("live/*.js"), *docs.glob("figures/*.js")]
    text = "".join(path.read_text(encoding="utf-8") for path in scripts)
    said = re.findall(r'(?<!\w)_\((?:("(?:[^"\\]|\\.)*")|.*)', text)
    assert len(said) > 300
    for sentence in said:
        places = set(re.findall(r"\{(\w*)\}", sentence))
        assert sentence and places == {str(place) for place in range(len(places))}, sentence
