"""The site over HTTP while its author works."""
