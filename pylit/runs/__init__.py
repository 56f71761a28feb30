"""Code of the package, run in a child process.

`tasks` knows which functions of ``docs_src`` have to run, because an answer is missing or what it
depends on has changed; `child` runs them within limits. `figures` draws with them, and `shapes`
records the tensors of each line.
"""
