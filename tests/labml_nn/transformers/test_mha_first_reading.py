"""Every number of the attention page: its worked example, and what it says of trained heads."""

import html
import json
import random
import re
from itertools import pairwise
from pathlib import Path

import pytest
import torch
from stages import check_first, play

from docs_src.figures import mha as figures
from docs_src.live.export import rounded_model
from docs_src.tasks import mha as task
from docs_src.tasks import results
from labml_nn import kernels
from labml_nn.attention_maps import attention_maps
from labml_nn.experiments.data import read_corpus
from labml_nn.transformers import mha
from labml_nn.transformers.mha import MultiHeadAttention
from labml_nn.transformers.utils import padding_mask, subsequent_mask

PAGE = mha.__doc__ or ""
SOURCE = Path(mha.__file__).read_text(encoding="utf-8")
FORMULA, BARE = re.findall(r"```python\n(.*?)```", PAGE, re.S)


def defined(code):
    """What a listing of the page defines."""
    names = {}
    exec(code, names)
    return names


@pytest.fixture(scope="module")
def example():
    """The tensors of the listing that has the example."""
    return defined(FORMULA)


def test_the_figures_have_the_matrices_of_the_listing(example):
    assert torch.equal(example["x"], figures.X)
    for name in ("w_q", "w_k", "w_v"):
        assert torch.equal(example[name], getattr(figures, name.upper()))
    tokens = re.search(r"# (\w+), (\w+), (\w+)\n", FORMULA)
    assert tokens and tokens.groups() == figures.TOKENS


def test_the_module_computes_what_the_listing_does(example):
    q, k, v, weights, averages = figures._one()
    for name, made in (("q", q), ("k", k), ("v", v), ("weights", weights)):
        torch.testing.assert_close(example[name], made)
    torch.testing.assert_close(example["weights"] @ example["v"], averages)


def test_what_the_page_says_of_queries_and_keys(example):
    """Tired looks for a noun that is alive; dog is both, bone a noun, and tired itself none."""
    noun, alive, thing, adjective = range(4)
    (dog_q, _, q), (dog, bone, tired) = example["q"], example["k"]
    assert q[noun] == q[alive] == 2 and q[thing] == q[adjective] == 0
    assert dog[noun] == dog[alive] == bone[noun] == 1 and bone[alive] == 0 and tired[noun] == -1
    terms = re.search(r"For \*dog\* you get ([^=]*) = (\d+)", PAGE)
    factors = [[float(n) for n in term.split("·")] for term in terms[1].split(" + ")]
    assert factors == [[*pair] for pair in zip(q.tolist(), dog.tolist(), strict=True)]
    assert q @ dog == float(terms[2])
    # Features that are 1 pick rows of the matrices.
    assert figures.X[2].nonzero().flatten().tolist() == [alive, adjective]
    # Looking is not symmetric.
    there, back = re.search(
        r"product of (\d+), and \*tired\* for \*dog\*\s+# with (\d+)", SOURCE
    ).groups()
    assert (dog_q @ tired, q @ dog) == (float(there), float(back))


def received(query, example):
    """The weights and the average of a query."""
    weights = (example["k"] @ query / 2).softmax(0)
    return weights, weights @ example["v"]


def test_other_queries(example):
    """Dry attends to bone, zeros give the plain average, and a long query a single value."""
    weights, _ = received(figures.DRY @ example["w_q"], example)
    assert weights.argmax() == 1
    _, average = received(torch.zeros(4), example)
    torch.testing.assert_close(average, example["v"].mean(0))
    _, average = received(100 * example["q"][2], example)
    torch.testing.assert_close(average, example["v"][0])
    weights, _ = received(example["q"][2], example)
    assert weights[0] == pytest.approx(2 / 3, abs=0.005), "two thirds"


def words(figure):
    """Texts of a drawing."""
    found = re.findall(r"<text [^>]*>(.*?)</text>", figure.picture())
    return [html.unescape(re.sub("<[^>]*>", "", one)) for one in found]


def number(word):
    return float(word.replace("−", "-"))


def test_the_stage_begins_as_it_is_drawn():
    check_first(figures.stage())


def test_the_stage_computes_what_the_module_does(example):
    """For the queries of its four tokens and random ones; and all that it prints adds up."""
    random.seed(0)
    figure = figures.stage()
    assert figure.stage
    whose = figure.stage.knobs[0]
    queries = [
        *whose.sets,
        *({n: random.randint(-4, 4) for n in figures.FEATURES} for _ in range(9)),
    ]
    assert [*queries[3].values()] == (figures.DRY @ example["w_q"]).tolist()
    for query, shown in zip(queries, play(figure, *queries), strict=True):
        q = torch.tensor([float(query[name]) for name in figures.FEATURES])
        weights, average = received(q, example)
        products = example["k"] @ q
        assert shown.numbers("sum") == products.tolist()
        assert shown.numbers("e") == pytest.approx((products / 2).tolist())
        assert shown.numbers("share") == pytest.approx(weights.tolist(), abs=1e-3)
        assert shown.numbers("result") == pytest.approx(average.tolist(), abs=6e-3)
        assert sum(round(1000 * share) for share in shown.numbers("share")) == 1000
        parts = torch.tensor(shown.numbers("part")).view(3, 2)
        torch.testing.assert_close(
            parts.sum(0), torch.tensor(shown.numbers("result")), atol=1e-4, rtol=0
        )
        torch.testing.assert_close(parts, weights[:, None] * example["v"], atol=1e-2, rtol=0)


def test_sums_of_the_stage_as_printed():
    said = words(figures.stage())
    pairs = [one for one in said if re.fullmatch(r"\([\d.−]+, [\d.−]+\)", one)]
    *parts, result = [[number(n) for n in pair.strip("()").split(", ")] for pair in pairs]
    assert len(parts) == 3
    assert [round(sum(column), 2) for column in zip(*parts, strict=True)] == result


def test_a_softmax_saturates_without_the_division_and_not_with_it():
    """The scaling figure: three sizes without, three with."""
    numbers = [float(n) for n in re.findall(r"0\.\d\d", figures.scaling().alt)]
    without, divided = numbers[:3], numbers[3:]
    assert without[2] > 0.85 and all(b - a > 0.1 for a, b in pairwise(without))
    assert max(divided) - min(divided) < 0.03


def test_the_variance_of_a_dot_product_is_the_number_of_its_terms():
    measured = re.findall(r"([\d.]+) for (\d+)", figures.spread().alt)
    assert [int(n) for _, n in measured] == list(figures.TERMS)
    assert all(float(variance) == pytest.approx(int(n), rel=0.05) for variance, n in measured)


def test_output_features_of_both_heads():
    """Both heads write to *alive*, one to *adjective*, one to *thing*, as the caption says."""
    dog = figures._attend(attention=figures._module(figures.SECOND_HEAD))[3][0]
    assert dog.argmax(0).tolist() == [2, 1], "tired, and bone"
    goals = [figures.FEATURES[row.argmax()] for row in figures.W_O]
    assert [{*goals[:2]}, {*goals[2:]}] == [{"alive", "adjective"}, {"alive", "thing"}]
    # A number of a head goes to what its value is made of.
    for w_v, write in ((figures.W_V, figures.W_O[:2]), (figures.SECOND_HEAD[2], figures.W_O[2:])):
        assert all(w_v[row.argmax(), j] == 10 for j, row in enumerate(write))


def test_what_a_value_says():
    """One number is 10 for what is alive, one for a thing or an adjective."""
    _, alive, thing, adjective = figures.X.T
    assert torch.equal(figures._one()[2], 10 * torch.stack([alive, thing + adjective], 1))


def test_the_layer_adds_what_a_token_receives_to_the_token():
    """Column by column, as printed: in + received = out."""
    printed = [number(one) for one in words(figures.layer()) if re.fullmatch(r"\d\.\d", one)]
    out, received = torch.tensor(printed).view(2, 4, 3)
    torch.testing.assert_close(out, received + figures.X.T)


def test_order_changes_nothing():
    first, second = re.findall(r"\([\d.]+, [\d.]+\)", figures.order().alt)
    assert first == second


def test_the_drawn_masks():
    weights = figures._one(subsequent_mask(3))[3]
    assert torch.equal(weights.triu(1), torch.zeros(3, 3))
    torch.testing.assert_close(weights.sum(1), torch.ones(3))


def test_steps_between_dog_and_tired():
    first, last = (figures.SENTENCE.index(token) for token in ("dog", "tired"))
    assert last - first == 7 and "seven" in figures.price().alt


SIZES = [(1, 4, 3, 3, 1), (4, 64, 10, 10, 2), (3, 12, 5, 7, 2), (8, 512, 64, 64, 3)]


@pytest.mark.parametrize(("heads", "size", "t", "s", "batch"), SIZES)
@pytest.mark.parametrize("masked", ["not", "padding", "causal and padding"])
@torch.no_grad()
def test_the_bare_module_is_the_module(heads, size, t, s, batch, masked):
    """The whole in code, with the weights of the module, for rows that see a key at least."""
    module = MultiHeadAttention(heads, size, dropout_prob=0.0).eval()
    bare = defined(BARE)["Attention"](heads, size)
    for name in ("query", "key", "value"):
        getattr(bare, name).load_state_dict(module.get_submodule(name).linear.state_dict())
    bare.output.load_state_dict(module.output.state_dict())
    x, y = torch.randn(t, batch, size), torch.randn(s, batch, size)
    mask = None if masked == "not" else padding_mask(torch.arange(s - batch + 1, s + 1), s)
    if masked == "causal and padding":
        y, s = x, t
        mask = subsequent_mask(t) & padding_mask(torch.arange(t - batch + 1, t + 1), t)
    expected = module(query=x, key=y, value=y, mask=mask)
    # The module has the sequence first and masks [T, S, B]; the bare one any axes before [T, C].
    swapped = None if mask is None else mask.permute(2, 0, 1)[:, None]
    made = bare(*(tensor.transpose(0, 1) for tensor in (x, y, y)), mask=swapped)
    torch.testing.assert_close(made.transpose(0, 1), expected, atol=1e-6, rtol=1e-5)


def test_the_bare_module_fits_a_screen():
    code = BARE.split("class ")[1].split("\n\n\n")[0]
    assert 12 <= sum(bool(line.strip()) for line in code.splitlines()) <= 20


def test_the_notebook_begins_with_the_bare_module():
    recipe = (Path(mha.__file__).parents[2] / "docs_src/notebooks/mha.md").read_text("utf-8")
    _, code = BARE.split("\n\n\n", 1)
    assert code in recipe


def test_the_task_needs_attention():
    """Right in all new books with attention; otherwise in 30 of 100, with every seed."""
    found = results("mha", "accuracy")
    assert set(found["attention"]) == {1.0} and len(found["attention"]) == 5
    (others,) = re.findall(r"right\s+in\s+about (\d+) of\s+100\s+new\s+books", PAGE)
    for model in ("fixed", "average"):
        assert found[model] == pytest.approx([int(others) / 100] * 5, abs=0.015)
    weights = results("mha", "weights")["attention"]
    assert all(max(range(9), key=row.__getitem__) == task.ASKED for row in weights)
    names = figures.CALLED
    assert len(set(names)) == len(names) == task.PAIRS
    # The picture has a digit twice, which the others guess.
    (twice,) = (digit for digit in range(10) if task.DIGITS_SHOWN.count(digit) > 1)
    assert f"most frequent one, here {twice}," in " ".join(PAGE.split())
    assert twice != task.DIGITS_SHOWN[task.ASKED]


def test_the_wrong_axis_leaks_the_future_and_the_right_one_keeps_sequences_apart():
    attention, x = MultiHeadAttention(2, 8, 0.0), torch.randn(5, 3, 8)
    mask, later, other = subsequent_mask(5), x.clone(), x.clone()
    later[-1] += 1
    other[:, 1:] += 1

    def run(y):
        return attention(query=y, key=y, value=y, mask=mask)

    torch.testing.assert_close(run(later)[:-1], run(x)[:-1])
    torch.testing.assert_close(run(other)[:, 0], run(x)[:, 0])
    attention.softmax.dim = 0
    assert not torch.isclose(run(later)[:-1], run(x)[:-1]).all()


def test_the_largest_of_32_weights():
    """0.06 with the root of all features, 0.16 with that of one head's."""
    torch.manual_seed(0)
    products = (torch.randn(4000, 1, 64) * torch.randn(4000, 32, 64)).sum(-1)
    means = [(products / size**0.5).softmax(-1).amax(-1).mean() for size in (512, 64)]
    stated = re.search(r"weight is ([\d.]+) on average instead of\s+(?:# )?([\d.]+\d)", SOURCE)
    assert stated and [f"{mean:.2f}" for mean in means] == list(stated.groups())


def test_gradients_of_a_saturated_softmax():
    e = torch.randn(5, dtype=torch.double, requires_grad=True)
    a = e.softmax(0)
    jacobian = torch.stack([torch.autograd.grad(a[i], e, retain_graph=True)[0] for i in range(5)])
    expected = a[:, None] * (torch.eye(5, dtype=torch.double) - a)
    torch.testing.assert_close(jacobian, expected)


KING = "KING RICHARD II:\nWhat must the king do now?"
SPEECHES = (
    KING + " must he submit?",
    "JULIET:\nO Romeo, Romeo! wherefore art thou Romeo?\nDeny thy father",
    "First Citizen:\nBefore we proceed any further, hear me speak.",
)
ROMULUS = "Romulus and Remus, " * 2 + "Romulus and Remus"


def said(pattern):
    """Numbers of the section about trained heads, where a line break is a space."""
    section = SOURCE[SOURCE.index("# ## Trained heads") :].split("# ## Cost")[0]
    found = re.search(pattern, re.sub(r"\s*\n#\s*", " ", section))
    assert found, pattern
    return [float(number) for number in found.groups()]


@pytest.fixture(scope="module")
def trained():
    return rounded_model("autoregressive")


def heads(trained, text):
    model, vocabulary = trained
    maps = attention_maps(model, vocabulary.encode(text)[:, None], vocabulary=vocabulary.texts)
    return torch.cat([one.weights[:, :, 0] for one in maps], dim=-1)


def test_two_trained_heads(trained):
    (line_head, back_head), line = (4 * i + h for i, h in figures.TRAINED), KING.index("\n")
    weights = heads(trained, KING)
    on_line = weights[line + 2 :, line].mean(0)
    first, others = said(r"first head gives ([\d.]+) of .*? more than ([\d.]+\d)")
    assert on_line[line_head] == pytest.approx(first, abs=0.005)
    rest = on_line[[h for h in range(12) if h != line_head]]
    assert rest.max() == pytest.approx(others, abs=0.005)
    (back,) = said(r"second gives ([\d.]+) to the previous")
    means = weights[line + 1 :, line + 1 :].diagonal(-1, 0, 1).mean(1)
    assert means[back_head] == pytest.approx(back, abs=0.005) and means.argmax() == back_head


def test_no_head_is_an_induction_head(trained):
    weights, period = heads(trained, ROMULUS), len("Romulus and Remus, ")
    times = range(period + 3, len(ROMULUS))
    followed = torch.stack([weights[t, t - period + 1] for t in times]).mean(0)
    (most,) = said(r"more than ([\d.]+\d) to the character that followed")
    assert followed.max() < most + 0.005


@torch.no_grad()
def test_without_a_head(trained):
    model, vocabulary = trained
    texts = [vocabulary.encode(text)[:, None] for text in SPEECHES]

    def loss():
        sums = [model.loss(text[:-1], text[1:]) * (len(text) - 1) for text in texts]
        return float(sum(sums)) / sum(len(text) - 1 for text in texts)

    with kernels.disabled():
        whole, rises = loss(), []
        for layer in model.stack.layers:
            weight = layer.self_attn.output.weight
            kept = weight.clone()
            for head in weight.unflatten(1, (4, -1)).unbind(1):
                head.zero_()
                rises.append(loss() - whole)
                weight.copy_(kept)
    is_1, least, most, named = said(
        r"is ([\d.]+) on the first .*? rises by ([\d.]+) to ([\d.]+\d), .*? by ([\d.]+\d)\."
    )
    found = (
        whole,
        min(rises),
        max(rises),
        rises[4 * figures.TRAINED[0][0] + figures.TRAINED[0][1]],
    )
    assert found == pytest.approx((is_1, least, most, named), abs=0.0055)


RESULT = Path(__file__).parents[3] / "docs_src/results/autoregressive/result.json"


def test_what_it_has_read():
    """The lines of the plays, and the loss on text that was held out."""
    (held_out,) = said(r"text that it has not read, the loss is ([\d.]+\d)\.")
    result = json.loads(RESULT.read_text(encoding="utf-8"))["result"]
    assert held_out == pytest.approx(result["validation_loss"], abs=0.005)
    text = held_text()
    assert all(speech in text.train for speech in SPEECHES)
    assert figures.SAID not in text.text, "the page says that we made it up"


def held_text():
    try:
        return read_corpus()
    except FileNotFoundError:
        pytest.skip("Tiny Shakespeare is not here")


def test_what_the_model_wrote():
    result = json.loads(RESULT.read_text(encoding="utf-8"))
    (quote,) = re.findall(r"(?s)\n> (.*?)\n\n", SOURCE)
    assert quote.replace("\\\n> ", "\n") in result["samples"][0]["text"]
    assert 90 < result["result"]["seconds"] < 150, "two minutes"
