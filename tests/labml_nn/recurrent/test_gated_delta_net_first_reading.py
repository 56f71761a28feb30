"""What the page of Gated DeltaNet says of its numbers."""

import pytest
import torch
from lesson_pages import Page, numbers
from stages import check_stage
from torch import tensor
from torch.nn.functional import softplus

from docs_src.figures import gated_delta_net as figures
from docs_src.matrix_memory import PEOPLE
from docs_src.tasks import gated_delta_net as task
from docs_src.tasks import results
from labml_nn.recurrent import gated_delta_net
from labml_nn.recurrent.gated_delta_net import GatedDeltaNet, gated_delta_rule_loop

PAGE = Page(gated_delta_net)


def test_the_table_of_a_memory_that_fades():
    """The answer is that of the faded memory, and with the error it is the value."""
    rows = PAGE.rows("token | share kept")
    assert [pair.split(",")[0] for pair, *_ in rows] == ["Ann", "Ben", "Cleo"]
    keys = [PEOPLE[pair.split(",")[0]] for pair, *_ in rows]
    values, shares = [numbers(pair) for pair, *_ in rows], [float(share) for _, share, *_ in rows]
    k, v, alpha = (tensor(x, dtype=torch.double)[:, None, None] for x in (keys, values, shares))
    tokens = k, k, v, torch.ones_like(alpha), alpha.log()
    memory = torch.zeros(1, 1, 2, 2).double()
    for t, (_, share, answer, error, *after) in enumerate(rows):
        found = k[t, 0, 0] @ (float(share) * memory[0, 0])
        assert numbers(answer) == pytest.approx(found.tolist())
        assert numbers(error) == pytest.approx((v[t, 0, 0] - found).tolist())
        _, memory = gated_delta_rule_loop(*(part[t : t + 1] for part in tokens), memory)
        assert numbers(" ".join(after)) == pytest.approx(memory.flatten().tolist())
    assert (k[-1, 0, 0] @ memory[0, 0]).tolist() == pytest.approx(values[-1])


ANSWER, ERROR, MEMORY = figures._read()


def percent(name):
    """The lowest and the highest share of right answers without a gate."""
    shares = [round(100 * share) for share in results("gated_delta_net", name)["without α"]]
    return min(shares), max(shares)


def test_numbers_on_the_way():
    PAGE.has(
        "= ({:.2f}, {:.2f})$".format(*ANSWER),
        "= ({:.2f}, {:.2f})$".format(*ERROR),
        "Cleo finds ${{0.6 \\cdot ({:.3f}, {:.3f})}}".format(*MEMORY[0]),
        f"$0.9^{{0.1}} = {0.9**0.1:.2f}$",
        f"$0.9^{{16}} = {0.9**16:.2f}$",
        f"$0.9^{{10}} = {0.9**10:.2f}$ is left",
        f"with 0.99 it is {0.99**10:.2f}",
        "they are right in {} to {} %. What do they do?".format(*percent("all")),
        "That is right in {} to {} % of the cases in which a name has".format(*percent("none")),
        "they find it in only {} to {} %".format(*percent("have")),
        f"There are {task.NAMES} names and {task.NUMBERS} numbers",
    )


def test_a_new_layer_forgets_slowly():
    torch.manual_seed(0)
    steps = softplus(GatedDeltaNet(2, 1000, 1, 1).dt_bias)
    assert 0.001 < steps.min() < 0.0011 and 0.09 < steps.max() < 0.1001


# The task.
def test_only_a_memory_that_fades_turns_the_page():
    assert min(results("gated_delta_net", "all")["with α"]) >= 0.99
    # "these are about half of all cases"
    assert {*results("gated_delta_net", "nothing")["without α"]} == {0.472}


def test_what_is_asked_is_of_this_chapter():
    generator = torch.Generator().manual_seed(0)
    names, told, marks, asked, answers, pairs = task.sample(30, 20, generator)
    for column in range(20):
        for t in range(30):
            starts = [s for s in range(t + 1) if marks[s, column]]
            first = starts[-1] if starts else 0
            assert pairs[t, column] == t - first + 1
            own = [s for s in range(first, t + 1) if names[s, column] == asked[t, column]]
            right = told[own[-1], column] if own else task.NUMBERS
            assert answers[t, column] == right


def test_the_stage_computes_what_the_rule_computes():
    before = tensor(figures._before())

    def computed(step, who, alpha, key, apples, pears):
        k, value = tensor([(1 - key**2) ** 0.5, key]), tensor([apples, pears]).float()
        one, rate, log_alpha = k.view(1, 1, 1, 2), torch.ones(1, 1, 1), tensor(alpha).log()
        v = value.view(1, 1, 1, 2)
        _, after = gated_delta_rule_loop(one, one, v, rate, log_alpha * rate, before[None, None])
        faded, answer = alpha * before, k @ (alpha * before)
        return {
            "faded": faded,
            "memory": faded,
            "key": [k, k],
            "answer": [answer, answer],
            "value": value,
            "error": [value - answer, value - answer],
            "after": after,
            "old": [[alpha, one] for one in before.flatten()],
        }

    check_stage(figures.rule(), computed)
