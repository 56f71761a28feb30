"""Source files -> modules, and what a name in them means.

`discover` finds files and reads them. `parse` divides a module into sections of notes and code, by
its `scopes`; `pages` reads Markdown, and `cpp` C++. `names` resolves a name in code or in a note to
a definition of the site, or of the projects whose `inventories` it knows. `highlight` writes code
as HTML, line by line, with the links of these names.
"""
