"""Runs of the Feedback Transformer, with a window of S slots, full from the first step on."""

from pathlib import Path

import torch

from labml_nn.experiments.checkpoint import load_run
from labml_nn.transformers import feedback

RESULTS = Path(__file__).parents[4] / "results"


def layer(H, C, F, *, shared=False):
    """The prototype of the layers."""
    return feedback.FeedbackTransformerLayer(
        d_model=C,
        attn=feedback.FeedbackAttention(H, C, is_kv_precomputed=shared, max_distance=64),
        feed_forward=feedback.FeedForward(C, F),
        dropout_prob=0.1,
    )


def trace_separate(T, B, S, L, H, D, C, F):
    """Each layer projects the memory vectors; of one sequence some tokens are padding."""
    model = feedback.FeedbackTransformer(layer(H, C, F), L, horizon=S)
    slots, present = torch.randn(S, B, C), torch.ones(S, B, dtype=torch.bool)
    memory = feedback.FeedbackMemory(slots, slots, present)
    mask = torch.arange(T)[:, None] < T - torch.arange(B) % 2
    _, memory = model.scan(torch.randn(T, B, C), memory, mask=mask)
    model.step(torch.randn(B, C), memory.detach())


def trace_shared(T, B, S, L, H, D, C, F):
    """Keys and values are projected once."""
    model = feedback.FeedbackTransformerKV(layer(H, C, F, shared=True), L, C, H, horizon=S)
    memory = feedback.FeedbackMemory(torch.randn(S, B, H, D), torch.randn(S, B, H, D))
    model.scan(torch.randn(T, B, C), memory)


def trace_first_token(B, L, H, D, C, F):
    """Without memory."""
    feedback.FeedbackTransformer(layer(H, C, F), L)(torch.randn(1, B, C))


@torch.no_grad()
def replay_example():
    """Two lines, by hand

    The example of the first reading. Step 2 writes what line 2 has set, and a head of step 3 reads
    it. A slot has two features, one for `x` and one for `y`.

    * Shares, `self.softmax(self.weights)`: The layer weights become shares: 0.05 for the embedding
      and for layer 1, and 0.9 for layer 2.
    * Memory vector, `vector = torch.einsum`: Shares times outputs, added up. 4, 10 and 7 give 7, so
      slot 2 says that `x` is 7.
    * New slot, `memory.append(`: Three slots now: `x` is 3, `y` is 5, `x` is 7.
    * Match, `content = torch` (3): At step 3 the query (2, 0) asks for `x`. The slots 0 and 2
      match, with 4 each, and cannot be told apart.
    * Distance, `return content` (3): The distance decides: slot 0 was written three steps ago
      and loses 4, and slot 2, one step ago, loses nothing.
    * Weights, `self.attn = attn` (3): They sum to one. Nearly all of it goes to slot 2.
    * Average, `heads = torch.einsum` (3): The average of the values, nearly 7. So step 3 knows
      what `x` is.
    """
    # Attention finds nothing, and each layer adds what makes 4 into 10, and 10 into 7.
    model = feedback.FeedbackTransformer(layer(1, 2, 1), 2).eval()
    for one, added in zip(model.layers, (6.0, -3.0), strict=True):
        for parameter in (*one.attn.parameters(), *one.feed_forward.parameters()):
            parameter.zero_()
        one.feed_forward.layer2.bias[0] = added
    model.weights.copy_(torch.tensor([1.0, 1, 18]).log())
    written = torch.tensor([[3.0, 0], [0, 5]])[:, None]
    memory = feedback.FeedbackMemory(written, written)

    # A head with round keys: (2, 0) is about x, and (0, 2) about y.
    head = feedback.FeedbackAttention(1, 2, 0.0, is_kv_precomputed=True, max_distance=3).eval()
    for linear in (head.query.linear, head.output):
        linear.weight.copy_(torch.eye(2))
    head.output.bias.zero_()
    head.key_pos_bias.copy_(torch.tensor([[-4.0], [-2], [0]]))
    keys = torch.tensor([[2.0, 0], [0, 2], [2, 0]])[:, None, None]
    slots = ["0: x = 3", "1: y = 5", "2: x = 7"]
    levels = ["embedding", "layer 1", "layer 2"]
    yield {"levels": levels, "S": slots, "C": ["x", "y"], "D": ["x", "y"]}
    _, memory = model.read(torch.tensor([[[4.0, 0]]]), memory)
    head(query=torch.tensor([[2.0, 0]]), key=keys, value=memory.values[:, :, None])


@torch.no_grad()
def replay_memory():
    """The memory of the trained model fills up

    The small Feedback Transformer of this site, with two layers, reads “to be” letter by letter.
    Memory has one slot more after each of them.

    * Shares, `self.softmax(self.weights)`:
      The shares of the embedding and of the two layers in what is
      remembered. They are the same at every step.
    * Empty memory, `memory.slots()`: At the first letter there is nothing to attend to.
    * First slot, `memory.append` (1):
      The first slot is there. Slots are keys and values here, for each head.
    * Second letter, `self.attn = attn` (2):
      In the second layer the second letter has one slot to attend to. So
      its weight is 1.
    * Fifth letter, `self.attn = attn` (8):
      At the fifth letter there are four slots. The weights of each head sum
      to one.
    """
    run = load_run(RESULTS / "feedback")
    model, letters = run.model().eval(), run.vocabulary.texts
    text = "to be"
    tokens = torch.tensor([letters.index(letter) for letter in text])[:, None]
    x = model.embed(tokens) * model.config.d_model**0.5
    levels = ["embedding", "layer 1", "layer 2"]
    yield {"T": list(text), "S": list(text), "H": list("1234"), "levels": levels}
    model.transformer.read(x, feedback.FeedbackMemory())
