"""Drafts, formulas and neighbours put together: what the templates show."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from html import escape
from pathlib import Path
from typing import Literal
from urllib.parse import quote

from pylit.addresses import HOME, MISSING, relative
from pylit.cards import card_url
from pylit.config import SiteConfig
from pylit.cpp import is_cpp
from pylit.diagnostics import Diagnostic, Report, Severity, nearest
from pylit.indexes import text_url
from pylit.model import (
    CodeLine,
    Definition,
    Draft,
    DraftSection,
    Formula,
    Heading,
    Module,
    NoteHtml,
    PageLink,
    SectionView,
    Target,
    Uses,
)
from pylit.shapes.lines import ModuleShapes
from pylit.symbols import Typeset, typeset_formula
from pylit.tex import Rendered, fill

_ARXIV = re.compile(r"(?:arxiv:)?(\d{4}\.\d{4,5}(?:v\d+)?)", re.IGNORECASE)
_SPECIAL: Mapping[str, Literal["home", "missing"]] = {HOME: "home", MISSING: "missing"}
#: What the front matter of a page may say.
FRONT_MATTER = ("title", "summary", "paper", "notebook")
#: Columns that a line of code and its chip may take beside each other: up to the first there is
#: always room beside a note; `css/55-shapes.css` has a rule for each of the others.
ROOMS = range(64, 129, 4)
#: As many names as an import line shows without becoming a paragraph.
_IMPORTED = 4


#: What a definition has to do with: a kind of relation -> the address of each other definition, its
#: name, and its full name.
Related = Mapping[str, Sequence[tuple[str, str, str]]]


@dataclass(frozen=True, slots=True)
class Place:
    """Where a page stands in the site."""

    #: The path to it; a step without a page has no address.
    crumbs: tuple[PageLink, ...] = ()
    #: The pages before and after it, and the path or group in which they are.
    previous: PageLink | None = None
    next: PageLink | None = None
    path_title: str = ""
    #: Absolute address of the source in its repository; of the notebook, its page in the site or
    #: its file there; and of the notebook in Colab.
    source_url: str = ""
    notebook_url: str = ""
    colab_url: str = ""
    #: What the definitions of the page are built from, and what uses them.
    related: Mapping[str, Related] = field(default_factory=dict)


#: What a page is: the name of its template.
Kind = Literal["module", "prose", "home", "list", "missing"]


@dataclass(frozen=True, slots=True)
class PageView:
    """Everything a template needs to show one page. Addresses are from the site's root."""

    kind: Kind
    url: str
    title: str
    #: Plain text, one or two sentences, for search engines and previews.
    summary: str
    title_html: str = ""
    summary_html: str = ""
    place: Place = Place()
    #: Headings of level 2 and 3; their HTML has its formulas.
    outline: tuple[Heading, ...] = ()
    sections: tuple[SectionView, ...] = ()
    body: str = ""
    #: Each definition, with what it is built from and what uses it, as HTML.
    relations: tuple[tuple[str, str, str], ...] = ()
    #: ``from labml_nn.transformers.mha import MultiHeadAttention``, for the copy button.
    import_line: str = ""
    #: From the site's root: the page as Markdown, and the picture that stands for it elsewhere.
    text_url: str = ""
    card: str = ""
    minutes: int = 1
    paper_url: str = ""
    #: Whether its lines show shapes, and the page, from the site's root, that explains the letters.
    shapes: bool = False
    letters_url: str = ""
    #: Shown above everything: why a page has no notes.
    warning: str = ""


def place(
    draft: Draft, source: Path, root: Path, config: SiteConfig, urls: Mapping[str, str]
) -> Place:
    """The place of a page without its neighbours; `urls` maps names of pages to addresses."""
    crumbs = []
    # The name of a file of C++ is its path.
    parts = [] if draft.prose else draft.name.split("/" if "/" in draft.name else ".")
    for count, part in enumerate(parts, start=1):
        last = count == len(parts)
        url = "" if last else urls.get(".".join(parts[:count]), "")
        crumbs.append(PageLink(url, part))
    if draft.prose and draft.url not in _SPECIAL:
        crumbs.append(PageLink("", draft.title))
    notebook = draft.front_matter.get("notebook", "")
    found = Place(tuple(crumbs), notebook_url=urls.get(notebook, ""))
    if not (config.repository and draft.own and source.is_relative_to(root)):
        return found
    tree = f"{config.repository}/blob/{config.branch}/"
    files = f"https://github.com/{tree}"
    return replace(
        found,
        source_url=files + quote(source.relative_to(root).as_posix()),
        notebook_url=found.notebook_url or (notebook and files + notebook),
        colab_url=notebook and f"https://colab.research.google.com/github/{tree}{notebook}",
    )


def page_view(
    draft: Draft,
    module: Module,
    where: Place,
    typeset: Typeset,
    shapes: ModuleShapes = ModuleShapes(),  # noqa: B008 - a value that never changes
) -> PageView:
    """Everything that the template of one page shows."""
    with_lines = (
        with_kernels(section, draft.url, where.related.get(section.definition, {}))
        for section in draft.sections
    )
    sections = tuple(_section_view(section, typeset, shapes) for section in with_lines)
    return PageView(
        kind=_SPECIAL.get(draft.url, "prose") if draft.prose else "module",
        url=draft.url,
        title=draft.title,
        summary=draft.summary,
        title_html=_filled(draft.title_note, typeset),
        summary_html=_filled(draft.summary_note, typeset),
        place=where,
        outline=tuple(_outline(draft, module, typeset)),
        sections=() if draft.prose else sections,
        body="".join(section.note for section in sections) if draft.prose else "",
        relations=relation_rows(draft.url, where.related),
        import_line="" if draft.prose else import_line(module),
        text_url=text_url(draft),
        card=card_of(draft),
        minutes=draft.minutes,
        paper_url=paper_url(draft.front_matter.get("paper", "")),
        warning=draft.warning,
        shapes=bool(shapes.chips),
        letters_url=shapes.page,
    )


def card_of(draft: Draft) -> str:
    """Where its card lies; sources of C++ have none, nor have another's pages."""
    return card_url(draft.url) if draft.own and not is_cpp(draft.display) else ""


def _section_view(section: DraftSection, typeset: Typeset, shapes: ModuleShapes) -> SectionView:
    note = "".join(_filled(note, typeset) for note in section.notes)
    code = tuple(_with_shapes(line, shapes) for line in section.code)
    return SectionView(section.definition, note, code)


def _with_shapes(line: CodeLine, shapes: ModuleShapes) -> CodeLine:
    chip = shapes.chips.get(line.number, "")
    room = _room(shapes.widths[line.number]) if chip else ""
    return replace(line, chip=chip, room=room, ran=line.number not in shapes.unreached)


def _room(columns: int) -> str:
    """The class of a line of code with a chip; the style sheet knows how wide each of them is."""
    if columns <= ROOMS.start:
        return ""
    return next((f"w{room}" for room in ROOMS if columns <= room), "over")


def _filled(note: NoteHtml, typeset: Typeset) -> str:
    if not note.formulas:
        return note.html
    return fill(note.html, [typeset_formula(f, typeset) for f in note.formulas])


def _outline(draft: Draft, module: Module, typeset: Typeset) -> Iterator[Heading]:
    """Headings of the notes; a definition whose note has none is listed under its name."""
    kinds = {d.qualname: d.kind for d in module.definitions}
    for section in draft.sections:
        named = False
        for note in section.notes:
            shown = [typeset_formula(f, typeset) for f in note.formulas]
            for heading in note.headings:
                named = True
                if heading.level <= 3:
                    html = fill(heading.html, shown)
                    yield replace(heading, level=max(heading.level, 2), html=html)
        name = section.definition.rpartition(".")[2]
        if section.definition and not named and not name.startswith("_"):
            level = 3 if kinds.get(section.definition) == "method" else 2
            yield Heading(level, section.definition, name, f"<code>{name}</code>", 0)


def import_line(module: Module) -> str:
    """What a reader types to use the module: the definition that has its name, else its public
    classes, or functions if it has none.
    """
    if not module.parsed or not all(p.isidentifier() for p in module.source.name.split(".")):
        return ""
    top = [d for d in module.definitions if d.qualname and "." not in d.qualname]
    public = [d for d in top if not d.qualname.startswith("_")]
    package, _, name = module.source.name.rpartition(".")
    names = [name] if name in {d.qualname for d in public} else []
    names = names or [d.qualname for d in public if d.kind == "class"]
    names = names or [d.qualname for d in public if d.kind == "function"]
    if 0 < len(names) <= _IMPORTED:
        return f"from {module.source.name} import {', '.join(names)}"
    return f"from {package} import {name}" if package else f"import {name}"


def paper_url(paper: str) -> str:
    """The address of a paper: written out, or an arXiv number."""
    number = _ARXIV.fullmatch(paper.strip())
    if number:
        return f"https://arxiv.org/abs/{number[1]}"
    return paper.strip() if paper.strip().startswith(("https://", "http://")) else ""


def front_matter_faults(draft: Draft, lines: Sequence[str], root: Path, report: Report) -> None:
    """Report keys of an own page that nobody reads, and values that lead nowhere."""
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


def tex_faults(draft: Draft, lines: list[str], typeset: Typeset, report: Report) -> None:
    """Report the formulas of a page that are not valid TeX, each at its place in the source."""
    for note in draft.notes():
        for formula in note.formulas:
            rendered = typeset_formula(formula, typeset)
            if rendered.error:
                report.add(_tex_fault(draft, lines, formula, rendered))


def _tex_fault(draft: Draft, lines: list[str], formula: Formula, bad: Rendered) -> Diagnostic:
    before = formula.tex[: bad.offset]
    line = formula.line + before.count("\n")
    source = lines[line - 1] if line <= len(lines) else ""
    # Of a formula on several lines, only the place within the last of them is known.
    start = formula.column if "\n" not in before else 1
    column = start + len(before.rpartition("\n")[2])
    rest = formula.tex[bad.offset :].partition("\n")[0]
    found = source.find(rest, max(column - 1, 0)) if rest else -1
    return Diagnostic(
        path=draft.display,
        line=line,
        column=found + 1 if found >= 0 else min(column, len(source) + 1),
        code="tex",
        message=f"{bad.error} in `{' '.join(formula.tex.split())[:80]}`",
        hint="mend the formula, or write `\\$` for a dollar sign",
        source_line=source,
        severity=Severity.ERROR if draft.own else Severity.WARNING,
    )


#: As many names as a line shows. What more use is a tool of everybody.
MOST = 12

#: Lines under the note of a method, and of a function that is a kernel for one.
_KERNELS = {
    "kernels": "Also computed, with the same result, by the kernel",
    "references": "Kernel for",
}


def relations(
    drafts: Sequence[Draft], targets: Mapping[str, Target]
) -> dict[str, dict[str, Related]]:
    """How the public classes and functions of a site are related, and methods and kernels.

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
                    link(address, "built from", other)
                    link(other, "used by", address)
        for function, reference in draft.kernels.items():
            kernel = f"{draft.url}#{function}"
            if kernel in definitions and reference in definitions:
                link(reference, "kernels", kernel)
                link(kernel, "references", reference)
    found: dict[str, dict[str, Related]] = {}
    for address, kinds in links.items():
        kinds.get("used by", []).sort()
        page, _, name = address.partition("#")
        if kinds:
            found.setdefault(page, {})[name] = {
                kind: [(a, definitions[a].qualname, definitions[a].dotted) for a in addresses]
                for kind, addresses in kinds.items()
            }
    return found


def _is_shown(definition: Definition) -> bool:
    """Whether a definition is part of what others are made of.

    What is declared to return nothing is not: it checks, or writes.
    """
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


def with_kernels(section: DraftSection, page: str, related: Related) -> DraftSection:
    """The section of a definition with a line about its kernel under its note, if it has a note."""
    if not related or not any(note.html for note in section.notes):
        return section
    lines = [
        f"{title} {_links(related[kind], page)}"
        for kind, title in _KERNELS.items()
        if kind in related
    ]
    note = NoteHtml(f'<p class="related">{"<br>".join(lines)}</p>\n' if lines else "")
    return replace(section, notes=(*section.notes, note))


def relation_rows(page: str, related: Mapping[str, Related]) -> tuple[tuple[str, str, str], ...]:
    """For the end of a page: each definition, what it is built from and what uses it, as HTML."""
    rows = (
        (name, *(_links(one.get(kind, ()), page) for kind in ("built from", "used by")))
        for name, one in related.items()
    )
    return tuple((name, built, used) for name, built, used in rows if built or used)


def _links(names: Sequence[tuple[str, str, str]], page: str) -> str:
    links = []
    for address, name, dotted in names[:MOST]:
        href = escape(relative(page, address))
        links.append(f'<a class="x" href="{href}" data-x="{escape(dotted)}">{escape(name)}</a>')
    more = f", and {len(names) - MOST} more" if len(names) > MOST else ""
    return ", ".join(links) + more
