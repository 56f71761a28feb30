"""Runs of pairs."""

from labml_nn.experiments.data.replies import Replies, reply_pieces
from labml_nn.experiments.data.vocabulary import Vocabulary


def dialogue(S, B):
    """Lines of S characters, with one more than there are pairs."""
    return "\n".join(["x" * S] * (B + 1))


def trace_batch(S, B):
    """Pairs of equally long lines."""
    text = dialogue(S, B)
    replies = Replies(text, Vocabulary.from_text(text), batch_size=B, seq_len=S, seed=1)
    replies.batch(0)


def trace_pieces(S, B):
    """All of them at once."""
    text = dialogue(S, B)
    list(reply_pieces(text, Vocabulary.from_text(text), seq_len=S, batch_size=B))
