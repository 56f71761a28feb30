"""A note -> HTML."""
