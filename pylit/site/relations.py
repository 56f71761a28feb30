"""What each definition is built from, and what uses it: a table at the end of its page.

Both come from the links in code. A class or function is built from what its own code names, and
from what the private helpers of its module name for it. The reverse depends on all other pages, so
it is worked out anew in every build and is part of what a page is made from.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from html import escape

from pylit.code.resolve import Uses
from pylit.model import Definition, NoteHtml, Target
from pylit.page.render import relative
from pylit.site.drafts import Draft, DraftSection

#: As many names as a line shows. What more use is a tool of everybody.
MOST = 12

#: What a definition has to do with: a kind of relation -> the address of each other definition, its
#: name, and its full name.
Related = Mapping[str, Sequence[tuple[str, str, str]]]

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
