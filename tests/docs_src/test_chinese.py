"""The Chinese pages of the lessons."""

import re
from pathlib import Path

import pytest

from pylit.languages.blocks import read_blocks

ROOT = Path(__file__).parents[2]
LOCALE = ROOT / "docs_src/locale/zh"
LESSONS = (
    "labml_nn/transformers/mha.md",
    "labml_nn/transformers/positional_encoding.md",
    "labml_nn/transformers/models.md",
    "labml_nn/recurrent/elman/__init__.md",
    "labml_nn/transformers/feedback/__init__.md",
    "labml_nn/lstm/__init__.md",
    "labml_nn/lstm/gru.md",
    "labml_nn/recurrent/linear_attention.md",
    "labml_nn/recurrent/delta_net.md",
    "labml_nn/recurrent/gated_delta_net.md",
    "labml_nn/recurrent/mamba2.md",
)


@pytest.mark.parametrize("lesson", LESSONS)
def test_the_first_reading_of_a_lesson_ends_with_five_lines(lesson: str) -> None:
    blocks = read_blocks((LOCALE / lesson).read_text(encoding="utf-8"))[1]
    (short,) = (block for block in blocks if block.place == "in short")
    heading, *lines = filter(None, short.text.split("\n"))
    heads = [re.findall(r"^\d\. \*\*(.*?)\*\*：", line)[0] for line in lines]
    assert heading == "## 小结"
    assert heads == ["一句话", "公式", "好处", "代价", "下一课"]
