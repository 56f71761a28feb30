"""A batch of bits, and their sums."""

from labml_nn.experiments.memory import ParityTask


def trace_parity(T, B):
    """Bits, one sequence in each column."""
    ParityTask(batch_size=B, seq_len=T).batch(0)
