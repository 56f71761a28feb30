"""Texts that stand apart from their code."""
