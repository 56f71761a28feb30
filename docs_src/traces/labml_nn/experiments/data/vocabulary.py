"""Runs of a vocabulary."""

from labml_nn.experiments.data.vocabulary import Vocabulary


def trace_encode(T):
    """A text of T characters."""
    vocabulary = Vocabulary.from_text("ab")
    vocabulary.decode(vocabulary.encode("a" * T))
