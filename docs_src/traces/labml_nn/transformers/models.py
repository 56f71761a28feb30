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
def replay_example():
    """Three words, by hand

    The layer of the encoder from the first reading, with the numbers that we have computed by hand.
    It has one head. Positions are left out.

    * Words, `self.linear(x) * math.sqrt`: Each word gets its row of the table, times √4 = 2. The
      four features say whether the word asks, is a verb, is alive, or is a mark.
    * Attention, `lambda z: attend`: *Who* has found *sleeps*, so attention `returns` 1.702 for it
      in the place of *verb*. What went in is `z`.
    * Add, `self.dropout(sublayer`: The result is added to the features. For *who*, −1 + 1.702 =
      0.702 is left in the place of *verb*.
    * Weights, `self.norm_self_attn`: `attend.attn` has a row for each word that looks. *Who* gives
      0.867 of its attention to *sleeps*.
    * Feed-forward, `self.dropout(sublayer` (2): The pattern fits *who* alone. Its network added
      0.71 to *question*.
    * Memory, `encoded: Tensor`: One more layer norm ends the stack. This is the memory, one vector
      for each word, at which the decoder looks.
    """
    words, features = ["who", "sleeps", "?"], ["question", "verb", "alive", "mark"]
    embed = EmbeddingsWithPositionalEncoding(4, 3, 3)
    embed.linear.weight.copy_(torch.tensor([[1.0, -1, 1, -1], [-1, 1, 1, -1], [1, -1, -1, 1]]) / 2)
    embed.positional_encodings.zero_()
    one = TransformerLayer(
        d_model=4,
        self_attn=MultiHeadAttention(1, 4, 0.0),
        feed_forward=FeedForward(4, 1, 0.0),
        dropout_prob=0.0,
    )
    attention, network = one.self_attn, one.feed_forward
    for name, parameter in one.named_parameters():
        parameter.fill_(name.startswith("norm") and name.endswith("weight"))
    attention.query.linear.weight[0] = torch.tensor([1.0, 0, 1, 0])
    attention.key.linear.weight[0] = torch.tensor([0.0, 1, 1, 0])
    attention.value.linear.weight[1] = torch.tensor([0.0, 1, 1, 0])
    attention.output.weight.copy_(torch.eye(4))
    network.layer1.weight[0], network.layer1.bias[0] = torch.tensor([1.0, 1, 1, 0]), -1
    network.layer2.weight[0] = 1
    encoder = Encoder(one, 1)
    yield {"T": words, "S": words, "C": features, "H": ["1"]}
    encoder(embed(torch.arange(3)[:, None]))


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
