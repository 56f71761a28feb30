"""Runs of pairs."""

from labml_nn.experiments.data import Vocabulary
from labml_nn.experiments.replies import Replies, reply_pieces


def dialogue(S, B):
    """Lines of S characters, with one more than there are pairs."""
    return "\n".join(["x" * S] * (B + 1))


def trace_batch(S, B):
    """Pairs of equally long lines."""
    text = dialogue(S, B)
    Replies(text, Vocabulary.from_text(text), batch_size=B, seq_len=S, seed=1).batch(0)


def trace_pieces(S, B):
    """All of them at once."""
    text = dialogue(S, B)
    list(reply_pieces(text, Vocabulary.from_text(text), seq_len=S, batch_size=B))
