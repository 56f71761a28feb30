"""What the page of linear attention says of its numbers."""

import pytest
import torch
from lesson_pages import Page, result, run
from stages import check_stage
from torch import tensor

from docs_src.figures import linear_attention as figures
from docs_src.matrix_memory import PEOPLE
from docs_src.tasks import linear_attention as task
from docs_src.tasks import results
from labml_nn.recurrent import linear_attention
from labml_nn.recurrent.linear_attention import feature_map, linear_attention_loop

PAGE = Page(linear_attention)
ANN, BEN, CLEO = (tensor(PEOPLE[name]) for name in ("Ann", "Ben", "Cleo"))
KEYS = torch.stack([ANN, BEN, CLEO])
#: With one more number, a 1.
VALUES = tensor([[3.0, 1.0, 1.0], [2.0, 4.0, 1.0], [5.0, 0.0, 1.0]])


def memory_after(keys, values):
    zeros = torch.zeros(1, 1, keys.shape[1], values.shape[1])
    _, memory = linear_attention_loop(*(x[:, None, None] for x in (keys, keys, values)), zeros)
    return memory[0, 0]


def pair(vector):
    """As the page writes it, with two decimals at most."""
    first, second = (round(x, 2) for x in vector.tolist())
    return f"({first:g}, {second:g})"


def close(found, expected, digits=6):
    torch.testing.assert_close(found, tensor(expected), rtol=0, atol=0.5 * 10**-digits)


def percent(model, pairs):
    """The lowest and the highest share of right answers in books of so many pairs."""
    at = task.TESTED.index(pairs)
    shares = [100 * run[at] for run in results("linear_attention", "by_pairs")[model]]
    return min(shares), max(shares)


MEMORY = memory_after(KEYS, VALUES)
TOTAL = (KEYS @ ANN).sum()
AVERAGE = (ANN @ MEMORY[:, :2]) / TOTAL
CURVES = {
    name: dict(row[:2] for row in result(name)["curve"]["validation"])
    for name in ("linear_attention", "lstm")
}
STEPS = result("linear_attention")["result"]["step"]


def test_numbers_on_the_way():
    PAGE.has(
        "1 · ({:.0f}, {:.0f}) + 0 · ({:.0f}, {:.0f}) = (6, 1)".format(*MEMORY[:, :2].flatten()),
        f"1 · 0.6 + 0 · 0.8 = {CLEO @ ANN:.1f}, and 0.6 · (5, 0) = (3, 0)",
        f"Cleo's query finds {(CLEO @ MEMORY)[0]:.1f} apples",
        "We divide (6, 1) by {2:.1f} and get ({0:.2f}, {1:.3f})".format(*AVERAGE, TOTAL),
        "finds {:.0f} to {:.0f} % of the answers in books".format(*percent("linear attention", 8)),
        "the two vectors {:.0f} to {:.0f} %.".format(*percent("LSTM", 8)),
        "it finds {:.0f} to {:.0f} %.".format(*percent("linear attention", 32)),
        f"a matrix of {task.SIZE} × {task.SIZE + 1} numbers",
        f"{CURVES['lstm'][STEPS]:.2f} after as many updates, {STEPS:,}",
        f"{CURVES['linear_attention'][250]:.2f} if all three do",
    )


def test_other_queries_find_a_pair_exactly():
    told = PAGE.numbers(r"For example, (.*?) finds .*? and (\(.*?\)) the other")
    close(tensor(told).view(2, 2) @ torch.stack([ANN, CLEO]).T, [[1.0, 0.0], [0.0, 1.0]])


def test_features_that_are_nearly_orthogonal():
    features = feature_map(tensor([[5.0, -5.0], [-5.0, 5.0]]))
    close(features, [[6.0, 0.007], [0.007, 6.0]], 3)
    products = features @ features.T
    PAGE.says("{:.0f} / {:.2f} is nearly 1", products[0, 0], products[0].sum())


def test_a_key_that_is_written_twice():
    """The sum of both values, or their mean, and not the second."""
    values = tensor([[3.0, 1.0, 1.0], [1.0, 1.0, 1.0]])
    close(ANN @ memory_after(torch.stack([ANN, ANN]), values), [4.0, 2.0, 2.0])
    assert "Even without Cleo it would be (2, 1)" in PAGE.text


# The three forms.
def test_the_steps_of_the_stage_tell_what_the_forms_compute():
    table, loop, chunks = figures._computed()
    torch.testing.assert_close(loop, table)
    torch.testing.assert_close(chunks, table)
    points = PAGE.points[:4]
    for point, found in zip(points, table, strict=True):
        assert pair(found[:2]) in point
    assert f"{pair(CLEO @ memory_after(KEYS[:2], VALUES[:2, :2]))} from the memory" in points[2]
    for t in (2, 3):
        mean = table[t, :2] / table[t, 2]
        assert pair(mean) in points[t]
    PAGE.says("had (1, 1), and found ({:.2f}, {:.2f})", *mean)


def test_the_stage_computes_what_the_lesson_computes():
    """At each step, for random keys of Cleo and all sizes of chunks."""

    def computed(step, cleo, chunk):
        size, t = figures.CHUNKS[chunk], step
        keys, values = figures._keys(cleo), tensor(figures.WRITTEN)
        ones = torch.cat([values, torch.ones(4, 1)], dim=1)
        forms = dict(zip(("table", "loop", "chunks"), figures._computed(cleo, size), strict=True))
        begin = t // size * size

        def memory(count):
            return memory_after(keys[:count], ones[:count]) if count else torch.zeros(2, 3)

        own = ones[begin : t + 1]
        near = keys[begin : t + 1] @ keys[t]
        seen = {
            "mean": forms["table"][t, :2] / forms["table"][t, 2],
            "has": values[t],
            # What is seen on the way.
            "weight": (keys @ keys.T)[torch.ones(4, 4).tril().bool()],
            "before": memory(t),
            "after": memory(t + 1),
            "kept": memory(begin),
            "outer": torch.outer(keys[t], ones[t]),
            "near": near,
            "own": own,
            "part-memory": keys[t] @ memory(begin),
            "part-own": near @ own,
            "says": [f"After token {t + 1}, {figures.TOKENS[t]}, all three find"],
        }
        seen |= dict.fromkeys(("key", "query", "ask"), keys[t])
        for name, form in forms.items():
            seen |= {f"by-{name}": form[t], f"sum-{name}": form[t, :2], f"all-{name}": form[t, 2:]}
        return seen

    check_stage(figures.stage(), computed, {"step": 3, "cleo": 0.0}, {"step": 2, "cleo": 1.0})


def test_the_two_lines_find_what_the_stage_finds():
    made = run(PAGE.program("S + k[:, None]"))
    close(made["S"], MEMORY.tolist(), 5)
    PAGE.says("at the end ({:.1f}, {:.2f}), as in the stage", *made["y"][:2] / made["y"][2])


# The task, and what a token costs.
def test_attention_finds_all_and_both_states_have_as_many_numbers():
    found = results("linear_attention", "by_pairs")["attention"]
    PAGE.says("at least {:.1f} % in all books", 100 * min(min(run) for run in found))
    assert task.SIZE * (task.SIZE + 1) == 2 * task.CELLS
    lstm, ours = (result(name)["parameters"] for name in ("lstm", "linear_attention"))
    assert lstm == pytest.approx(ours, rel=0.03)


def test_products_are_counted_as_the_lesson_says():
    assert figures._products("table", 16) == figures._products("loop", 16)  # up to T = d_k
    assert figures._products("chunks", 512) == 5 * figures._products("loop", 512)
    assert "here five times as much as the loop" in PAGE.text


def test_what_a_token_costs():
    _, rows = figures.performance._read("mixers", "tokens")
    costs = {(row["form"], row["length"]): row for row in rows}
    lengths = sorted({row["length"] for row in rows})
    (size,) = {costs["linear attention", length]["bytes"] for length in lengths}
    # Four memories of 16 by 17 numbers, and three queries, keys and values.
    assert size == 4 * (4 * 16 * 17 + 3 * 3 * 64)
    PAGE.says("keeps the same {:,} bytes", size)
    (own,) = {costs["attention", length]["bytes"] / length for length in lengths}
    PAGE.says("another key and value, {:.0f} bytes", own)
    attention, linear = (
        [costs[form, n]["ms"] for n in lengths] for form in ("attention", "linear attention")
    )
    assert linear[0] > attention[0] and linear[-1] < attention[-1]
    assert max(linear) < 1.2 * min(linear) and max(attention) > 2 * min(attention)
