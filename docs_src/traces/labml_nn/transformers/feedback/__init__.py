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
