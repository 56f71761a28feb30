"""Figures that run: functions in ``docs_src/figures`` that call the modules and return a drawing,
or a table.

`draw` is what their authors import; `gallery` knows which of them have to run, runs them in a child
process, and knows what pages show of them. Notes ask for a figure as for an image, see
`pylit.prose`.
"""
