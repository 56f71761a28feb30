"""What the page of DeltaNet says of its numbers."""

import pytest
import torch
from lesson_pages import Page, numbers, result
from stages import check_stage
from torch import nn, tensor

from docs_src.figures import delta_net as figures
from docs_src.figures import memory as tasks
from docs_src.figures import results
from docs_src.matrix_memory import PEOPLE, sum_of
from docs_src.tasks import delta_net as task
from docs_src.tasks import results as measured
from labml_nn.recurrent import delta_net, gated_delta_net
from labml_nn.recurrent.delta_net import DeltaNet, delta_rule_loop
from labml_nn.recurrent.gated_delta_net import GatedDeltaNet
from labml_nn.transformers.mha import MultiHeadAttention

PAGE, GATED = Page(delta_net), Page(gated_delta_net)
#: The rows of the page: name and value, answer, error, and the memory afterwards.
ROWS = PAGE.rows("pair | answer before")
NAMES = [pair.split(",")[0] for pair, *_ in ROWS]
#: Keys and values of the table, `[T, B, H, D]`.
K = tensor([PEOPLE[name] for name in NAMES], dtype=torch.double)[:, None, None]
V = tensor([numbers(pair) for pair, *_ in ROWS], dtype=torch.double)[:, None, None]
ONE, EMPTY = torch.ones(K.shape[:-1]).double(), torch.zeros(1, 1, 2, 2).double()


def test_the_table_by_hand():
    """Each row is what the rule computes of the memory before it."""
    assert NAMES == ["Ann", "Ben", "Ann", "Cleo"]
    memory = EMPTY
    for t, (_, answer, error, *after) in enumerate(ROWS):
        token = slice(t, t + 1)
        found = K[t] @ memory[0, 0]
        assert numbers(answer) == pytest.approx(found.flatten().tolist())
        assert numbers(error) == pytest.approx((V[t] - found).flatten().tolist())
        _, memory = delta_rule_loop(K[token], K[token], V[token], ONE[token], memory)
        assert numbers(" ".join(after)) == pytest.approx(memory.flatten().tolist())
    last = (K[-1] @ memory[0, 0]).flatten()
    torch.testing.assert_close(last, V[-1].flatten())  # Cleo finds what she has


def test_the_errors_without_a_memory():
    """The system of equations of the page, which is also what the chunk solves."""
    overlaps = (K[:, 0, 0] @ K[:, 0, 0].T).tril()
    first, second, third, _ = overlaps[3].tolist()
    PAGE.has(f"u_4 = v_4 - {first} \\, u_1 - {second} \\, u_2 - {third} \\, u_3")
    errors = torch.linalg.solve(overlaps, V[:, 0, 0])
    assert errors.tolist() == [pytest.approx(numbers(error)) for _, _, error, *_ in ROWS]


def test_what_a_key_of_length_two_does():
    # It finds four times what was written, and the next error is minus three times the first.
    k, v = torch.full((2, 1, 1, 1), 2.0), torch.ones(2, 1, 1, 1)
    one, empty = torch.ones(2, 1, 1), torch.zeros(1, 1, 1, 1)
    found, memory = delta_rule_loop(k, k, v, one, empty)
    assert found[0].item() == 4 * v[0].item() and memory.item() == 2 * (1 - 3)


LOSSES = {row[0]: row[3] for row in results.ranges().table.rows}
LINEAR, DELTA, FORGETS = (
    LOSSES[name] for name in ("linear attention", "DeltaNet", "Gated DeltaNet")
)
ANSWERS = {row[0]: row[1].split(" ")[0] for row in tasks.bench().rows}
APPLES, PEARS = torch.einsum("tbhd,tbhe->de", K[:3], V[:3])[0]


def test_numbers_on_the_way():
    PAGE.has(
        f"you get {APPLES:.0f} apples and {PEARS:.0f} pears",
        f"linear attention has a loss of {LINEAR} nats per character and DeltaNet {DELTA}",
        f"It has {FORGETS}.",
        f"\\frac12 (1 - S)^2 = {(1 - 3) ** 2 / 2:.0f}$",
        f"$-(1 - S) = {-(1 - 3)}$",
        f"A guess finds {100 / figures.PAIRS:.1f} %",
        f"finds {100 * figures._of_all(None):.0f} % of all pairs",
        f"it is less, {100 * figures._of_all(1.0):.0f} %",
        f"each of {task.NAMES} names, and a value for each of {task.NUMBERS} numbers",
        f"they read {task.STEPS} pairs, and in the test {task.LONG}",
        f"in {100 / task.NUMBERS:.0f} %",
    )
    GATED.has(
        f"a loss of {FORGETS} nats per character, and a DeltaNet {DELTA}",
        f"{ANSWERS['Gated DeltaNet']} %, and {ANSWERS['DeltaNet']} %",
    )


def test_half_of_the_error():
    """With a rate of 0.5 Ann has two apples: a step against the slope of the squared error."""
    assert [figures._read(3, beta)[2][0][0] for beta in (0.5, 1.0)] == [3 - 0.5 * 2, 3 - 2]


# Random pairs.
def test_what_the_figure_says():
    sums, deltas, slow = (
        [figures._rewritten(rate, n) for n in (1, 2, 8)] for rate in figures.RULES.values()
    )
    assert sums[0] > 0.95 and sums[1] < 0.5 and sums[2] < 0.1 and min(deltas) > 0.8
    PAGE.has(f"it ends at {slow[2]:.2f}, and the delta rule at {deltas[2]:.2f}")


# Cost and measurements.
def parameters(module: nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters() if parameter.dim() == 2)


def test_cost():
    C, H = 64, 4
    attention = parameters(MultiHeadAttention(H, C))
    assert parameters(DeltaNet(C, H)) - attention == H * C  # the projection of beta
    assert parameters(GatedDeltaNet(C, H)) - attention == C**2 + 2 * H * C
    _, state = DeltaNet(C, H)(torch.randn(3, 1, C))
    assert state.memory.numel() == C**2 // H == 2 * C * 8


def test_the_lstm_has_twice_as_many_parameters():
    ours, lstm = result("delta_net"), result("lstm")
    assert [one["result"]["step"] for one in (ours, lstm)] == [3000, 2000]
    assert round(lstm["parameters"] / ours["parameters"]) == 2


def test_only_the_delta_rule_replaces():
    found = measured("delta_net", "by_times")
    assert found["delta rule"] == [[1.0] * len(task.TIMES)] * 5
    for run in found["addition"]:
        assert run[0] == 1.0 and 0.5 < run[1] < 0.55
        assert f"{100 * run[23]:.0f}" in ("16", "17")


def test_what_is_asked_is_the_last_number():
    generator = torch.Generator().manual_seed(0)
    names, told, asked, answers, times = task.sample(20, 30, generator)
    for column in range(30):
        for t in range(20):
            own = [s for s in range(t + 1) if names[s, column] == asked[t, column]]
            assert len(own) == times[t, column] > 0
            assert told[own[-1], column] == answers[t, column]


# The stage.
def test_the_stage_computes_what_the_rule_computes():
    """For each step, memory before, and random keys, values and rates; and for each person."""

    def computed(step, who, before, key, beta, apples, pears):
        memory = tensor(figures._read(2 + before)[2])
        k, value = tensor([(1 - key**2) ** 0.5, key]), tensor([apples, pears]).float()
        one, rate = k.view(1, 1, 1, 2), torch.full((1, 1, 1), beta)
        found, after = delta_rule_loop(one, one, value.view(1, 1, 1, 2), rate, memory[None, None])
        found, after, answer = found.flatten(), after[0, 0], k @ memory
        has = [value if key == i else memory[i] for i in (0, 1)]
        change = beta * k[:, None] * (value - answer)
        sums = zip(memory.flatten().tolist(), change.flatten().tolist(), strict=True)
        return {
            "memory": memory,
            "key": [k, k],
            "answer": [answer, answer],
            "error": value - answer,
            "written": beta * (value - answer),
            "change": [sum_of(*pair) for pair in sums],
            "after": after,
            "found": [after, [found]],
            "has": [*has, value],
            "says": [f"and {figures.shown(beta)} of it is written"],
        }

    check_stage(figures.rule(), computed)
