"""What the search dialog reads: the text of all pages, as a script.

A page opened from a disk may load scripts, but not data. The index is not in it: a browser makes
one of these texts sooner than it would have fetched it, and shows the words around what it found.
"""

import json
import tomllib
from collections.abc import Collection, Iterable, Mapping
from difflib import get_close_matches
from pathlib import Path, PurePosixPath

from pylit.diagnostics import Diagnostic, Report
from pylit.model import Module, SearchPage
from pylit.prose.mdresolve import HEADING
from pylit.site.drafts import Draft
from pylit.site.glossary import search_terms

#: In ``docs_src``: under ``[aliases]``, the name of a page and what else readers call it.
ALIASES = "aliases.toml"


def read_aliases(
    path: Path, pages: Collection[str], report: Report
) -> Mapping[str, tuple[str, ...]]:
    """Name of a page -> its other names; a missing file holds none."""
    if not path.is_file():
        return {}
    text = path.read_text(encoding="utf-8")
    try:
        table = tomllib.loads(text)["aliases"]
        found = {name: tuple(map(str, aliases)) for name, aliases in table.items()}
    except (tomllib.TOMLDecodeError, KeyError, AttributeError, TypeError) as error:
        hint = 'write `"package.module" = ["another name"]` under `[aliases]`'
        report.add(Diagnostic(f"docs_src/{path.name}", 0, 0, "config", str(error), hint))
        return {}
    for name in sorted(found.keys() - set(pages)):
        line = text[: text.index(name)].count("\n") + 1
        near = get_close_matches(name, pages, n=1)
        hint = f"did you mean `{near[0]}`?" if near else "name a module or a Markdown page"
        message = f"there is no page `{name}`"
        report.add(Diagnostic(f"docs_src/{path.name}", line, 0, "navigation", message, hint))
    return found


def search_page(draft: Draft, module: Module) -> SearchPage:
    """The page, its headings and its definitions, each with the text that stands under it."""
    texts: dict[str, list[str]] = {"": [draft.summary_note.text]}
    #: Of headings; a definition has none but its anchor.
    titles: dict[str, str] = {}
    definitions = {d.qualname for d in module.definitions if d.qualname}
    current = ""
    for section in draft.sections:
        if section.definition in definitions:
            current = section.definition
            titles.setdefault(current, "")
        for note in section.notes:
            first, *under = note.text.split(HEADING)
            texts.setdefault(current, []).append(first)
            for heading, text in zip(note.headings, under, strict=True):
                current = heading.slug
                titles.setdefault(current, heading.text)
                texts.setdefault(current, []).append(text)
    parts = [(anchor, title, _joined(texts.get(anchor, ()))) for anchor, title in titles.items()]
    name = PurePosixPath(draft.name).name if draft.prose else draft.name.rpartition(".")[2]
    terms = list(search_terms(draft))
    # The text of a glossary is that of its terms.
    text = _joined(texts[""][:1] if terms else texts[""])
    return SearchPage(draft.url, draft.title, (name,), 0, text, (*parts, *terms))


def _joined(texts: Iterable[str]) -> str:
    return " ".join(" ".join(text.split()) for text in texts if text)


def search_files(pages: Iterable[SearchPage]) -> Mapping[str, bytes]:
    """The script that hands the pages to ``assets/search.js``."""
    data = [[p.url, p.rank, p.title, p.names, p.text, _parts(p)] for p in pages]
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"))
    return {"assets/search-index.js": f"pylit.index({text});\n".encode()}


def _parts(page: SearchPage) -> list[list[str]]:
    return [
        [anchor, text, title] if title else [anchor, text] for anchor, title, text in page.parts
    ]
