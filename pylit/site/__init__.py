"""One site and its build."""
