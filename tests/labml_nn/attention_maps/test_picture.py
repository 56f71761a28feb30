"""The drawing: well-formed, labelled, escaped, the same every time."""

import re
import xml.etree.ElementTree as ET

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from labml_nn.attention_maps import AttentionMap, picture, save_picture, visible

T, S, B, H = 5, 7, 2, 3
SVG = "{http://www.w3.org/2000/svg}"
PATH = SVG + "path"


def build(size=(T, S, B, H), **fields):
    weights = torch.randn(size, generator=torch.Generator().manual_seed(0)).softmax(1)
    axes = ("query", "key", "batch", "head")[: len(size)]
    return AttentionMap("layers.0.attn", weights, axes=axes, title="layer 1, self", **fields)


def matrix(*rows, **fields):
    return AttentionMap("", torch.tensor(rows), axes=("query", "key"), **fields)


def texts(drawn):
    return [element.text for element in ET.fromstring(drawn).iter(SVG + "text")]


def test_every_weight_is_a_square():
    """Squares of the same opacity share a path."""
    drawn = picture(matrix([0.5, 0.25, 0.25], [0.0, 0.875, 0.125]), scale=1.0)
    paths = {path.get("fill-opacity"): path.get("d") for path in ET.fromstring(drawn).iter(PATH)}
    corners = {opacity: re.findall(r"M\d+ \d+", d) for opacity, d in paths.items()}
    assert corners == {
        "0.12": ["M32 16"],
        "0.25": ["M16 0", "M32 0"],
        "0.5": ["M0 0"],
        "0.88": ["M16 16"],
    }


def test_one_table_for_each_head():
    labels = tuple(tuple(f"w{b}{t}" for t in range(T)) for b in range(B))
    shown = texts(picture(build(queries=labels), batch=1))
    assert [text for text in shown if text and "head" in text] == ["head 0", "head 1", "head 2"]
    assert shown.count("w10") == H and "w00" not in shown
    assert "head 2" in texts(picture(build(), heads=[2]))
    assert "head 1" not in texts(picture(build(), heads=[2]))


def test_name_and_description():
    attention = matrix([0.5, 0.5, 0.0], [0.0, 0.1, 0.9], title="a < b", keys=(("p", "q", " "),))
    root = ET.fromstring(picture(attention))
    assert root.get("role") == "img"
    assert root.get("viewBox") == f"0 0 {root.get('width')} {root.get('height')}"
    assert root[0].text == "Attention: a < b"
    assert root[1].text.startswith("2 queries in rows, 3 keys in columns, ")
    assert root[1].text.endswith("The largest weight is 0.90.")


def test_the_same_map_is_the_same_text(tmp_path):
    save_picture(build(), tmp_path / "map.svg", heads=[0], scale=0.5)
    written = (tmp_path / "map.svg").read_bytes().decode("utf-8")
    assert written == picture(build(), heads=[0], scale=0.5) + "\n"
    turned = AttentionMap(
        "",
        build().weights.permute(3, 2, 1, 0),
        axes=("head", "batch", "key", "query"),
        title="layer 1, self",
    )
    assert picture(turned) == picture(build())
    assert "head 2" in texts(picture(AttentionMap("", build().weights.bfloat16())))


def test_the_scale():
    """The largest weight, but one in a hundred may go beyond; or the given one."""
    weights = torch.full((15, 15), 0.01)
    weights[0, 0] = weights[3, 4] = 1.0
    drawn = picture(AttentionMap("", weights, axes=("query", "key")))
    assert "0.01 or more" in drawn and 'fill-opacity="1"' in drawn
    assert "0.88</text>" in picture(matrix([0.88]))
    assert "0.3 or more" in picture(build(), scale=0.3)
    assert ">1</text>" in picture(build(), scale=1.0)
    assert ">1</text>" in picture(matrix([0.0, 0.0]))


@given(st.text(max_size=6))
def test_any_token_makes_a_drawing(token):
    drawn = picture(matrix([1.0], queries=((token,),), keys=((token,),)))
    assert visible(token) in texts(drawn)
    assert visible(token).isprintable()


def test_invisible_characters():
    tokens = (" the", "\r\n", "", "\u200b", "<b>&", "honorificabilitudinitatibus")
    shown = ["␣the", "␍↵", "∅", "\\u200b", "<b>&", "honorificabil…"]
    assert list(map(visible, tokens)) == shown


def test_long_labels_stand_upright():
    assert "rotate" not in picture(matrix([1.0, 0.0], keys=(("a", "b"),)))
    assert picture(matrix([1.0, 0.0], keys=(("one", "b"),))).count("rotate(-90)") == 2


def test_errors():
    with pytest.raises(ValueError, match=r"needs the axes query and key, .* \('query',\)"):
        picture(build().pick(batch=0, key=1, head=0))
    with pytest.raises(ValueError, match="of 0 squares cannot be drawn"):
        picture(build(), heads=[])
    with pytest.raises(ValueError, match=r"250,000 squares .* 200,000: choose heads"):
        picture(build((500, 500)))
