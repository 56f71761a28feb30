"""Code of the annotated package, run in a process of its own: within limits, and told in JSON.

`confined` is what the child does, `process` what its parent knows of it, and `imports` says what
a run reads. Traced shapes and figures both stand on it.
"""
