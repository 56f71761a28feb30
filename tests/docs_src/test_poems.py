"""The text on which the model of the Chinese pages was trained, and what is known of verses."""

import json
import re

import pytest

from docs_src.live import poems
from docs_src.live.export import HERE, delivered

#: Two poems as the package has them; the first is too long by two lines, the second has one of six.
QUIET = {
    "id": "a",
    "paragraphs": [
        "空山不見人，但聞人語響。",
        "返景入深林，復照青苔上。",
        "明月松間照，清泉石上流。",
    ],
}
UNEVEN = {"id": "b", "paragraphs": ["白日依山盡矣，黃河入海流。", "欲窮千里目，更上一層樓。"]}
LONG = ["朝辭白帝彩雲間，千里江陵一日還。", "兩岸猿聲啼不住，輕舟已過萬重山。"]


def simplify(text: str) -> str:
    return text.translate(str.maketrans("見聞語響復間盡黃窮層樓", "见闻语响复间尽黄穷层楼"))


def test_four_lines_of_five_characters_make_a_poem() -> None:
    text = poems.prepare([QUIET, UNEVEN, QUIET], simplify)
    assert text == "空山不见人\n但闻人语响\n返景入深林\n复照青苔上\n\n"


def test_a_poem_of_seven_characters_begins_with_a_mark() -> None:
    text = poems.prepare([QUIET, {"id": "c", "paragraphs": LONG}], lambda text: text)
    assert sorted(text.split("\n\n")[:-1]) == [
        "\u3000朝辭白帝彩雲間\n千里江陵一日還\n兩岸猿聲啼不住\n輕舟已過萬重山",
        "空山不見人\n但聞人語響\n返景入深林\n復照青苔上",
    ]


def test_rare_characters_are_left_out(monkeypatch) -> None:
    monkeypatch.setattr(poems, "MOST_CHARACTERS", 3)
    assert poems.prepare([QUIET], simplify) == ""


def test_tones_are_those_of_nine_in_ten() -> None:
    strains = ["平平仄仄平，仄平平仄仄。", "仄仄仄平平，仄仄平平仄。", "平仄平平仄，平平仄平平。"]
    found = poems.tones([{**QUIET, "strains": strains}], simplify, set("空山人不上"))
    assert found == {"平": "人山空", "仄": "不"}


def test_characters_rhyme_that_end_the_same_quatrains() -> None:
    ends = ["光长香阳乡霜凉堂方芳忘床", "风中空同通东穷宫公功红翁"]
    pairs = [(one, other) for group in ends for one in group for other in group if one != other]
    text = "".join(f"一一一一一\n一一一一{a}\n一一一一一\n一一一一{b}\n\n" for a, b in pairs)
    assert sorted(map(sorted, poems.rhymes(text))) == sorted(map(sorted, ends))


@pytest.mark.parametrize("name", poems.MODELS)
def test_what_is_delivered_fits_together_and_is_small(name: str) -> None:
    data, verse = delivered(name), poems.verse()
    known, rhymes = {*data["characters"]}, "".join(verse["韵"])
    assert len(known) <= poems.MOST_CHARACTERS + 2 and {"\n", poems.SEVEN} <= known
    assert {*verse["平"], *verse["仄"], *rhymes} <= known
    assert not {*verse["平"]} & {*verse["仄"]} and len(rhymes) == len({*rhymes})
    assert (HERE / f"weights/{name}.js").stat().st_size < 600_000
    # Neither is the text itself.
    assert not re.search("床前明月光|白日依山尽", json.dumps(data, ensure_ascii=False))
