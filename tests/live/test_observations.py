"""What the panels tell readers to see is true of the weights that they load."""

import json

import pytest
import torch

import labml_nn
from docs_src.live.export import HERE, NAMES, read_run, round_model, rounded_model
from labml_nn.attention_maps import attention_maps
from labml_nn.transformers import modern

KING = "KING RICHARD II:\nWhat must the king do now?"
JULIET = "JULIET:\nO Romeo, Romeo! wherefore art thou Romeo?"
NAME = "ROMEO:\nWhat is thy na"


def tokens_of(text, vocabulary):
    return vocabulary.encode(text)[:, None]


def heads(text):
    """The attention weights of all heads of the transformer, `[T, S, 12]`."""
    model, vocabulary = rounded_model("autoregressive")
    maps = attention_maps(model, tokens_of(text, vocabulary), vocabulary=vocabulary.texts)
    return torch.cat([one.weights[:, :, 0] for one in maps], dim=-1)


def test_attention_to_the_line_break():
    line = KING.index("\n")
    means = heads(KING)[line + 2 :, line].mean(0)
    assert means[4] == pytest.approx(0.47, abs=0.005)
    assert means[[h for h in range(12) if h != 4]].max() < 0.065


def test_attention_to_the_character_before():
    assert heads(JULIET)[..., 8].diagonal(-1)[6:].mean() == pytest.approx(0.65, abs=0.005)


def test_the_next_character_without_a_head():
    model, vocabulary = rounded_model("autoregressive")

    def shares():
        with torch.no_grad():
            return model(tokens_of(NAME, vocabulary))[0][-1, 0].softmax(-1)

    before = shares()
    output = model.stack.layers[1].self_attn.output.weight
    kept = output.detach().clone()
    with torch.no_grad(), labml_nn.kernels.disabled():
        output[:, 2 * 24 : 3 * 24] = 0
        after = shares()
        output.copy_(kept)
    assert before[vocabulary.texts.index("m")] == pytest.approx(0.58, abs=0.005)
    assert after[vocabulary.texts.index("m")] == pytest.approx(0.15, abs=0.005)
    assert vocabulary[int(after.argmax())] == "t"


SPEECHES = KING + " must he submit?\n\nROMEO:\nBut, soft! what light"


@torch.no_grad()
def states(text):
    """The hidden states of both layers after each character, `[T, L, N]`."""
    model, vocabulary = rounded_model("elman")
    state, found = None, []
    for token in tokens_of(text, vocabulary):
        _, state = model(token[None], state)
        found.append(state[:, 0])
    return torch.stack(found)


def test_units_that_mark_names_and_vowels():
    found = states(SPEECHES)
    second = SPEECHES.index("\n\n")
    names = [t < 15 or second + 1 < t < second + 7 for t in range(len(SPEECHES))]
    vowels = [letter in "aeiouAEIOU" for letter in SPEECHES]
    for where, values, within, elsewhere in (
        (names, found[:, 1, 29], -0.83, 0.88),
        (vowels, found[:, 0, 59], 0.71, -0.84),
    ):
        mask = torch.tensor(where)
        assert values[mask].mean() == pytest.approx(within, abs=0.005)
        assert values[~mask].mean() == pytest.approx(elsewhere, abs=0.005)


def test_a_changed_character_is_forgotten():
    before, after = (
        states(text).flatten(1) for text in (SPEECHES, SPEECHES[:17] + "Z" + SPEECHES[18:])
    )
    difference = (before - after).norm(dim=1) / before.norm(dim=1)
    assert difference[17] > 1 and difference[24] < 0.05


@torch.no_grad()
def test_the_memory_of_the_feedback_transformer():
    model, vocabulary = rounded_model("feedback")
    line, state, weights = KING.index("\n"), None, []
    with labml_nn.kernels.disabled():
        for t, token in enumerate(tokens_of(KING, vocabulary)):
            _, state = model(token[None], state)
            attn = [layer.attn.attn for layer in model.transformer.layers]
            if t:
                weights.append(torch.cat([one[:, 0] for one in attn], dim=-1))
    on_line = torch.stack([one[line] for one in weights[line + 2 :]]).mean(0)
    assert on_line[7] == pytest.approx(0.26, abs=0.006) and on_line[:7].max() < 0.035
    before = torch.stack([one[-1] for one in weights[7:]]).mean(0)
    assert before[4] == pytest.approx(0.74, abs=0.006)


@torch.no_grad()
def test_the_horizon_of_the_feedback_transformer(monkeypatch):
    model, vocabulary = rounded_model("feedback")
    tokens = tokens_of(KING, vocabulary)
    for horizon, loss in ((1, 1.29), (64, 0.92)):
        monkeypatch.setattr(model.transformer, "horizon", horizon)
        assert model.loss(tokens[:-1], tokens[1:]) == pytest.approx(loss, abs=0.005)


@torch.no_grad()
def test_who_speaks_decides_who_replies():
    model, vocabulary = rounded_model("encoder_decoder")
    start = torch.tensor([[model.config.start_token]])
    for name, first, share in (("GLOUCESTER", "K", 0.24), ("First Citizen", "C", 0.22)):
        source = tokens_of(f"{name}:\nGood morrow.", vocabulary)
        shares = model(start, model.encode(source))[0][-1, 0].softmax(-1)
        assert int(shares.argmax()) == vocabulary.texts.index(first)
        assert shares.max() == pytest.approx(share, abs=0.006)
    with labml_nn.kernels.disabled():
        model(start, model.encode(tokens_of("BENVOLIO:\nGood-morrow, cousin.", vocabulary)))
    assert model.transformer.decoder.layers[1].src_attn.attn[0, 6, 0, 1] > 0.99


@torch.no_grad()
def test_positions_of_the_transformer(monkeypatch):
    model, vocabulary = rounded_model("autoregressive")
    text = KING + " must he submit?"
    tokens = tokens_of(text, vocabulary)
    assert model.loss(tokens[:-1], tokens[1:]) == pytest.approx(1.17, abs=0.005)
    for said, best, share in ((NAME, "m", 0.58), ("".join(sorted(NAME[:-1])) + "a", "l", 0.77)):
        shares = model(tokens_of(said, vocabulary))[0][-1, 0].softmax(-1)
        assert int(shares.argmax()) == vocabulary.texts.index(best)
        assert shares.max() == pytest.approx(share, abs=0.006)
    monkeypatch.setattr(modern, "rotate", lambda x, positions, base=1.0: x)
    assert model.loss(tokens[:-1], tokens[1:]) == pytest.approx(3.66, abs=0.006)


@pytest.mark.parametrize("name", NAMES)
def test_weights_and_losses_are_those_of_the_trained_models(name):
    script = (HERE / "weights" / f"{name}.js").read_text(encoding="utf-8")
    delivered = json.loads(script[script.index("{") : script.rindex("}") + 1])
    run = read_run(name)
    assert delivered["tensors"] == round_model(run.model())
    best = run.result()["result"]["best_validation_loss"]
    assert delivered["loss"]["before"] == pytest.approx(best, abs=1e-4)
    assert delivered["loss"]["after"] == pytest.approx(best, abs=5e-4)
