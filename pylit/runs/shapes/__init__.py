"""What a run of a module tells of it: the shapes of its tensors, line by line.

A child process runs the small functions of ``docs_src/traces`` under a line tracer (`tracer`, by
the module's `plan`) and answers with sizes. All the rest is reading: sizes become names (`sizes`),
lines get their chips (`lines`), and what notes declare is compared with what ran (`check`). `trace`
knows which runs a build needs.
"""
