"""A generator of annotated source: notes on the left, code on the right, as static pages.

Frozen values (`pylit.model`) flow through plain functions, from room to room:

=========== =====================================================================================
`source`    Python files, found and parsed, become modules with sections of notes and code
`code`      names become links, lines become HTML
`prose`     notes become HTML
`tex`       formulas become HTML, style rules and fonts, by the scripts of `node`
`shapes`    runs of the modules become the shapes at the ends of lines
`figures`   functions that call the modules become pictures and tables
`page`      what a reader's browser gets, by the templates, styles and scripts of `theme`
`site`      pages together: settings, addresses, neighbours, the files beside the pages, the folder
`notebooks` modules become notebooks that run, and pages of the site
`pipeline`  one build: the stages in their order, what is remembered, the processes
`serve`     the site over HTTP while its author works
=========== =====================================================================================

A room imports those above it and none below. Faults in the input are `pylit.diagnostics`; the
command line is `pylit.cli`. Start reading at `pylit.pipeline.build`.
"""
