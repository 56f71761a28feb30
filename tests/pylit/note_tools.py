"""How tests render a note: what it links to, and where it is said to stand."""

from dataclasses import replace

from pylit.addresses import Anchors
from pylit.diagnostics import Report
from pylit.model import Link, NoteHtml, formula_slot
from pylit.notes.markdown import NoteContext, render_note

PAGE = "labml_nn/transformers/mha.html"
LINKS = {
    "MultiHeadAttention": Link(f"{PAGE}#MultiHeadAttention", "mha.MultiHeadAttention"),
    "../mha.py": Link(PAGE, "labml_nn.transformers.mha"),
    "labml_nn.transformers.mha": Link(PAGE, "labml_nn.transformers.mha"),
    "nn.Linear": Link("https://pytorch.org/Linear.html", "torch.nn.Linear", external=True),
}


USUAL = NoteContext(
    path="notes.md",
    own=True,
    link=LINKS.get,
    href=lambda link: link.url if link.external else f"../../{link.url}",
)


def render(text: str, **changes: object) -> NoteHtml:
    """A note of the page `PAGE`; `changes` are values of its context."""
    values = {"anchors": Anchors(), "report": Report()} | changes
    return render_note(text, replace(USUAL, **values))  # type: ignore[arg-type]


def readable(note: NoteHtml) -> str:
    """The HTML of a note with its formulas in guillemets, doubled for those on display.

    Parts of figures are in brackets.
    """
    html = note.html.replace("\ue002", "[").replace("\ue003", "]")
    for index, formula in enumerate(note.formulas):
        marks = ("«« ", " »»") if formula.display else ("« ", " »")
        html = html.replace(formula_slot(index), formula.tex.join(marks))
    return html
