"""A note -> HTML.

`markdown` is the whole of it. What notes hold beyond Markdown has a module each: mathematics and
anchors (`syntax`), the docstrings of NumPy, Google and Sphinx (`dialects`), works (`citations`) and
terms (`glossary`). `tex` has formulas typeset, and `symbols` marks in them what a table of symbols
pairs with variables of the code.
"""
