"""Every number of the attention page: its worked example, and what it says of trained heads."""

import pytest
import torch
from lesson_pages import Page, run
from stages import check_stage

from docs_src.figures import mha as figures
from docs_src.live.export import rounded_model
from docs_src.tasks import mha as task
from docs_src.tasks import results
from labml_nn import kernels
from labml_nn.attention_maps import attention_maps
from labml_nn.transformers import mha
from labml_nn.transformers.mha import MultiHeadAttention
from labml_nn.transformers.utils import padding_mask, subsequent_mask

PAGE = Page(mha)
FORMULA = PAGE.program("w_q = torch.tensor")
#: The tensors of the listing that has the example, and its keys and values.
EXAMPLE = run(FORMULA)
KEYS, VALUES = EXAMPLE["k"], EXAMPLE["v"]


def test_the_figures_and_the_module_compute_what_the_listing_does():
    assert torch.equal(EXAMPLE["x"], figures.X)
    for name in ("w_q", "w_k", "w_v"):
        assert torch.equal(EXAMPLE[name], getattr(figures, name.upper()))
    assert f"# {', '.join(figures.TOKENS)}\n" in FORMULA
    q, k, v, weights, averages = figures._one()
    for name, made in (("q", q), ("k", k), ("v", v), ("weights", weights)):
        torch.testing.assert_close(EXAMPLE[name], made)
    torch.testing.assert_close(EXAMPLE["weights"] @ VALUES, averages)


def test_what_the_page_says_of_queries_and_keys():
    """Tired looks for a noun that is alive; dog is both, bone a noun, and tired itself none."""
    noun, alive, thing, adjective = range(4)
    (dog_q, _, q), (dog, bone, tired) = EXAMPLE["q"], KEYS
    assert q[noun] == q[alive] == 2 and q[thing] == q[adjective] == 0
    assert dog[noun] == dog[alive] == bone[noun] == 1 and bone[alive] == 0 and tired[noun] == -1
    terms = " + ".join(f"{a:.0f}·{b:.0f}" for a, b in zip(q, dog, strict=True))
    PAGE.says("For *dog* you get {} = {:.0f}", terms, q @ dog)
    # Features that are 1 pick rows of the matrices.
    assert figures.X[2].nonzero().flatten().tolist() == [alive, adjective]
    # Looking is not symmetric.
    PAGE.says("product of {:.0f}, and *tired* for *dog* with {:.0f}", dog_q @ tired, q @ dog)


def received(query):
    """The weights and the average of a query."""
    weights = (KEYS @ query / 2).softmax(0)
    return weights, weights @ VALUES


def test_other_queries():
    """Dry attends to bone, zeros give the plain average, and a long query a single value."""
    query = EXAMPLE["q"][2]
    assert received(figures.DRY @ EXAMPLE["w_q"])[0].argmax() == 1
    torch.testing.assert_close(received(torch.zeros(4))[1], VALUES.mean(0))
    torch.testing.assert_close(received(100 * query)[1], VALUES[0])
    assert received(query)[0][0] == pytest.approx(2 / 3, abs=0.005), "two thirds"


def test_the_stage_computes_what_the_module_does():
    """For the queries of its four tokens and random ones; and all that it prints adds up."""
    figure = figures.stage()
    (*_, dry) = figure.stage.knobs[0].sets
    assert [*dry.values()] == (figures.DRY @ EXAMPLE["w_q"]).tolist()

    def computed(step, whose, **query):
        q = torch.tensor([query[name] for name in figures.FEATURES])
        products, (weights, average) = KEYS @ q.float(), received(q.float())
        return {
            "sum": products,
            "e": products / 2,
            "share": weights,
            "part": weights[:, None] * VALUES,
            "result": average,
        }

    check_stage(figure, computed, within={"share": 0.001, "part": 0.01})


@pytest.mark.parametrize("masked", ["not", "padding", "causal and padding"])
@torch.no_grad()
def test_the_bare_module_is_the_module(masked):
    """The whole in code, with the weights of the module, for rows that see a key at least."""
    heads, size, t, s, batch = 3, 12, 5, 7, 2
    module = MultiHeadAttention(heads, size, dropout_prob=0.0).eval()
    bare = PAGE.made["Attention"](heads, size)
    for name in ("query", "key", "value"):
        getattr(bare, name).load_state_dict(module.get_submodule(name).linear.state_dict())
    bare.output.load_state_dict(module.output.state_dict())
    x, y = torch.randn(t, batch, size), torch.randn(s, batch, size)
    mask = None if masked == "not" else padding_mask(torch.arange(s - batch + 1, s + 1), s)
    if masked == "causal and padding":
        y, mask = x, subsequent_mask(t) & padding_mask(torch.arange(t - batch + 1, t + 1), t)
    expected = module(query=x, key=y, value=y, mask=mask)
    # The module has the sequence first and masks [T, S, B]; the bare one any axes before [T, C].
    swapped = None if mask is None else mask.permute(2, 0, 1)[:, None]
    made = bare(*(tensor.transpose(0, 1) for tensor in (x, y, y)), mask=swapped)
    torch.testing.assert_close(made.transpose(0, 1), expected, atol=1e-6, rtol=1e-5)


def test_the_task_needs_attention():
    """Right in all new books with attention; otherwise in 30 of 100, with every seed."""
    found = results("mha", "accuracy")
    assert set(found["attention"]) == {1.0} and len(found["attention"]) == 5
    (others,) = PAGE.numbers(r"right in about (\d+) of 100 new books")
    for model in ("fixed", "average"):
        assert found[model] == pytest.approx([others / 100] * 5, abs=0.015)
    weights = results("mha", "weights")["attention"]
    assert all(max(range(9), key=row.__getitem__) == task.ASKED for row in weights)
    # The picture has a digit twice, which the others guess.
    (twice,) = (digit for digit in range(10) if task.DIGITS_SHOWN.count(digit) > 1)
    PAGE.says("most frequent one, here {},", twice)
    assert twice != task.DIGITS_SHOWN[task.ASKED]


def test_the_largest_of_32_weights():
    """With the root of all features, and with that of one head's."""
    torch.manual_seed(0)
    products = (torch.randn(4000, 1, 64) * torch.randn(4000, 32, 64)).sum(-1)
    means = [(products / size**0.5).softmax(-1).amax(-1).mean() for size in (512, 64)]
    PAGE.says("weight is {:.2f} on average instead of {:.2f}", *means)


# Trained heads.

KING = "KING RICHARD II:\nWhat must the king do now?"
SPEECHES = (
    KING + " must he submit?",
    "JULIET:\nO Romeo, Romeo! wherefore art thou Romeo?\nDeny thy father",
    "First Citizen:\nBefore we proceed any further, hear me speak.",
)


@pytest.fixture(scope="module")
def trained():
    return rounded_model("autoregressive")


def heads(trained, text):
    """The weights of all heads, `[T, T, 12]`."""
    model, vocabulary = trained
    maps = attention_maps(model, vocabulary.encode(text)[:, None], vocabulary=vocabulary.texts)
    return torch.cat([one.weights[:, :, 0] for one in maps], dim=-1)


def test_two_trained_heads(trained):
    (line_head, back_head), line = (4 * i + h for i, h in figures.TRAINED), KING.index("\n")
    weights = heads(trained, KING)
    on_line = weights[line + 2 :, line].mean(0)
    rest = on_line[[h for h in range(12) if h != line_head]]
    told = PAGE.numbers(r"first head gives ([\d.]+) of .*? more than ([\d.]+\d)")
    assert told == pytest.approx([on_line[line_head].item(), rest.max().item()], abs=0.005)
    means = weights[line + 1 :, line + 1 :].diagonal(-1, 0, 1).mean(1)
    PAGE.says("second gives {:.2f} to the previous", means[back_head])
    assert means.argmax() == back_head


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
    layer, head = figures.TRAINED[0]
    found = whole, min(rises), max(rises), rises[4 * layer + head]
    told = PAGE.numbers(
        r"is ([\d.]+) on the first .*? by ([\d.]+) to ([\d.]+\d), .*? by ([\d.]+\d)\."
    )
    assert told == pytest.approx(found, abs=0.0055)
