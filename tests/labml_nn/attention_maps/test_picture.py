"""The drawing: well-formed, labelled, the same every time."""

import re
import xml.etree.ElementTree as ET

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib.axes import Axes

from labml_nn.attention_maps import AttentionMap, picture, save_picture, visible

T, S, B, H = 5, 7, 2, 3
SVG = "{http://www.w3.org/2000/svg}"


def build(size=(T, S, B, H), **fields):
    weights = torch.randn(size, generator=torch.Generator().manual_seed(0)).softmax(1)
    return AttentionMap("layers.0.attn", weights, title="layer 1, self", **fields)


def matrix(*rows, **fields):
    return AttentionMap("", torch.tensor(rows)[..., None, None], **fields)


def texts(drawn):
    return [element.text.strip() for element in ET.fromstring(drawn).iter(SVG + "text")]


def panels(monkeypatch, attention, **options):
    """What is given to matplotlib: a matrix and the weight of the darkest square, per panel."""
    seen, imshow = [], Axes.imshow

    def recording(axes, matrix, **look):
        seen.append((torch.as_tensor(matrix.copy()), look["vmax"]))
        return imshow(axes, matrix, **look)

    monkeypatch.setattr(Axes, "imshow", recording)
    picture(attention, **options)
    return seen


def test_one_table_for_each_head_of_the_first_sequence(monkeypatch):
    labels = tuple(tuple(f"w{b}{t}" for t in range(T)) for b in range(B))
    attention = build(queries=labels)
    shown = texts(picture(attention))
    assert [text for text in shown if "head" in text] == ["head 0", "head 1", "head 2"]
    assert shown.count("w00") == H and "w10" not in shown and "layer 1, self" in shown
    drawn = [matrix for matrix, _ in panels(monkeypatch, attention)]
    assert torch.equal(torch.stack(drawn), attention.weights[:, :, 0].permute(2, 0, 1))
    (one,) = panels(monkeypatch, attention, heads=[2], batch=1)
    assert torch.equal(one[0], attention.weights[:, :, 1, 2])
    shown = texts(picture(attention, batch=1))
    assert shown.count("w10") == H and "w00" not in shown


def test_the_scale(monkeypatch):
    """The largest weight, but one in a hundred may go beyond; or the given one."""
    weights = torch.full((15, 15, 1, 1), 0.01)
    weights[0, 0] = weights[3, 4] = 1.0
    for attention, options, expected in (
        (AttentionMap("", weights), {}, 0.01),
        (matrix([0.88]), {}, 0.88),
        (matrix([0.0, 0.0]), {}, 1.0),
        (build(), {"scale": 0.3}, 0.3),
    ):
        assert panels(monkeypatch, attention, **options)[0][1] == pytest.approx(expected)


def test_the_same_map_is_the_same_text(tmp_path):
    save_picture(build(), tmp_path / "map.svg", heads=[0], scale=0.5)
    written = (tmp_path / "map.svg").read_text("utf-8")
    assert written == picture(build(), heads=[0], scale=0.5)


def test_what_a_notebook_shows():
    one = AttentionMap("decoder.attn", build().weights.bfloat16())
    assert repr(one) == "<AttentionMap 'decoder.attn' (attention): [5, 7, 2, 3]>"
    assert one._repr_html_().startswith("<svg")


@settings(max_examples=10)
@given(st.text(max_size=6))
def test_any_token_makes_a_drawing(token):
    assert visible(token).isprintable()
    drawn = picture(matrix([1.0], queries=((token,),), keys=(("$a$",),)))
    assert "$a$" in texts(drawn) and not re.search("italic|oblique", drawn)


def test_invisible_characters():
    tokens = (" the", "\r\n", "", "\u200b", "<b>&", "honorificabilitudinitatibus", "00" + "\b" * 3)
    shown = ["␣the", "␍↵", "∅", "\\u200b", "<b>&", "honorificabil…", "00\\u0008…"]
    assert list(map(visible, tokens)) == shown
