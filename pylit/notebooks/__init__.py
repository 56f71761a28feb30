"""Notebooks: the annotated modules cell by cell, so that a reader can change a model and train it.

recipe -> document, with its chapters (lesson, in its wording) -> execution -> a page of the site
"""

#: What of a notebook's and a cell's metadata is ours.
OWN = "labml_nn"


class NotebookError(Exception):
    """A notebook cannot be made, or cannot be run: why, and what to do."""
