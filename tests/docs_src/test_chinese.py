"""The Chinese pages of the lessons."""

import re
from pathlib import Path

import pytest

from docs_src.lessons import LESSONS
from pylit.languages.blocks import read_blocks

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("name", LESSONS)
def test_the_first_reading_of_a_lesson_ends_with_five_lines(name: str) -> None:
    file = LESSONS[name].relative_to(ROOT).with_suffix(".md")
    blocks = read_blocks((ROOT / "docs_src/locale/zh" / file).read_text(encoding="utf-8"))[1]
    (short,) = (block for block in blocks if block.place == "in short")
    heading, *lines = filter(None, short.text.split("\n"))
    heads = [re.findall(r"^\d\. \*\*(.*?)\*\*：", line)[0] for line in lines]
    assert heading == "## 小结"
    assert heads == ["一句话", "公式", "好处", "代价", "下一课"]
