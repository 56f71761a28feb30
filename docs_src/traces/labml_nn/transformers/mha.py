"""Runs of multi-head attention: to itself, to another sequence, with a cache."""

from pathlib import Path

import torch

from labml_nn.experiments.checkpoint import load_run
from labml_nn.transformers.mha import KVCache, MultiHeadAttention
from labml_nn.transformers.utils import padding_mask, subsequent_mask

RESULTS = Path(__file__).parents[3] / "results"


def trace_self_attention(T, B, H, D, C):
    """With dropout and without, all positions and the earlier ones."""
    attention, x = MultiHeadAttention(H, C), torch.randn(T, B, C)
    attention(query=x, key=x, value=x)
    attention.eval()(query=x, key=x, value=x, mask=subsequent_mask(T))


def trace_cross_attention(T, S, B, H, D, Dv, C):
    """To another sequence, with padding."""
    attention = MultiHeadAttention(H, C, d_k=D, d_v=Dv)
    query, memory = torch.randn(T, B, C), torch.randn(S, B, C)
    mask = padding_mask(torch.arange(B) % S, S)
    attention(query=query, key=memory, value=memory, mask=mask)


def trace_generation(T, B, H, D, Dv, C):
    """Two parts of a sequence, with a cache."""
    attention, cache = MultiHeadAttention(H, C, d_k=D, d_v=Dv), KVCache()
    for _ in range(2):
        x = torch.randn(T, B, C)
        attention(query=x, key=x, value=x, cache=cache)


@torch.no_grad()
def replay_attention():
    """The trained model reads “the dog sleeps”

    The decoder of the small encoder–decoder of this site reads a short sentence, letter by letter.
    You see the self-attention of its last layer, with four heads.

    * `self.linear(x)`: These are the queries, 22 features in each of four heads. Keys and
      values follow.
    * `self.get_scores(query, key)`: A row for each letter that asks, a column for each letter that
      it asks.
    * `scores * self.scale`: The same picture, with numbers that are √22, about 4.7, times
      smaller.
    * `-math.inf`: Above the diagonal all scores are −∞ now: no letter may look at a later one.
    * `self.softmax(scores)`: Each row sums to one. The first letter has only itself to look at.
    """
    run = load_run(RESULTS / "encoder_decoder")
    model, letters = run.model().eval(), run.vocabulary.texts
    text = "the dog sleeps"
    source = torch.tensor([letters.index(letter) for letter in "who sleeps?"])[:, None]
    target = torch.tensor([letters.index(letter) for letter in text])[:, None]
    transformer, mask = model.transformer, subsequent_mask(len(text))
    attention = transformer.decoder.layers[-1].self_attn
    given = {}
    hook = attention.register_forward_pre_hook(
        lambda _, args, kwargs: given.update(kwargs), with_kwargs=True
    )
    transformer.decode(transformer.encode(source, None), None, target, mask)
    hook.remove()
    yield {"T": list(text)}
    attention(**given)
