"""A step in plain PyTorch, which is the one that runs in double precision."""

import torch

from labml_nn.transformers.autoregressive import AutoregressiveConfig, AutoregressiveTransformer


def trace_a_token(T, B, L, H, K, D, C, F, V):
    """After T - 1 tokens, one more."""
    config = AutoregressiveConfig(
        n_vocab=V, d_model=C, heads=H, d_k=K, d_v=D, d_ff=F, n_layers=L, max_len=T
    )
    model = AutoregressiveTransformer(config).double().eval()
    _, state = model(torch.randint(V, (T - 1, B)))
    model.decoding_step(state)(torch.randint(V, (B,)))
