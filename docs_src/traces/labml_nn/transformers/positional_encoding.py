"""Runs of the positional encodings."""

from pathlib import Path

import torch

from labml_nn.experiments.checkpoint import load_run
from labml_nn.transformers import positional_encoding as positions

RESULTS = Path(__file__).parents[3] / "results"


def trace_table(T, H, D, C):
    """The sinusoids alone."""
    positions.get_positional_encoding(C, T)


def trace_fixed(T, B, H, D, C, max_len):
    """Within the table, and past its end."""
    fixed = positions.PositionalEncoding(C, 0.1, max_len)
    for offset in (0, max_len):
        fixed(torch.randn(T, B, C), offset=offset)


def trace_learned(B, C, max_len):
    """A sequence as long as the table."""
    positions.LearnedPositionalEncoding(C, 0.1, max_len)(torch.randn(max_len, B, C))


@torch.no_grad()
def replay_table():
    """“dog bites man”, first as three words, then as letters

    The table for three words with four features, as on this page. Then the sentence goes through
    the positional encoding of the small encoder–decoder of this site, which has 88 features of each
    letter.

    * Frequencies, `torch.exp`: Two hands, with the frequencies 1 and 0.01.
    * Angles, `positions.unsqueeze(1)`:
      A column of positions times a row of frequencies: the angle of each
      hand at each position.
    * Table, `torch.cos`: The table of this page. Its second row is (0.84, 0.54, 0.01, 1.00).
    * All letters, `fixed_positions(self`:
      The same for 13 letters and 88 features. Fast hands are on the left,
      slow ones on the right.
    * Sum, `x + encodings`:
      The sum still looks like the letters. The position is a hint in each feature.
    """
    run = load_run(RESULTS / "encoder_decoder")
    model, letters = run.model().eval(), run.vocabulary.texts
    text = "dog bites man"
    tokens = torch.tensor([letters.index(letter) for letter in text])[:, None]
    embed = model.transformer.tgt_embed
    x = embed.tokens(tokens) * embed.d_model**0.5
    yield {"T": text.split(), "letters": list(text), "hands": ["fast", "slow"]}
    positions.get_positional_encoding(4, 3)
    embed.positions(x)
