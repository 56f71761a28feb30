"""The place of a page in its site: path, relations; and faults of front matter and formulas."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote

from pylit.addresses import HOME, MISSING
from pylit.cards import card_url
from pylit.config import Relation, SiteConfig
from pylit.cpp import is_cpp
from pylit.diagnostics import Diagnostic, Report, nearest
from pylit.model import Definition, Draft, Neighbours, SourceFile, Target, Uses
from pylit.symbols import Typeset, typeset_formula

_ARXIV = re.compile(r"(?:arxiv:)?(\d{4}\.\d{4,5}(?:v\d+)?)", re.IGNORECASE)
#: The keys of the front matter.
FRONT_MATTER = ("title", "summary", "paper", "notebook")

#: Kind of a relation -> the address, the name and the full name of each related definition.
Related = Mapping[str, Sequence[tuple[str, str, str]]]


@dataclass(frozen=True, slots=True)
class Place:
    """What a page shows of the rest of the site."""

    #: The path in the header: titles and addresses, which may be empty.
    crumbs: tuple[tuple[str, str], ...] = ()
    around: Neighbours = field(default_factory=Neighbours)
    #: Absolute address of its source in the repository.
    source_url: str = ""
    #: Its notebook: a page of the site, or else a file of the repository.
    notebook_url: str = ""
    colab_url: str = ""
    #: Relations of the definitions of the page, by their names.
    related: Mapping[str, Related] = field(default_factory=dict)
    #: Names of a private module -> the public package that has them, too.
    exports: Mapping[str, str] = field(default_factory=dict)


def place(
    draft: Draft, source: Path, root: Path, config: SiteConfig, urls: Mapping[str, str]
) -> Place:
    """The place of a page without its neighbours; `urls` maps names of pages to addresses."""
    # The name of a file of C++ is its path.
    parts = [] if draft.prose else draft.name.split("/" if "/" in draft.name else ".")
    packages = (".".join(parts[:count]) for count in range(1, len(parts)))
    links = [*(urls.get(package, "") for package in packages), ""]
    crumbs = tuple(zip(parts, links, strict=False))
    if draft.prose and draft.url not in (HOME, MISSING):
        crumbs = ((draft.title, ""),)
    notebook = draft.front_matter.get("notebook", "")
    page = urls.get(notebook, "")
    if not (config.repository and draft.own and source.is_relative_to(root)):
        return Place(crumbs, notebook_url=page)
    tree = f"{config.repository}/blob/{config.branch}/"
    github = f"https://github.com/{tree}"
    return Place(
        crumbs,
        source_url=github + quote(source.relative_to(root).as_posix()),
        notebook_url=page or (notebook and github + notebook),
        colab_url=notebook and f"https://colab.research.google.com/github/{tree}{notebook}",
    )


def card_of(draft: Draft) -> str:
    """Address of its card; sources of C++ have none, nor do pages of other packages."""
    return card_url(draft.url) if draft.own and not is_cpp(draft.display) else ""


def paper_url(paper: str) -> str:
    """The address of a paper: written out, or an arXiv number."""
    number = _ARXIV.fullmatch(paper.strip())
    if number:
        return f"https://arxiv.org/abs/{number[1]}"
    return paper.strip() if paper.strip().startswith(("https://", "http://")) else ""


def front_matter_faults(draft: Draft, lines: Sequence[str], root: Path, report: Report) -> None:
    """Report unknown keys of the front matter of an own page, and values without a target."""
    for key, value in draft.front_matter.items():
        if key not in FRONT_MATTER:
            hint = nearest(key, FRONT_MATTER, f"known: {', '.join(FRONT_MATTER)}")
            message = f"unknown key `{key}`"
        elif key == "paper" and not paper_url(value):
            message = f"`paper` is `{value}`"
            hint = "write an address, https://…, or an arXiv number, 1706.03762"
        elif key == "notebook" and not (root / value).is_file():
            message = f"`notebook` is `{value}`, and there is no such file"
            hint = "write its path from the root of the repository"
        else:
            continue
        line = next((n for n, text in enumerate(lines, 1) if text.strip().startswith(key)), 0)
        source = lines[line - 1] if line else ""
        report.add(Diagnostic(draft.display, line, 0, "front-matter", message, hint, source))


def tex_faults(draft: Draft, file: SourceFile, typeset: Typeset, report: Report) -> None:
    """Report the formulas of a page that are not valid TeX, each at its place in the source."""
    lines = file.lines
    for formula in (formula for note in draft.notes() for formula in note.formulas):
        rendered = typeset_formula(formula, typeset)
        if not rendered.error:
            continue
        before, rest = formula.tex[: rendered.offset], formula.tex[rendered.offset :]
        line = formula.line + before.count("\n")
        source = lines[line - 1] if line <= len(lines) else ""
        # Of a formula on several lines, only the offset in the last of them is known.
        start = formula.column if "\n" not in before else 1
        column = start + len(before.rpartition("\n")[2])
        rest = rest.partition("\n")[0]
        found = source.find(rest, max(column - 1, 0)) if rest else -1
        column = found + 1 if found >= 0 else min(column, len(source) + 1)
        message = f"{rendered.error} in `{' '.join(formula.tex.split())[:80]}`"
        hint = "correct the formula, or write `\\$` for a dollar sign"
        report.fault(file.strict, (file.display, line, column), "tex", message, hint, source)


def relations(
    drafts: Sequence[Draft], targets: Mapping[str, Target], declared: Sequence[Relation]
) -> dict[str, dict[str, Related]]:
    """Relations between the public classes and functions of a site, and those of decorators.

    By the address of a page, and the name of a definition on it, in the order of its code.
    """
    definitions = {target.url: target.definition for target in targets.values()}
    shown = {address for address, definition in definitions.items() if _is_shown(definition)}
    links: dict[str, dict[str, list[str]]] = {
        f"{draft.url}#{name}": {} for draft in drafts for name in draft.uses
    }

    def link(address: str, kind: str, other: str) -> None:
        links.setdefault(address, {}).setdefault(kind, []).append(other)

    for draft in drafts:
        for name in draft.uses:
            address = f"{draft.url}#{name}"
            for other in _used(name, draft.url, draft.uses) if address in shown else ():
                if other in shown and other != address:
                    link(address, "built_from", other)
                    link(other, "used_by", address)
        for relation in declared:
            for function, decorators in draft.decorated.items():
                address = f"{draft.url}#{function}"
                for name, other in decorators:
                    if name == relation.decorator and {address, other} <= definitions.keys():
                        link(other, relation.on_argument, address)
                        link(address, relation.on_function, other)
    found: dict[str, dict[str, Related]] = {}
    for address, kinds in links.items():
        kinds.get("used_by", []).sort()
        page, _, name = address.partition("#")
        if kinds:
            found.setdefault(page, {})[name] = {
                kind: [(a, definitions[a].qualname, definitions[a].dotted) for a in addresses]
                for kind, addresses in kinds.items()
            }
    return found


def _is_shown(definition: Definition) -> bool:
    """Whether relations include a definition: not what returns nothing, such as a check."""
    name = definition.qualname
    if definition.kind not in ("class", "function") or "." in name or name.startswith("_"):
        return False
    return not definition.signature.endswith("-> None")


def _used(name: str, page: str, uses: Uses) -> dict[str, None]:
    """What a definition uses, the helpers of its module replaced by what they use."""
    found: dict[str, None] = {}
    pending, seen = [*reversed(uses[name])], {name}
    while pending:
        address = pending.pop()
        where, _, used = address.partition("#")
        if where == page and used.startswith("_") and used in uses:
            if used not in seen:
                seen.add(used)
                pending += reversed(uses[used])
        else:
            found.setdefault(address)
    return found
