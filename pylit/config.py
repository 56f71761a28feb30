"""What an author decides about a site, in ``docs_src/site.toml`` or in ``[tool.pylit]`` of
``pyproject.toml``, read and checked.

Each key is declared once, with a rule for its value and what it is for: the page of all settings
shows that. A fault is reported with its line and, for a misspelt key, the nearest valid one.
"""

import os
import re
import subprocess
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from pylit.diagnostics import Diagnostic, Report, nearest
from pylit.model import DIALECTS


@dataclass(frozen=True, slots=True)
class PageName:
    """A page as the settings name it: ``package.module``, or ``notation``."""

    name: str
    #: Its line in the file of settings.
    line: int = 0


class _Rule(NamedTuple):
    """What the value of a key is."""

    valid: Callable[[Any], object]
    expected: str
    #: None for a required key.
    default: Any
    #: What it is for.
    about: str
    #: What the tables are that are its value.
    kind: Any = None


def _field(rule: _Rule) -> Any:
    return field(default=rule.default or "", metadata={"rule": rule})


def _text(pattern: str, example: str, about: str, default: str | None = "") -> Any:
    whole = re.compile(pattern, re.DOTALL).fullmatch
    expected = f'text such as "{example}"'
    return _field(_Rule(lambda v: isinstance(v, str) and whole(v), expected, default, about))


def _are_names(value: Any) -> bool:
    texts = isinstance(value, list) and all(isinstance(name, str) and name for name in value)
    return texts and len(set(value)) == len(value)


def _are_tables(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(table, dict) for table in value)


def _names(examples: str, about: str, default: tuple[()] | None = ()) -> Any:
    expected = f"a list of different names such as [{examples}]"
    return _field(_Rule(_are_names, expected, default, about))


def _tables(key: str, kind: type[Any], about: str) -> Any:
    return _field(_Rule(_are_tables, f"tables below headers such as [[{key}]]", (), about, kind))


@dataclass(frozen=True, slots=True)
class Group:
    """Pages under one title, in reading order."""

    title: str = _text(r".*\S.*", "Attention", "Its title.", None)
    summary: str = _text(r".*", "Attention, line by line.", "A sentence about it.")
    pages: tuple[PageName, ...] = _names(
        '"package.module", "notation"', "Modules, and pages of docs_src/pages, in order.", None
    )
    home: str = _text(
        "pages|title",
        "title",
        "What the home page shows of it beside reading paths: its pages, or its title alone, which"
        " leads to the list of all pages.",
        "pages",
    )
    needs: str = _text(
        r".*", "You need matrix products.", "What readers of a path know: below the way to begin."
    )


@dataclass(frozen=True, slots=True)
class Relation:
    """A decorator such as ``@kernel_for(Layer.forward)`` relates its function to its argument.

    Each of the two gets a line below its note: these words, and a link to the other.
    """

    decorator: str = _text(r"[^\W\d]\w*", "kernel_for", "The name of a decorator.", None)
    on_function: str = _text(r".*\S.*", "Kernel for", "Under the notes of what it decorates.", None)
    on_argument: str = _text(
        r".*\S.*", "Also computed by", "Under the notes of the method that is its argument.", None
    )


@dataclass(frozen=True, slots=True)
class Excerpt:
    """Lines of a page that the home page shows: the first that contain these pieces of code."""

    page: str = _text(r".*\S.*", "package.module", "The page, a module of the site.", None)
    lines: tuple[str, ...] = _names('"x = a @ b", "return x"', "Pieces of its lines.", None)
    lit: str = _text(
        r".*\S.*", "return x", "That of the line which is lit, whose note stands beside.", None
    )


#: The home page of a project that has written none for its site.
README = "README.md"
_FILE = r"([^/\\\s][^\\]*)?"


@dataclass(frozen=True, slots=True)
class SiteConfig:
    """The settings of one site, by their keys; a text that is not given is empty."""

    title: str = _text(r".*\S.*", "Attention", "Title of the site.", None)
    summary: str = _text(r".*", "Attention, line by line.", "The sentence below the title.")
    version: str = _text(
        r"[^\s]*", "1.2.0", "Version of the project, for footers, and for links of other sites."
    )
    about: str = _text(
        r".*", "What this is to other projects.", "Sentences for the footer of each page."
    )
    authors: str = _text(
        r".*", "Ada Lovelace and others", "Who wrote it, for footers and citations."
    )
    license: str = _text(r".*", "MIT", "Its licence, for footers.")
    install: str = _text(
        r".*",
        "pip install git+{repository}",
        "The line above the import line of a page; one with {repository} needs its address.",
    )
    sources: tuple[str, ...] = _names(
        '"package", "tools.py"', "Packages, folders and files to render.", None
    )
    exclude: tuple[str, ...] = _names(
        '"tests", "pkg/_vendor/*"',
        "Names of files and folders to leave out; a pattern with / is for the whole path.",
    )
    docstrings: str = _text(
        "|".join(DIALECTS),
        "numpy",
        "How docstrings are written: markdown, numpy, google or sphinx. auto sees it in each of"
        " them, and their faults are warnings.",
        "auto",
    )
    readme: str = _text(
        _FILE,
        README,
        "The text of the home page, if there is no docs_src/pages/index.md; empty for none.",
        README,
    )
    base_url: str = _text(
        r"(https?://[^\s/?#]+(/[^\s?#]*)?)?",
        "https://example.org/nn/",
        "The address of this site, for search engines and cards.",
    )
    repository: str = _text(
        r"([\w.-]+/[\w.-]+)?",
        "owner/name",
        "On GitHub, for links to sources; else from [project.urls], else from git.",
    )
    branch: str = _text(r"[^\s~^:?*\[\\]+", "main", "The branch these links lead to.", "main")
    language: str = _text(
        r"[A-Za-z]{2,3}(-[A-Za-z0-9]{2,8})*", "pt-BR", "The language of the prose.", "en"
    )
    accent: str = _text(
        r"(#[0-9A-Fa-f]{6})?",
        "#7a1f5c",
        "Colour of links and marks, made darker or lighter until it reads well in both themes.",
    )
    logo: str = _text(
        r"([^/\s][^\\]*\.(svg|png))?", "docs/logo.svg", "A square picture before the title."
    )
    inventories: tuple[str, ...] = _names(
        '"https://numpy.org/doc/stable/"',
        "Documentation by Sphinx or pylit, whose names become links. Its objects.inv is fetched"
        " once and stays in the cache; or it is read from a path behind the address and a space.",
    )
    questions: tuple[str, ...] = _names(
        '"why several heads?"', "What the search offers to ask, as long as nothing is typed."
    )
    bar: tuple[str, ...] = _names(
        '"Notebooks", "exercises"',
        "Pages, or titles of groups, for the bar of each page.",
    )
    groups: tuple[Group, ...] = _tables("group", Group, "Pages below one title on the home page.")
    paths: tuple[Group, ...] = _tables(
        "path", Group, "A reading path: cards below its title on the home page, in order."
    )
    excerpts: tuple[Excerpt, ...] = _tables(
        "excerpt", Excerpt, "What the home page shows beside its title; the first counts."
    )
    relations: tuple[Relation, ...] = _tables(
        "relation", Relation, "Functions that are decorated with a method, and that method."
    )
    #: The file of the settings, for diagnostics.
    display: str = ""
    #: The day of the sources: that of ``SOURCE_DATE_EPOCH``, else of the last commit.
    date: str = ""


def _rules(kind: Any) -> dict[str, _Rule]:
    """The keys of a table, and what their values are."""
    found = {each.name: each.metadata["rule"] for each in fields(kind) if each.metadata}
    # Each table has a header of its own, `[[group]]`.
    return {name[:-1] if rule.kind else name: rule for name, rule in found.items()}


#: The address of a repository on GitHub, for browsers or for git.
_GITHUB = re.compile(r"github\.com[/:]([\w.-]+/[\w.-]+?)(?:\.git)?/?$")
#: Labels in ``[project.urls]`` that may name it, as PyPI's page on well-known labels writes them:
#: without spaces and punctuation, in lower case; the first that does is taken.
_LABELS = ("repository", "source", "sourcecode", "github", "homepage")


def settings(kind: Any = SiteConfig, header: str = "") -> Iterator[tuple[str, str, str, str]]:
    """Every setting: its key, below a header if it has one; its meaning, form and default."""
    rules = _rules(kind)
    for key, rule in rules.items():
        default = "required" if rule.default is None else rule.default or "none"
        yield f"{header}{key}", rule.about, rule.expected, default
    for key, rule in rules.items():
        if rule.kind:
            yield from settings(rule.kind, f"[[{key}]] ")


#: The files of settings, below the folder of a site: one of the two.
SITE_TOML, PYPROJECT = "docs_src/site.toml", "pyproject.toml"
#: The folder of notes on the code of others, which need no settings.
NOTES = "docs_src/notes"


def has_settings(root: Path) -> bool:
    """Whether a folder is that of a site."""
    return (root / SITE_TOML).is_file() or (root / NOTES).is_dir() or in_pyproject(root)


def in_pyproject(root: Path) -> bool:
    """Whether the settings of a site are in ``pyproject.toml``."""
    return "pylit" in _table(_project(root, Report()), "tool")


def load_config(root: Path, report: Report) -> SiteConfig | None:
    """Read the settings of the site in `root`; None, with the reasons in `report`, when any of them
    is wrong. What they do not say, the metadata of the project may: ``[project]``.
    """
    before, display = len(report), SITE_TOML
    project = _project(root, report)
    tools = _table(project, "tool")
    values = _table(tools, "pylit") if "pylit" in tools else None
    if values is None and (root / NOTES).is_dir() and not (root / SITE_TOML).exists():
        whose = ", ".join(sorted(path.stem for path in (root / NOTES).glob("[!.]*")))
        summary = "Notes beside the code that they speak of, as it is installed."
        return _located(SiteConfig(title=f"Notes on {whose}", summary=summary), {}, root)
    if (root / SITE_TOML).exists() or (values is None and len(report) == before):
        if values is not None:
            message, hint = "has settings, and [tool.pylit] too", "keep one of the two"
            report.add(Diagnostic(SITE_TOML, 0, 0, "config", message, hint))
        values = _read(root, SITE_TOML, report)
    else:
        display = PYPROJECT
    if values is None or len(report) > before:
        return None
    about = _about(project)
    known = {"title": "name", "summary": "description", "version": "version"}
    said = {key: about[name] for key, name in known.items() if name in about}
    values = said | _signed(about) | dict(values)
    text = (root / display).read_text("utf-8-sig")
    header = next((n for n, t in enumerate(text.split("\n"), 1) if t.strip() == "[tool.pylit]"), 0)
    table = _Reader(display, text.split("\n"), report).table(values, SiteConfig, header)
    for key in {"readme", "logo"} & values.keys() if len(report) == before else ():
        path = (root / table[key]).resolve()
        if table[key] and not (path.is_file() and path.is_relative_to(root.resolve())):
            message, hint = f"`{key}` is '{table[key]}'", f"expected a file in {root}"
            report.add(Diagnostic(display, 0, 0, "config", message, hint))
    if len(report) > before:
        return None
    tables = {f"{key}s": table.pop(key) for key in ("group", "path", "excerpt", "relation")}
    config = SiteConfig(display=display, **tables, **table)
    return _located(config, _table(about, "urls"), root)


def metadata(root: Path) -> Mapping[str, Any]:
    """What a project says of itself; nothing if that cannot be read."""
    return _about(_project(root, Report()))


def _about(project: Mapping[str, Any]) -> Mapping[str, Any]:
    """The metadata in ``pyproject.toml``, as the standard has it, or as Poetry had it before."""
    return _table(project, "project") or _table(_table(project, "tool"), "poetry")


def _signed(about: Mapping[str, Any]) -> dict[str, str]:
    """Authors and licence out of the metadata of a project, as far as they are texts."""
    people, license = about.get("authors", ()), about.get("license", "")
    named = [one.get("name") if isinstance(one, dict) else one for one in people]
    authors = ", ".join(one.partition(" <")[0] for one in named if isinstance(one, str))
    license = license.get("text", "") if isinstance(license, dict) else license
    # The text of a whole licence is no name.
    license = license if isinstance(license, str) and "\n" not in license else ""
    return {k: v for k, v in (("authors", authors), ("license", license)) if v}


def _day(root: Path) -> str:
    """The day of the sources below a folder, so that the same sources give the same pages."""
    epoch = os.environ.get("SOURCE_DATE_EPOCH", "")
    if epoch.isdecimal():
        return datetime.fromtimestamp(int(epoch), UTC).date().isoformat()
    return _git(root, "log", "-1", "--format=%cs", "--", ".")


def _git(root: Path, *command: str) -> str:
    """What git says of a folder; nothing where there is no git, or no repository."""
    line = ["git", "-C", str(root), *command]
    try:
        return subprocess.run(line, capture_output=True, text=True, check=False).stdout.strip()
    except OSError:  # There is no git.
        return ""


def _table(values: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    """A table of a file that others check; nothing for what is no table."""
    found = values.get(key)
    return found if isinstance(found, dict) else {}


def _project(root: Path, report: Report) -> Mapping[str, Any]:
    return (_read(root, PYPROJECT, report) or {}) if (root / PYPROJECT).is_file() else {}


def _read(root: Path, name: str, report: Report) -> dict[str, Any] | None:
    try:
        return tomllib.loads((root / name).read_bytes().decode("utf-8-sig"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        line = re.search(r"at line (\d+)", str(error))
        hint = "it is TOML (https://toml.io) in UTF-8; `pylit init PACKAGE` writes one"
        message = f"cannot be read: {error}"
        report.add(Diagnostic(name, int(line[1]) if line else 0, 0, "config", message, hint))
        return None


def _located(config: SiteConfig, urls: Mapping[str, Any], root: Path) -> SiteConfig:
    """Take a missing repository from ``[project.urls]``, else from git's remote.

    The address of the site is in the settings alone: a homepage is seldom this site.
    """
    found = None
    if not config.repository:
        named = {re.sub(r"[\W_]", "", label).lower(): str(url) for label, url in urls.items()}
        remote = _git(root, "remote", "get-url", "origin")
        ways = [*(named.get(label, "") for label in _LABELS), remote]
        found = next(filter(None, (_GITHUB.search(way.strip()) for way in ways)), None)
    base = config.base_url
    return replace(
        config,
        repository=found[1] if found else config.repository,
        base_url=base and base.rstrip("/") + "/",
        date=_day(root),
    )


@dataclass(frozen=True, slots=True)
class _Reader:
    """Checks tables of a file and collects the faults."""

    display: str
    lines: list[str]
    report: Report

    def table(self, values: Mapping[str, Any], kind: Any, header: int) -> dict[str, Any]:
        """The valid values of the table below a header line, with defaults for missing keys."""
        rules = _rules(kind)
        for key in values.keys() - rules.keys():
            hint = nearest(key, rules, f"valid keys: {', '.join(sorted(rules))}")
            self._fault(self._line_of(key, header), f"unknown key `{key}`", hint)
        result: dict[str, Any] = {}
        for key, rule in rules.items():
            value = result[key] = values.get(key, rule.default)
            line = self._line_of(key, header) if key in values else header
            if value is None:
                self._fault(line, f"`{key}` is missing", f"expected {rule.expected}")
            elif key in values and not rule.valid(value):
                self._fault(line, f"`{key}` is {value!r}", f"expected {rule.expected}")
                result[key] = ()
            elif rule.kind:
                result[key] = tuple(self._tables(value, key, rule.kind))
            elif rule.valid is _are_names:
                find = self._page if key == "pages" else lambda name, _: name
                result[key] = tuple(find(name, line) for name in value)
        return result

    def _tables(
        self, tables: Iterable[Mapping[str, Any]], key: str, kind: type[Any]
    ) -> Iterator[Any]:
        header = 0
        for table in tables:
            header = self._line(rf"\s*\[\[\s*(tool\.pylit\.)?{key}\s*\]\]", header)
            yield kind(**self.table(table, kind, header))

    def _page(self, name: str, line: int) -> PageName:
        return PageName(name, self._line(f".*[\"']{re.escape(name)}[\"']", line - 1))

    def _line_of(self, key: str, header: int) -> int:
        return self._line(
            rf"\s*\[*\s*(tool\.pylit\.)?[\"']?{re.escape(key)}[\"']?\s*[=.\]]", header
        )

    def _line(self, pattern: str, after: int) -> int:
        """The first line after another that matches a pattern; that other if there is none."""
        following = enumerate(self.lines[after:], after + 1)
        return next((number for number, line in following if re.match(pattern, line)), after)

    def _fault(self, line: int, message: str, hint: str) -> None:
        shown = self.lines[line - 1] if line else ""
        self.report.add(Diagnostic(self.display, line, 0, "config", message, hint, shown))
