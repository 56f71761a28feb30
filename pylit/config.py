"""What an author decides about a site: ``docs_src/site.toml``, read and checked.

Every key is known and every value is checked where it enters. What is wrong is reported with its
line and, for a misspelt word, the nearest one that is known.
"""

import datetime
import re
import subprocess
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pylit.diagnostics import Diagnostic, Report, nearest


@dataclass(frozen=True, slots=True)
class PageName:
    """A page as `site.toml` names it: ``labml_nn.transformers.mha``, or ``notation``."""

    name: str
    #: Line of `site.toml` on which it stands; 0 when a build made the name up.
    line: int = 0


@dataclass(frozen=True, slots=True)
class Group:
    """Pages under one title, in the order in which they are read."""

    title: str
    summary: str
    pages: tuple[PageName, ...]


@dataclass(frozen=True, slots=True)
class News:
    """One entry of the Atom feed."""

    date: datetime.date
    title: str
    summary: str
    page: PageName


@dataclass(frozen=True, slots=True)
class SiteConfig:
    """The settings of one site."""

    title: str
    summary: str
    #: Absolute, ends with ``/``. Empty for a site without an address of its own.
    base_url: str
    #: ``owner/name`` on GitHub, for links to sources and to Colab; empty for no such links. Where
    #: neither this nor the address above is given, `_located` looks for them.
    repository: str
    branch: str
    #: Language of the prose, as in HTML's ``lang``.
    language: str
    #: Folders and files to render, relative to the folder that holds ``docs_src``.
    sources: tuple[str, ...]
    groups: tuple[Group, ...] = ()
    paths: tuple[Group, ...] = ()
    news: tuple[News, ...] = ()
    #: The file it was read from, as diagnostics name it.
    display: str = "site.toml"


_TEXT = ("title", "summary", "base_url", "repository", "branch", "language")
_TOP = {*_TEXT, "sources", "group", "path", "news"}
_DEFAULTS = {
    "branch": "main",
    "language": "en",
}
#: The address of a repository on GitHub, for browsers or for git.
_GITHUB = re.compile(r"github\.com[/:]([\w.-]+/[\w.-]+?)(?:\.git)?/?$")
_KEYS = {
    "group": {"title", "summary", "pages"},
    "path": {"title", "summary", "pages"},
    "news": {"title", "summary", "page", "date"},
}
#: What each text has to look like, and how to say so.
_SHAPES = {
    "title": (r".*\S.*", "a title of at least one character"),
    "base_url": (
        r"(https?://[^\s/?#]+(/[^\s?#]*)?)?",
        'an address such as "https://example.org/nn/"',
    ),
    "repository": (r"([\w.-]+/[\w.-]+)?", 'a GitHub repository such as "owner/name", or ""'),
    "branch": (r"[^\s~^:?*\[\\]+", 'a branch such as "main"'),
    "language": (r"[A-Za-z]{2,3}(-[A-Za-z0-9]{2,8})*", 'a language tag such as "en" or "pt-BR"'),
}


def load_config(path: Path, display: str, report: Report) -> SiteConfig | None:
    """Read `site.toml`; None, with the reasons in `report`, when any of it is wrong."""
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except OSError as error:
        hint = "write one, or render a package with --source"
        report.add(_fault(display, 0, f"cannot be read: {error.strerror}", hint))
        return None
    except UnicodeDecodeError as error:
        report.add(_fault(display, 0, f"is not UTF-8 (byte {error.start})", "save it as UTF-8"))
        return None
    try:
        values = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        place = re.search(r"\(at line (\d+), column (\d+)\)", str(error))
        line = int(place[1]) if place else text.count("\n") + 1
        report.add(_fault(display, line, f"is not TOML: {error}", "see https://toml.io"))
        return None
    config = _Reader(display, text, values).read(report)
    return config and _located(config, path.parents[1])


def _located(config: SiteConfig, root: Path) -> SiteConfig:
    """Where the project lives, if `site.toml` does not say: ``[project.urls]``, else git's remote.

    Links that would need an address that nobody gave are left out.
    """
    if config.repository:
        return config
    project = root / "pyproject.toml"
    text = project.read_text(encoding="utf-8") if project.is_file() else ""
    urls = tomllib.loads(text).get("project", {}).get("urls", {})
    command = ["git", "-C", str(root), "remote", "get-url", "origin"]
    try:
        remote = subprocess.run(command, capture_output=True, text=True, check=False).stdout
    except OSError:  # There is no git.
        remote = ""
    found = _GITHUB.search(urls.get("Repository", remote).strip())
    base = config.base_url or urls.get("Homepage", "")
    if base and not base.endswith("/"):
        base += "/"
    return replace(config, repository=found[1] if found else "", base_url=base)


class _Reader:
    """Turns TOML into a `SiteConfig` and collects every fault on the way."""

    def __init__(self, display: str, text: str, values: Mapping[str, Any]) -> None:
        self.display = display
        self.values = values
        self.lines = text.split("\n")
        self.faults: list[Diagnostic] = []

    def read(self, report: Report) -> SiteConfig | None:
        self._known(self.values, _TOP, 0)
        texts = {key: self._text(self.values, key, 0, required=key == "title") for key in _TEXT}
        if texts["base_url"] and not texts["base_url"].endswith("/"):
            texts["base_url"] += "/"
        config = SiteConfig(
            **texts,
            sources=self._sources(),
            groups=self._groups("group"),
            paths=self._groups("path"),
            news=tuple(self._news(table, line) for table, line in self._tables("news")),
            display=self.display,
        )
        report.update(self.faults)
        return None if self.faults else config

    def _known(self, table: Mapping[str, Any], known: Iterable[str], start: int) -> None:
        for key in table:
            if key not in known:
                hint = nearest(key, known, f"known: {', '.join(sorted(known))}")
                self._fault(self._line(key, start), f"unknown key `{key}`", hint)

    def _text(self, table: Mapping[str, Any], key: str, start: int, *, required: bool) -> str:
        value = table.get(key, None if required else _DEFAULTS.get(key, ""))
        line = self._line(key, start)
        if value is None:
            self._fault(line, f"`{key}` is missing", f'add `{key} = "…"`')
        elif not isinstance(value, str):
            self._fault(line, f"`{key}` is {value!r}, expected text", f'write `{key} = "…"`')
        else:
            pattern, expected = _SHAPES.get(key, (r".*", ""))
            if re.fullmatch(pattern, value, re.DOTALL):
                return value
            self._fault(line, f"`{key}` is {value!r}", f"expected {expected}")
        return ""

    def _names(self, table: Mapping[str, Any], key: str, start: int) -> tuple[PageName, ...]:
        values = table.get(key, [])
        line = self._line(key, start)
        if not isinstance(values, list) or not all(isinstance(v, str) and v for v in values):
            hint = 'write `pages = ["labml_nn.transformers.mha", "notation"]`'
            self._fault(line, f"`{key}` is {values!r}, expected a list of names", hint)
            return ()
        if len(set(values)) < len(values):
            twice = next(v for v in values if values.count(v) > 1)
            self._fault(line, f"`{key}` names {twice!r} twice", "name each of them once")
        return tuple(PageName(value, self._line_of_text(value, line)) for value in values)

    def _sources(self) -> tuple[str, ...]:
        names = tuple(name.name for name in self._names(self.values, "sources", 0))
        if not names and "sources" not in self.values:
            self._fault(0, "`sources` is missing", 'add `sources = ["labml_nn"]`')
        return names

    def _groups(self, key: str) -> tuple[Group, ...]:
        groups = []
        for table, line in self._tables(key):
            title = self._text(table, "title", line, required=True)
            summary = self._text(table, "summary", line, required=False)
            pages = self._names(table, "pages", line)
            if not pages and "pages" not in table:
                self._fault(line, f"a `[[{key}]]` without `pages`", 'add `pages = ["…"]`')
            groups.append(Group(title, summary, pages))
        return tuple(groups)

    def _news(self, table: Mapping[str, Any], line: int) -> News:
        date = table.get("date")
        # A time of day would make the feed depend on a time zone.
        if not isinstance(date, datetime.date) or isinstance(date, datetime.datetime):
            hint = "write `date = 2026-01-31`, without quotes"
            self._fault(self._line("date", line), f"`date` is {date!r}, expected a date", hint)
            date = datetime.date.min
        page = self._text(table, "page", line, required=True)
        return News(
            date,
            self._text(table, "title", line, required=True),
            self._text(table, "summary", line, required=False),
            PageName(page, self._line("page", line)),
        )

    def _tables(self, key: str) -> list[tuple[Mapping[str, Any], int]]:
        """The tables of ``[[key]]``, each with the line of its header."""
        tables = self.values.get(key, [])
        if not isinstance(tables, list) or not all(isinstance(t, dict) for t in tables):
            hint = f"write `[[{key}]]` above its keys"
            self._fault(self._line(key, 0), f"`{key}` is {tables!r}, expected tables", hint)
            return []
        header = re.compile(rf"\s*\[\[\s*{key}\s*\]\]")
        starts = [n for n, line in enumerate(self.lines, 1) if header.match(line)]
        starts += [0] * (len(tables) - len(starts))
        for table, start in zip(tables, starts, strict=False):
            self._known(table, _KEYS[key], start)
        return list(zip(tables, starts, strict=False))

    def _line(self, key: str, start: int) -> int:
        """The line that sets `key` in the table whose header is on line `start`."""
        setting = re.compile(rf"\s*[\"']?{re.escape(key)}[\"']?\s*[=.]")
        header = re.compile(rf"\s*\[+\s*{re.escape(key)}\b")
        inside = True
        for number, line in enumerate(self.lines[start:], start + 1):
            if (inside and setting.match(line)) or (not start and header.match(line)):
                return number
            inside = inside and not line.lstrip().startswith("[")
        return start

    def _line_of_text(self, text: str, start: int) -> int:
        quoted = (f'"{text}"', f"'{text}'")
        for number, line in enumerate(self.lines[max(start - 1, 0) :], max(start, 1)):
            if any(q in line for q in quoted):
                return number
        return start

    def _fault(self, line: int, message: str, hint: str) -> None:
        source = self.lines[line - 1] if line else ""
        self.faults.append(_fault(self.display, line, message, hint, source))


def _fault(display: str, line: int, message: str, hint: str, source: str = "") -> Diagnostic:
    return Diagnostic(display, line, 0, "config", message, hint, source)
