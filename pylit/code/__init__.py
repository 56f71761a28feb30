"""Names in code to links, without importing anything, and code to HTML."""
