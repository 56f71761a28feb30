"""A generator of annotated source: notes on the left, code on the right, as static pages.

Frozen values (`model`) flow through plain functions, in the order of `build`, which is where to
start reading. A module imports those above it and none below.

=========================== =====================================================================
`model`, `diagnostics`      the values that flow, and what is wrong in the input
`cache`, `pool`             results kept for a later build, and work in other processes
`discover`, `parse`         source files found; each as sections of notes and code (`scopes`)
`readme`, `inventories`     a project's README as its home page; the names of other projects
`names`, `cpp`              what a name in code stands for, and where it links to
`highlight`                 code as HTML, line by line
`tex`, `symbols`            formulas as HTML by MathJax (`node`); symbols paired with variables
`syntax`, `dialects`        what notes hold beyond Markdown; docstrings of NumPy, Google, Sphinx
`prose`                     notes as HTML: Markdown with mathematics, citations and figures
`references`, `glossary`    works and terms: how notes link to them, and their pages
`drafts`                    a page as far as its own source decides it
`runs`, `limits`           code of the package run in a child process, and what it depends on
`shapes`, `figures`         tensor shapes for the ends of lines; drawings and tables
`rows`, `render`            a page with its formulas, shapes and neighbours, laid out, as HTML
`search`, `previews`, …     the files beside the pages: `assets`, `fonts`, `cards`, `indexes`
`links`, `write`            the audit of all links; the output folder, changed all at once
`options`, `outcome`        what a build is given, and what it did
`site`                      the site as a whole: its inputs, its pages
`navigation`, `relations`   where a page stands in it; what definitions are built from, used by
`parallel`, `files`         its pages parsed and drafted by several processes; all files it has
`notebooks`                 notebooks as pages
`config`, `cli`, `serve`    settings, the command line, and the site over HTTP while one writes
=========================== =====================================================================
"""

__version__ = "1.0.0"
