"""Runs of the encoder–decoder: one loss, both orders of normalisation, greedy decoding."""

from pathlib import Path

import torch

from labml_nn.experiments.checkpoint import load_run
from labml_nn.transformers.feed_forward import FeedForward
from labml_nn.transformers.mha import MultiHeadAttention
from labml_nn.transformers.models import (
    Decoder,
    EmbeddingsWithLearnedPositionalEncoding,
    EmbeddingsWithPositionalEncoding,
    Encoder,
    EncoderDecoder,
    Generator,
    TransformerLayer,
)
from labml_nn.transformers.utils import subsequent_mask

RESULTS = Path(__file__).parents[3] / "results"


def layer(H, C, F, src_attn=None, norm_first=True):
    """One layer, of the encoder or of the decoder."""
    return TransformerLayer(
        d_model=C,
        self_attn=MultiHeadAttention(H, C),
        src_attn=src_attn,
        feed_forward=FeedForward(C, F),
        dropout_prob=0.1,
        norm_first=norm_first,
    )


def model(H, C, F, V, L, max_len):
    """A whole model, whose tokens are from 0 to V - 1."""
    return EncoderDecoder(
        Encoder(layer(H, C, F), L),
        Decoder(layer(H, C, F, MultiHeadAttention(H, C)), L),
        EmbeddingsWithPositionalEncoding(C, V, max_len),
        EmbeddingsWithPositionalEncoding(C, V, max_len),
        Generator(V, C),
    )


def trace_loss(T, S, B, H, D, C, F, V, L, max_len):
    """T positions of the target, which has one token more."""
    made = model(H, C, F, V, L, T + S + max_len)
    src, tgt = torch.randint(1, V, (S, B)), torch.randint(1, V, (T + 1, B))
    made.loss(src, tgt)


def trace_post_norm(T, B, H, D, C, F):
    """Post-norm."""
    made = layer(H, C, F, norm_first=False)
    made(x=torch.randn(T, B, C), mask=None)


def trace_learned_positions(T, B, C, V, max_len):
    """Embeddings with learned positions."""
    embed = EmbeddingsWithLearnedPositionalEncoding(C, V, T + max_len)
    embed(torch.randint(V, (T, B)))


def trace_greedy(S, B, H, D, C, F, V, L, max_len):
    """A few steps of greedy decoding, up to the largest length and up to an end token."""
    made = model(H, C, F, V, L, S + max_len).eval()
    src = torch.randint(3, V, (S, B))
    for surely_the_end in (-99.0, 99.0):
        torch.nn.init.constant_(made.generator.projection.bias[2:3], surely_the_end)
        made.greedy_decode(src, start_token=1, end_token=2, max_len=3)


@torch.no_grad()
def replay_layer():
    """The trained decoder writes “the dog” to the question “who sleeps?”

    One layer, the last of the two in the decoder of this site's small model. Its tokens are
    letters, and the first token of the answer is *start*.

    * Self-attention, `self.norm_self_attn`: What self-attention has found is added to the features.
    * Cross-attention, `lambda z: look`:
      Queries come from the answer, keys and values from the question.
    * Weights, `self.norm_src_attn`:
      `look.attn` has a row for each letter of the answer, and a column for
      each letter of the question. Each row sums to one.
    * Feed-forward, `self.feed_forward`: Here each letter is processed by itself.
    """
    run = load_run(RESULTS / "encoder_decoder")
    model, letters = run.model().eval(), run.vocabulary.texts
    question, answer = "who sleeps?", "the dog"
    source = torch.tensor([letters.index(letter) for letter in question])[:, None]
    start = model.config.start_token
    target = torch.tensor([start, *(letters.index(letter) for letter in answer)])[:, None]
    transformer, given = model.transformer, {}
    layer = transformer.decoder.layers[-1]
    hook = layer.register_forward_pre_hook(
        lambda _, args, kwargs: given.update(kwargs), with_kwargs=True
    )
    mask = subsequent_mask(len(target))
    transformer.decode(transformer.encode(source, None), None, target, mask)
    hook.remove()
    yield {"T": ["start", *answer], "S": list(question), "H": list("1234")}
    layer(**given)
