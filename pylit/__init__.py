"""A generator of annotated source: notes on the left, code on the right, as static pages."""
