"""“The dog sleeps” in our attention and in that of PyTorch, with the same trained weights."""

from pathlib import Path
from typing import Any

import torch
from torch import nn

from labml_nn.experiments.checkpoint import load_run
from labml_nn.transformers.mha import MultiHeadAttention
from labml_nn.transformers.utils import subsequent_mask

TEXT = "the dog sleeps"
_RUN = Path(__file__).parent / "results" / "encoder_decoder"


@torch.no_grad()
def last_attention() -> tuple[MultiHeadAttention, dict[str, Any]]:
    """The self-attention of the last layer of the decoder, and what it is called with."""
    run = load_run(_RUN)
    model, letters = run.model().eval(), run.vocabulary.texts
    source, target = (
        torch.tensor([letters.index(letter) for letter in text])[:, None]
        for text in ("who sleeps?", TEXT)
    )
    transformer, mask = model.transformer, subsequent_mask(len(TEXT))
    attention = transformer.decoder.layers[-1].self_attn
    given: dict[str, Any] = {}
    hook = attention.register_forward_pre_hook(
        lambda _, args, kwargs: given.update(kwargs), with_kwargs=True
    )
    transformer.decode(transformer.encode(source, None), None, target, mask)
    hook.remove()
    return attention, given


@torch.no_grad()
def as_torch(ours: MultiHeadAttention, *, batch_first: bool = False) -> nn.MultiheadAttention:
    """PyTorch's module with the weights of ours, and biases of 0 where ours has none."""
    theirs = nn.MultiheadAttention(ours.d_model, ours.heads, batch_first=batch_first)
    parts = [part.linear for part in (ours.query, ours.key, ours.value)]
    biases = [torch.zeros(ours.d_model) if part.bias is None else part.bias for part in parts]
    theirs.in_proj_weight.copy_(torch.cat([part.weight for part in parts]))
    theirs.in_proj_bias.copy_(torch.cat(biases))
    theirs.out_proj.weight.copy_(ours.output.weight)
    output = ours.output.bias
    theirs.out_proj.bias.copy_(torch.zeros(ours.d_model) if output is None else output)
    return theirs.train(ours.training)
