"""Words of the interface, of drawings and of panels in another language, by the English ones.

Files of words are TOML, a line for each: ``"Search" = "搜索"``. In templates and scripts they stand
in ``_("…")``, with ``{0}``, ``{1}``, … in the places of values. What has no word in a language
stays English.
"""

import json
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from pylit.diagnostics import Diagnostic, Report

#: Where templates and scripts say a word, and the text of an element in a drawing.
_SAID = re.compile(r'(?<!\w)_\("((?:[^"\\]|\\.)*)"')
_ELEMENT = re.compile(r"(?<=>)[^<>]+(?=<)")
_LABEL = re.compile(r'(?<= aria-label=")[^"]+|(?<= alt=")[^"]+')
_LETTERS = re.compile("[A-Za-z]{2}")


class Words(Mapping[str, str]):
    """Words by what they are in English; called, a sentence with values in its places."""

    def __init__(self, table: Mapping[str, str] | None = None) -> None:
        self._table = {english: word for english, word in (table or {}).items() if word}

    def __call__(self, text: str, *values: object) -> str:
        """A text in this language, with ``{0}``, ``{1}``, … replaced by values."""
        return self._table.get(text, text).format(*values) if values else self.get(text, text)

    def __getitem__(self, text: str) -> str:
        return self._table[text]

    def __iter__(self) -> Iterator[str]:
        return iter(self._table)

    def __len__(self) -> int:
        return len(self._table)

    def script(self, needed: Iterable[str]) -> bytes:
        """A script that tells others the words that they need."""
        table = {text: self[text] for text in needed if text in self}
        data = json.dumps(table, ensure_ascii=False, separators=(",", ":"), sort_keys=True)
        return f"Object.assign(pylitWords,{data});\n".encode()

    def drawing(self, html: str) -> str:
        """HTML with the texts of its elements, and what it says to screen readers, translated."""

        def said(match: re.Match[str]) -> str:
            text = match[0].strip()
            return match[0].replace(text, self[text]) if text in self else match[0]

        return _LABEL.sub(said, _ELEMENT.sub(said, html)) if self._table else html


NO_WORDS = Words()
#: What pages say beside their templates and scripts; last, the name and the code of the language.
OF_PAGES = """
First reading
Reference
Exercises
Answer
Hint
Page
{0} to exercise {1} of {2}
Other pages
There is no page at this address.
Code
Symbol
All exercises of these pages, in reading order. An answer stands on the page of its question, and \
“above” and “this page” mean that page.
Every page of this site, by subject.
The rest of the code, by folder.
English
en
""".strip().split("\n")


def read_words(path: Path, shown: str, report: Report) -> dict[str, str]:
    """The words of a file; none if it is not there."""
    if not path.is_file():
        return {}
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        hint = 'write `"Search" = "搜索"`, a line for each word'
        report.add(Diagnostic(shown, 0, 0, "translation", f"cannot be read: {error}", hint))
        return {}
    for english, word in table.items():
        if word and _places(english) != _places(str(word)):
            hint = f"write the same places as in “{english}”"
            message = f"“{word}” has other places for values than “{english}”"
            report.add(Diagnostic(shown, 0, 0, "translation", message, hint))
    return {english: str(word) for english, word in table.items()}


def _places(text: str) -> list[str]:
    return sorted(re.findall(r"\{\d\}", text))


def scripts(theme: Path, docs: Path) -> list[Path]:
    """The scripts of a site, which say words: those of the theme, of panels and of figures."""
    own = (*docs.glob("live/*.js"), *docs.glob("figures/*.js"))
    return [*sorted(theme.rglob("js/*/*.js")), *sorted(own)]


def spoken(paths: Iterable[Path]) -> Iterator[str]:
    """The words that templates and scripts say, in order."""
    for path in paths:
        for text in _SAID.findall(path.read_text(encoding="utf-8")):
            yield json.loads(f'"{text}"')


def drawn(html: str) -> Iterator[str]:
    """The words in the elements of a drawing, and those for screen readers."""
    for text in (*_ELEMENT.findall(html), *_LABEL.findall(html)):
        if _LETTERS.search(text):
            yield text.strip()


def refreshed_words(old: str, needed: Iterable[str], known: Iterable[str]) -> str:
    """A file of words with a line for each of those that are needed, and not known elsewhere."""
    have = {*tomllib.loads(old), *known}
    lines = []
    for text in dict.fromkeys(needed):
        if text not in have:
            lines.append(f'{json.dumps(text, ensure_ascii=False)} = ""\n')
    return old + "".join(lines)
