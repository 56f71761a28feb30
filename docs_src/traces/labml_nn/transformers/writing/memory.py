"""A memory of fixed size, filled and read."""

import torch

from labml_nn.transformers.keys_values import KeysValues
from labml_nn.transformers.window import Window
from labml_nn.transformers.writing.memory import Memory


def trace_memory(S, T, B, H, K):
    """S tokens are there, and T fit."""
    pair = KeysValues(torch.randn(S, B, H, K), torch.randn(S, B, H, K))
    tokens = torch.zeros(S, B, dtype=torch.long)
    window = Window(tokens, torch.ones_like(tokens, dtype=torch.bool), (pair,))
    memory = Memory(window, S + T)
    memory.replace(memory.window())
