"""What the page of linear attention says of its numbers."""

import inspect
import json
import random
import re
from pathlib import Path

import pytest
import torch
from shown_programs import blocks as shown
from stages import check_first, play
from torch import tensor

from docs_src.figures import linear_attention as figures
from docs_src.figures import live
from docs_src.tasks import linear_attention as task
from docs_src.tasks import results
from labml_nn.recurrent import linear_attention
from labml_nn.recurrent.linear_attention import (
    LinearAttention,
    ShortConvolution,
    feature_map,
    linear_attention_loop,
)

ROOT = Path(__file__).parents[3]
LESSON = inspect.getsource(linear_attention)
TEXT = " ".join(re.sub(r"(?m)^ *# ?", "", LESSON).split())
ANN, BEN, CLEO = tensor([1.0, 0.0]), tensor([0.0, 1.0]), tensor([0.6, 0.8])
KEYS = torch.stack([ANN, BEN, CLEO])
VALUES = tensor([[3.0, 1.0], [2.0, 4.0], [5.0, 0.0]])


def memory_after(keys, values):
    zeros = torch.zeros(1, 1, keys.shape[1], values.shape[1])
    _, memory = linear_attention_loop(*(x[:, None, None] for x in (keys, keys, values)), zeros)
    return memory[0, 0]


def vector(words):
    return tensor([float(number) for number in re.findall(r"-?[\d.]+", words.replace("−", "-"))])


def close(found, expected, digits=6):
    torch.testing.assert_close(found, tensor(expected), rtol=0, atol=0.5 * 10**-digits)


def test_two_orthogonal_pairs_are_found_exactly():
    memory = memory_after(KEYS[:2], VALUES[:2])
    close(memory, [[3.0, 1.0], [2.0, 4.0]])
    close(KEYS[:2] @ memory, [[3.0, 1.0], [2.0, 4.0]])


def test_the_table_with_the_third_pair():
    memory = memory_after(KEYS, VALUES)
    close(memory, [[6.0, 1.0], [6.0, 4.0]])
    close(KEYS @ memory, [[6.0, 1.0], [6.0, 4.0], [8.4, 3.8]], 5)
    assert "1 · (6, 1) + 0 · (6, 4) = (6, 1)" in TEXT
    assert "1 · 0.6 + 0 · 0.8 = 0.6, and 0.6 · (5, 0) = (3, 0)" in TEXT
    assert "1 · (3, 1) + 0 · (2, 4) + 0.6 · (5, 0) = (6, 1)" in TEXT
    assert "Cleo's query finds 8.4 apples" in TEXT
    close(KEYS @ KEYS.T, [[1.0, 0.0, 0.6], [0.0, 1.0, 0.8], [0.6, 0.8, 1.0]])


def test_other_queries_find_a_pair_exactly():
    keys = torch.stack([ANN, CLEO])
    queries = [
        vector(one)
        for one in re.search(r"For example, (.*?) finds .*? and (\(.*?\)) the other", TEXT).groups()
    ]
    close(torch.stack(queries) @ keys.T, [[1.0, 0.0], [0.0, 1.0]])


def test_the_average_of_ann():
    weights = KEYS @ ANN
    close(weights.sum(), 1.6)
    close(ANN @ memory_after(KEYS, VALUES) / weights.sum(), [3.75, 0.625])
    ones = torch.cat([VALUES, torch.ones(3, 1)], dim=1)
    close(memory_after(KEYS, ones)[:, 2], KEYS.sum(0).tolist())  # the last column is z
    assert "We divide (6, 1) by 1.6 and get (3.75, 0.625)" in TEXT


def test_features_that_are_nearly_orthogonal():
    raw = tensor([[5.0, -5.0], [-5.0, 5.0]])
    features = feature_map(raw)
    close(features, [[6.0, 0.007], [0.007, 6.0]], 3)
    products = features @ features.T
    close(products[0], [36.0, 0.08], 2)
    average = products @ VALUES[:2] / products.sum(1, keepdim=True)
    close(average[0], [2.998, 1.007], 3)
    close(products[0].sum(), 36.08, 2)
    assert "36 / 36.08 is nearly 1" in TEXT


def test_a_key_that_is_written_twice():
    """The sum of both values, or their mean, and not the second."""
    ones = tensor([[3.0, 1.0, 1.0], [1.0, 1.0, 1.0]])
    found = ANN @ memory_after(torch.stack([ANN, ANN]), ones)
    close(found[:2], [4.0, 2.0])
    close(found[:2] / found[2], [2.0, 1.0])


def test_a_convolution_that_takes_the_token_before():
    convolution, x = ShortConvolution(2), torch.randn(5, 1, 2)
    with torch.no_grad():
        convolution.weight.copy_(tensor([0.0, 0.0, 1.0, 0.0]).expand(2, 1, 4))
        y, _ = convolution(x)
    torch.testing.assert_close(y[1:], x[:-1])


def test_a_sum_in_bfloat16_stops_growing():
    total = tensor(256.0, dtype=torch.bfloat16)
    assert total + 1 == total and total.float() + 1 != total


@pytest.mark.parametrize("d_k", figures.SIZES)
def test_the_capacity_figure(d_k):
    """All is found of a few pairs, and less of more."""
    shares = [figures._found(d_k, pairs, trials=40) for pairs in (1, 64)]
    assert shares[0] == 1.0 > shares[1]
    assert figures._found(2 * d_k, 64, trials=40) > shares[1]


def result(name):
    return json.loads((ROOT / f"docs_src/results/{name}/result.json").read_text(encoding="utf-8"))


def test_what_the_trained_model_wrote_and_its_loss():
    ours, lstm = result("linear_attention"), result("lstm")
    quoted = " ".join(re.findall(r"(?m)^> (.*)$", LESSON)).split()
    assert len(quoted) > 15
    assert " ".join(quoted) in " ".join(ours["samples"][0]["text"].split())
    assert f"{ours['result']['validation_loss']:.2f}" == "1.76"
    assert 100 < ours["result"]["process_seconds"] < 140  # about two minutes
    (then,) = [row[1] for row in lstm["curve"]["validation"] if row[0] == ours["result"]["step"]]
    assert f"{then:.2f}" == "1.70"
    assert lstm["parameters"] == pytest.approx(ours["parameters"], rel=0.03)
    (all_three,) = [row[1] for row in ours["curve"]["validation"] if row[0] == 250]
    assert f"{all_three:.2f}" == "2.04"


# The three forms.


def test_the_steps_of_the_stage_tell_what_the_forms_compute():
    table, loop, chunks = figures._computed()
    torch.testing.assert_close(loop, table)
    torch.testing.assert_close(chunks, table)
    points = [" ".join(one.split()) for one in re.findall(r"(?ms)^\d\. (\*.*?)\n\n", LESSON)]
    assert len(points) == 4
    for point, found in zip(points, table, strict=True):
        told = [vector(one) for one in re.findall(r"\(([\d., ]+)\)", point)]
        assert any(torch.allclose(one, found[:2], atol=0.005) for one in told), point
    close(table[2], [8.4, 3.8, 2.4], 5)
    close(CLEO @ memory_after(KEYS[:2], VALUES[:2]), [3.4, 3.8], 5)
    assert "(3.4, 3.8) from the memory" in points[2] and "(3.5, 1.58)" in points[2]
    close(table[2, :2] / table[2, 2], [3.5, 1.58], 2)
    assert "(2.69, 0.77)" in points[3] and "she has (1, 1)" in points[3]
    assert "had (1, 1), and found (2.69, 0.77). Even without Cleo it would be (2, 1)" in TEXT
    close(table[3, :2] / table[3, 2], [2.69, 0.77], 2)


def test_the_stage_computes_what_the_lesson_computes():
    """At each step, for random keys of Cleo and all sizes of chunks."""
    figure = figures.stage()
    check_first(figure)
    chosen = random.Random(0)
    settings = [
        {"step": step, "cleo": chosen.randrange(11) / 10, "chunk": chunk}
        for step in range(4)
        for chunk in range(3)
    ]
    settings += [{"step": 3, "cleo": 0.0}, {"step": 2, "cleo": 1.0}]
    for setting, seen in zip(settings, play(figure, *settings), strict=True):
        t, size = setting["step"], figures.CHUNKS[setting.get("chunk", 1)]
        keys, values = figures._keys(setting["cleo"]), tensor(figures.WRITTEN)
        ones = torch.cat([values, torch.ones(4, 1)], dim=1)
        found = figures._computed(setting["cleo"], size)
        for name, form in zip(("table", "loop", "chunks"), found, strict=True):
            total = form[t].tolist()
            assert seen.numbers(f"by-{name}") == pytest.approx(total, abs=0.006)
            assert seen.numbers(f"sum-{name}") == pytest.approx(total[:2], abs=0.006)
            assert seen.numbers(f"all-{name}") == pytest.approx(total[2:], abs=0.006)
        mean = found[0][t, :2] / found[0][t, 2]
        assert seen.numbers("mean") == pytest.approx(mean.tolist(), abs=0.006)
        assert seen.numbers("has") == values[t].tolist()
        # What is seen on the way.
        weights = (keys @ keys.T)[torch.ones(4, 4).tril().bool()]
        assert seen.numbers("weight") == pytest.approx(weights.tolist(), abs=0.006)
        assert seen.places("row", "stroke-opacity") == [float(i == t) for i in range(4)]
        for name, count in (("before", t), ("after", t + 1), ("kept", t // size * size)):
            memory = memory_after(keys[:count], ones[:count]) if count else torch.zeros(2, 3)
            assert seen.numbers(name) == pytest.approx(memory.flatten().tolist(), abs=0.006)
        outer = torch.outer(keys[t], ones[t]).flatten()
        assert seen.numbers("outer") == pytest.approx(outer.tolist(), abs=0.006)
        for name in ("key", "query", "ask"):
            assert seen.numbers(name) == pytest.approx(keys[t].tolist(), abs=0.006)
        begin = t // size * size
        near = keys[begin : t + 1] @ keys[t]
        assert seen.numbers("near") == pytest.approx(near.tolist(), abs=0.006)
        assert seen.numbers("own") == ones[begin : t + 1].flatten().tolist()
        assert seen.texts("near").count(" ") == 3 - t + begin
        parts = torch.tensor(seen.numbers("part-memory")) + torch.tensor(seen.numbers("part-own"))
        torch.testing.assert_close(parts, found[2][t], atol=0.011, rtol=0)
        cuts = [float(i % size == 0) for i in (1, 2, 3)]
        assert seen.places("cut", "stroke-opacity") == cuts
        own = [f"p-t{figures.WEIGHT}" in one.classes for one in seen.elements["place"]]
        assert own == [begin <= i < begin + size for i in range(4)]
        assert seen.said.startswith(f"After token {t + 1}, {figures.TOKENS[t]}, all three find")


# The whole in code.


def bare():
    (listing,) = (one for _, one in shown(LESSON) if "class Layer" in one)
    made: dict = {}
    exec(listing, made)
    code = [
        line for line in listing.split("\n") if line.strip() and not line.strip().startswith("#")
    ]
    assert 12 <= len(code) <= 26
    return made["Layer"]


def test_the_two_lines_find_what_the_stage_finds(capsys):
    (listing,) = (
        one for _, one in shown(LESSON) if "keys = torch.tensor" in one and "S + k" in one
    )
    made: dict = {}
    exec(listing, made)
    close(made["S"], memory_after(KEYS, torch.cat([VALUES, torch.ones(3, 1)], 1)).tolist(), 5)
    close(made["y"][:2] / made["y"][2], [3.5, 1.58], 2)
    assert capsys.readouterr().out.count("tensor") == 3


@pytest.mark.parametrize(("T", "B", "C", "H"), [(1, 1, 4, 1), (10, 2, 64, 4), (150, 3, 12, 3)])
def test_the_bare_layer_is_the_module(T, B, C, H):
    torch.manual_seed(0)
    layer, module = bare()(C, H), LinearAttention(C, H)
    with torch.no_grad():
        weights = torch.cat([module.query.weight, module.key.weight, module.value.weight])
        layer.qkv.weight.copy_(weights)
        layer.conv.weight.copy_(module.conv.weight)
        layer.output.weight.copy_(module.output.weight)
        x = torch.randn(T, B, C)
        torch.testing.assert_close(layer(x), module(x)[0], atol=2e-6, rtol=0)


def test_the_notebook_begins_with_it():
    recipe = (ROOT / "docs_src/notebooks/linear_attention.md").read_text(encoding="utf-8")
    (listing,) = (one for _, one in shown(LESSON) if "class Layer" in one)
    network = re.search(r"class Layer.*?return [^\n]*\n", listing, re.DOTALL)[0]
    assert network in recipe.partition("<!-- chapters -->")[0]


# The task, and what a token costs.


def test_a_matrix_finds_more_than_vectors_and_less_than_a_list():
    found = results("linear_attention", "by_pairs")
    at = {pairs: i for i, pairs in enumerate(task.TESTED)}

    def percent(model, pairs):
        shares = [100 * run[at[pairs]] for run in found[model]]
        return f"{min(shares):.0f} to {max(shares):.0f} %"

    matrix, vectors, least = (
        percent("linear attention", 8),
        percent("LSTM", 8),
        percent("linear attention", 32),
    )
    assert f"finds {matrix} of the answers in books of eight pairs" in TEXT
    assert f"the two vectors {vectors}." in TEXT
    assert f"it finds {least}." in TEXT
    worst = min(min(run) for run in found["attention"])
    assert f"at least {100 * worst:.1f} % in all books" in TEXT
    # The two states have as many numbers.
    assert task.SIZE * (task.SIZE + 1) == 2 * task.CELLS
    assert f"a matrix of {task.SIZE} × {task.SIZE + 1} numbers" in TEXT


def test_the_book_that_is_drawn_can_be_one_of_the_task():
    names, digits = figures.BOOK
    assert len(set(names)) == len(names) <= task.MOST and max(digits) < task.DIGITS
    assert f"The answer is {digits[figures.ASKED]}." in figures.book().alt


def test_products_are_counted_as_the_lesson_says():
    assert figures._products("table", 16) == figures._products("loop", 16)  # up to T = d_k
    assert figures._products("table", 100) == 100**2 * (16 + 16)
    assert figures._products("chunks", 128) == 128 * 64 * (16 + 16) + 2 * 128 * 16 * 16
    assert figures._products("chunks", 512) == 5 * figures._products("loop", 512)
    assert "here five times as much as the loop" in TEXT


def test_no_weight_of_the_last_query_is_more_than_twice_an_equal_one():
    weights, memory = live._read_matrix()
    assert sum(weights) == pytest.approx(1)
    assert 1.8 < max(weights) * len(weights) < 2
    assert memory.shape == (24, 24) and "with keys of 24 numbers" in TEXT


def test_what_a_token_costs():
    _, rows = figures.performance._read("mixers", "tokens")
    costs = {(row["form"], row["length"]): row for row in rows}
    lengths = sorted({row["length"] for row in rows})
    sizes = {costs["linear attention", length]["bytes"] for length in lengths}
    assert sizes == {6656} and "keeps the same 6,656 bytes" in TEXT
    # Four memories of 16 by 17 numbers, and three queries, keys and values.
    assert 4 * (4 * 16 * 17 + 3 * 3 * 64) == 6656 and 4 * 2 * 64 == 512
    assert {costs["attention", length]["bytes"] / length for length in lengths} == {512.0}
    times = {
        form: [costs[form, n]["ms"] for n in lengths] for form in ("attention", "linear attention")
    }
    assert times["linear attention"][0] > times["attention"][0]
    assert times["linear attention"][-1] < times["attention"][-1]
    assert max(times["linear attention"]) < 1.2 * min(times["linear attention"])
    assert max(times["attention"]) > 2 * min(times["attention"])
