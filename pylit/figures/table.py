"""A table of numbers: beside a figure for those who would rather read them, or by itself.

By itself a note asks for it with ``![caption](table:results.models)``. The page then holds it as a
table with headers that screen readers announce, figures of one width under each other, and a box
that scrolls sideways where the window is narrow.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

#: Classes of cells whose text stands at the right, or in the middle; at the left is usual.
_CLASSES = {"l": "", "r": ' class="r"', "c": ' class="m"'}


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of cells under a head."""

    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    #: What opens it, where it belongs to a figure.
    title: str = "The numbers"
    #: A letter for each column: left, right or centre. If not given, the first column, which says
    #: what its row is about, is left and all others right.
    align: str = ""
    #: Sentences under it: what a column means, where a number is missing and why.
    notes: Sequence[str] = ()

    def cells(self) -> str:
        """Its head and its rows, as HTML inside of a table that stands by itself.

        Raises `ValueError` for rows that are not as long as the head.
        """
        columns = self._columns()
        head = "".join(
            f'<th scope="col"{look}>{escape(cell)}</th>'
            if cell
            else "<td></td>"  # an empty header is no header of anything
            for cell, look in zip(self.head, columns, strict=True)
        )
        rows = "".join(f"<tr>{self._row(row, columns)}</tr>" for row in self.rows)
        return f"<thead><tr>{head}</tr></thead><tbody>{rows}</tbody>"

    def below(self) -> str:
        """What stands under it."""
        return "".join(f"<p>{escape(note)}</p>" for note in self.notes)

    def folded(self) -> str:
        """The HTML of the numbers of a figure, which open when asked."""
        head = "".join(f"<th>{escape(cell)}</th>" for cell in self.head)
        rows = "".join(
            "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>"
            for row in self.rows
        )
        return (
            f"<details><summary>{escape(self.title)}</summary>"
            f'<div class="table-scroll"><table><thead><tr>{head}</tr></thead>'
            f"<tbody>{rows}</tbody></table></div></details>"
        )

    @staticmethod
    def _row(row: Sequence[str], columns: Sequence[str]) -> str:
        first, *others = zip(row, columns, strict=True)
        return f'<th scope="row"{first[1]}>{escape(first[0])}</th>' + "".join(
            f"<td{look}>{escape(cell)}</td>" for cell, look in others
        )

    def _columns(self) -> list[str]:
        count = len(self.head)
        align = self.align or "l" + "r" * (count - 1)
        if not count or not self.rows:
            raise ValueError("the table is empty; give it a head and a row")
        if len(align) != count or set(align) - set(_CLASSES):
            raise ValueError(
                f"`align` ({self.align!r}) must be {count} of the letters l, r and c, one for each "
                "column"
            )
        for number, row in enumerate(self.rows, 1):
            if len(row) != count:
                raise ValueError(f"row {number} has {len(row)} cells and the head {count}")
        return [_CLASSES[letter] for letter in align]
