"""What the panels tell readers to see is true of the weights that they load."""

import functools

import pytest
import torch

import labml_nn
from docs_src.live.export import load, round_model
from labml_nn.attention_maps import attention_maps

KING = "KING RICHARD II:\nWhat must the king do now?"
JULIET = "JULIET:\nO Romeo, Romeo! wherefore art thou Romeo?"
NAME = "ROMEO:\nWhat is thy na"


@functools.cache
def rounded(name):
    model, characters = load(name)
    with torch.no_grad():
        round_model(model)
    return model, characters


def tokens_of(text, characters):
    return torch.tensor([characters.index(letter) for letter in text])[:, None]


def heads(text):
    """The attention weights of all heads of the transformer, `[T, S, 12]`."""
    model, characters = rounded("autoregressive")
    maps = attention_maps(model, tokens_of(text, characters), vocabulary=characters)
    return torch.cat([one.weights[:, :, 0] for one in maps], dim=-1)


def test_attention_to_the_line_break():
    line = KING.index("\n")
    means = heads(KING)[line + 2 :, line].mean(0)
    assert means[4] == pytest.approx(0.47, abs=0.005)
    assert means[[h for h in range(12) if h != 4]].max() < 0.065


def test_attention_to_the_character_before():
    assert heads(JULIET)[..., 8].diagonal(-1)[6:].mean() == pytest.approx(0.65, abs=0.005)


def test_the_next_character_without_a_head():
    model, characters = rounded("autoregressive")

    def shares():
        with torch.no_grad():
            return model(tokens_of(NAME, characters))[0][-1, 0].softmax(-1)

    before = shares()
    output = model.stack.layers[1].self_attn.output.weight
    kept = output.detach().clone()
    with torch.no_grad(), labml_nn.kernels.disabled():
        output[:, 2 * 24 : 3 * 24] = 0
        after = shares()
        output.copy_(kept)
    assert before[characters.index("m")] == pytest.approx(0.58, abs=0.005)
    assert after[characters.index("m")] == pytest.approx(0.15, abs=0.005)
    assert characters[int(after.argmax())] == "t"
