r"""
---
title: What goes wrong in a run
summary: >
  One class of errors for all that can stop a training, with a text fit to be shown.
---

A run can fail although nobody has made a mistake in the program: the text is not there,
the disk is full, the numbers became infinite after an hour. Such a failure is told to
the person who started the run, and that person wants a sentence, not the forty lines of
a traceback.
"""

__all__ = ["RunError"]


class RunError(Exception):
    """
    ## A run that cannot begin, or cannot go on

    Its text says what happened, with the values that matter, and what can be done. The
    command line prints it and ends; a program can catch it and knows that the last good
    checkpoint is where it was.

    A *value* that cannot be is a `ValueError`, here as everywhere in the library.
    """
