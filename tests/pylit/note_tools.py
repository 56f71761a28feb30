"""How tests render a note: what it links to, and where it is said to stand."""

from pylit.addresses import Anchors
from pylit.diagnostics import Report
from pylit.model import Link, NoteHtml, formula_slot
from pylit.notes.citations import Cite, no_bibliography
from pylit.notes.glossary import Terms
from pylit.notes.markdown import NoteContext, render_note

PAGE = "labml_nn/transformers/mha.html"
LINKS = {
    "MultiHeadAttention": Link(f"{PAGE}#MultiHeadAttention", "mha.MultiHeadAttention"),
    "../mha.py": Link(PAGE, "labml_nn.transformers.mha"),
    "labml_nn.transformers.mha": Link(PAGE, "labml_nn.transformers.mha"),
    "nn.Linear": Link("https://pytorch.org/Linear.html", "torch.nn.Linear", external=True),
}


def render(
    text: str,
    *,
    own: bool = True,
    first_line: int = 1,
    column: int = 0,
    anchors: Anchors | None = None,
    report: Report | None = None,
    cite: Cite = no_bibliography,
    terms: Terms | None = None,
    docstrings: str = "markdown",
) -> NoteHtml:
    context = NoteContext(
        path="notes.md",
        first_line=first_line,
        column=column,
        own=own,
        anchors=Anchors() if anchors is None else anchors,
        link=LINKS.get,
        href=lambda link: link.url if link.external else f"../../{link.url}",
        report=Report() if report is None else report,
        cite=cite,
        terms=terms,
        docstrings=docstrings,
    )
    return render_note(text, context)


def readable(note: NoteHtml) -> str:
    """The HTML of a note with its formulas in guillemets, doubled for those on display.

    Parts of figures are in brackets.
    """
    html = note.html.replace("\ue002", "[").replace("\ue003", "]")
    for index, formula in enumerate(note.formulas):
        marks = ("«« ", " »»") if formula.display else ("« ", " »")
        html = html.replace(formula_slot(index), formula.tex.join(marks))
    return html
