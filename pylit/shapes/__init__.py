"""What a run of a module tells of it: the shapes of its tensors, line by line.

The generator never imports what it renders. A child process does (`pylit.shapes.child`), runs the
small functions of ``docs_src/traces`` under a line tracer, and answers with sizes. All the rest is
reading: sizes become names (`naming`), lines get their chips (`lines`), and what signatures and
notes declare is compared with what ran (`check`).
"""
