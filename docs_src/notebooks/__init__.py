"""Notebooks: the annotated modules cell by cell, so that a reader can change a model and train it.

A recipe becomes a document (its chapters by `lesson` and `note_text`), which is run (`execution`)
and written to ``notebooks``. The generator shows what lies there as pages of the site.
"""

#: The key of this project in the metadata of notebooks and cells.
OWN = "labml_nn"


class NotebookError(Exception):
    """A notebook cannot be made, or cannot be run: why, and what to do."""
