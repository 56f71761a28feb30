"""What the public classes and functions of a site are built from, and what they are used by."""

from collections.abc import Mapping, Sequence

from pylit.config import Relation
from pylit.model import Definition, Draft, Target, Uses

#: Kind of a relation -> the address, the name and the full name of each related definition.
Related = Mapping[str, Sequence[tuple[str, str, str]]]


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
