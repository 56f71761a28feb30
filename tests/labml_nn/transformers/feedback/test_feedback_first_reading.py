"""The numbers that the page on the Feedback Transformer tells are those that the code computes."""

import ast
import inspect
import json
import re
from pathlib import Path
from statistics import fmean

import pytest
import torch
from torch import nn

import labml_nn
from docs_src.results import programs
from labml_nn import kernels
from labml_nn.transformers import feedback
from labml_nn.transformers.feedback.language_model import FeedbackConfig, FeedbackLanguageModel

PAGE = inspect.getsource(feedback)
RESULTS = Path(__file__).parents[4] / "docs_src/results"
TEXT = " ".join(re.sub(r"(?m)^ *# ?", "", PAGE).split())
PROGRAM = re.search(r"```text\n(.*?)```", PAGE, re.DOTALL)[1].strip().split("\n")


@pytest.fixture(autouse=True)
def _reference():
    """The lesson itself."""
    with kernels.disabled():
        yield


def rows(first):
    """The rows of the table whose header begins like this, as cells."""
    lines = [line.removeprefix("# ").strip() for line in PAGE.split("\n")]
    start = next(i for i, line in enumerate(lines) if line.startswith(f"| {first}"))
    found = []
    for line in lines[start:]:
        if not line.startswith("|"):
            return found[:1] + found[2:]
        found.append([cell.strip() for cell in line.strip("|").split("|")])
    return found


def numbers(text):
    return [
        float(n) for n in re.findall(r"-?\d+(?:\.\d+)?", text.replace("−", "-").replace(",", ", "))
    ]


def close(told, computed):
    assert told == pytest.approx([float(x) for x in computed], abs=0.0051)


def build(shared=True, layers=2, d_model=12, d_ff=48, **options):
    attn = feedback.FeedbackAttention(3, d_model, 0.0, is_kv_precomputed=shared)
    layer = feedback.FeedbackTransformerLayer(
        d_model=d_model,
        attn=attn,
        feed_forward=feedback.FeedForward(d_model, d_ff, 0.0),
        dropout_prob=0.0,
    )
    if shared:
        return feedback.FeedbackTransformerKV(layer, layers, d_model, 3, **options)
    return feedback.FeedbackTransformer(layer, layers, **options)


# The program.


def test_the_program_line_by_line(capsys):
    """Each result, by running the lines; and what a line needs decides the layer."""
    table = rows("step $t$ | line")[1:]
    assert [row[1].strip("`") for row in table] == PROGRAM
    assert [int(row[0]) for row in table] == list(range(len(PROGRAM)))
    values, ordinary, looped = {}, {}, {}
    for _, line, result, without, with_feedback in table:
        line = line.strip("`")
        names = {n.id for n in ast.walk(ast.parse(line)) if isinstance(n, ast.Name)}
        exec(line, values)
        (number,) = numbers(result)
        if line.startswith("print"):
            assert capsys.readouterr().out == f"{number:.0f}\n"
            needed, changed = names & {"x", "y"}, set()
        else:
            changed = {result.strip("`")[0]}
            assert values[result.strip("`")[0]] == number
            needed = names if "if" in line else set()
        # One layer above the highest that knows a needed value; in memory all layers see it.
        layer = 1 + max(ordinary[name] for name in needed) if needed else 0
        assert without == f"layer {layer}" and with_feedback == f"layer {min(layer, 1)}"
        ordinary |= dict.fromkeys(changed, layer)
        looped |= dict.fromkeys(changed, min(layer, 1))
    assert set(looped.values()) == {1}


def test_the_order_of_the_lines_matters():
    swapped = [*PROGRAM[:2], PROGRAM[3], PROGRAM[2], PROGRAM[4].replace("print(y)", "")]
    values = {}
    exec("\n".join(swapped), values)
    assert (values["x"], values["y"]) != (7, 6)


def test_a_sum_needs_one_layer():
    """A uniform causal average of the updates, times their number."""
    updates = torch.randint(5, (9,)).double()
    averages = torch.ones(9, 9).double().tril() / torch.arange(1, 10)[:, None]
    torch.testing.assert_close(averages @ updates * torch.arange(1, 10), updates.cumsum(0))


# The examples with numbers.


@torch.no_grad()
def test_a_memory_vector_by_hand():
    *table, total = rows("layer | output")[1:]
    outputs = torch.tensor([numbers(row[1]) for row in table])
    model = build(False, d_model=12)
    model.weights.copy_(torch.tensor([numbers(row[2])[0] for row in table]))
    shares = model.softmax(model.weights)
    close([numbers(row[3])[0] for row in table], model.weights.exp())
    close(numbers(total[3]), [model.weights.exp().sum()])
    close([numbers(row[4])[0] for row in table], shares)
    for row, part in zip(table, shares[:, None] * outputs, strict=True):
        close(numbers(row[5]), part)

    # The layers themselves, with these outputs: what they add is their bias.
    for parameter in model.layers.parameters():
        parameter.zero_()
    for layer, added in zip(model.layers, outputs.diff(dim=0), strict=True):
        layer.feed_forward.layer2.bias[:2] = added
    _, memory = model.scan(torch.zeros(1, 1, 12))
    close(numbers(total[5]), memory.keys[0, 0, :2])


def attention_by_hand():
    """The head of the example: three slots, and the biases of distances 1, 2 and 3."""
    table = rows("slot | key")[1:]
    attention = feedback.FeedbackAttention(1, 2, 0.0, is_kv_precomputed=True, max_distance=3)
    with torch.no_grad():
        for linear in (attention.query.linear, attention.output):
            linear.weight.copy_(torch.eye(2))
        attention.output.bias.zero_()
        attention.key_pos_bias.copy_(torch.tensor([numbers(row[5]) for row in table]))
    keys, values = (torch.tensor([numbers(row[i]) for row in table]) for i in (1, 2))
    return attention, keys[:, None, None], values[:, None, None], table


@torch.no_grad()
def test_a_step_of_attention_by_hand():
    attention, key, value, table = attention_by_hand()
    query = torch.tensor([[2.0, 0.0]])
    assert [int(row[4]) for row in table] == [3, 2, 1]
    assert [float(row[3]) for row in table] == (key[:, 0, 0] @ query[0]).tolist()
    found = attention(query=query, key=key, value=value)[0]
    scores = attention.get_scores(query[None], key)[:, 0, 0] * attention.scale
    close([numbers(row[6])[0] for row in table], scores)
    close([numbers(row[7])[0] for row in table], scores.exp())
    close([numbers(row[8])[0] for row in table], attention.attn[:, 0, 0])
    close(numbers(re.search(r"with these weights is (\(.*?\))", TEXT)[1]), found)
    attention.key_pos_bias.zero_()
    found = attention(query=query, key=key, value=value)[0]
    assert attention.attn[0] == attention.attn[2]
    close(numbers(re.search(r"would find ([\d.]+\d),", TEXT)[1]), found[:1])


def test_where_the_four_terms_come_from():
    q, p, k, pos = torch.randn(4, 5).double()
    terms = q @ k + q @ pos + p @ k + p @ pos
    torch.testing.assert_close((q + p) @ (k + pos), terms)


def test_without_distances_memory_is_a_set():
    attention = feedback.FeedbackAttention(3, 12, 0.0)
    query, memory = torch.randn(2, 12), torch.randn(5, 2, 12)
    one, other = (attention(query=query, key=m, value=m) for m in (memory, memory.flip(0)))
    torch.testing.assert_close(one, other)
    nn.init.normal_(attention.key_pos_bias)
    one, other = (attention(query=query, key=m, value=m) for m in (memory, memory.flip(0)))
    assert not torch.allclose(one, other)


# Measured numbers.


def test_the_accuracy_on_programs():
    runs = json.loads((RESULTS / "programs.json").read_text())["runs"]
    header, *table = rows("step $t$ | 2")
    steps = [int(cell) for cell in header[1:]]
    assert len(table) == len(programs.MODELS)
    accuracy = {}
    for name, *cells in table:
        kind = "autoregressive" if name.startswith("Transformer") else "feedback"
        layers = int(numbers(name)[0])
        own = [r["accuracy"] for r in runs if (r["model"], r["layers"]) == (kind, layers)]
        assert len(own) == len(programs.SEEDS)
        mean = [100 * fmean(run[t] for run in own) for t in steps]
        assert [numbers(cell)[0] for cell in cells] == pytest.approx(mean, abs=0.51)
        accuracy[kind, layers] = mean
    for one, other in zip(accuracy["feedback", 1], accuracy["autoregressive", 4], strict=True):
        assert one > other - 0.1
    assert all(mean[0] > 99.5 for mean in accuracy.values())
    assert max(run["seconds"] for run in runs) < 60  # "less than a minute"


def test_the_programs_of_the_experiment():
    """Their answers are what Python finds."""
    tokens, answers = programs.programs(20, 9, torch.Generator().manual_seed(1))
    for b in range(20):
        values = {"x": 0, "y": 0}
        for token, answer in zip(tokens[:, b].tolist(), answers[:, b].tolist(), strict=True):
            exec(programs.LINES[token], values)
            values["x"] %= programs.MODULUS
            values["y"] %= programs.MODULUS
            assert answer == programs.MODULUS * values["x"] + values["y"]


def test_later_lines_of_the_programs_are_easier():
    _, answers = programs.programs(50_000, 32, torch.Generator().manual_seed(1))
    modulus, found = programs.MODULUS, []
    for t in (7, 31):
        both_are_equal = answers[t] // modulus == answers[t] % modulus
        found += [both_are_equal.double().mean(), answers[t].bincount().max() / 50_000]
    found = [round(100 * float(share)) for share in found]
    told = re.search(
        r"That is so in (\d+) of 100 programs at step 7, and in (\d+) at step 31\. If you always "
        r"name the most common pair, you are right in (\d+) and in (\d+)\.",
        TEXT,
    )
    assert [int(told[i]) for i in (1, 3, 2, 4)] == pytest.approx(found, abs=1)


def test_the_measured_training_steps():
    kept = json.loads((RESULTS / "performance/feedback.json").read_text())["tables"]
    (measured,) = (table["rows"] for table in kept if table["table"] == "architectures")
    ms = {row["form"]: row["ms"] for row in measured}
    header, *table = rows("cost |")
    for row, form in ((table[3], "as on its page"), (table[4], "kernels")):
        for name, cell in zip(header[1:], row[1:], strict=True):
            assert float(cell.removesuffix(" ms").replace(",", "")) == pytest.approx(
                ms[f"{name}, {form}"], abs=0.51
            )
    factor = numbers(re.search(r"takes ([\d.]+) times as long as that of a Transformer", TEXT)[1])
    slow, fast = (ms[f"{name}, as on its page"] for name in ("Feedback Transformer", "Transformer"))
    assert factor == pytest.approx([slow / fast], abs=0.06)


def test_what_a_token_costs():
    """Numbers to remember, and products with matrices, counted by hooks."""
    model, x = build(layers=3), torch.randn(5, 1, 12)
    products = []
    for module in model.modules():
        if isinstance(module, nn.Linear):
            module.register_forward_hook(lambda m, _, out: products.append(m.weight.numel()))
    _, memory = model.scan(x)
    products.clear()
    model.step(x[0], memory)
    assert sum(products) == (10 * 3 + 2) * 12**2
    transformer = labml_nn.create("autoregressive", n_vocab=5, d_model=12, heads=3, n_layers=3)
    weights = [m.weight.numel() for m in transformer.modules() if isinstance(m, nn.Linear)]
    assert sum(weights) - 5 * 12 == 12 * 3 * 12**2  # without the output matrix
    assert memory.keys.numel() + memory.values.numel() == 2 * 5 * 12


def test_the_losses_with_and_without_feedback():
    header, *table = rows("layers | 1")
    ranges = {}
    for row, kind in zip(table, ("transformer", "feedback"), strict=True):
        for layers, cell in zip(header[1:], row[1:], strict=True):
            found = [
                json.loads(path.read_text())["result"]["validation_loss"]
                for path in (RESULTS / "feedback_depth").glob(f"{kind}-{layers}-seed*.json")
            ]
            assert len(found) == 5
            if layers == "1":  # ahead in every run
                ranges[kind] = min(found), max(found)
            assert float(cell) == pytest.approx(fmean(found), abs=0.0051)
    assert ranges["feedback"][1] < ranges["transformer"][0]
    # "Nowhere does it make up for half of the layers."
    without, with_feedback = ([float(cell) for cell in row[1:]] for row in table)
    assert all(f > t for f, t in zip(with_feedback, without[1:], strict=False))


def test_the_shares_of_the_trained_model():
    header, told = rows("embedding |")
    model = labml_nn.load(RESULTS / "feedback/model")
    shares = model.transformer.weights.softmax(0).tolist()
    assert header == ["embedding", "layer 1", "layer 2"]
    assert [numbers(cell)[0] for cell in told] == pytest.approx([100 * s for s in shares], abs=0.51)
    assert min(shares) == shares[-1]


def test_what_the_model_wrote_and_when():
    result = json.loads((RESULTS / "feedback/result.json").read_text())
    quoted = " ".join(
        line.rstrip("\\") for line in re.findall(r"(?m)^> (.*)$", PAGE) if "A " not in line[:2]
    )
    assert quoted.split()[:6] == ["Ah,", "be", "not", "that", "we", "more"]
    assert quoted in " ".join(result["samples"][0]["text"].split())
    assert result["result"]["seconds"] < 120


def test_the_share_of_the_tables_of_distances():
    told = [int(n) for n in re.findall(r"(\d+) %", TEXT[TEXT.index("4,096 rows") :])[:2]]
    for shared, percent in zip((True, False), told, strict=True):
        with torch.device("meta"):
            attn = feedback.FeedbackAttention(8, 512, is_kv_precomputed=shared)
            parts = {"attn": attn, "feed_forward": feedback.FeedForward(512, 2048)}
            layer = feedback.FeedbackTransformerLayer(d_model=512, dropout_prob=0.0, **parts)
            if shared:
                model = feedback.FeedbackTransformerKV(layer, 6, 512, 8)
            else:
                model = feedback.FeedbackTransformer(layer, 6)
        sizes = {name: p.numel() for name, p in model.named_parameters()}
        tables = sum(size for name, size in sizes.items() if "key_pos" in name)
        assert round(100 * tables / sum(sizes.values())) == percent


def test_what_shared_projections_save_and_copies_cost():
    saved, copies, kept = 2 * (6 - 1) * 512**2, 512 * 511 / 2, 512
    (told,) = numbers(re.search(r"last row saves ([\d.]+) million", TEXT)[1])
    assert saved == pytest.approx(told * 1e6, rel=0.01)
    slot = 8 * 128 * 2 * 4  # sequences, features, keys and values, bytes
    assert copies * slot == pytest.approx(2**30, rel=0.01) and "that is 1 GiB" in TEXT
    assert kept * slot == 4 * 2**20 and "in 4 MiB" in TEXT


# Statements.


@pytest.mark.parametrize("layers", [1, 2, 3])
def test_the_longest_chain_of_layers(layers):
    """Each layer that a chain passes counts one; memory takes the longest chain that it holds."""

    class Count(nn.Module):
        attn = feedback.FeedbackAttention(1, 1)
        size = 1

        def forward(self, x, key, value):
            longest = x if key is None else torch.maximum(x, key.amax(0))
            return longest + 1

    model = feedback.FeedbackTransformer(Count(), layers)
    model.norm = nn.Identity()
    with torch.no_grad():
        model.weights[-1] = 1000  # all of memory is the top layer
        depth = model(torch.zeros(6, 1, 1)).flatten().tolist()
        assert depth == [layers * (t + 1) for t in range(6)]
        model.weights[0] = 10000  # and now the embedding
        assert model(torch.zeros(6, 1, 1)).flatten().tolist() == [layers] * 6
        if layers > 1:
            model.weights[1] = 100000
            expected = [t + layers for t in range(6)]
            assert model(torch.zeros(6, 1, 1)).flatten().tolist() == expected


@pytest.mark.parametrize("shared", [False, True])
def test_what_detaching_slots_destroys(shared, monkeypatch):
    model, x = build(shared, norm_memory=True), torch.randn(4, 2, 12, requires_grad=True)
    attached, write = model(x), model.to_memory

    def to_memory(vector):
        key, value = write(vector)
        return key.detach(), value.detach()

    monkeypatch.setattr(model, "to_memory", to_memory)
    detached = model(x)
    torch.testing.assert_close(detached, attached)
    without = [model.weights, *model.norm_memory.parameters()]
    if shared:
        without += [model.key.linear.weight, model.value.linear.weight]
    for found, outputs in ((False, detached), (True, attached)):
        total = (outputs[-1] * torch.randn(2, 12)).sum()
        gradients = torch.autograd.grad(total, without, retain_graph=True, allow_unused=True)
        assert all((gradient is not None) == found for gradient in gradients)
        (earlier,) = torch.autograd.grad(total, x, retain_graph=True)
        assert bool(earlier[:-1].any()) == found and earlier[-1].any()


def test_layer_weights_are_the_same_at_every_step():
    model = build(False)
    with torch.no_grad():
        model.weights.normal_()
    levels = [[] for _ in range(3)]
    for i, layer in enumerate(model.layers):
        layer.register_forward_hook(lambda m, args, out, i=i: levels[i + 1].append(out))
    x = torch.randn(5, 2, 12)
    _, memory = model.scan(x)
    levels[0] = list(x)
    outputs = torch.stack([torch.stack(level) for level in levels])
    expected = torch.einsum("ltbc,l->tbc", outputs, model.weights.softmax(0))
    torch.testing.assert_close(memory.keys, expected)


# Hooks and errors.


def zeros(module, args, output):
    return torch.utils._pytree.tree_map(torch.zeros_like, output)


@pytest.mark.parametrize("tied", [False, True])
def test_hooks_of_submodules_have_their_effect(tied):
    config = FeedbackConfig(n_vocab=11, d_model=12, heads=3, n_layers=2, max_len=8, tied=tied)
    model, tokens = FeedbackLanguageModel(config).eval(), torch.randint(11, (5, 2))
    nn.init.normal_(model.transformer.layers[1].feed_forward.layer2.bias)
    before, state = model(tokens)
    for module in (model.embed, model.transformer, model.transformer.layers[1], model.output):
        handle = module.register_forward_hook(zeros)
        assert not torch.allclose(model(tokens)[0], before)
        assert not torch.allclose(model(tokens, state)[0], before)
        handle.remove()
    torch.testing.assert_close(model(tokens)[0], before)


def test_a_hook_runs_for_scan_and_step_too():
    model, x = build(), torch.randn(3, 2, 12)
    model.register_forward_hook(zeros)
    assert not model(x).any()
    assert not model.scan(x)[0].any()
    assert not model.step(x[0])[0].any()


def test_a_memory_is_returned_where_one_is_passed():
    model, x = build(), torch.randn(3, 2, 12)
    outputs, memory = model(x, memory=feedback.FeedbackMemory())
    torch.testing.assert_close(outputs, model(x))
    assert len(memory) == 3


def test_empty_texts_and_wrong_states_are_explained(unhooked):
    lesson = unhooked("labml_nn.transformers.feedback")
    attn = lesson.FeedbackAttention(3, 12)
    parts = {"attn": attn, "feed_forward": lesson.FeedForward(12, 24), "dropout_prob": 0.0}
    model = lesson.FeedbackTransformer(lesson.FeedbackTransformerLayer(d_model=12, **parts), 2)
    with pytest.raises(ValueError, match=r"\[0, 2, 12\]; expected \[T, B, C\] with at least one"):
        model(torch.zeros(0, 2, 12))
    language_model = unhooked("labml_nn.transformers.feedback.language_model")
    config = language_model.FeedbackConfig(n_vocab=11, d_model=12, heads=3, n_layers=1)
    model = language_model.FeedbackLanguageModel(config)
    with pytest.raises(ValueError, match="empty"):
        model(torch.zeros(0, 2).long())
    tokens = torch.zeros(3, 2).long()
    with pytest.raises(TypeError, match="`state` is a tuple; expected what the model returned"):
        model(tokens, (1, 2))
    with pytest.raises(ValueError, match="batch of 2"):
        model(tokens[:, :1], model(tokens)[1])
