"""What the panels tell readers to see is true of the weights that they load.

`check` looks up the sentence in the script of the panel, and compares each of its numbers.
"""

import re
from copy import deepcopy

import pytest
import torch
from sweeps import swept
from torch.nn import functional as F

import labml_nn
from docs_src.figures import live as figures
from docs_src.live import poems, recall
from docs_src.live.export import (
    HERE,
    NAMES,
    delivered,
    model_as_delivered,
    read_run,
    round_model,
    rounded_model,
)
from labml_nn.attention_maps import attention_maps
from labml_nn.recurrent import delta_net, gated_delta_net, linear_attention, mamba2
from labml_nn.sampling import Chain, Nucleus, Temperature, TopK
from labml_nn.transformers import modern

pytestmark = pytest.mark.usefixtures("no_gradients")

KING = "KING RICHARD II:\nWhat must the king do now?"
JULIET = "JULIET:\nO Romeo, Romeo! wherefore art thou Romeo?"
NAME = "ROMEO:\nWhat is thy na"
SPEECHES = KING + " must he submit?\n\nROMEO:\nBut, soft! what light"
CHANGED = SPEECHES[:17] + "Z" + SPEECHES[18:]
SUBMIT = KING + " must he submit?\nThe king shall do it: must he be deposed?\n\n"
SUBMIT += "ROMEO:\nBut, soft! what light through yonder window breaks?"
STORKS = "\n\n白日依山尽\n黄河入海流\n欲穷千里目\n更上一层楼"
RIVER = "\n\n\u3000朝辞白帝彩云间\n千里江陵一日还\n两岸猿声啼不住\n轻舟已过万重山"


@pytest.fixture
def no_gradients():
    with torch.no_grad():
        yield


def check(panel, sentence, *measured):
    """The panel says so, where `#` stands for a number: each is what was measured, rounded.

    If there is a percent sign, the numbers are percentages.
    """
    pattern = re.escape(sentence).replace(r"\#", r"(−?[\d.]*\d)")
    found = re.search(pattern, (HERE / f"{panel}.js").read_text("utf-8"))
    assert found, sentence
    for text, number in zip(found.groups(), measured, strict=True):
        near = 0.6 * 0.1 ** len(text.partition(".")[2])
        number = float(number) * (100 if "%" in sentence else 1)
        assert number == pytest.approx(float(text.replace("−", "-")), abs=near), sentence


def model_of(name):
    chinese = name in poems.MODELS
    return model_as_delivered(name, poems.MODELS[name]) if chinese else rounded_model(name)


def tokens_of(text, vocabulary):
    return vocabulary.encode(text)[:, None]


def logits_of(name, text):
    """The logits after each character, `[T, V]`."""
    model, vocabulary = model_of(name)
    return model(tokens_of(text, vocabulary))[0][:, 0]


def loss_of(name, text):
    """Nats per character."""
    model, vocabulary = model_of(name)
    tokens = tokens_of(text, vocabulary)
    return model.loss(tokens[:-1], tokens[1:])


def probabilities(logits, vocabulary):
    """Of each character, likely ones first."""
    shares = zip(vocabulary.texts, logits.softmax(-1).tolist(), strict=False)
    return dict(sorted(shares, key=lambda each: -each[1]))


def next_characters(name, text):
    return probabilities(logits_of(name, text)[-1], model_of(name)[1])


def next_without_head(name, text, layer, head):
    model, vocabulary = model_of(name)
    model, size = deepcopy(model), model.config.d_model // model.config.heads
    model.stack.layers[layer].self_attn.output.weight[:, head * size : (head + 1) * size] = 0
    return probabilities(model(tokens_of(text, vocabulary))[0][-1, 0], vocabulary)


def heads(name, text):
    """The attention weights of all heads of a transformer, `[T, S, 12]`."""
    model, vocabulary = model_of(name)
    maps = attention_maps(model, tokens_of(text, vocabulary), vocabulary=vocabulary.texts)
    return torch.cat([one.weights[:, :, 0] for one in maps], dim=-1)


def where(text, letters):
    return torch.tensor([one in letters for one in text])


def in_names(text):
    """Within the names of the two speakers."""
    second = text.index("\n\n")
    return torch.tensor([t < 15 or second + 1 < t < second + 7 for t in range(len(text))])


def within_and_outside(values, mask):
    return values[mask].mean(), values[~mask].mean()


# Shakespeare.


def test_heads_of_the_transformer():
    line = KING.index("\n")
    means = heads("autoregressive", KING)[line + 2 :, line].mean(0)
    check("attention", "it keeps # % of its weight there, on average", means[4])
    others = means[torch.arange(12) != 4]
    check("attention", "every other head gives it # % or less", others.max())
    before = heads("autoregressive", JULIET)[..., 8].diagonal(-1)[6:].mean()
    check("attention", "attends to the character before: # % of its weight", before)
    before = next_characters("autoregressive", NAME)["m"]
    check("attention", "expects “m” with # %. Without", before)
    (letter, _), *_ = (without := next_without_head("autoregressive", NAME, 1, 2)).items()
    check("attention", f"layer 2, head 3 it is # %, and “{letter}” is likelier", without["m"])


def test_positions_of_the_transformer(monkeypatch):
    (letter, share), *_ = next_characters("autoregressive", NAME).items()
    check("positions", f"after “What is thy na” the model expects “{letter}” (# %)", share)
    text = "".join(sorted(NAME[:-1])) + "a"
    (letter, share), *_ = next_characters("autoregressive", text).items()
    check("positions", f"it expects “{letter}” (# %)", share)
    text = KING + " must he submit?"
    before = loss_of("autoregressive", text)
    monkeypatch.setattr(modern, "rotate", lambda x, positions, base=1.0: x)
    check("positions", "rises from # to # nats", before, loss_of("autoregressive", text))


def elman_states(text):
    """The hidden states of both layers after each character, `[T, L, N]`."""
    model, vocabulary = model_of("elman")
    state, found = None, []
    for token in tokens_of(text, vocabulary):
        _, state = model(token[None], state)
        found.append(state[:, 0])
    return torch.stack(found)


def test_units_of_the_elman_network():
    found, changed = (elman_states(text) for text in (SPEECHES, CHANGED))
    names = within_and_outside(found[:, 1, 29], in_names(SPEECHES))
    check("units", "# on average within the two names, # elsewhere", *names)
    vowels = within_and_outside(found[:, 0, 59], where(SPEECHES, "aeiouAEIOU"))
    check("units", "# on average at vowels, # elsewhere", *vowels)
    before, after = found.flatten(1), changed.flatten(1)
    difference = (before - after).norm(dim=1) / before.norm(dim=1)
    assert difference[17] > 1 and difference[24] < 0.05  # "the state differs by less than 5 %"


def recorded(monkeypatch, module, rule):
    """A list that gets the arguments of the rule of each layer whenever a model runs."""
    given = []

    def record(*inputs):
        given.append(inputs)
        return getattr(module, f"{rule}_loop")(*inputs)

    monkeypatch.setattr(module, f"{rule}_chunks", record)
    return given


def test_heads_of_mamba_forget_at_punctuation_and_line_breaks(monkeypatch):
    given = recorded(monkeypatch, mamba2, "ssd")
    logits_of("mamba2", SPEECHES)
    first, second = (log_decay[:, 0].exp() for *_, log_decay, _ in given)
    at_marks = within_and_outside(second[:, 0], where(SPEECHES, ",.;:!?"))
    check("decay", "it keeps # % there on average, and # % elsewhere", *at_marks)
    at_breaks = within_and_outside(second[:, 2], where(SPEECHES, "\n"))
    check("decay", "it keeps # % there, and # % elsewhere", *at_breaks)
    check("decay", "head 1 keeps # % on average, and head 3 keeps # %", *first.mean(0)[[0, 2]])


def test_heads_of_the_gated_delta_net_forget_words(monkeypatch):
    before = loss_of("delta_net", SPEECHES)
    given = recorded(monkeypatch, gated_delta_net, "gated_delta_rule")
    logits_of("delta_net", SPEECHES)
    spaces = where(SPEECHES, " \n")
    first, second = (log_alpha[:, 0].exp() for *_, log_alpha, _ in given)
    check("forgets", "it keeps # % of its memory at spaces", first[spaces, 0].mean())
    check("forgets", "line breaks, and # % elsewhere", first[~spaces, 0].mean())
    elsewhere = within_and_outside(second[:, 1], spaces)
    check("forgets", "it keeps # % there, and # % elsewhere", *elsewhere)

    def never_forget(q, k, v, beta, log_alpha, memory):
        return gated_delta_net.gated_delta_rule_loop(q, k, v, beta, 0 * log_alpha, memory)

    monkeypatch.setattr(gated_delta_net, "gated_delta_rule_chunks", never_forget)
    after = loss_of("delta_net", SPEECHES)
    check("forgets", "is # nats per character in place of #.", after, before)


def test_heads_of_linear_attention(monkeypatch):
    given = recorded(monkeypatch, linear_attention, "linear_attention")
    for text in (SPEECHES, CHANGED):
        logits_of("linear_attention", text)
    weights = torch.cat([torch.einsum("tbhd,sbhd->hts", q, k).tril() for q, k, *_ in given[:2]])
    means = (weights / weights.sum(-1, keepdim=True)).diagonal(-1, 1, 2)[:, 4:].mean(1)
    assert means.argmax() == 4
    check("matrix", "gets # % of the weight on average in layer 2, head 1", means[4])
    equal = 1 / torch.arange(6, len(SPEECHES) + 1)
    check("matrix", "If all weights were equal, it would get # %", equal.mean())
    sizes = given[1][1][:, 0, 1].sum(-1)
    large = torch.tensor([letter.isupper() or letter == "\n" for letter in SPEECHES])
    sentence = "# times the mean on average, and other characters # times"
    check("matrix", sentence, *within_and_outside(sizes / sizes.mean(), large))
    # Nothing is forgotten.
    one, other = (torch.einsum("tbhd,tbhe->thde", k, v).cumsum(0) for _, k, v, _ in given[::2])
    difference = (one - other).flatten(1).norm(dim=1)
    assert difference[17] > 10
    torch.testing.assert_close(difference[21:], difference[21].expand(len(difference) - 21))


def test_the_memory_of_the_feedback_transformer(monkeypatch):
    weights, line = heads("feedback", KING), KING.index("\n")
    on_line = weights[line + 3 :, line].mean(0)
    sentence = "# % of its weight on average, at most # % in the other heads"
    check("memory", sentence, on_line[7], on_line[:7].max())
    before = weights[..., 4].diagonal(-1)[7:].mean()
    check("memory", "attends to the step before: # % of its weight", before)
    losses = []
    for horizon in (1, 64):
        monkeypatch.setattr(model_of("feedback")[0].transformer, "horizon", horizon)
        losses.append(loss_of("feedback", KING))
    check("memory", "is # nats per character, with all slots #:", *losses)


def test_who_speaks_decides_who_replies():
    model, vocabulary = model_of("encoder_decoder")
    start = torch.tensor([[model.config.start_token]])
    for name in ("GLOUCESTER", "First Citizen"):
        source = tokens_of(f"{name}:\nGood morrow.", vocabulary)
        logits = model(start, model.encode(source))[0][-1, 0]
        (letter, share), *_ = probabilities(logits, vocabulary).items()
        assert letter == {"GLOUCESTER": "K", "First Citizen": "C"}[name]
        check("cross", f"likeliest first letter is “{letter}” (# %)", share)
    with labml_nn.kernels.disabled():
        model(start, model.encode(tokens_of("BENVOLIO:\nGood-morrow, cousin.", vocabulary)))
    assert model.transformer.decoder.layers[1].src_attn.attn[0, 6, 0, 1] > 0.99


def cell_of(name, text, layer, unit, forced=None):
    """Of a cell of an LSTM or a GRU: its first two gates and its state, `[3, T]`; and the logits.

    `forced` is the value of its second gate from then on: the forget gate or the update gate.
    """
    model, vocabulary = model_of(name)
    model, rows = deepcopy(model), []
    cell = (model.gru if name == "gru" else model.lstm).cells[layer]
    if forced is not None:
        row = cell.hidden_lin.in_features + unit
        for linear in (cell.hidden_lin, cell.input_lin):
            linear.weight[row] = 0
        cell.hidden_lin.bias[row] = 100 if forced else -100

    def watch(_, inputs, states):
        gates = cell.input_lin(inputs[0]) + cell.hidden_lin(inputs[1])
        first, second, *_ = gates.sigmoid().split(cell.hidden_lin.in_features, dim=-1)
        state = states if name == "gru" else states[1]
        rows.append(torch.stack([first, second, state])[:, 0, unit])

    cell.register_forward_hook(watch)
    logits = model(tokens_of(text, vocabulary))[0][:, 0]
    return torch.stack(rows, 1), logits


def line_break(name, logits):
    """The probability of a line break next."""
    return logits.softmax(-1)[..., model_of(name)[1].texts.index("\n")]


def test_the_lstm_cell_that_knows_what_is_left_of_a_line():
    (i, f, c), logits = cell_of("lstm", SUBMIT, 1, 56)
    first = SUBMIT.index("The king")
    line = range(first + 2, SUBMIT.index("\n\n"))
    check("lstm_gates", "fill it, to #. From", c[first + 1])
    assert i[[first, first + 1]].min() > 0.9 and i[list(line)].max() < 0.11
    within = f[[t for t in line if SUBMIT[t].isalpha()]].mean()
    check("lstm_gates", "forget gate is near 1 (# on average)", within)
    spaces = f[[t for t in line if SUBMIT[t] == " "]]
    assert spaces.max() < within and spaces.mean() < 0.86
    at, (_, opened) = SUBMIT.index("?"), cell_of("lstm", SUBMIT, 1, 56, 1.0)
    shares = [line_break("lstm", found[at]) for found in (logits, opened)]
    check("lstm_gates", "after “now?” falls from # to # %", *shares)


def test_the_lstm_cell_that_counts_in_vain():
    (_, f, c), _ = cell_of("lstm", SUBMIT, 1, 85)
    at = SUBMIT.index("deposed") + len("deposed")
    assert SUBMIT[at + 1] == "\n"
    check("lstm_gates", "it is at # after “deposed”, and at the line break", c[at - 1])
    check("lstm_gates", "its forget gate closes to #. But", f[at + 1])
    targets = model_of("lstm")[1].encode(SUBMIT)[1:]
    closed = F.cross_entropy(cell_of("lstm", SUBMIT, 1, 85, 0.0)[1][:-1], targets)
    for loss in (loss_of("lstm", SUBMIT), closed):
        check("lstm_gates", "the loss is still # nats", loss)


def test_cells_of_the_gru():
    (_, z, h), logits = cell_of("gru", SUBMIT, 1, 26)
    colon = SUBMIT.index("ROMEO") + len("ROMEO")
    check("gru_gates", "at the colon after “ROMEO” its state is #. Then", h[colon])
    check("gru_gates", "its update gate is never below #, and", z[colon + 1 :].min())
    end = len(h) - 1
    check("gru_gates", "and # characters later the state is still #.", end - colon, h[end])

    first, last = SUBMIT.index("The king"), SUBMIT.index("\n\n")
    (_, z, h), _ = cell_of("gru", SUBMIT, 1, 99)
    assert z[[first - 1, first]].max() < 0.1  # "the update gate closes"
    check("gru_gates", "the update gate closes and the state becomes #. From", h[first])
    assert (h[first:last].diff() < 0.005).all() and h[last - 1] < -0.4  # "the state falls"
    at = SUBMIT.index("it:") + 2
    shares = [
        line_break("gru", found[at]) for found in (logits, cell_of("gru", SUBMIT, 1, 99, 0.0)[1])
    ]
    check("gru_gates", "after “do it:” rises from # to # %", *shares)

    (_, z, h), _ = cell_of("gru", SUBMIT, 1, 29)
    check("gru_gates", "as its update gate is # on average", z.mean())
    names = within_and_outside(h, in_names(SUBMIT))
    check("gru_gates", "# on average in the names of speakers, # elsewhere", *names)


# The recall game.

TWENTY = "o9 r2 z9 x0 q8 s1 g0 f0 v3 p3 u9 b0 h7 e5 c7 w9 i3 a8 t3 d4"


def answers(line):
    """What each model of the recall game answers when it is asked for the letters of a line."""
    text = line.replace(" ", "")
    letters = sorted(set(text[::2]))
    tokens = torch.stack([recall.RecallGame.words().encode(text + one) for one in letters], 1)
    return {
        name: dict(zip(letters, "".join(map(str, answer_of(name, tokens))), strict=True))
        for name in recall.MODELS
    }


def answer_of(name, tokens):
    return recall.delivered_model(name)(tokens)[0][-1, :, :10].argmax(-1).tolist()


def test_vectors_do_not_know_whose_digit_it_is_and_only_a_memory_that_replaces_forgets_old_ones():
    found = answers("a6 r5 z6")
    vectors, others = ("elman", "lstm"), ("attention", "linear_attention", "mamba2", "delta_net")
    assert {"".join(found[name].values()) for name in vectors} == {"666"}
    assert {"".join(found[name].values()) for name in others} == {"656"}
    found = answers("o7 k3 d6 e2 v4 k0 o1 k9 p3 d0 k5")
    assert "".join(found[name]["k"] for name in others) == "5095"


def test_twenty_pairs_are_too_many_for_some_matrices():
    truth = dict(TWENTY.split())
    found = answers(TWENTY)
    wrong = {name: [x for x in sorted(truth) if found[name][x] != truth[x]] for name in found}
    assert not wrong["attention"] and wrong["delta_net"] == ["x", "z"]
    known = [20 - len(wrong[name]) for name in ("delta_net", "mamba2")]
    check("recall", "DeltaNet knows #, and Mamba-2 #.", *known)
    check("deltas", "the model knows # of them. It gets x and z wrong", known[0])


def test_a_delta_net_has_a_key_for_each_letter_and_needs_the_error(monkeypatch):
    line = "a3b7a1c5b2a9"
    tokens = torch.stack([recall.RecallGame.words().encode(line + letter) for letter in "abc"], 1)
    given = recorded(monkeypatch, delta_net, "delta_rule")
    assert answer_of("delta_net", tokens) == [9, 2, 5]
    keys = given[0][1][1 : len(line) : 2, 0, 1]
    products = keys @ keys[-1]
    check("deltas", "the dot products are # and #. With", *products[[0, 2]])
    assert products[[1, 3, 4]].abs().max() < 0.12  # "close to 0"
    said = figures.deltas().alt
    assert f"same letter have a dot product of {keys[1] @ keys[4]:.2f} or more" in said

    def write_values(q, k, v, beta, memory):
        found = []
        for t in range(len(q)):
            memory = memory + k[t][..., None] * (beta[t][..., None] * v[t])[..., None, :]
            found.append(torch.einsum("bhd,bhde->bhe", q[t], memory))
        return torch.stack(found), memory

    monkeypatch.setattr(delta_net, "delta_rule_chunks", write_values)
    check("deltas", "asked for a, it answers #, the first digit", answer_of("delta_net", tokens)[0])


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
    found, run = delivered(name), read_run(name)
    assert found["tensors"] == round_model(run.model())
    best = run.result()["result"]["best_validation_loss"]
    assert found["loss"]["before"] == pytest.approx(best, abs=1e-4)
    assert found["loss"]["after"] == pytest.approx(best, abs=5e-4)


# The models of the Chinese pages.


def place(line, character):
    """Where a character of the poem of five stands, after the blank line."""
    return 2 + 6 * line + character


def test_heads_of_the_chinese_transformer():
    weights = heads("tang", STORKS)

    def mean(head, *places):
        return weights[..., head][tuple(zip(*places, strict=True))].mean()

    above = {n: [(place(n, i) - 1, place(n - 1, i)) for i in range(5)] for n in (1, 2, 3)}
    check("tang", "平均把 # % 的权重给它", mean(8, *above[1], *above[3]))
    check("tang", "就只有 # %", mean(8, *above[2]))
    before = [(place(n, i), place(n, i) - 1) for n in range(4) for i in (2, 3, 4)]
    check("tang", "从每句的第三个字起，平均 # %", mean(6, *before))
    first = STORKS[:8]
    colours = next_characters("tang", first)
    check("tang", "“青”# %，“黄”# %，“红”# %", *(colours[one] for one in "青黄红"))
    check("tang", "“青”就只剩 # %", next_without_head("tang", first, 2, 0)["青"])


def test_cells_of_the_chinese_lstm():
    (_, forget, counts), _ = cell_of("tang_lstm", STORKS, 0, 70)
    lines = torch.stack([counts[place(n, 0) : place(n, 5)] for n in range(4)])
    for begin in lines[:, 0]:
        check("tang_lstm", "细胞状态是 #，", begin)
    check("tang_lstm", "此后每个字平均加 #，", lines.diff(dim=1).mean())
    assert lines[:, -1].min() > 1.4
    check("tang_lstm", "遗忘门关到 #，", forget[[place(n, 5) for n in range(3)]].mean())
    (before, forced) = (cell_of("tang_lstm", RIVER, 0, 70, forget) for forget in (None, 1.0))
    assert all(forced[0][2, 3:10] < before[0][2, 3:10])
    shares = [line_break("tang_lstm", found[RIVER.index("间")]) for _, found in (before, forced)]
    check("tang_lstm", "换行的概率从 # % 降到 # %", *shares)

    five, seven = (cell_of("tang_lstm", text, 1, 62)[0][2] for text in (STORKS, RIVER))
    assert five[2:].max() < 0 < seven[2:].min()
    check("tang_lstm", "读完时是 #。", seven[-1])
    for text in (STORKS, RIVER):  # the cell that is called 读了多少字
        _, forget, counts = cell_of("tang_lstm", text, 1, 40)[0]
        assert counts.diff().min() > 0 and forget.min() > 0.9


def test_heads_of_the_chinese_gated_delta_net_turn_the_page_at_lines_and_couplets(monkeypatch):
    given = recorded(monkeypatch, gated_delta_net, "gated_delta_rule")
    logits_of("tang_delta_net", STORKS)
    first, second = (log_alpha[:, 0].exp() for *_, log_alpha, _ in given)
    ends = [place(n, 5) for n in range(3)]
    within = [t for t in range(2, len(STORKS)) if t not in ends]
    for kept in first[ends, 1]:
        sentence = "它的记忆只保留 # %，别处平均保留 # %"
        check("tang_delta_net", sentence, kept, first[within, 1].mean())
    sentence = "第一句之后它保留 # %；第二句之后，一联完了，只保留 # %；第三句之后是 # %"
    check("tang_delta_net", sentence, *second[ends, 3])

    # What head 1 of the second layer answers at the ends of the first line and of the third.
    q, k, _, beta, log_alpha, _ = (one[:, 0, 0] for one in given[1])
    for end, characters, sentence in (
        (ends[0], "日", "“日”的权重最大，#；三句"),
        (ends[2], "日欲", "最大的还是“日”，#，其次是第三句开头的“欲”，#。"),
    ):
        query, found = q[end], {}
        for t in range(end, -1, -1):
            found[t] = beta[t] * (query @ k[t])
            query = log_alpha[t].exp() * (query - found[t] * k[t])
        largest = sorted(found, key=lambda t: -abs(found[t]))[: len(characters)]
        assert "".join(STORKS[t] for t in largest) == characters
        check("tang_delta_net", sentence, *(found[t] for t in largest))


def written(name, width, number=400):
    """Poems that a model writes without being told to rhyme, as lists of lines."""
    model, vocabulary = model_of(name)
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


@pytest.mark.parametrize("name", swept(poems.MODELS, *[*poems.MODELS][:1]))
def test_few_poems_rhyme_by_themselves(name):
    groups = poems.verse()["韵"]
    script = (HERE / f"{name}.js").read_text(encoding="utf-8")
    said = re.search(r"five: (\d+), seven: (\d+)", script).groups()
    for width, percent in zip((5, 7), said, strict=True):
        ends = [(lines[1][-1], lines[3][-1]) for lines in written(name, width)]
        share = sum(a != b and any({a, b} <= {*one} for one in groups) for a, b in ends) / len(ends)
        assert share == pytest.approx(int(percent) / 100, abs=0.02)
