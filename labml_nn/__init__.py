"""Annotated PyTorch modules, to read and to import."""
