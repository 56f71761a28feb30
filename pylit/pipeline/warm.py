"""What a process keeps in memory from one build to the next, beside the cache.

It holds no results, only what makes the next one quicker to find: a build with an empty one gives
the same site.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from pylit.model import Target
from pylit.site.drafts import Draft, fingerprint
from pylit.site.links import Auditor
from pylit.site.write import Standing


@dataclass(slots=True)
class Warm:
    """Of the latest build."""

    auditor: Auditor = field(default_factory=Auditor)
    standing: Standing = field(default_factory=Standing)
    #: All that drafts may ask for, and the drafts that had the right answers.
    _known: Mapping[str, Target] = field(default_factory=dict)
    _held: dict[str, Draft] = field(default_factory=dict)

    def held(self, known: Mapping[str, Target]) -> Mapping[str, Draft]:
        """The drafts whose answers need not be looked up again: nothing that is known changed."""
        return self._held if _tell_alike(self._known, known) else {}

    def hold(self, known: Mapping[str, Target], drafts: Iterable[Draft]) -> None:
        """These drafts have the answers that `known` gives."""
        self._known, self._held = known, {draft.url: draft for draft in drafts}


def _tell_alike(before: Mapping[str, Target], now: Mapping[str, Target]) -> bool:
    """Whether drafts get the same answers from both."""
    return before.keys() == now.keys() and all(
        before[name] is target or fingerprint(before[name]) == fingerprint(target)
        for name, target in now.items()
    )
