"""The numbers that the page on the Feedback Transformer tells are those that the code computes."""

import ast
import contextlib
import inspect
import io
import json
import math
import re
from pathlib import Path
from statistics import fmean

import pytest
import torch
from shown_programs import blocks as shown
from stages import check_first, play
from sympy.combinatorics import Permutation, PermutationGroup
from torch import nn

import labml_nn
from docs_src.figures import feedback as figures
from docs_src.tasks import feedback as task
from docs_src.tasks import results
from labml_nn import kernels
from labml_nn.transformers import feedback
from labml_nn.transformers.feedback.language_model import FeedbackConfig, FeedbackLanguageModel
from pylit.figures.draw import listed

PAGE = inspect.getsource(feedback)
RESULTS = Path(__file__).parents[4] / "docs_src/results"
TEXT = " ".join(re.sub(r"(?m)^ *# ?", "", PAGE).split())
PROGRAM = figures.PROGRAM


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
    values, ordinary, looped = {}, [], []
    set_by: dict[str, int] = {}
    for t, source in enumerate(PROGRAM):
        names = {n.id for n in ast.walk(ast.parse(source)) if isinstance(n, ast.Name)} & {"x", "y"}
        needs = sorted({set_by[name] for name in names if name in set_by} - {t})
        assert list(figures.NEEDS[t]) == needs
        exec(source, values)
        assert figures._states()[t] == {name: values[name] for name in "xy" if name in values}
        # One layer above the highest that knows what is needed; in memory all layers see it.
        ordinary.append(1 + max((ordinary[s] for s in needs), default=-1))
        looped.append(1 if needs else 0)
        set_by[figures.SETS[t]] = t
    assert capsys.readouterr().out == "6\n" and "the program prints 6" in TEXT
    assert figures._known(False) == ordinary == [0, 0, 1, 2, 3]
    assert figures._known(True) == looped
    assert "`x` becomes 7" in TEXT and "`y` becomes 6" in TEXT


def test_each_line_needs_the_one_before():
    """Without line 2 the result of line 3 is another one."""
    values = {}
    with contextlib.redirect_stdout(io.StringIO()):
        exec("\n".join(PROGRAM[:2] + PROGRAM[3:]), values)
    assert values["y"] == 5


def test_a_sum_needs_one_layer():
    """A uniform causal average of the updates, times their number."""
    updates = torch.randint(5, (9,)).double()
    averages = torch.ones(9, 9).double().tril() / torch.arange(1, 10)[:, None]
    torch.testing.assert_close(averages @ updates * torch.arange(1, 10), updates.cumsum(0))


# The examples with numbers.


@torch.no_grad()
def test_a_memory_vector_by_hand():
    """The layers of the picture, in a model whose layers add what they have computed."""
    model = build(False, d_model=12)
    model.weights.copy_(figures.LAYER_WEIGHTS)
    for parameter in model.layers.parameters():
        parameter.zero_()
    for layer, added in zip(model.layers, figures.OUTPUTS.diff(dim=0), strict=True):
        layer.feed_forward.layer2.bias[:2] = added
    x = torch.zeros(1, 1, 12)
    x[..., :2] = figures.OUTPUTS[0]
    _, memory = model.scan(x)
    vector = memory.keys[0, 0, :2]
    torch.testing.assert_close(vector, torch.tensor([7.0, 0.0]))
    assert listed(vector) in figures.mixture().alt and "it is (7, 0). So slot 2" in TEXT
    # It is what slot 2 is read as in the next example, and what the memory of the stage shows.
    assert figures.VALUES[2].tolist() == pytest.approx(vector.tolist())
    assert [max(value) for value in figures.VALUES.tolist()] == [3, 5, 7]
    assert [figures._result(s) for s in range(3)] == ["x = 3", "y = 5", "x = 7"]
    # What is printed adds up as it is printed.
    shares = [float(n) for n in re.findall(r"share (\d\.\d+)", figures.mixture().alt)]
    assert sum(shares) == pytest.approx(1)
    assert (torch.tensor(shares) @ figures.OUTPUTS).tolist() == pytest.approx([7, 0])


def test_a_step_of_attention_by_hand():
    _, weights, found = figures._read_slots()
    q, keys, biases = figures.QUERY, figures.KEYS, figures.BIASES
    expected = ((keys @ q + biases) / 2**0.5).softmax(0)
    torch.testing.assert_close(weights, expected)
    torch.testing.assert_close(found, expected @ figures.VALUES)
    assert biases.tolist() == [-4, -2, 0] and "$b_1 = 0$, $b_2 = -2$ and $b_3 = -4$" in TEXT
    close(numbers(re.search(r"In our example it was (\(.*?\))", TEXT)[1]), found)
    # As printed, the weights and the parts of the average add up.
    assert sum(round(w, 3) for w in weights.tolist()) == pytest.approx(1, abs=1e-6)
    parts = (weights[:, None] * figures.VALUES).tolist()
    for j in range(2):
        assert round(sum(round(p[j], 3) for p in parts), 3) == round(found[j].item(), 3)
    _, even, mean = figures._read_slots(torch.zeros(3))
    assert even[0] == even[2]
    close(numbers(re.search(r"would find ([\d.]+\d),", TEXT)[1]), mean[:1])


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
    lines, last = results("feedback", "lines"), results("feedback", "accuracy")
    assert all(fmean(run[2] for run in runs) > 0.995 for runs in lines.values())
    (best,) = re.findall(r"one layer with feedback is right in (\d+) of 100 programs", TEXT)
    others = re.search(
        r"one layer is right in (\d+), two in (\d+), three in (\d+), four in (\d+)\.", TEXT
    )
    told = [int(best), *map(int, others.groups())]
    assert told == pytest.approx([100 * fmean(last[name]) for name in task.MODELS], abs=0.51)
    told = re.search(r"still right in (\d+) of 100 programs at line 3, and in (\d+) at", TEXT)
    means = [100 * fmean(run[t] for run in lines["transformer 1"]) for t in (3, 4)]
    assert [int(told[1]), int(told[2])] == pytest.approx(means, abs=0.51)
    # Programs longer than in training.
    longest = 100 * fmean(run[31] for run in lines["feedback 1"])
    assert f"At the end it is right in {longest:.0f} of 100." in TEXT
    # In every run, and the more layers the better.
    assert min(last["feedback 1"]) > max(last[task.MODELS[-1]])
    assert sorted(last, key=lambda name: fmean(last[name]))[:-1] == list(task.MODELS[1:])


def test_the_programs_of_the_experiment():
    """Their answers are what Python finds."""
    tokens, answers = task.programs(20, 9, torch.Generator().manual_seed(1))
    for b in range(20):
        values = {"x": 0, "y": 0}
        for token, answer in zip(tokens[:, b].tolist(), answers[:, b].tolist(), strict=True):
            exec(task.LINES[token], values)
            values["x"] %= task.MODULUS
            values["y"] %= task.MODULUS
            assert answer == task.MODULUS * values["x"] + values["y"]
    told = re.search(r"```text (if .*?)```", TEXT)[1]
    assert sorted(re.findall(r"if . . .: . = . \+ .", told)) == sorted(task.UPDATES)


def test_nothing_but_following_a_program_helps():
    """A guess is right in 3 of 100, and the updates make all permutations of the 36 pairs."""
    _, answers = task.programs(50_000, 16, torch.Generator().manual_seed(1))
    assert round(100 * float(answers[-1].bincount().max()) / 50_000) == 3
    assert "A guess is right in 3." in TEXT
    generators = []
    for source in task.UPDATES:
        images = []
        for pair in range(36):
            values = {"x": pair // 6, "y": pair % 6}
            exec(source, values)
            images.append(6 * (values["x"] % 6) + values["y"] % 6)
        assert sorted(images) == list(range(36))
        generators.append(Permutation(images))
    assert PermutationGroup(generators).order() == math.factorial(36) and "$36!$" in TEXT


# The stages.


def values_of(x, y):
    """What the lines set or print, by running the program with other numbers."""
    values, found = {}, []
    for t, source in enumerate([f"x = {x}", f"y = {y}", *PROGRAM[2:4]]):
        exec(source, values)
        found.append(values[figures.SETS[t]])
    return [*found, values["y"]]


SETTINGS = [(3, 5), (2, 5), (3, 4), (9, 4), (0, 0), (7, 3)]


def test_the_stage_of_layers_follows_the_program():
    figure, known = figures.layers(), figures._known(False)
    check_first(figure)
    cases = [(x, y, n % 4, (n + 1) % 4) for n, (x, y) in enumerate(SETTINGS)]
    settings = [{"x": x, "y": y, "layers": n, "step": step} for x, y, n, step in cases]
    for (x, y, layers, step), seen in zip(cases, play(figure, *settings), strict=True):
        values = values_of(x, y)
        for layer in range(4):
            expected = [str(v) if known[t] <= layer else "?" for t, v in enumerate(values)]
            assert seen.texts(f"layer{layer}") == (expected if layer <= layers else [""] * 5)
        assert seen.texts("line") == [f"x = {x}", f"y = {y}"]
        count = sum(k <= min(step, layers) for k in known)
        assert f"{count} of 5 results" in seen.said


def test_the_stage_of_memory_follows_the_program():
    figure = figures.memory()
    check_first(figure)
    settings = [{"x": x, "y": y, "step": n % 4} for n, (x, y) in enumerate(SETTINGS)]
    for setting, seen in zip(settings, play(figure, *settings), strict=True):
        values = values_of(setting["x"], setting["y"])
        assert seen.texts("layer") == [str(value) for value in values]
        slots = [f"{name} = {v}" for name, v in zip(figures.SETS, values, strict=True)]
        assert seen.texts("slot") == slots
        t = setting["step"] + 1
        assert f"step {t} memory has {t + 1} slots" in seen.said and slots[t] in seen.said


# The whole in code.


def bare():
    """The layer and the loop that the page shows as the whole model."""
    (listing,) = (one for _, one in shown(PAGE) if "class Layer(nn.Module)" in one)
    program = re.search(r"class Layer.*?\n    return [^\n]*\n", listing, re.DOTALL)[0]
    assert 12 <= len([line for line in program.split("\n") if line.strip()]) <= 22
    made: dict = {}
    with contextlib.redirect_stdout(io.StringIO()):
        exec(listing, made)
    return made["Layer"], made["read"]


def test_the_notebook_begins_with_it():
    recipe = Path("docs_src/notebooks/feedback.md").read_text(encoding="utf-8")
    (listing,) = (one for _, one in shown(PAGE) if "class Layer(nn.Module)" in one)
    assert listing.partition("\n\n\n")[2].strip() in recipe.partition("<!-- chapters -->")[0]


@pytest.mark.parametrize(
    ("T", "B", "C", "H", "L", "P"), [(7, 2, 12, 3, 2, 7), (5, 3, 8, 2, 1, 9), (9, 1, 20, 5, 3, 8)]
)
@torch.no_grad()
def test_the_bare_model_is_the_module(T, B, C, H, L, P):
    attn = feedback.FeedbackAttention(H, C, 0.0, max_distance=P)
    network = feedback.FeedForward(C, 4 * C, 0.0)
    parts = {"d_model": C, "attn": attn, "feed_forward": network, "dropout_prob": 0.0}
    layer = feedback.FeedbackTransformerLayer(**parts)
    module = feedback.FeedbackTransformer(layer, L).double()
    for name, parameter in module.named_parameters():
        # The one term that the short program leaves out is zero at first.
        if name.endswith("key_pos_embeddings"):
            assert not parameter.any()
        else:
            nn.init.normal_(parameter, std=0.3)
    make, read = bare()
    layers = nn.ModuleList(make(C, H, P) for _ in range(L)).double()
    for own, other in zip(layers, module.layers, strict=True):
        own.norm.load_state_dict(other.norm_self_attn.state_dict())
        own.network[0].load_state_dict(other.norm_ff.state_dict())
        own.network[1].load_state_dict(other.feed_forward.layer1.state_dict())
        own.network[3].load_state_dict(other.feed_forward.layer2.state_dict())
        own.attention.out_proj.load_state_dict(other.attn.output.state_dict())
        projections = [other.attn.query.linear, other.attn.key.linear, other.attn.value.linear]
        own.attention.in_proj_weight.copy_(torch.cat([one.weight for one in projections]))
        # $u$ is a bias of the query. A bias of the keys does not matter.
        u = other.attn.query_pos_bias.flatten()
        own.attention.in_proj_bias.copy_(torch.cat([u, torch.randn(C), projections[2].bias]))
        # PyTorch adds a mask after the division by the root.
        own.b.copy_(other.attn.key_pos_bias.T[:, None] * other.attn.scale)
    x = torch.randn(T, B, C).double()
    found, expected = read(x, layers, module.weights, module.norm), module(x)
    torch.testing.assert_close(found, expected, atol=1e-12, rtol=0)


def test_the_measured_training_steps():
    kept = json.loads((RESULTS / "performance/feedback.json").read_text())["tables"]
    (measured,) = (table["rows"] for table in kept if table["table"] == "architectures")
    ms = {row["form"]: row["ms"] for row in measured}
    told = numbers(figures.times().alt.replace(",", ""))
    names = ("Transformer", "Feedback Transformer")
    forms = ("as on its page", "kernels")
    assert told == [round(ms[f"{name}, {form}"]) for form in forms for name in names]
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
    lines = (RESULTS / "feedback_depth.jsonl").read_text("utf-8").splitlines()
    runs = [json.loads(line) for line in lines]
    ranges = {}
    for row, kind in zip(table, ("transformer", "feedback"), strict=True):
        for layers, cell in zip(header[1:], row[1:], strict=True):
            found = [
                run["result"]["validation_loss"]
                for run in runs
                if run["label"] == f"{kind}-{layers}"
            ]
            assert len(found) == 5
            if layers == "1":  # ahead in every run
                ranges[kind] = min(found), max(found)
            assert float(cell) == pytest.approx(fmean(found), abs=0.0051)
    assert ranges["feedback"][1] < ranges["transformer"][0]
    # "Nowhere does it make up for half of the layers."
    without, with_feedback = ([float(cell) for cell in row[1:]] for row in table)
    assert all(f > t for f, t in zip(with_feedback, without[1:], strict=False))


def test_why_the_model_that_runs_in_the_page_has_a_lower_loss():
    """It is wider than those of the picture, and was trained for longer."""
    shipped = json.loads((RESULTS / "feedback/result.json").read_text("utf-8"))["run"]
    drawn = json.loads((RESULTS / "feedback_depth.jsonl").read_text("utf-8").split("\n")[0])["run"]
    (own,) = re.findall(r"have (\d+) features and ([\d,]+) updates", TEXT)
    (others,) = re.findall(r"last picture had (\d+) and (\d+),", TEXT)
    for told, run in ((own, shipped), (others, drawn)):
        config = run["model"]["config"]["d_model"], run["training"]["steps"]
        assert tuple(int(number.replace(",", "")) for number in told) == config


def test_the_shares_of_the_trained_model():
    model = labml_nn.load(RESULTS / "feedback/model")
    shares = model.transformer.weights.softmax(0).tolist()
    assert min(shares) == shares[-1] and "it gave the top layer the smallest share" in TEXT


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


def test_a_gradient_reaches_the_first_slot_in_one_hop():
    """Without the way through the slots between them."""
    model, count = build(False, layers=1), 6
    x_seq = torch.randn(count, 1, 12, requires_grad=True)
    _, memory = model.scan(x_seq[:-1])
    slots = torch.cat([memory.keys[:1], memory.keys[1:].detach()])
    output, _ = model.scan(x_seq[-1:], feedback.FeedbackMemory(slots, slots))
    (gradient,) = torch.autograd.grad((output * torch.randn_like(output)).sum(), x_seq)
    assert [t for t in range(count) if gradient[t].any()] == [0, count - 1]
    assert "one arc leads there directly" in " ".join(figures.hops().alt.split())


def test_checkpoints_without_the_bias_of_distances():
    """They load as the page says, and compute what they did."""
    model, x = build(False), torch.randn(5, 2, 12)
    nn.init.normal_(model.layers[0].attn.key_pos_embeddings)
    expected = model(x)
    old = {k: v for k, v in model.state_dict().items() if "key_pos_bias" not in k}
    with pytest.raises(RuntimeError, match="key_pos_bias"):
        build(False).load_state_dict(old)
    plain = re.sub(r"(?m)^# +", "", PAGE)
    (listing,) = re.findall(r"```text\n(missing, .*?)```", plain, re.DOTALL)
    made = {"model": build(False), "old": old}
    exec(listing, made)
    torch.testing.assert_close(made["model"](x), expected)


def test_a_layer_takes_keys_and_values():
    layer, memory = build(False).layers[0], torch.randn(4, 2, 12)
    with pytest.raises(TypeError):
        layer(x=torch.randn(2, 12), mem=memory)
    assert layer(x=torch.randn(2, 12), key=memory, value=memory).shape == (2, 12)


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
