"""What notes of one page must agree on: anchors used once, footnotes numbered, headings nested.

Notes are rendered one by one, in the order of their page; one `Slugs` goes through all of them.
"""

import re
from collections.abc import Iterable


class Slugs:
    """The anchors of one page.

    Args:
        reserved: Anchors that the page makes itself, such as the names of its classes. A heading
            gives way to them: "Softmax" beside a function ``softmax`` becomes ``softmax-section``.
    """

    def __init__(self, reserved: Iterable[str] = ()) -> None:
        self._reserved = frozenset(reserved)
        self._taken: set[str] = set()
        #: The last number that a repeated anchor was given.
        self._last: dict[str, int] = {}
        self._notes = 0
        #: Headings that are open: (level as written, level on the page).
        self._open: list[tuple[int, int]] = []

    def claim(self, anchor: str) -> bool:
        """Take an anchor that an author chose. False when the page has it already."""
        if anchor in self._taken or anchor in self._reserved:
            return False
        self._taken.add(anchor)
        return True

    def slug(self, text: str, chosen: str = "") -> tuple[str, bool]:
        """Anchor for a heading, the one that its author chose if there is one, and whether it is
        the first of that name on the page. A second one gets a number, so that the page is valid.
        """
        if chosen and self.claim(chosen):
            return chosen, True
        base = slugify(chosen or text)
        if base in self._reserved:
            base += "-section"
        anchor, number = base, self._last.get(base, 1)
        while not self.claim(anchor):
            number += 1
            anchor = f"{base}-{number}"
        self._last[base] = number
        return anchor, number == 1 and not chosen

    def level(self, written: int) -> int:
        """Level on the page for a heading written with `written` signs ``#``.

        A heading is one level below the one that contains it, so that none is ever skipped, and
        headings written alike under the same parent come out alike.
        """
        while self._open and self._open[-1][0] >= written:
            self._open.pop()
        parent = self._open[-1][1] if self._open else 1  # The title of the page.
        level = min(parent + 1, 6)
        self._open.append((written, level))
        return level

    def note(self) -> int:
        """Number of the next note with footnotes, from 1."""
        self._notes += 1
        return self._notes


def slugify(text: str) -> str:
    """Words in lower case joined by hyphens, as GitHub does it: letters of any script are kept."""
    words = re.sub(r"[^\w\s-]", "", text.lower())
    return re.sub(r"[\s_-]+", "-", words).strip("-") or "section"
