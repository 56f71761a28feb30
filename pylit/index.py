"""All definitions of a site, found by any name that they can be imported by."""

from collections.abc import Callable, Mapping

from pylit.facts import PUBLIC, STARS
from pylit.model import Target

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
            if definition.kind in ("class", "function") and "." not in definition.qualname:
                self._bare.setdefault(definition.qualname, []).append(dotted)

    def lookup(self, dotted: str) -> Target | None:
        """The target that a dotted name leads to through re-exports, or None.

        ``*.Name`` finds a class or function whose name no other module of the site defines.
        """
        if dotted.startswith("*."):
            candidates = self._bare.get(dotted[2:], [])
            return self._targets[candidates[0]] if len(candidates) == 1 else None
        if dotted not in self._found:
            self._found[dotted] = None  # what a circle of re-exports finds
            self._found[dotted] = self._find(dotted)
        return self._found[dotted]

    def _find(self, dotted: str) -> Target | None:
        head, _, name = dotted.rpartition(".")
        owner = self.lookup(head) if head else None
        if owner is None:
            return self._targets.get(dotted)
        own = f"{owner.definition.dotted}.{name}"
        if owner.definition.kind != "module":
            return self._targets.get(own) if owner.definition.kind == "class" else None
        alias = owner.attributes.get(name)
        if alias is not None and alias != own:
            return self.lookup(alias) if alias else None
        if own in self._targets:
            return self._targets[own]
        for star in reversed(owner.attributes.get(STARS, "").split()):
            target = self.lookup(f"{star}.{name}") if self._exports(star, name) else None
            if target is not None:
                return target
        return None

    def _exports(self, star: str, name: str) -> bool:
        module = self.lookup(star)
        return module is not None and exports(module, name)


def exports(module: Target, name: str) -> bool:
    """Whether ``from module import *`` may bind `name`."""
    public = module.attributes.get(PUBLIC)
    return name in public.split() if public is not None else not name.startswith("_")
