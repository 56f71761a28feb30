"""The languages of a site beside its own: a folder of ``docs_src/locale`` for each.

Such a folder has a file for each page that is translated (`translations`), and ``words.toml`` with
the words that are in no note (`pylit.words`); those of every site come with the theme.
"""

import re
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from pylit.diagnostics import Report
from pylit.model import Module, Note, Section, SourceFile, Span
from pylit.runs.shapes.replay import replays_of
from pylit.source.discover import read_source
from pylit.words import Words, read_words

#: The folder of languages, in that of the site's documents; and the words of each.
FOLDER, WORDS = "locale", "words.toml"
#: A language, as the name of its folder.
CODE = re.compile(r"[a-z]{2,3}(-[A-Za-z0-9]{2,8})*")


@dataclass(frozen=True)
class Language:
    """A language of a site; without a code, its own.

    * `code` is that of the folder, ``zh`` or ``pt-BR``
    * `folder` is the folder
    * `shown` is what messages call it
    """

    code: str = ""
    folder: Path = Path()
    shown: str = ""
    words: Words = field(default_factory=Words)

    @property
    def prefix(self) -> str:
        """What the addresses of its pages begin with."""
        return f"{self.code}/" if self.code else ""

    def page(self, source: SourceFile, report: Report) -> SourceFile | None:
        """The file that translates a page; None if there is none."""
        name = file_of(source)
        path = self.folder / name
        if not path.is_file():
            return None
        shown = f"{self.shown}/{name}"
        return read_source(path, name=source.name, display=shown, own=True, report=report)


def file_of(source: SourceFile) -> str:
    """The file in the folder of a language: ``pkg/module.md`` for ``pkg/module.py``."""
    path = Path(source.display.removeprefix("docs_src/"))
    return path.with_suffix(".md").as_posix()


def read_languages(docs: Path, theme: Path, report: Report) -> list[Language]:
    """The languages that have a folder, in order."""
    codes = sorted(p.name for p in (docs / FOLDER).glob("*") if p.is_dir())
    return [read_language(code, docs, theme, report) for code in codes if CODE.fullmatch(code)]


def read_language(code: str, docs: Path, theme: Path, report: Report) -> Language:
    """A language of a site, with the words of the theme and its own."""
    folder, shown = docs / FOLDER / code, f"docs_src/{FOLDER}/{code}"
    words = read_words(theme / FOLDER / f"{code}.toml", f"theme/{FOLDER}/{code}.toml", report)
    own = read_words(folder / WORDS, f"{shown}/{WORDS}", report)
    words |= {english: word for english, word in own.items() if word}
    return Language(code, folder, shown, Words(words))


def with_replays(module: Module, docs: Path) -> Module:
    """A module with the texts of its replays as notes of further sections."""
    path = docs / "traces" / module.source.display
    if not path.is_file() or path.suffix != ".py":
        return module
    sections, text = [], ""
    with suppress(OSError, UnicodeDecodeError):  # The run of the file tells of that.
        text = path.read_text(encoding="utf-8")
    for replay in replays_of(text):
        texts = [replay.title, replay.text, *(stop.note for stop in replay.stops)]
        texts += [stop.name for stop in replay.stops if stop.name != stop.code]
        place = Span(replay.line, replay.line)
        notes = (Note("docstring", place, text, replay.line, 0) for text in texts if text)
        sections.append(Section(tuple(notes), None, replay.name))
    return replace(module, sections=(*module.sections, *sections))
