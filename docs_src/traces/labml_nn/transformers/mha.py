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
def replay_example():
    """Three words, by hand

    The worked example of this page, with the numbers that we have computed by hand, in one head.

    * Queries, `self.linear(x)`: What does each word look for? *Tired* has a 2 at *noun* and at
      *alive*.
    * Keys, `self.linear(x)` (2): What each word advertises. The key of *dog* has both.
    * Values, `self.linear(x)` (3): What each word hands over: 10 for *alive*, 10 for *thing* or
      *adjective*.
    * Scores, `self.get_scores(query, key)`: A row for each word that asks, a column for each word
      that it asks. *Tired* and *dog* have 4.
    * Scale, `scores * self.scale`: Queries have four numbers, so each score is divided by √4 = 2.
    * Weights, `self.softmax(scores)`: Each row sums to one. *Dog* gets two thirds of the attention
      of *tired*.
    * Result, `torch.einsum("tsbh`: The average of the values with these weights. Two thirds of what
      *tired* receives come from *dog*.
    """
    # Columns of the features: noun, alive, thing, adjective.
    x = torch.tensor([[1.0, 1, 0, 0], [1, 0, 1, 0], [0, 1, 0, 1]])[:, None]
    attention = MultiHeadAttention(1, 4, 0.0, bias=False, d_k=4, d_v=2).eval()
    attention.query.linear.weight.copy_(
        torch.tensor([[0.0, 0, 0, 2], [0, 2, 0, 0], [0, 0, 2, 0], [4, 0, 0, 0]])
    )
    attention.key.linear.weight.copy_(
        torch.tensor([[1.0, 0, 0, -1], [0, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]])
    )
    attention.value.linear.weight.copy_(torch.tensor([[0.0, 10, 0, 0], [0, 0, 10, 10]]))
    attention.output.weight.copy_(torch.tensor([[0, 0], [0.1, 0], [0, 0], [0, 0.1]]))
    words = ["dog", "bone", "tired"]
    features = ["noun", "alive", "thing", "adjective"]
    yield {"T": words, "S": words, "D": features, "C": features}
    attention(query=x, key=x, value=x)


@torch.no_grad()
def replay_attention():
    """The trained model reads “the dog sleeps”

    The decoder of the small encoder–decoder of this site reads a short sentence, letter by letter.
    You see the self-attention of its last layer, with four heads.

    * Queries, `self.linear(x)`: These are the queries, 22 features in each of four heads. Keys and
      values follow.
    * Keys, `self.linear(x)` (2):
      The keys have the same shape, so that each query can meet each key.
    * Values, `self.linear(x)` (3): This is what the letters hand over.
    * Scores, `self.get_scores(query, key)`: A row for each letter that asks, a column for each
      letter that it asks.
    * Scale, `scores * self.scale`: The same picture, with numbers that are √22, about 4.7, times
      smaller.
    * Mask, `-math.inf`:
      Above the diagonal all scores are −∞ now: no letter may look at a later one.
    * Weights, `self.softmax(scores)`: Each row sums to one. The first letter has only itself to
      look at.
    * Result, `torch.einsum("tsbh`: Each letter receives an average of the values, with its row of
      weights, in each of the four heads.
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
