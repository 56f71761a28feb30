"""What the panels tell readers to see is true of the weights that they load."""

import json
import re

import pytest
import torch
from torch.nn import functional as F

import labml_nn
from docs_src.figures import live as figures
from docs_src.live import poems, recall
from docs_src.live.export import (
    HERE,
    NAMES,
    model_as_delivered,
    read_run,
    round_model,
    rounded_model,
)
from labml_nn.attention_maps import attention_maps
from labml_nn.recurrent import delta_net, gated_delta_net
from labml_nn.recurrent.linear_attention import feature_map
from labml_nn.sampling import Chain, Nucleus, Temperature, TopK
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
def test_a_mamba_forgets_at_punctuation_and_line_breaks():
    model, vocabulary = rounded_model("mamba2")
    kept = []

    def watch(mixer, inputs, _):
        delta = mixer.in_proj(inputs[0])[..., -mixer.heads :] + mixer.dt_bias
        kept.append((-mixer.A_log.exp() * F.softplus(delta)).exp()[:, 0])

    one, two = (layer.mixer.register_forward_hook(watch) for layer in model.layers)
    with one, two:
        model(tokens_of(SPEECHES, vocabulary))
    first, second = kept
    for letters, head, there, elsewhere in ((",.;:!?", 0, 0.28, 0.68), ("\n", 2, 0.60, 0.89)):
        mask = torch.tensor([letter in letters for letter in SPEECHES])
        assert second[mask, head].mean() == pytest.approx(there, abs=0.006)
        assert second[~mask, head].mean() == pytest.approx(elsewhere, abs=0.006)
    for head, share in ((0, 0.40), (2, 0.92)):
        assert first[:, head].mean() == pytest.approx(share, abs=0.006)


@torch.no_grad()
def test_a_gated_delta_net_forgets_words(monkeypatch):
    model, vocabulary = rounded_model("delta_net")
    tokens, given = tokens_of(SPEECHES, vocabulary), []

    def loss(rule):
        monkeypatch.setattr(gated_delta_net, "gated_delta_rule_chunks", rule)
        return model.loss(tokens[:-1], tokens[1:])

    def recorded(*inputs):
        given.append(inputs)
        return gated_delta_net.gated_delta_rule_loop(*inputs)

    def never_forget(q, k, v, beta, log_alpha, memory):
        return gated_delta_net.gated_delta_rule_loop(q, k, v, beta, 0 * log_alpha, memory)

    assert loss(recorded) == pytest.approx(1.29, abs=0.005)
    assert loss(never_forget) == pytest.approx(2.02, abs=0.006)
    monkeypatch.setattr(gated_delta_net, "gated_delta_rule_chunks", recorded)
    model(tokens)
    *_, log_alpha, _ = given[-2]  # of the first layer
    spaces = torch.tensor([letter in " \n" for letter in SPEECHES])
    kept = log_alpha[:, 0, 0].exp()
    assert kept[spaces].mean() == pytest.approx(0.001, abs=0.0005)
    assert kept[~spaces].mean() == pytest.approx(0.86, abs=0.005)
    second = given[-1][4][:, 0, 1].exp()
    assert second[spaces].mean() == pytest.approx(0.03, abs=0.005)
    assert second[~spaces].mean() == pytest.approx(0.81, abs=0.005)


@torch.no_grad()
def memories(text):
    """Of each layer of linear attention: its weights, `[H, T, T]`, keys, and memories over time."""
    model, vocabulary = rounded_model("linear_attention")
    x, found = model.embedding(tokens_of(text, vocabulary)), []
    for layer in model.layers:
        mixer, normed = layer.mixer, layer.norm_mixer(x)
        qkv = torch.cat([mixer.query(normed), mixer.key(normed), mixer.value(normed)], dim=-1)
        parts = mixer.conv(qkv)[0][:, 0].chunk(3, dim=-1)
        q, k, v = (part.unflatten(-1, (mixer.heads, -1)) for part in parts)
        q, k = feature_map(q), feature_map(k)
        weights = torch.einsum("thd,shd->hts", q, k).tril()
        written = torch.einsum("thd,the->thde", k, v).cumsum(0)
        found.append((weights / weights.sum(-1, keepdim=True), k, written))
        x, _ = layer(x)
    return found


def test_linear_attention_looks_at_no_character_alone():
    before = torch.cat([weights for weights, _, _ in memories(SPEECHES)])
    means = before.diagonal(-1, 1, 2)[:, 4:].mean(1)
    assert means.argmax() == 4 and means[4] == pytest.approx(0.048, abs=0.0005)
    equal = (1 / torch.arange(6, len(SPEECHES) + 1)).mean()
    assert equal == pytest.approx(0.033, abs=0.0005)


def test_keys_of_capital_letters_are_large():
    _, keys, _ = memories(SPEECHES)[1]
    sizes = keys[:, 1].sum(-1) / keys[:, 1].sum(-1).mean()
    large = torch.tensor([letter.isupper() or letter == "\n" for letter in SPEECHES])
    assert sizes[large].mean() == pytest.approx(1.4, abs=0.02)
    assert sizes[~large].mean() == pytest.approx(0.85, abs=0.01)


def test_linear_attention_never_forgets():
    before, after = (
        memories(text)[0][2] for text in (SPEECHES, SPEECHES[:17] + "Z" + SPEECHES[18:])
    )
    difference = (before - after).flatten(1).norm(dim=1)
    assert difference[17] > 10
    torch.testing.assert_close(difference[21:], difference[21].expand(len(difference) - 21))


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


SUBMIT = KING + " must he submit?\nThe king shall do it: must he be deposed?\n\n"
SUBMIT += "ROMEO:\nBut, soft! what light through yonder window breaks?"


@torch.no_grad()
def lstm_cell(unit, forced=None):
    """Of a cell of layer 2: its gates i, f, o and state c, `[T, 4]`; and the logits, `[T, V]`."""
    model, vocabulary = rounded_model("lstm")
    first, second = model.lstm.cells
    below = above = h = c = torch.zeros(1, model.config.d_hidden)
    rows, logits = [], []
    for x in model.embedding(tokens_of(SUBMIT, vocabulary)):
        below, above = first(x, below, above)
        i, f, g, o = (second.hidden_lin(h) + second.input_lin(below)).chunk(4, dim=-1)
        i, f, o = torch.sigmoid(i), torch.sigmoid(f), torch.sigmoid(o)
        if forced is not None:
            f[0, unit] = forced
        c = f * c + i * torch.tanh(g)
        h = o * torch.tanh(c)
        rows.append(torch.stack([i, f, o, c])[:, 0, unit])
        logits.append(model.output(h)[0])
    return torch.stack(rows), torch.stack(logits)


def test_the_cell_that_knows_what_is_left_of_a_line():
    rows, logits = lstm_cell(56)
    model, vocabulary = rounded_model("lstm")
    torch.testing.assert_close(logits, model(tokens_of(SUBMIT, vocabulary))[0][:, 0])
    first = SUBMIT.index("The king")
    line = range(first + 2, SUBMIT.index("\n\n"))
    i, f, _, c = rows.T
    assert c[first + 1] == pytest.approx(1.90, abs=0.005) and i[[first, first + 1]].min() > 0.9
    assert i[list(line)].max() < 0.11
    within = [t for t in line if SUBMIT[t].isalpha()]
    spaces = [t for t in line if SUBMIT[t] == " "]
    assert f[within].mean() == pytest.approx(0.98, abs=0.005)
    assert (f[spaces] < f[within].mean()).all() and f[spaces].mean() < 0.86


def test_the_cell_ends_the_lines():
    _, vocabulary = rounded_model("lstm")
    at = SUBMIT.index("?")
    for forced, share in ((None, 0.77), (1.0, 0.22)):
        logits = lstm_cell(56, forced)[1][at]
        assert logits.softmax(-1)[vocabulary.texts.index("\n")] == pytest.approx(share, abs=0.005)


def test_the_cell_that_counts_and_is_not_heard():
    rows, logits = lstm_cell(85)
    at = SUBMIT.index("deposed") + len("deposed")
    assert rows[at - 1, 3] == pytest.approx(26.8, abs=0.05) and SUBMIT[at + 1] == "\n"
    assert rows[at + 1, 1] == pytest.approx(0.02, abs=0.005)
    _, vocabulary = rounded_model("lstm")
    targets = tokens_of(SUBMIT, vocabulary)[1:, 0]
    for found in (logits, lstm_cell(85, 0.0)[1]):
        loss = torch.nn.functional.cross_entropy(found[:-1], targets)
        assert loss == pytest.approx(1.41, abs=0.005)


@torch.no_grad()
def gru_cell(unit, forced=None):
    """Of a cell of layer 2: its gates r, z and state h, `[T, 3]`; and the logits, `[T, V]`."""
    model, vocabulary = rounded_model("gru")
    first, second = model.gru.cells
    below = h = torch.zeros(1, model.config.d_hidden)
    rows, logits = [], []
    for x in model.embedding(tokens_of(SUBMIT, vocabulary)):
        below = first(x, below)
        x_r, x_z, x_g = second.input_lin(below).chunk(3, dim=-1)
        h_r, h_z, h_g = second.hidden_lin(h).chunk(3, dim=-1)
        r, z = torch.sigmoid(x_r + h_r), torch.sigmoid(x_z + h_z)
        if forced is not None:
            z[0, unit] = forced
        h = z * h + (1 - z) * torch.tanh(x_g + r * h_g)
        rows.append(torch.stack([r, z, h])[:, 0, unit])
        logits.append(model.output(h)[0])
    return torch.stack(rows), torch.stack(logits)


def test_the_gru_cell_that_keeps():
    rows, logits = gru_cell(26)
    model, vocabulary = rounded_model("gru")
    torch.testing.assert_close(logits, model(tokens_of(SUBMIT, vocabulary))[0][:, 0])
    colon = SUBMIT.index("ROMEO") + len("ROMEO")
    assert rows[colon, 2] == pytest.approx(-0.71, abs=0.005)
    assert rows[colon + 1 :, 1].min() > 0.965
    assert len(rows) - 1 - colon == 52 and rows[-1, 2] == pytest.approx(-0.64, abs=0.005)


def test_the_gru_cell_that_knows_what_is_left_of_a_line():
    rows, logits = gru_cell(99)
    _, vocabulary = rounded_model("gru")
    first = SUBMIT.index("The king")
    assert rows[[first - 1, first], 1].max() < 0.1
    assert rows[first, 2] == pytest.approx(1.0, abs=0.005)
    line = rows[first : SUBMIT.index("\n\n"), 2]
    assert (line.diff() < 0.005).all() and line[-1] < -0.4
    at, line_break = SUBMIT.index("it:") + 2, vocabulary.texts.index("\n")
    for found, share in ((logits, 0.11), (gru_cell(99, 0.0)[1], 0.64)):
        assert found[at].softmax(-1)[line_break] == pytest.approx(share, abs=0.005)


def test_the_gru_cell_that_marks_names():
    _, z, h = gru_cell(29)[0].T
    second = SUBMIT.index("\n\n")
    names = torch.tensor([t < 15 or second + 1 < t < second + 7 for t in range(len(SUBMIT))])
    assert z.mean() == pytest.approx(0.09, abs=0.005)
    assert h[names].mean() == pytest.approx(-0.60, abs=0.005)
    assert h[~names].mean() == pytest.approx(0.99, abs=0.005)


@torch.no_grad()
def answers(line):
    """What each model of the recall game answers when it is asked for the letters of a line."""
    vocabulary = recall.RecallGame.words()
    text = line.replace(" ", "")
    letters = sorted(set(text[::2]))
    tokens = torch.stack([vocabulary.encode(text + letter) for letter in letters], 1)
    found = {}
    for name in recall.MODELS:
        digits = recall.delivered_model(name)(tokens)[0][-1, :, :10].argmax(-1).tolist()
        found[name] = dict(zip(letters, map(str, digits), strict=True))
    return found


def test_vectors_know_which_digits_came_but_not_whose():
    for name, given in answers("a6 r5 z6").items():
        vector = name in ("elman", "lstm")
        assert given == (
            {"a": "6", "r": "6", "z": "6"} if vector else {"a": "6", "r": "5", "z": "6"}
        )


def test_twenty_pairs_are_too_many_for_some_matrices():
    line = "o9 r2 z9 x0 q8 s1 g0 f0 v3 p3 u9 b0 h7 e5 c7 w9 i3 a8 t3 d4"
    truth = dict(line.split())
    known = {
        name: sum(given[letter] == truth[letter] for letter in truth)
        for name, given in answers(line).items()
    }
    assert (known["attention"], known["delta_net"], known["mamba2"]) == (20, 18, 15)


@torch.no_grad()
def test_a_delta_net_has_a_key_for_each_letter_and_needs_the_error(monkeypatch):
    vocabulary, given = recall.RecallGame.words(), []
    model = recall.delivered_model("delta_net")
    line = "a3b7a1c5b2a9"
    tokens = torch.stack([vocabulary.encode(line + letter) for letter in "abc"], 1)

    def recorded(*inputs):
        given.append(inputs[1])
        return delta_net.delta_rule_loop(*inputs)

    def write_values(q, k, v, beta, memory):
        found = []
        for t in range(len(q)):
            memory = memory + k[t][..., None] * (beta[t][..., None] * v[t])[..., None, :]
            found.append(torch.einsum("bhd,bhde->bhe", q[t], memory))
        return torch.stack(found), memory

    replies = []
    for rule in (recorded, write_values):
        monkeypatch.setattr(delta_net, "delta_rule_chunks", rule)
        replies.append(model(tokens)[0][-1, :, :10].argmax(-1).tolist())
    assert replies[0] == [9, 2, 5] and replies[1][0] == 3
    keys = given[0][1 : len(line) : 2, 0, 1]
    products = keys @ keys[-1]
    assert products[[2, 0]].tolist() == pytest.approx([0.96, 0.98], abs=0.005)
    assert products[[1, 3, 4]].abs().max() < 0.12
    said = figures.deltas().alt
    assert f"same letter have a dot product of {keys[1] @ keys[4]:.2f} or more" in said
    monkeypatch.undo()
    full = "o9 r2 z9 x0 q8 s1 g0 f0 v3 p3 u9 b0 h7 e5 c7 w9 i3 a8 t3 d4"
    truth = dict(full.split())
    found = answers(full)["delta_net"]
    assert [letter for letter in sorted(truth) if found[letter] != truth[letter]] == ["x", "z"]


def test_only_a_memory_that_replaces_forgets_old_digits():
    given = answers("o7 k3 d6 e2 v4 k0 o1 k9 p3 d0 k5")
    assert {name: one["k"] for name, one in given.items() if name not in ("elman", "lstm")} == {
        "attention": "5",
        "linear_attention": "0",
        "mamba2": "9",
        "delta_net": "5",
    }


@pytest.mark.parametrize("name", recall.MODELS)
def test_right_answers_are_those_of_the_delivered_model(name):
    right = recall.read(name)["right"]
    for side, letters in (("once", 12), ("again", 6)):
        share = right[side][right["pairs"].index(12)]
        found = recall.right_answers(recall.delivered_model(name), 12, letters)
        assert found == pytest.approx(share, abs=0.002)


def test_the_last_digit_of_a_letter_counts():
    game = recall.RecallGame(batch_size=50, seq_len=60)
    for step in range(10):
        batch = game.batch(step)
        for tokens, targets in zip(batch.tokens.T, batch.targets.T, strict=True):
            asked = targets != batch.padding_token
            line, questions = game.decode(tokens[~asked]), game.decode(tokens[asked])
            last = {line[i]: line[i + 1] for i in range(0, len(line), 2)}
            assert sorted(questions) == sorted(last)
            assert game.decode(targets[asked]) == "".join(last[one] for one in questions)


@pytest.mark.parametrize("name", NAMES)
def test_weights_and_losses_are_those_of_the_trained_models(name):
    script = (HERE / "weights" / f"{name}.js").read_text(encoding="utf-8")
    delivered = json.loads(script[script.index("{") : script.rindex("}") + 1])
    run = read_run(name)
    assert delivered["tensors"] == round_model(run.model())
    best = run.result()["result"]["best_validation_loss"]
    assert delivered["loss"]["before"] == pytest.approx(best, abs=1e-4)
    assert delivered["loss"]["after"] == pytest.approx(best, abs=5e-4)


# --- The models of the Chinese pages
STORKS = "\n\n白日依山尽\n黄河入海流\n欲穷千里目\n更上一层楼"
RIVER = "\n\n\u3000朝辞白帝彩云间\n千里江陵一日还\n两岸猿声啼不住\n轻舟已过万重山"


def place(line, character):
    """Where a character of the poem of five stands, after the blank line."""
    return 2 + 6 * line + character


def after(text, model, vocabulary):
    """The probability of each next character."""
    with torch.no_grad():
        shares = model(tokens_of(text, vocabulary))[0][-1, 0].softmax(-1).tolist()
    return dict(zip(vocabulary.texts, shares, strict=True))


def chinese_heads(text):
    """The attention weights of all heads of the Chinese transformer, `[T, S, 12]`."""
    model, vocabulary = model_as_delivered("tang", "autoregressive")
    maps = attention_maps(model, tokens_of(text, vocabulary), vocabulary=vocabulary.texts)
    return torch.cat([one.weights[:, :, 0] for one in maps], dim=-1)


@pytest.mark.parametrize(("lines", "share"), [((1, 3), 0.57), ((2,), 0.01)])
def test_a_head_looks_at_the_same_place_of_the_line_before_within_a_couplet(lines, share):
    weights = chinese_heads(STORKS)[..., 8]
    places = [(place(n, i) - 1, place(n - 1, i)) for n in lines for i in range(5)]
    mean = sum(weights[query, key].item() for query, key in places) / len(places)
    assert mean == pytest.approx(share, abs=0.005)


def test_a_head_looks_at_the_character_before():
    weights = chinese_heads(STORKS)[..., 6]
    places = [place(line, i) for line in range(4) for i in (2, 3, 4)]
    mean = sum(weights[t, t - 1].item() for t in places) / len(places)
    assert mean == pytest.approx(0.89, abs=0.005)


def test_a_colour_answers_a_colour_by_one_head():
    model, vocabulary = model_as_delivered("tang", "autoregressive")
    first, size = "\n\n白日依山尽\n", model.config.d_model // model.config.heads
    before = after(first, model, vocabulary)
    output = model.stack.layers[2].self_attn.output.weight
    kept = output.detach().clone()
    with torch.no_grad(), labml_nn.kernels.disabled():
        output[:, :size] = 0
        without = after(first, model, vocabulary)
        output.copy_(kept)
    assert [before[one] for one in "青黄红"] == pytest.approx([0.34, 0.06, 0.05], abs=0.006)
    assert without["青"] == pytest.approx(0.01, abs=0.005)


@torch.no_grad()
def chinese_cell(text, layer, cell, forget=None):
    """State and forget gate of a cell of the Chinese LSTM, and how likely a line break is next.

    With `forget` the forget gate of the cell always has this value.
    """
    model, vocabulary = model_as_delivered("tang_lstm", "lstm")
    states = [torch.zeros(2, model.config.d_hidden) for _ in model.lstm.cells]
    seen = []
    for token in vocabulary.encode(text):
        x = model.embedding.weight[token]
        for number, one in enumerate(model.lstm.cells):
            h, c = states[number]
            i, f, g, o = (one.hidden_lin(h) + one.input_lin(x)).chunk(4)
            f = f.sigmoid()
            if number == layer:
                f[cell] = f[cell] if forget is None else forget
            c = f * c + i.sigmoid() * g.tanh()
            x = o.sigmoid() * c.tanh()
            states[number] = torch.stack([x, c])
            if number == layer:
                found = c[cell], f[cell]
        breaks = model.output(x).softmax(-1)[vocabulary.texts.index("\n")]
        seen.append(torch.stack([*found, breaks]))
    return torch.stack(seen, 1)


def test_a_cell_counts_the_characters_of_a_line():
    counts, forget, _ = chinese_cell(STORKS, 0, 70)
    lines = torch.stack([counts[place(n, 0) : place(n, 5)] for n in range(4)])
    assert lines[:, 0].tolist() == pytest.approx([-1.7] * 4, abs=0.05)
    assert lines.diff(dim=1).mean() == pytest.approx(0.8, abs=0.05)
    assert lines[:, -1].min() > 1.4
    ends = [place(n, 5) for n in range(3)]
    assert forget[ends].tolist() == pytest.approx([0.02] * 3, abs=0.01)


def test_a_count_that_is_never_cleared_is_too_low_to_end_a_line():
    before, forced = (chinese_cell(RIVER, 0, 70, forget) for forget in (None, 1.0))
    assert all(forced[0, 3:10] < before[0, 3:10])
    at = RIVER.index("间")
    assert before[2, at] == pytest.approx(1, abs=0.005)
    assert forced[2, at] == pytest.approx(0.01, abs=0.005)


def test_a_cell_keeps_how_long_the_lines_are():
    five, seven = (chinese_cell(text, 1, 62)[0] for text in (STORKS, RIVER))
    assert five[2:].max() < 0 < seven[2:].min()
    assert seven[-1] == pytest.approx(3.37, abs=0.005)


def test_a_cell_counts_what_it_has_read():
    for text in (STORKS, RIVER):
        counts, forget, _ = chinese_cell(text, 1, 40)
        assert counts.diff().min() > 0 and forget.min() > 0.9


@torch.no_grad()
def test_a_gated_delta_net_turns_the_page_at_lines_and_at_couplets(monkeypatch):
    model, vocabulary = model_as_delivered("tang_delta_net", "delta_net")
    given = []

    def recorded(*inputs):
        given.append(inputs)
        return gated_delta_net.gated_delta_rule_loop(*inputs)

    monkeypatch.setattr(gated_delta_net, "gated_delta_rule_chunks", recorded)
    model(tokens_of(STORKS, vocabulary))
    first, second = (log_alpha[:, 0].exp() for *_, log_alpha, _ in given)
    poem = torch.arange(len(STORKS)) > 1
    ends = poem & torch.tensor([one == "\n" for one in STORKS])
    assert first[ends, 1].tolist() == pytest.approx([0.01] * 3, abs=0.005)
    assert first[poem & ~ends, 1].mean() == pytest.approx(0.97, abs=0.005)
    assert second[ends, 3].tolist() == pytest.approx([0.99, 0.20, 0.67], abs=0.006)

    # What head 1 of the second layer answers at the ends of the first line and of the third.
    q, k, _, beta, log_alpha, _ = (one[:, 0, 0] for one in given[1])
    for end, characters, weights in (
        (place(0, 5), "日", [0.56]),
        (place(2, 5), "日欲", [0.24, 0.20]),
    ):
        query, found = q[end], {}
        for t in range(end, -1, -1):
            found[t] = beta[t] * (query @ k[t])
            query = log_alpha[t].exp() * (query - found[t] * k[t])
        largest = sorted(found, key=lambda t: -abs(found[t]))[: len(weights)]
        assert "".join(STORKS[t] for t in largest) == characters
        assert [found[t].item() for t in largest] == pytest.approx(weights, abs=0.005)


@torch.no_grad()
def written(name, width, number=400):
    """Poems that a model writes without being told to rhyme, as lists of lines."""
    model, vocabulary = model_as_delivered(name, poems.MODELS[name])
    sampler, random = Chain(Temperature(0.8), TopK(40), Nucleus(0.95)), torch.Generator()
    random.manual_seed(1)
    begin = "\n\n" + (poems.SEVEN if width == 7 else "")
    line, mark = (vocabulary.texts.index(one) for one in ("\n", poems.SEVEN))
    logits, state = model(tokens_of(begin, vocabulary).expand(-1, number))
    lines = [[] for _ in range(poems.LINES)]
    for characters in lines:
        for _ in range(width):
            logits[-1, :, [line, mark]] = -torch.inf
            shares = sampler.distribution(logits[-1])
            characters.append(torch.multinomial(shares, 1, generator=random)[:, 0])
            logits, state = model(characters[-1][None], state)
        logits, state = model(torch.full((1, number), line), state)
    return [
        [vocabulary.decode(one) for one in poem]
        for poem in torch.stack([torch.stack(one) for one in lines]).permute(2, 0, 1)
    ]


@pytest.mark.parametrize("name", poems.MODELS)
def test_few_poems_rhyme_by_themselves(name):
    groups = poems.verse()["韵"]
    script = (HERE / f"{name}.js").read_text(encoding="utf-8")
    said = re.search(r"five: (\d+), seven: (\d+)", script).groups()
    for width, percent in zip((5, 7), said, strict=True):
        ends = [(lines[1][-1], lines[3][-1]) for lines in written(name, width)]
        share = sum(a != b and any({a, b} <= {*one} for one in groups) for a, b in ends) / len(ends)
        assert share == pytest.approx(int(percent) / 100, abs=0.02)
