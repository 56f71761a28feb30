"""Runs of the embeddings."""

import torch

from labml_nn.transformers import embeddings


def trace_both(T, B, C, V, max_len):
    """At fixed positions and at learned ones."""
    tokens = torch.randint(V, (T, B))
    embeddings.EmbeddingsWithPositionalEncoding(C, V, T + max_len)(tokens)
    embeddings.EmbeddingsWithLearnedPositionalEncoding(C, V, T + max_len)(tokens)
