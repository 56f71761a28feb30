"""Notebooks: the annotated modules cell by cell, so that a reader can change a model and train it.

recipe -> document (its chapters by lesson and note_text) -> execution -> a page of the site
"""

#: The key of this project in the metadata of notebooks and cells.
OWN = "labml_nn"


class NotebookError(Exception):
    """A notebook cannot be made, or cannot be run: why, and what to do."""
