"""Every number of the attention page: its worked example, and what it says of trained heads."""

import json
import re
from pathlib import Path

import pytest
import torch

from docs_src.figures import mha as figures
from docs_src.live.export import rounded_model
from labml_nn import kernels
from labml_nn.attention_maps import attention_maps
from labml_nn.experiments.data import read_corpus
from labml_nn.transformers import mha
from labml_nn.transformers.mha import MultiHeadAttention
from labml_nn.transformers.utils import padding_mask, subsequent_mask

PAGE = mha.__doc__ or ""
SOURCE = Path(mha.__file__).read_text(encoding="utf-8")


def rows(first):
    """The rows of the table whose header begins with these cells, by their first cell."""
    lines = PAGE[PAGE.index(first) :].split("\n\n")[0].split("\n")[2:]
    cells = [[cell.strip(" $") for cell in line.strip("| ").split("|")] for line in lines]
    return {name: values for name, *values in cells}


def vector(cell):
    return torch.tensor([float(number) for number in cell.strip("()").split(",")])


def matrices():
    """The three matrices as the page prints them."""
    printed = re.findall(r"W\^(\w) = \\begin\{pmatrix\}(.*?)\\end\{pmatrix\}", PAGE, re.S)
    return {
        name: torch.tensor([[float(x) for x in row.split("&")] for row in body.split(r"\\")])
        for name, body in printed
    }


@pytest.fixture
def attention():
    """The class of the page with the matrices of the page, and the inputs."""
    found = matrices()
    module = MultiHeadAttention(1, 4, 0.0, bias=False, d_k=4, d_v=2)
    with torch.no_grad():
        for linear, name in ((module.query, "Q"), (module.key, "K"), (module.value, "V")):
            linear.linear.weight.copy_(found[name].T)
    return module


@pytest.fixture
def x():
    table = rows("| token | features")
    assert list(table) == ["the", "dog", "sleeps"]
    return torch.stack([vector(cells[0]) for cells in table.values()])[:, None]


def test_queries_keys_and_values(attention, x):
    for i, cells in enumerate(rows("| token | features").values()):
        for module, cell in zip(
            (attention.query, attention.key, attention.value), cells[1:], strict=True
        ):
            assert torch.equal(module(x)[i, 0, 0], vector(cell))


def test_the_four_steps_of_sleeps(attention, x):
    table = rows("| token | product")
    with kernels.disabled():
        q, k, v = attention.query(x), attention.key(x), attention.value(x)
        received = attention.attend(q, k, v)[2, 0, 0]
        products = attention.get_scores(q, k)[2, :, 0, 0]
    weights = attention.attn[2, :, 0, 0]
    total = (products * attention.scale).exp().sum()
    for i, token in enumerate(("the", "dog", "sleeps")):
        product, score, exp, weight, share = table[token]
        assert products[i] == float(product)
        assert products[i] * attention.scale == float(score)
        assert f"{(products[i] * attention.scale).exp():.3f}" == exp
        assert f"{weights[i]:.3f}" == weight
        # What the page multiplies is the rounded weight.
        assert torch.allclose(float(weight) * v[i, 0, 0], vector(share), atol=1e-6)
    *_, exps, ones, result = table["sum"]
    assert f"{total:.3f}" == exps and float(ones) == 1
    assert [f"{number:.2f}" for number in received] == result.strip("()").split(", ")
    shares = sum(vector(cells[-1]) for token, cells in table.items() if token != "sum")
    assert torch.allclose(shares, vector(result), atol=1e-6)


def test_the_figure_has_the_same_example(x):
    module, features = figures._worked_example()
    assert torch.equal(features, x)
    for name, matrix in matrices().items():
        linear = {"Q": module.query, "K": module.key, "V": module.value}[name].linear
        assert torch.equal(linear.weight, matrix.T)


def test_numbers_of_a_key():
    """Alive, then article or verb, noun, article; no query asks for the second."""
    article, noun, verb, alive = matrices()["K"]
    assert alive.nonzero().flatten().tolist() == [0]
    assert noun.nonzero().flatten().tolist() == [2]
    assert [row[1] for row in (article, noun, verb, alive)] == [1, 0, 1, 0]
    assert [row[3] for row in (article, noun, verb, alive)] == [2, 0, 0, 0]
    assert not matrices()["Q"][:, 1].any()


def test_who_looks_for_whom(attention, x):
    """The caption: the looks for its noun, dog for its article, sleeps for its subject."""
    with kernels.disabled():
        attention(query=x, key=x, value=x)
    weights = attention.attn[:, :, 0, 0]
    assert weights.argmax(dim=1).tolist() == [1, 0, 1]
    # Looking is not symmetric.
    assert weights[2, 1] > 4 * weights[1, 2]


def test_the_three_lines_of_python(attention, x, capsys):
    code = re.search(r"```python\n(.*?)```", PAGE, re.S)
    assert code
    exec(code[1], {})
    printed = capsys.readouterr().out
    last = [float(number) for number in re.findall(r"[\d.]+", printed)][-2:]
    assert last == pytest.approx(vector(rows("| token | product")["sum"][-1]).tolist(), abs=0.005)


def test_the_drawn_masks():
    causal, padded = re.findall(r"```text\n(.*?)```", PAGE, re.S)
    drawn = [re.findall(r"(?<= )[1.](?= |$)", line) for line in causal.split("\n")[1:-1]]
    mask = subsequent_mask(4)[:, :, 0]
    assert [[cell == "1" for cell in row] for row in drawn] == mask.tolist()
    drawn = [re.findall(r"(?<= )[1.](?= |$)", line) for line in padded.split("\n")[:-1]]
    lengths = [sum(cell == "1" for cell in row) for row in drawn]
    expected = padding_mask(torch.tensor(lengths), 4)[0].T
    assert [[cell == "1" for cell in row] for row in drawn] == expected.tolist()


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
