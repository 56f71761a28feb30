"""Figures that run: functions in ``docs_src/figures`` that call the modules and return a drawing,
or a table.

`draw` is what their authors import; `pylit.runs.figures` has them drawn, in a child process. Notes
ask for a figure as for an image, see `pylit.notes.markdown`.
"""
