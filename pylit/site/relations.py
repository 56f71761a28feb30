"""What each definition is built from, and what uses it: a table at the end of its page.

Both come from the links in code. A class or function is built from what its own code names, and
from what the private helpers of its module name for it. The reverse depends on all other pages, so
it is worked out anew in every build and is part of what a page is made from.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from html import escape

from pylit.code.resolve import Uses
from pylit.model import Definition, NoteHtml, Target
from pylit.page.render import relative
from pylit.site.drafts import Draft, DraftSection

#: As many names as a line shows. What more use is a tool of everybody.
MOST = 12


@dataclass(frozen=True, slots=True)
class Related:
    """The definitions that one has to do with, each as its address, its name, and its full name."""

    built_from: tuple[tuple[str, str, str], ...] = ()
    used_by: tuple[tuple[str, str, str], ...] = ()
    #: Of a method: the kernels that may compute it. Of a kernel: the method that defines it.
    kernels: tuple[tuple[str, str, str], ...] = ()
    references: tuple[tuple[str, str, str], ...] = ()


#: Address of a page -> name of a definition on it -> what it has to do with.
Relations = Mapping[str, Mapping[str, Related]]


def relations(drafts: Sequence[Draft], targets: Mapping[str, Target]) -> Relations:
    """How the public classes and functions of a site stand to each other."""
    shown = {t.url: t.definition for t in targets.values() if _is_shown(t.definition)}
    built: dict[str, list[str]] = {}
    for draft in drafts:
        for name in draft.uses:
            address = f"{draft.url}#{name}"
            if address in shown:
                parts = _used(name, draft.url, draft.uses)
                built[address] = [a for a in parts if a in shown and a != address]
    reverse: dict[str, list[str]] = {}
    for address, used in built.items():
        for other in used:
            reverse.setdefault(other, []).append(address)

    def named(addresses: Sequence[str]) -> tuple[tuple[str, str, str], ...]:
        return tuple((a, shown[a].qualname, shown[a].dotted) for a in addresses)

    found: dict[str, dict[str, Related]] = {}
    for address in {**built, **reverse}:
        related = Related(named(built.get(address, ())), named(sorted(reverse.get(address, ()))))
        if related != Related():
            page, _, name = address.partition("#")
            found.setdefault(page, {})[name] = related
    _add_kernels(found, drafts, targets)
    return found


def _add_kernels(
    found: dict[str, dict[str, Related]], drafts: Sequence[Draft], targets: Mapping[str, Target]
) -> None:
    """A method and the kernels that are attached to it link to each other."""
    definitions = {target.url: target.definition for target in targets.values()}

    def named(address: str) -> tuple[str, str, str]:
        return address, definitions[address].qualname, definitions[address].dotted

    def related(address: str) -> tuple[dict[str, Related], str, Related]:
        page, _, name = address.partition("#")
        on_page = found.setdefault(page, {})
        return on_page, name, on_page.get(name, Related())

    for draft in drafts:
        for function, reference in draft.kernels.items():
            kernel = f"{draft.url}#{function}"
            if kernel in definitions and reference in definitions:
                on_page, name, old = related(reference)
                on_page[name] = replace(old, kernels=(*old.kernels, named(kernel)))
                on_page, name, old = related(kernel)
                on_page[name] = replace(old, references=(named(reference),))


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


def with_kernels(section: DraftSection, page: str, related: Related | None) -> DraftSection:
    """The section of a definition with a line about its kernel under its note, if it has a note."""
    if related is None or not any(note.html for note in section.notes):
        return section
    lines = [
        f"{title} {_links(names, page)}"
        for title, names in (
            ("Also computed, with the same result, by the kernel", related.kernels),
            ("Kernel for", related.references),
        )
        if names
    ]
    note = NoteHtml(f'<p class="related">{"<br>".join(lines)}</p>\n' if lines else "")
    return replace(section, notes=(*section.notes, note))


def relation_rows(page: str, related: Mapping[str, Related]) -> tuple[tuple[str, str, str], ...]:
    """For the end of a page: each definition, what it is built from and what uses it, as HTML."""
    return tuple(
        (name, _links(one.built_from, page), _links(one.used_by, page))
        for name, one in related.items()
        if one.built_from or one.used_by
    )


def _links(names: Sequence[tuple[str, str, str]], page: str) -> str:
    links = []
    for address, name, dotted in names[:MOST]:
        href = escape(relative(page, address))
        links.append(f'<a class="x" href="{href}" data-x="{escape(dotted)}">{escape(name)}</a>')
    more = f", and {len(names) - MOST} more" if len(names) > MOST else ""
    return ", ".join(links) + more
