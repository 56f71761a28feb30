"""The numbers that the page on the Feedback Transformer tells are those that the code computes."""

import json
import re
import textwrap
from collections import defaultdict
from statistics import fmean

import pytest
import torch
from lesson_pages import ROOT, Page
from stages import check_stage
from torch import nn

import labml_nn
from docs_src.figures import feedback as figures
from docs_src.tasks import feedback as task
from docs_src.tasks import results
from labml_nn import kernels
from labml_nn.transformers import feedback
from pylit.figures.draw import listed

PAGE = Page(feedback)
RESULTS = ROOT / "docs_src/results"
PROGRAM = figures.PROGRAM


@pytest.fixture(autouse=True)
def _reference():
    """The lesson itself."""
    with kernels.disabled():
        yield


def build(shared=True, layers=2, d_model=12, d_ff=48, heads=3, attention=None, **options):
    sizes = heads, d_model, 0.0
    layer = feedback.FeedbackTransformerLayer(
        d_model=d_model,
        attn=feedback.FeedbackAttention(*sizes, is_kv_precomputed=shared, **attention or {}),
        feed_forward=feedback.FeedForward(d_model, d_ff, 0.0),
        dropout_prob=0.0,
    )
    if shared:
        return feedback.FeedbackTransformerKV(layer, layers, d_model, heads, **options)
    return feedback.FeedbackTransformer(layer, layers, **options)


def test_the_program_line_by_line(capsys):
    values = {}
    for t, source in enumerate(PROGRAM):
        exec(source, values)
        assert figures._states()[t] == {name: values[name] for name in "xy" if name in values}
    assert capsys.readouterr().out == "6\n"
    PAGE.has("the program prints 6", "`x` becomes 7", "`y` becomes 6")
    # One layer above the highest that knows what is needed; in memory all layers see it.
    assert figures._known(False) == [0, 0, 1, 2, 3]
    assert figures._known(True) == [0, 0, 1, 1, 1]


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
    assert listed(vector) in figures.mixture().alt and "it is (7, 0). So slot 2" in PAGE.text
    # It is what slot 2 is read as in the next example, and what the memory of the stage shows.
    assert figures.VALUES[2].tolist() == pytest.approx(vector.tolist())
    assert [figures._result(s) for s in range(3)] == ["x = 3", "y = 5", "x = 7"]


def test_a_step_of_attention_by_hand():
    _, weights, found = figures._read_slots()
    q, keys, biases = figures.QUERY, figures.KEYS, figures.BIASES
    expected = ((keys @ q + biases) / 2**0.5).softmax(0)
    torch.testing.assert_close(weights, expected)
    torch.testing.assert_close(found, expected @ figures.VALUES)
    assert biases.tolist() == [-4, -2, 0] and "$b_1 = 0$, $b_2 = -2$ and $b_3 = -4$" in PAGE.text
    _, even, mean = figures._read_slots(torch.zeros(3))
    assert even[0] == even[2]
    PAGE.has(f"it was ({found[0]:.3f}, {found[1]:.3f})", f"would find {mean[0]:.2f},")


# Measured numbers.
def test_the_accuracy_on_programs():
    lines, last = results("feedback", "lines"), results("feedback", "accuracy")
    assert all(fmean(run[2] for run in runs) > 0.995 for runs in lines.values())
    right = {name: 100 * fmean(of) for name, of in last.items()}
    one, two, three, four = (f"{right[f'transformer {layers}']:.0f}" for layers in (1, 2, 3, 4))
    third, fourth = (100 * fmean(run[t] for run in lines["transformer 1"]) for t in (3, 4))
    end = 100 * fmean(run[31] for run in lines["feedback 1"])
    PAGE.has(
        f"one layer with feedback is right in {right['feedback 1']:.0f} of 100 programs",
        f"one layer is right in {one}, two in {two}, three in {three}, four in {four}.",
        f"still right in {third:.0f} of 100 programs at line 3, and in {fourth:.0f} at",
        f"At the end it is right in {end:.0f} of 100.",  # longer than in training
    )
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


# The stages, and the whole in code.
def values_of(x, y):
    """What the lines set or print, by running the program with other numbers."""
    values, found = {}, []
    for t, source in enumerate([f"x = {x}", f"y = {y}", *PROGRAM[2:4]]):
        exec(source, values)
        found.append(values[figures.SETS[t]])
    return [*found, values["y"]]


def test_the_stage_of_layers_follows_the_program():
    known = figures._known(False)

    def computed(step, x, y, layers):
        values = values_of(int(x), int(y))
        seen = {
            f"layer{layer}": [
                "" if layer > layers else str(v) if known[t] <= layer else "?"
                for t, v in enumerate(values)
            ]
            for layer in range(4)
        }
        count = sum(k <= min(step, layers) for k in known)
        return seen | {"line": [f"x = {x:.0f}", f"y = {y:.0f}"], "says": [f"{count} of 5 results"]}

    check_stage(figures.layers(), computed)


def test_the_stage_of_memory_follows_the_program():
    def computed(step, x, y):
        values = values_of(int(x), int(y))
        slots = [f"{name} = {v}" for name, v in zip(figures.SETS, values, strict=True)]
        return {
            "layer": [str(value) for value in values],
            "slot": slots,
            "says": [f"step {step + 1} memory has {step + 2} slots", slots[step + 1]],
        }

    check_stage(figures.memory(), computed)


@torch.no_grad()
def test_the_bare_model_is_the_module():
    T, B, C, H, L, P = 7, 2, 12, 3, 2, 8
    module = build(False, L, C, 4 * C, H, {"max_distance": P}).double()
    for name, parameter in module.named_parameters():
        # The one term that the short program leaves out is zero at first.
        if name.endswith("key_pos_embeddings"):
            assert not parameter.any()
        else:
            nn.init.normal_(parameter, std=0.3)
    make, read = PAGE.made["Layer"], PAGE.made["read"]
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
    slow, fast = (ms[f"{name}, as on its page"] for name in ("Feedback Transformer", "Transformer"))
    factor = PAGE.numbers(r"takes ([\d.]+) times as long as that of a Transformer")
    assert factor == pytest.approx([slow / fast], abs=0.06)


def test_what_a_token_costs():
    """Products with matrices, one for each weight, and numbers to remember."""
    C, L = 12, 3
    transformer = labml_nn.create("autoregressive", n_vocab=5, d_model=C, heads=3, n_layers=L)
    model = build(layers=L)
    for module, expected in ((model, (10 * L + 2) * C**2), (transformer.stack, 12 * L * C**2)):
        maps = [part for part in module.modules() if isinstance(part, nn.Linear)]
        assert sum(part.weight.numel() for part in maps) == expected
    _, memory = model.scan(torch.randn(5, 1, C))
    assert memory.keys.numel() + memory.values.numel() == 2 * 5 * C


def test_the_losses_with_and_without_feedback():
    lines = (RESULTS / "feedback_depth.jsonl").read_text("utf-8").splitlines()
    losses = defaultdict(list)
    for run in map(json.loads, lines):
        losses[run["label"]].append(run["result"]["validation_loss"])
    assert max(losses["feedback-1"]) < min(losses["transformer-1"])  # ahead in every run
    table = [[float(cell) for cell in row[1:]] for row in PAGE.rows("layers | 1 | 2 | 4 | 8 |")]
    for kind, told in zip(("transformer", "feedback"), table, strict=True):
        means = [fmean(losses[f"{kind}-{layers}"]) for layers in (1, 2, 4, 8)]
        assert told == pytest.approx(means, abs=0.0051)
    # "Nowhere does it make up for half of the layers."
    assert all(f > t for f, t in zip(table[1], table[0][1:], strict=False))


def test_the_share_of_the_tables_of_distances():
    told = PAGE.numbers(r"4,096 rows.*? (\d+) % of the parameters.* (\d+) %\. A text of 128")
    for shared, percent in zip((True, False), told, strict=True):
        with torch.device("meta"):
            model = build(shared, layers=6, d_model=512, d_ff=2048, heads=8)
        sizes = {name: p.numel() for name, p in model.named_parameters()}
        tables = sum(size for name, size in sizes.items() if "key_pos" in name)
        assert round(100 * tables / sum(sizes.values())) == percent
    PAGE.says("last row saves {:.1f} million", 2 * (6 - 1) * 512**2 / 1e6)


# Use and errors.
def test_checkpoints_without_the_bias_of_distances():
    """They load as the page says, and compute what they did."""
    model, x = build(False), torch.randn(5, 2, 12)
    nn.init.normal_(model.layers[0].attn.key_pos_embeddings)
    expected = model(x)
    old = {k: v for k, v in model.state_dict().items() if "key_pos_bias" not in k}
    with pytest.raises(RuntimeError, match="key_pos_bias"):
        build(False).load_state_dict(old)
    (listing,) = re.findall(r"```text\n( *missing, .*?)```", PAGE.lines, re.DOTALL)
    made = {"model": build(False), "old": old}
    exec(textwrap.dedent(listing), made)
    torch.testing.assert_close(made["model"](x), expected)


def test_a_hook_runs_for_scan_and_step_too():
    model, x = build(), torch.randn(3, 2, 12)
    model.register_forward_hook(
        lambda *call: torch.utils._pytree.tree_map(torch.zeros_like, call[-1])
    )
    assert not model(x).any() and not model.scan(x)[0].any() and not model.step(x[0])[0].any()


def test_a_memory_is_returned_where_one_is_passed():
    model, x = build(), torch.randn(3, 2, 12)
    outputs, memory = model(x, memory=feedback.FeedbackMemory())
    torch.testing.assert_close(outputs, model(x))
    assert len(memory) == 3


def test_empty_texts_are_explained(unhooked):
    lesson = unhooked("labml_nn.transformers.feedback.language_model").FeedbackLanguageModel
    model = lesson.from_config({"n_vocab": 5, "d_model": 12, "heads": 3}).transformer
    with pytest.raises(ValueError, match=r"\[0, 2, 12\]; expected \[T, B, C\]"):
        model(torch.zeros(0, 2, 12))
