"""What an author decides about a site: ``docs_src/site.toml``, read and checked.

One table of rules checks every key and value. A fault is reported with its line and, for a misspelt
key, the nearest valid one.
"""

import datetime
import re
import subprocess
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from pylit.diagnostics import Diagnostic, Report, nearest


@dataclass(frozen=True, slots=True)
class PageName:
    """A page as `site.toml` names it: ``package.module``, or ``notation``."""

    name: str
    #: Its line in `site.toml`.
    line: int = 0


@dataclass(frozen=True, slots=True)
class Group:
    """Pages under one title, in reading order."""

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
class Relation:
    """A decorator such as ``@kernel_for(Layer.forward)`` relates its function to its argument.

    Each of the two gets a line below its note: these words, and a link to the other.
    """

    #: Its name, without those of modules.
    decorator: str
    on_function: str
    on_argument: str


@dataclass(frozen=True, slots=True)
class SiteConfig:
    """The settings of one site."""

    title: str
    summary: str
    #: Absolute, ends with ``/``. Empty for a site without an address of its own.
    base_url: str
    #: ``owner/name`` on GitHub, for links to sources and to Colab; empty for no such links.
    repository: str
    branch: str
    #: Language of the prose, as in HTML's ``lang``.
    language: str
    #: Folders and files to render, relative to the folder that holds ``docs_src``.
    sources: tuple[str, ...]
    groups: tuple[Group, ...] = ()
    paths: tuple[Group, ...] = ()
    news: tuple[News, ...] = ()
    relations: tuple[Relation, ...] = ()


class _Rule(NamedTuple):
    valid: Callable[[Any], object]
    expected: str
    #: None for a required key.
    default: Any = None


def _text(pattern: str, example: str, default: str | None = None) -> _Rule:
    compiled = re.compile(pattern, re.DOTALL)
    expected = f'text such as "{example}"'
    return _Rule(lambda v: isinstance(v, str) and compiled.fullmatch(v), expected, default)


def _are_names(value: Any) -> bool:
    texts = isinstance(value, list) and all(isinstance(name, str) and name for name in value)
    return texts and len(set(value)) == len(value)


def _are_tables(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(table, dict) for table in value)


_TITLE = _text(r".*\S.*", "Attention")
_SUMMARY = _text(r".*", "Attention, line by line.", "")
_NAMES = _Rule(_are_names, 'a list of different names such as ["package", "notation"]')
_TABLES = _Rule(_are_tables, "tables below headers such as [[path]]", ())
# A time of day would make the feed depend on a time zone.
_DATE = _Rule(lambda v: type(v) is datetime.date, "a date without quotes such as 2026-01-31")
_SITE = {
    "title": _TITLE,
    "summary": _SUMMARY,
    "base_url": _text(r"(https?://[^\s/?#]+(/[^\s?#]*)?)?", "https://example.org/nn/", ""),
    "repository": _text(r"([\w.-]+/[\w.-]+)?", "owner/name", ""),
    "branch": _text(r"[^\s~^:?*\[\\]+", "main", "main"),
    "language": _text(r"[A-Za-z]{2,3}(-[A-Za-z0-9]{2,8})*", "pt-BR", "en"),
    "sources": _NAMES,
    "group": _TABLES,
    "path": _TABLES,
    "news": _TABLES,
    "relation": _TABLES,
}
_GROUP = {"title": _TITLE, "summary": _SUMMARY, "pages": _NAMES}
_NEWS = {"date": _DATE, "title": _TITLE, "summary": _SUMMARY, "page": _TITLE}
_RELATION = {
    "decorator": _text(r"[^\W\d]\w*", "kernel_for"),
    "on_function": _text(r".*\S.*", "Kernel for"),
    "on_argument": _text(r".*\S.*", "Also computed by"),
}
_KINDS: Mapping[str, tuple[type[Any], Mapping[str, _Rule]]] = {
    "group": (Group, _GROUP),
    "path": (Group, _GROUP),
    "news": (News, _NEWS),
    "relation": (Relation, _RELATION),
}
#: The address of a repository on GitHub, for browsers or for git.
_GITHUB = re.compile(r"github\.com[/:]([\w.-]+/[\w.-]+?)(?:\.git)?/?$")
#: Labels in ``[project.urls]`` that may name it, as PyPI's page on well-known labels writes them:
#: without spaces and punctuation, in lower case; the first that does is taken.
_LABELS = ("repository", "source", "sourcecode", "github", "homepage")


def load_config(path: Path, display: str, report: Report) -> SiteConfig | None:
    """Read `site.toml`; None, with the reasons in `report`, when any of it is wrong."""
    try:
        text = path.read_bytes().decode("utf-8-sig")
        values = tomllib.loads(text)
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        line = re.search(r"at line (\d+)", str(error))
        hint = "it is TOML (https://toml.io) in UTF-8; `pylit init PACKAGE` writes one"
        message = f"cannot be read: {error}"
        report.add(Diagnostic(display, int(line[1]) if line else 0, 0, "config", message, hint))
        return None
    before = len(report)
    table = _Reader(display, text.split("\n"), report).table(values, _SITE, 0)
    if len(report) > before:
        return None
    tables = {f"{key}s": table.pop(key) for key in ("group", "path", "relation")}
    return _located(SiteConfig(**tables, **table), path.parents[1])


def _located(config: SiteConfig, root: Path) -> SiteConfig:
    """Take a missing repository from ``[project.urls]``, else from git's remote.

    The address of the site is in `site.toml` alone: a homepage is seldom this site.
    """
    found = None
    if not config.repository:
        project = root / "pyproject.toml"
        text = project.read_text(encoding="utf-8") if project.is_file() else ""
        urls = tomllib.loads(text).get("project", {}).get("urls", {})
        named = {re.sub(r"[\W_]", "", label).lower(): url for label, url in urls.items()}
        command = ["git", "-C", str(root), "remote", "get-url", "origin"]
        try:
            remote = subprocess.run(command, capture_output=True, text=True, check=False).stdout
        except OSError:  # There is no git.
            remote = ""
        ways = [*(named.get(label, "") for label in _LABELS), remote]
        found = next(filter(None, (_GITHUB.search(way.strip()) for way in ways)), None)
    base = config.base_url
    return replace(
        config,
        repository=found[1] if found else config.repository,
        base_url=base and base.rstrip("/") + "/",
    )


@dataclass(frozen=True, slots=True)
class _Reader:
    """Checks tables of a file and collects the faults."""

    display: str
    lines: list[str]
    report: Report

    def table(
        self, values: Mapping[str, Any], rules: Mapping[str, _Rule], header: int
    ) -> dict[str, Any]:
        """The valid values of the table below a header line, with defaults for missing keys."""
        for key in values.keys() - rules.keys():
            hint = nearest(key, rules, f"valid keys: {', '.join(sorted(rules))}")
            self._fault(self._line_of(key, header), f"unknown key `{key}`", hint)
        result = {}
        for key, rule in rules.items():
            value = result[key] = values.get(key, rule.default)
            line = self._line_of(key, header) if key in values else header
            if value is None:
                self._fault(line, f"`{key}` is missing", f"expected {rule.expected}")
            elif key in values and not rule.valid(value):
                self._fault(line, f"`{key}` is {value!r}", f"expected {rule.expected}")
                result[key] = ()
            elif rule is _TABLES:
                result[key] = tuple(self._tables(value, key))
            elif rule is _NAMES:
                find = self._page if key == "pages" else lambda name, _: name
                result[key] = tuple(find(name, line) for name in value)
            elif key == "page":
                result[key] = self._page(value, line)
        return result

    def _tables(self, tables: Iterable[Mapping[str, Any]], key: str) -> Iterator[Any]:
        header, (kind, rules) = 0, _KINDS[key]
        for table in tables:
            header = self._line(rf"\s*\[\[\s*{key}\s*\]\]", header)
            yield kind(**self.table(table, rules, header))

    def _page(self, name: str, line: int) -> PageName:
        return PageName(name, self._line(f".*[\"']{re.escape(name)}[\"']", line - 1))

    def _line_of(self, key: str, header: int) -> int:
        return self._line(rf"\s*\[*\s*[\"']?{re.escape(key)}[\"']?\s*[=.\]]", header)

    def _line(self, pattern: str, after: int) -> int:
        """The first line after another that matches a pattern; that other if there is none."""
        following = enumerate(self.lines[after:], after + 1)
        return next((number for number, line in following if re.match(pattern, line)), after)

    def _fault(self, line: int, message: str, hint: str) -> None:
        shown = self.lines[line - 1] if line else ""
        self.report.add(Diagnostic(self.display, line, 0, "config", message, hint, shown))
