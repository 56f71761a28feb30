"""A module -> one HTML page.

A `draft` is what follows from the source of a page alone. `render` lays it out in `rows`, with its
formulas, its shapes and its place among the other pages (`navigation`, `relations`). `comparisons`
and `exercises` are pages that are put together of others, `previews` what a page says of its
definitions to other pages.
"""
