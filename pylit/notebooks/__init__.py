"""Notebooks: the annotated modules cell by cell, so that a reader can change a model and train it.

recipe -> lesson (wording) -> document -> execution -> a page of the site
"""
