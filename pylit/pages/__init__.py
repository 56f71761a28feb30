"""A module -> a page."""
