"""All definitions of a site, found by any name that they can be imported by."""

from collections.abc import Callable, Mapping

from pylit.code.facts import PUBLIC, STARS
from pylit.model import Target
from pylit.source.cpp import is_cpp

#: Answers what a dotted name stands for in the project; None for what is not of the project.
Lookup = Callable[[str], Target | None]


class Index:
    """The targets of all modules, found by any name that they can be imported by."""

    def __init__(self, targets: Mapping[str, Target]) -> None:
        self._targets = targets
        self._found: dict[str, Target | None] = {}
        self._bare: dict[str, list[str]] = {}
        for dotted, target in targets.items():
            definition = target.definition
            named = definition.kind in ("class", "function") and "." not in definition.qualname
            if named and not is_cpp(definition.module):
                self._bare.setdefault(definition.qualname, []).append(dotted)

    def lookup(self, dotted: str) -> Target | None:
        """The target that a dotted name leads to through re-exports, or None.

        ``*.Name`` finds a class or function whose name no other module of the site defines.
        """
        if dotted.startswith("*."):
            candidates = self._bare.get(dotted[2:], [])
            return self._targets[candidates[0]] if len(candidates) == 1 else None
        if dotted not in self._found:
            self._found[dotted] = self._find(dotted, {})
        return self._found[dotted]

    def _find(self, dotted: str, answers: dict[str, Target | None]) -> Target | None:
        """Follow `dotted`; `answers` are those found on the way, and None what is still open.

        They serve one question only: what a circle of re-exports finds depends on where it began.
        """
        if dotted in answers:
            return answers[dotted]
        answers[dotted] = None
        head, _, name = dotted.rpartition(".")
        owner = self._find(head, answers) if head else None
        found = self._member(owner, name, answers) if owner is not None else None
        if found is None and (owner is None or owner.definition.dotted != head):
            # A package that re-exports a name of its submodule `b` as `b` hides the submodule.
            found = self._targets.get(dotted)
        answers[dotted] = found
        return found

    def _member(self, owner: Target, name: str, answers: dict[str, Target | None]) -> Target | None:
        own = f"{owner.definition.dotted}.{name}"
        if owner.definition.kind != "module":
            return self._targets.get(own) if owner.definition.kind == "class" else None
        alias = owner.attributes.get(name)
        if alias is not None and alias != own:
            return self._find(alias, answers) if alias else None
        if own in self._targets:
            return self._targets[own]
        for star in reversed(owner.attributes.get(STARS, "").split()):
            module = self._find(star, answers)
            if module is not None and exports(module, name):
                target = self._find(f"{star}.{name}", answers)
                if target is not None:
                    return target
        return None


def exports(module: Target, name: str) -> bool:
    """Whether ``from module import *`` may bind `name`."""
    public = module.attributes.get(PUBLIC)
    return name in public.split() if public is not None else not name.startswith("_")
