"""The page of a lesson as its tests read it: sentences, numbers, tables, lists and programs.

    PAGE = Page(elman)
    PAGE.has(f"the second pays {loss:.2f} nats", f"with {heads} heads")  # words, computed numbers
    (share,) = PAGE.numbers(r"is right in (\\d+) of 100")
    network = PAGE.made["RNN"](V, C, N)  # of the whole in code

All text is in one line, without the marks of comments, and with a hyphen for every minus sign.
"""

import ast
import contextlib
import io
import json
import re
from functools import cached_property
from pathlib import Path
from types import ModuleType
from typing import Any

from shown_programs import blocks

ROOT = Path(__file__).parents[2]
NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:e[-+]?\d+)?")


def plain(text: str) -> str:
    """A text in one line, with a hyphen for each minus sign."""
    return " ".join(text.replace("−", "-").split())


def numbers(text: str) -> list[float]:
    """The numbers in a text, in order; thousands may be set apart by commas."""
    text = re.sub(r"(?<=\d),(?=\d{3}\b)", "", text.replace("−", "-"))
    return [float(found) for found in NUMBER.findall(text)]


class Page:
    """What a reader of a module reads."""

    def __init__(self, module: ModuleType | Path) -> None:
        path = module if isinstance(module, Path) else Path(module.__file__ or "")
        self.source = path.read_text(encoding="utf-8")
        #: The lines, without the marks of comments.
        self.lines = re.sub(r"(?m)^ *# ?", "", self.source)
        self.text = plain(self.lines)

    def says(self, sentence: str, *values: object) -> None:
        """Fail unless the page has this sentence, with these values at the places in braces."""
        expected = plain(sentence.format(*values))
        assert expected in self.text, expected

    def has(self, *sentences: str) -> None:
        """Fail unless the page has all of these sentences."""
        missing = [sentence for sentence in map(plain, sentences) if sentence not in self.text]
        assert not missing, missing

    def numbers(self, pattern: str) -> list[float]:
        """The numbers in the groups of the first match."""
        found = re.search(pattern, self.text)
        assert found, pattern
        return numbers(" ".join(found.groups()))

    def vector(self, after: str) -> list[float]:
        """The first numbers in brackets after some words."""
        return self.numbers(re.escape(after) + r"[^(]*\(([^)]*)\)")

    def rows(self, head: str) -> list[list[str]]:
        """The cells below the head of a table, which begins like this."""
        _, found, table = self.lines.partition(f"\n| {head}")
        assert found, head
        below = table.split("\n")[2:]
        count = next(i for i, line in enumerate(below) if not line.startswith("|"))
        return [[plain(cell) for cell in line.strip("| ").split("|")] for line in below[:count]]

    @cached_property
    def points(self) -> list[str]:
        """The items of all numbered lists: the first are the steps of the stage."""
        return [plain(point) for point in re.findall(r"(?ms)^\d\. (.*?)\n\n", self.lines)]

    @cached_property
    def quoted(self) -> str:
        """What a model wrote."""
        lines = re.findall(r"(?m)^> (.*)$", self.lines)
        return " ".join(" ".join(line.rstrip("\\") for line in lines).split())

    @cached_property
    def whole(self) -> str:
        """The whole in code: the first program that defines a class."""
        return next(code for _, code in blocks(self.source) if re.search(r"(?m)^class ", code))

    @cached_property
    def made(self) -> dict[str, Any]:
        """What the whole in code defines."""
        return run(self.whole)

    def program(self, part: str) -> str:
        """The program of the page that has this part."""
        (found,) = (code for _, code in blocks(self.source) if part in code)
        return found


def run(program: str) -> dict[str, Any]:
    """What a program defines."""
    names: dict[str, Any] = {}
    with contextlib.redirect_stdout(io.StringIO()):
        exec(program, names)
    return names


def definitions(program: str) -> list[str]:
    """The classes and functions of a program, each as it is written."""
    kinds = ast.ClassDef | ast.FunctionDef
    found = [node for node in ast.parse(program).body if isinstance(node, kinds)]
    return [ast.get_source_segment(program, node) or "" for node in found]


def result(name: str) -> dict[str, Any]:
    """What a trained model of `docs_src/results` was, reached and wrote."""
    path = ROOT / "docs_src/results" / name / "result.json"
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return found


def validation_loss(name: str) -> float:
    """The loss of a trained model on text that was held out."""
    return float(result(name)["result"]["validation_loss"])
