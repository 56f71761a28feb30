"""A page as HTML: its draft, place, formulas and shapes, put into the templates of a theme."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from html import escape, unescape
from pathlib import Path
from types import MappingProxyType
from typing import Literal, NamedTuple

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from pylit.addresses import (
    COMPARED,
    HOME,
    MISSING,
    canonical,
    card_url,
    paper_url,
    relative,
    replay_url,
    slugify,
    text_url,
)
from pylit.model import CodeLine, Draft, Module, NoteHtml, SiteView
from pylit.notes.markdown import EXERCISES
from pylit.notes.tex import Typeset, fill, typeset_formula
from pylit.pages.excerpts import Shown
from pylit.pages.navigation import Place
from pylit.pages.relations import Related
from pylit.pages.rows import Block, Row, illustrated, rows
from pylit.runs.shapes.lines import ModuleShapes
from pylit.source.highlight import hanging
from pylit.words import NO_WORDS, Words, spoken

#: What a page is: the name of its template.
Kind = Literal["module", "prose", "compare", "home", "list", "missing"]
_SPECIAL: Mapping[str, Kind] = {HOME: "home", MISSING: "missing"}
#: Names in an import line, at most.
_IMPORTED = 4
#: Links in a list of related definitions, at most.
_MOST_LINKS = 12
#: Relations that are a table at the end of a page; others are lines below notes.
_LISTED = ("built_from", "used_by")
#: Columns that a line of code and its chip may take beside each other: up to the first there is
#: always room beside a note; `css/55-shapes.css` has a rule for each of the others.
_ROOMS = range(64, 129, 4)
_TAG = re.compile("<[^>]*>")
#: Fonts of every page, and those that a formula needs to be laid out, by what it contains.
_FONTS = ("serif", "sans", "mono", "serif-italic")
_MATH_FONTS = {"<mjx-c": ("mjx-ncm-n", "mjx-ncm-zero")}
#: Letters of the HTML of notes that may stand on the first screens of a page.
_SCREENS = 12_000
#: Inline code and formulas of up to 20 characters, such as ``[T, B, C]``, stay on one line; in the
#: narrowest window they fit into a list inside a list. Longer ones are marked, for they are few.
_LONG = re.compile(r'<code(?=>[^<]{21})|<mjx-container(?=[^>]* data-tex="[^"]{21})')


#: The anchor between the first reading of a module and its code.
BORDER = "line-by-line"
#: That of everything below the bar.
MAIN = "main-content"


@dataclass(frozen=True, slots=True)
class Border:
    """Where the first reading of a module ends: its rows, and the minutes of three parts."""

    row: int
    minutes: Sequence[int]
    #: Entries of the outline in each of the three.
    entries: Sequence[int]
    #: The first anchor of what comes after the code, and that of its exercises.
    reference: str = ""
    exercises: str = ""


class Part(NamedTuple):
    """A part of a page: its title, anchor and minutes, if it has them; and its outline."""

    title: str
    anchor: str
    minutes: int
    outline: Sequence[tuple[int, str, str]]


@dataclass(frozen=True, slots=True)
class PageView:
    """A page as a template reads it."""

    kind: Kind
    draft: Draft
    #: As HTML, with formulas.
    title: str
    summary: str
    place: Place = Place()  # noqa: RUF009 - a value that never changes
    #: Level, anchor and HTML of each line of the outline.
    outline: tuple[tuple[int, str, str], ...] = ()
    #: Each section as a row; `Renderer` lays them out anew.
    sections: tuple[Row, ...] = ()
    shapes: ModuleShapes = ModuleShapes()  # noqa: RUF009 - a value that never changes
    #: Address of the picture of it for other sites.
    card: str = ""
    #: The import statement for the copy button.
    import_line: str = ""
    #: What the home page shows of a lesson.
    excerpt: Shown | None = None
    #: Heights of the figures that are one small drawing.
    small: Mapping[str, int] = field(default_factory=dict)


def page_view(
    draft: Draft,
    module: Module,
    place: Place,
    typeset: Typeset,
    shapes: ModuleShapes = ModuleShapes(),  # noqa: B008 - a value that never changes
) -> PageView:
    """The view of a page that has a draft."""
    sections = []
    for section in draft.sections:
        note = "".join(_filled(note, typeset) for note in section.notes)
        if note:
            note += _related(place.related.get(section.definition, {}), draft.url)
        span = section.span if section.folded else None
        block = Block(section.definition, section.code, section.folded, span)
        blocks = (block,) if section.code or section.folded else ()
        sections.append(Row(section.definition, note, blocks))
    return PageView(
        kind=_kind(draft),
        draft=draft,
        title=_filled(draft.title_note, typeset),
        summary=_filled(draft.summary_note, typeset),
        place=place,
        outline=tuple(_outline(draft, module, typeset)),
        sections=tuple(sections),
        shapes=shapes,
        card=card_url(draft),
        import_line="" if draft.prose or draft.package else import_line(module, place.exports),
    )


def _border(draft: Draft, laid_out: Sequence[Row]) -> Border | None:
    """The border of an own module that begins with a long reading; any other has none."""
    row = next((number for number, row in enumerate(laid_out) if row.blocks), 0)
    if not (row and draft.first_reading):
        return None
    heads = [
        [head for section in part for note in section.notes for head in note.headings]
        for part in draft.parts()[::2]
    ]
    slugs, exercises = [head.slug for head in heads[1]], slugify(EXERCISES)
    entries = [sum(head.level <= 3 for head in part) for part in heads]
    reference = slugs[0] if slugs else ""
    minutes = draft.minutes_of_parts()
    return Border(row, minutes, entries, reference, exercises if exercises in slugs else "")


def _parts(border: Border | None, outline: Sequence[tuple[int, str, str]]) -> Iterator[Part]:
    """The parts of a page; one without a border is a single part without a title."""
    if border is None:
        yield Part("", "", 0, outline)
        return
    first, end = border.entries[0], len(outline) - border.entries[1]
    named = (
        ("First reading", MAIN, outline[:first]),
        ("Code", BORDER, outline[first:end]),
        ("Reference", border.reference, outline[end:]),
    )
    for (title, anchor, entries), minutes in zip(named, border.minutes, strict=True):
        if anchor:
            yield Part(title, anchor, minutes, entries)


def _kind(draft: Draft) -> Kind:
    if draft.display == draft.url and draft.url.startswith(f"{COMPARED}/"):
        return "compare"
    return _SPECIAL.get(draft.original, "prose") if draft.prose else "module"


def _filled(note: NoteHtml, typeset: Typeset) -> str:
    return fill(note.html, note.formulas, partial(typeset_formula, typeset=typeset))


def _outline(draft: Draft, module: Module, typeset: Typeset) -> Iterator[tuple[int, str, str]]:
    """Headings of the notes; a public definition whose note has none is listed under its name."""
    kinds = {d.qualname: d.kind for d in module.definitions}
    for section in draft.sections:
        for note in section.notes:
            for heading in note.headings:
                if heading.level <= 3:
                    shown = _filled(replace(note, html=heading.html), typeset)
                    yield max(heading.level, 2), heading.slug, shown
        name = section.definition
        headed = any(head.level <= 3 for note in section.notes for head in note.headings)
        if name and not headed and module.is_public(name):
            level = 3 if kinds.get(name) == "method" else 2
            yield level, name, f"<code>{name.rpartition('.')[2]}</code>"


def _related(related: Related, page: str) -> str:
    """The lines of the decorators that `site.toml` names."""
    shown = ((words, others) for words, others in related.items() if words not in _LISTED)
    lines = [f"{escape(words)} {definition_links(page, others)}" for words, others in shown]
    return f'<p class="related">{"<br>".join(lines)}</p>\n' if lines else ""


def definition_links(page: str, related: Sequence[tuple[str, str, str]]) -> Markup:
    """Links from a page to related definitions."""
    links = [
        f'<a class="x" href="{escape(relative(page, address))}" data-x="{escape(dotted)}">'
        f"{escape(name)}</a>"
        for address, name, dotted in related[:_MOST_LINKS]
    ]
    more = len(related) - _MOST_LINKS
    return Markup(", ".join(links) + (f", and {more} more" if more > 0 else ""))


def import_line(module: Module, exports: Mapping[str, str] = MappingProxyType({})) -> str:
    """What a reader types to use the module: the definition that has its name, else its public
    classes, or functions if it has none. What a public package exports is taken from there.
    """
    if not module.parsed or not all(p.isidentifier() for p in module.source.name.split(".")):
        return ""
    top = [d for d in module.definitions if d.qualname and "." not in d.qualname]
    public = [d for d in top if module.is_public(d.qualname)]
    public = [d for d in public if d.qualname in exports] or public
    package, _, name = module.source.name.rpartition(".")
    names = [name] if name in {d.qualname for d in public} else []
    names = names or [d.qualname for d in public if d.kind == "class"]
    names = names or [d.qualname for d in public if d.kind == "function"]
    origin = exports.get(names[0], module.source.name) if names else module.source.name
    names = [each for each in names if exports.get(each, origin) == origin]
    if 0 < len(names) <= _IMPORTED:
        return f"from {origin} import {', '.join(names)}"
    if exports:
        package, _, name = origin.rpartition(".")
    return f"from {package} import {name}" if package else f"import {name}"


class Renderer:
    """The templates of a theme, for the pages of one site.

    Args:
        folders: Of the templates, and of ``cards`` for the home page, in the order in which they
            are searched; a page is shown by the template named after its kind.
        site: The site as every template reads it.
        stamp: Of the templates; they are read again when it changes.
        words: Those of the language of the pages.
    """

    def __init__(
        self, folders: tuple[Path, ...], site: SiteView, stamp: str = "", words: Words = NO_WORDS
    ) -> None:
        self._site, self._words = site, words
        #: What the script of every page says in another language.
        scripts = sorted((folders[0] / "js" / "core").glob("*.js")) if words else ()
        self._said = {text: words[text] for text in spoken(scripts) if text in words}
        self._environment = _environment(folders, stamp)

    def page(self, view: PageView) -> str:
        """The HTML of a page."""
        draft, site = view.draft, self._site
        related = view.place.related.items()
        table = [pair for pair in related if pair[1].keys() & {*_LISTED}]
        # Formulas far from the window are laid out later, and need no font before.
        notes = view.title + view.summary + "".join(row.note for row in view.sections)[:_SCREENS]
        laid_out = rows(view.sections, view.small) if view.kind in ("module", "prose") else ()
        if view.kind == "prose" and not illustrated(laid_out):
            laid_out = ()
        border = _border(draft, laid_out) if view.kind == "module" else None
        fonts = [font for sign, some in _MATH_FONTS.items() if sign in notes for font in some]
        return self._environment.get_template(f"{view.kind}.html").render(
            page=view,
            draft=draft,
            place=view.place,
            site=site,
            rows=laid_out,
            border=border,
            parts=[*_parts(border, view.outline)] if view.outline and view.kind != "home" else (),
            # Fonts that the page uses, loaded before it is painted.
            preloads=() if site.without_assets else (*_FONTS, *fonts),
            href=partial(relative, draft.url),
            replay_url=replay_url(draft.url),
            definition_links=partial(definition_links, draft.url),
            absolute=partial(canonical, site.base_url),
            canonical=canonical(site.base_url, draft.url) if site.base_url else "",
            text_url=text_url(draft),
            card="" if site.without_assets else view.card,
            related=table,
            _=self._words,
            drawing=self._words.drawing,
            said=self._said,
            paper_url=paper_url(draft.front_matter.get("paper", "")),
        )


@lru_cache(maxsize=4)
def _environment(folders: tuple[Path, ...], stamp: str) -> Environment:
    """The templates of some folders, compiled once for all builds of a process."""
    environment = Environment(
        loader=FileSystemLoader(folders),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        # A build compiles the templates each time: what is folded takes longer than it saves.
        optimized=False,
    )
    environment.filters["breakable"] = breakable
    environment.filters["short"] = _short
    environment.filters["slug"] = slugify
    environment.filters["indentation"] = indentation
    environment.filters["lines"] = code_lines
    return environment


def _short(title: str) -> str:
    """A title without what it is also called."""
    return title.partition(" (")[0].partition("（")[0]


def _room(columns: int) -> str:
    """The class of a line of code with a chip; the style sheet has their widths."""
    if columns <= _ROOMS.start:
        return ""
    return next((f"w{room}" for room in _ROOMS if columns <= room), "over")


def code_lines(block: Block, shapes: ModuleShapes) -> Markup:
    """HTML of lines of code: each is its number, which the style sheet counts, and its tokens.

    What its run made of it comes right before the line's end: out of the flow where there is room,
    so that the text of the code stays whole.
    """
    below = arguments(block) if shapes.chips else range(0)
    found = []
    for number, html in block.lines:
        chips = _chip(shapes, number, below) if number in shapes.chips else ""
        if number == below.stop:
            made = (shapes.chips[each] for each in below if each in shapes.chips)
            chips += "".join(f'<samp class="all"><i>{chip}</i></samp>' for chip in made)
        kind = "n u" if number in shapes.unreached else "n"
        found.append(f'<i class="{kind}" id="L{number}"></i>{html}{chips}')
    return Markup("\n".join(found))


def _chip(shapes: ModuleShapes, number: int, below: range) -> str:
    """What stands at the end of a line, and whether a phone shows it below the signature."""
    kind = _room(shapes.widths[number]) + (" of" if number in below else "")
    marked = f' class="{kind}"' if kind else ""
    return f"<samp{marked}><i>{shapes.chips[number]}</i></samp>"


def arguments(block: Block) -> range:
    """The lines of arguments in a signature of several lines; `stop` is the line that ends it.

    A phone shows the shapes of arguments below the signature.
    """
    texts = [text.strip() for text in _texts(block.lines)]
    start = next((i for i, text in enumerate(texts) if text.startswith(("def ", "async def "))), -1)
    if start < 0 or texts[start].endswith(":"):
        return range(0)
    end = next((i for i, text in enumerate(texts) if i > start and text.startswith(")")), start)
    return range(block.lines[start].number + 1, block.lines[end].number)


def _texts(lines: Iterable[CodeLine]) -> list[str]:
    """The texts of lines of code, without their tags."""
    return unescape(_TAG.sub("", "\n".join(line.html for line in lines))).split("\n")


def indentation(blocks: Iterable[Block]) -> Markup:
    """What a phone does without: the columns that all lines are indented by (`--in`).

    And how far in a line goes on that has no room there (`--to`), so that no part of the block
    stands further left than the line that it belongs to.
    """
    texts = _texts(line for block in blocks for line in block.lines)
    least = min((len(text) - len(text.lstrip()) for text in texts if text.strip()), default=0)
    parts = [f"--in:{least}"] if least else []
    parts += [f"--to:{columns}"] if (columns := hanging(texts, least)) else []
    return Markup(f' style="{";".join(parts)}"' if parts else "")


def breakable(note: str) -> Markup:
    """The HTML of a note, with the class ``l`` on what is too long for a line of its own."""
    return Markup(_LONG.sub(lambda found: f'{found[0]} class="l"', note))
