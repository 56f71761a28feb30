"""The drawing: well-formed, labelled, escaped, the same every time."""

import re
import xml.etree.ElementTree as ET

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from labml_nn.attention_maps import AttentionMap, picture, save_picture
from labml_nn.attention_maps.picture import CHOSEN, DARK, LIGHT, style, visible

T, S, B, H = 5, 7, 2, 3
SVG = "{http://www.w3.org/2000/svg}"


def build(size=(T, S, B, H), **fields):
    weights = torch.randn(size, generator=torch.Generator().manual_seed(0)).softmax(1)
    axes = ("query", "key", "batch", "head")[: len(size)]
    return AttentionMap("layers.0.attn", weights, axes=axes, title="layer 1, self", **fields)


def labels(n, texts=B, sign="w"):
    return tuple(tuple(f"{sign}{b}{i}" for i in range(n)) for b in range(texts))


def parse(drawn):
    return ET.fromstring(drawn)


def texts(drawn):
    return [element.text for element in parse(drawn).iter(SVG + "text")]


def test_every_weight_is_a_square():
    weights = torch.tensor([[0.5, 0.25, 0.25], [0.0, 0.875, 0.125]])
    drawn = picture(AttentionMap("", weights, axes=("query", "key")), scale=1.0)
    inked = parse(drawn).find(f"{SVG}g/{SVG}g")
    squares = [(r.get("x"), r.get("y"), r.get("fill-opacity")) for r in inked]
    assert squares == [
        ("0", "0", "0.5"),
        ("22", "0", "0.25"),
        ("44", "0", "0.25"),
        ("22", "22", "0.88"),
        ("44", "22", "0.12"),
    ]
    assert [r.find(SVG + "title").text for r in inked][:2] == ["0 → 0: 0.500", "0 → 1: 0.250"]


def test_one_table_for_each_head():
    drawn = picture(build(queries=labels(T), keys=labels(S)), batch=1)
    assert [text for text in texts(drawn) if text.startswith("head")] == [
        f"head {h}" for h in range(H)
    ]
    assert texts(drawn).count("w10") == 2 * H
    assert "w00" not in texts(drawn)
    chosen = picture(build(), heads=[2])
    assert [text for text in texts(chosen) if text.startswith("head")] == ["head 2"]


def test_name_and_description():
    weights = torch.tensor([[0.5, 0.5, 0.0], [0.0, 0.1, 0.9]])
    attention = AttentionMap(
        "",
        weights,
        axes=("query", "key"),
        title="a < b",
        queries=(("x", "y"),),
        keys=(("p", "q", " "),),
    )
    root = parse(picture(attention))
    assert root.get("role") == "img"
    assert root.get("viewBox") == f"0 0 {root.get('width')} {root.get('height')}"
    assert root[0].text == "Attention: a < b"
    assert root[1].text == (
        "2 queries in rows, 3 keys in columns, in 1 tables. Row 2, y, has its largest weight in "
        "column 3, ␣: 0.90."
    )


def test_the_same_map_is_the_same_text(tmp_path):
    save_picture(build(), tmp_path / "map.svg", heads=[0], scale=0.5)
    written = (tmp_path / "map.svg").read_bytes().decode("utf-8")
    assert written == picture(build(), heads=[0], scale=0.5) + "\n"


def test_the_scale():
    """The largest weight, but one in a hundred may go beyond; or what is asked for."""
    weights = torch.full((15, 15), 0.01)
    weights[0, 0] = weights[3, 4] = 1.0
    drawn = picture(AttentionMap("", weights, axes=("query", "key")))
    assert "0.01 or more" in drawn
    assert 'fill-opacity="1"' in drawn
    assert "0.88</text>" in picture(AttentionMap("", torch.tensor([[0.88]]), axes=("query", "key")))
    assert "0.3 or more" in picture(build(), scale=0.3)
    assert ">1</text>" in picture(build(), scale=1.0)
    assert ">1</text>" in picture(AttentionMap("", torch.zeros(2, 2), axes=("query", "key")))


def test_many_squares_are_few_elements():
    """Without titles, squares of the same opacity share a path; positions are numbered."""
    drawn = picture(build((80, 80)))
    root = parse(drawn)
    paths = list(root.iter(SVG + "path"))
    assert 2 <= len(paths) <= 101
    weights = build((80, 80)).weights
    scale = float(weights.flatten().sort().values[-65])
    inked = sum(path.get("d").count("z") for path in paths)
    assert abs(inked - int((weights / scale >= 0.005).sum())) < 30
    assert [text for text in texts(drawn) if text.isdigit()][:5] == ["0", "5", "10", "15", "20"]
    assert len(drawn) < 200_000


def test_half_precision_and_odd_orders():
    """Axes are found by name, and halves become whole numbers."""
    plain = build()
    turned = AttentionMap(
        plain.name,
        plain.weights.permute(3, 2, 1, 0),
        axes=("head", "batch", "key", "query"),
        title=plain.title,
    )
    assert picture(turned) == picture(plain)
    half = AttentionMap(plain.name, plain.weights.bfloat16(), title=plain.title)
    assert texts(picture(half)) == texts(picture(plain))


@given(st.text(max_size=6))
def test_any_token_makes_a_drawing(token):
    attention = AttentionMap(
        "", torch.ones(1, 1), axes=("query", "key"), queries=((token,),), keys=((token,),)
    )
    drawn = picture(attention)
    assert visible(token) in texts(drawn)
    assert visible(token).isprintable()


@pytest.mark.parametrize(
    ("token", "label"),
    [
        (" ", "␣"),
        ("\r\n", "␍↵"),
        ("", "∅"),
        (" the", "␣the"),
        ("\u200b", "\\u200b"),
        ("\u00a0", "\\u00a0"),
        ("\u0301", "◌\u0301"),
        ("<b>&", "<b>&"),
        ("honorificabilitudinitatibus", "honorificabil…"),
    ],
)
def test_signs_that_cannot_be_seen(token, label):
    assert visible(token) == label


def test_long_labels_stand_upright():
    flat = picture(build((3, 3), queries=labels(3, 1, ""), keys=(("a", "b", "c"),)))
    upright = picture(build((3, 3), queries=labels(3, 1, ""), keys=(("one", "two", "three"),)))
    assert "rotate" not in flat
    assert upright.count("rotate(-90)") == 3


def luminance(colour):
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [x / 12.92 if x <= 0.04045 else ((x + 0.055) / 1.055) ** 2.4 for x in parts]
    return sum(a * b for a, b in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def test_colours_can_be_read():
    for theme in (LIGHT, DARK):
        ground = luminance(theme["ground"])
        for name, least in (("text", 7), ("muted", 4.5), ("paint", 4.5)):
            low, high = sorted((luminance(theme[name]), ground))
            assert (high + 0.05) / (low + 0.05) >= least


def test_the_style_touches_nothing_else():
    rules = re.sub(r"@media[^{]*\{(.*?\})\}", r"\1", style())
    selectors = [s for rule in re.findall(r"([^{}]+)\{", rules) for s in rule.split(",")]
    assert len(selectors) > 10
    assert all(".attention-map" in selector for selector in selectors)
    for marks in CHOSEN.values():
        assert all(f"{mark} .attention-map" in style() for mark in marks)


def test_errors():
    with pytest.raises(ValueError, match=r"needs the axes query and key, .* \('query',\)"):
        picture(build().pick(batch=0, key=1, head=0))
    with pytest.raises(ValueError, match=r"`scale` \(0.0\) must be a weight above 0"):
        picture(build(), scale=0.0)
    with pytest.raises(ValueError, match="`heads` is empty"):
        picture(build(), heads=[])
    with pytest.raises(
        ValueError, match=r"250,000 squares are more.*\(200,000\); draw fewer heads"
    ):
        picture(build((500, 500)))
