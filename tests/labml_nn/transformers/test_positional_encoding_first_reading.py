"""Every number of the page on positional encoding is what the code computes."""

import json
import math
import re
from collections import Counter
from statistics import mean

import pytest
import torch
from lesson_pages import ROOT, Page, run
from stages import check_stage

from docs_src.figures import positional_encoding as figures
from docs_src.figures.heads import SHARP
from docs_src.tasks import positional_encoding as task
from docs_src.tasks import results
from labml_nn import kernels
from labml_nn.experiments.data import read_corpus
from labml_nn.transformers import positional_encoding
from labml_nn.transformers.mha import MultiHeadAttention
from labml_nn.transformers.positional_encoding import PositionalEncoding, get_positional_encoding

PAGE = Page(positional_encoding)
WORDS = run(PAGE.program("dog, bites, man"))
FEATURES = torch.stack([WORDS[word] for word in figures.TOKENS])
TABLE = get_positional_encoding(4, 4, dtype=torch.float64)[:, 0]


def attend(x: torch.Tensor) -> torch.Tensor:
    return (x @ x.T / 2).softmax(dim=1) @ x


# A bag of words.
def test_attention_without_positions_sees_a_bag_of_words(capsys: pytest.CaptureFixture[str]):
    assert torch.equal(FEATURES, figures.X)
    assert (FEATURES @ FEATURES[1]).tolist() == [0, 1, 0]
    assert "are 0, 1 and 0. Divided by $\\sqrt 4$ they are 0, 0.5 and 0." in PAGE.text
    weights = (FEATURES @ FEATURES.T / 2).softmax(1)[1]
    PAGE.says("makes the weights {:.3f}, {:.3f} and {:.3f}.", *weights)
    # The program of the page prints the same rows in another order.
    exec(PAGE.program("dog, bites, man"), {})
    printed = re.findall(r"\[[\d., ]+\]", capsys.readouterr().out)
    assert printed[:3] == printed[:2:-1]


def test_with_positions_the_two_sentences_differ():
    table = TABLE[:3].float()
    second = FEATURES[1] + table[1]
    told = "(0, 1, 0, 0) + ({:.2f}, {:.2f}, {:.2f}, {:.2f}) = ({:.2f}, {:.2f}, {:.2f}, {:.2f})"
    PAGE.says(told, *table[1], *second)
    said = ("Now *bites* receives", "in *dog bites man*, and")
    for words, order in zip(said, figures.ORDERS, strict=True):
        found = attend(FEATURES[list(order)] + table)[1]
        assert PAGE.vector(words) == pytest.approx(found.tolist(), abs=5e-3)


# The clocks.
@pytest.mark.parametrize(("width", "length"), [(4, 7), (32, 128), (88, 13), (512, 5000)])
def test_the_bare_version_is_the_module(width: int, length: int):
    x = torch.randn(length, 3, width)
    ours = PositionalEncoding(width, 0.0)(x)
    largest = (PAGE.made["Sinusoids"](width)(x) - ours).abs().max().item()
    assert largest <= (2e-5 if length < 1000 else 1e-3)


def test_the_stage_computes_what_the_module_computes():
    table = get_positional_encoding(2 * figures.HANDS, 49, dtype=torch.float64)[:, 0]

    def computed(step, position, hand):
        row = table[int(position)]
        sine, cosine = row[2 * int(hand) : 2 * int(hand) + 2].tolist()
        return {
            # The columns of cells have two numbers each, so their order is that of the features.
            "n": row,
            "sine-number": [sine],
            "cosine-number": [cosine],
        }

    check_stage(figures.clocks(), computed)


CODES = get_positional_encoding(512, 800, dtype=torch.float64)[:, 0]
SCORES = TABLE @ TABLE[1] / 2


def apart(hand, p, q):
    """How far a hand, the first or the last, moves between two positions."""
    return (CODES[p, 2 * hand :][:2] - CODES[q, 2 * hand :][:2]).norm().item()


def directions():
    """How many hold 99 % of the squares."""
    squares = torch.linalg.svdvals(CODES[:128]) ** 2
    return int((squares.cumsum(0) / squares.sum() < 0.99).sum()) + 1


def varying():
    """How many features differ between the first 1,000 positions."""
    low, high = get_positional_encoding(512, 1000, dtype=torch.float64).aminmax(dim=0)
    return int((high - low > 0.01).sum())


def test_numbers_on_the_way():
    PAGE.has(
        f"the last one takes {2 * math.pi * 10000 ** (510 / 512):,.0f} positions",
        f"tip of the slowest hand moves by {apart(255, 0, 1):.4f}, too little",
        f"fastest hand, which is 1 long, ends {apart(0, 0, 1):.2f} from",
        f"710 positions are almost exactly {710 / (2 * math.pi):.0f} turns",
        f"only {apart(0, 14, 724):.5f} apart",
        f"128 positions lie nearly all in {directions()} of the 512",
        f"(largest minus smallest value), where {varying()} should",
        f"with a weight of {SCORES.softmax(0)[1]:.2f}.",
        f"with queries {SHARP:.0f} times as large it is {(SCORES * SHARP).softmax(0)[1]:.2f}.",
        f"the embedding would have {512**-0.5:.3f}",
        f"would be {math.sqrt(0.5 * 512):.0f} times as large as the token",
        f"{2 * math.pi * 10000**2 / 1e6:.0f} million positions",
        f"dot product {math.cos(1):.2f}.",
        f"After {task.UPDATES} updates two runs are always right. Three are right in",
    )


def test_precision_of_the_table():
    """Libraries round sines differently, so the page says the size of the error."""
    exact = get_positional_encoding(512, 5000, dtype=torch.float64)
    error = (get_positional_encoding(512, 5000).double() - exact).abs()
    assert "about $10^{-5}$ in the first 128 positions and $4 \\cdot 10^{-4}$" in PAGE.text
    assert 10**-5.5 < error[:128].max().item() < 10**-4.5
    assert 2e-4 < error.max().item() < 8e-4


# A step is a rotation.

#: The block of the page, by its entries, which act on a row from the right.
BLOCK = r"""\begin{pmatrix} \cos \omega_i k & -\sin \omega_i k \\
               \sin \omega_i k & \cos \omega_i k \end{pmatrix}"""


def rotation(width: int, k: int) -> torch.Tensor:
    """The matrix that the page prints, for all hands."""
    assert BLOCK in PAGE.source
    angles = k * 10000.0 ** (-torch.arange(0, width, 2, dtype=torch.float64) / width)
    return torch.block_diag(
        *(torch.tensor([[a.cos(), -a.sin()], [a.sin(), a.cos()]]) for a in angles)
    )


@pytest.mark.parametrize("k", [-3, 1, 7])
def test_a_rotation_takes_every_position_to_another(k: int):
    table = get_positional_encoding(32, 40, dtype=torch.float64)[:, 0]
    turned = table @ rotation(32, k)
    here, there = (turned[:-k], table[k:]) if k > 0 else (turned[-k:], table[:k])
    torch.testing.assert_close(here, there, rtol=0, atol=1e-5)


@pytest.mark.parametrize(("transpose", "expected"), [(False, 6), (True, 8)])
def test_the_rotation_finds_the_word_before(transpose: bool, expected: int):
    """In the query projection of the module; transposed it looks one position ahead."""
    attention = MultiHeadAttention(1, 32, 0.0, bias=False, d_k=32, d_v=32)
    matrix = rotation(32, -1).float()
    with torch.no_grad(), kernels.disabled():
        # A linear layer of torch multiplies by the transpose of its weight.
        attention.query.linear.weight.copy_(12 * (matrix if transpose else matrix.T))
        attention.key.linear.weight.copy_(torch.eye(32))
        x = get_positional_encoding(32, 12)
        attention(query=x, key=x, value=x)
    assert attention.attn is not None
    assert attention.attn[7, :, 0, 0].argmax().item() == expected


# Measurements.
def runs(question: str, model: str) -> list[float]:
    found = results("positional_encoding", question)[model]
    return [share for share in found if isinstance(share, float)]


def test_order_decides_in_the_task():
    scores = {m: {q: runs(q, m) for q in task.QUESTIONS} for m in task.MODELS}
    sinusoids = scores["sinusoids"]
    assert min(sinusoids["before"] + sinusoids["reverse"]) == 1.0
    first = sorted(sinusoids["first"])
    assert first[3:] == [1.0, 1.0] and first[:3] == pytest.approx([0.75] * 3, abs=0.03)
    means = {m: {q: mean(of) for q, of in each.items()} for m, each in scores.items()}
    assert means["none"]["first"] == pytest.approx(0.5, abs=0.03), "it tosses a coin"
    for question in ("before", "reverse"):
        assert means["number"][question] < 0.4, "it drowns the features"
        assert means["none"][question] == pytest.approx(0.3, abs=0.03), "three of ten"
        assert means["learned"][question] < means["sinusoids"][question]
    assert min(scores["rotary"]["before"]) > 0.999
    assert max(scores["rotary"]["reverse"]) < 0.6, "distances are not enough"


def test_trained_heads_look_where_the_answer_is():
    for question, goal in (("before", lambda p: p - 1), ("reverse", lambda p: 11 - p)):
        first = results("positional_encoding", f"{question}_weights")["sinusoids"][0]
        weights = torch.tensor(first).view(12, 12)
        assert [weights[p].argmax().item() for p in range(1, 12)] == [goal(p) for p in range(1, 12)]


def test_losses_with_each_kind_of_positions():
    names = [("positions", label) for label in ("none", "learned", "sinusoidal")]
    # The study of depths has the same run with rotary positions.
    runs = []
    for study, label in [*names, ("feedback_depth", "transformer-4")]:
        lines = (ROOT / f"docs_src/results/{study}.jsonl").read_text("utf-8").splitlines()
        runs.append([run for run in map(json.loads, lines) if run["label"] == label])
    assert [len(of) for of in runs] == [5, 5, 5, 5]
    losses = [mean(run["result"]["validation_loss"] for run in of) for of in runs]
    (told,) = PAGE.rows("no positions | learned vectors | sinusoids | rotary positions |")
    assert told == [f"{loss:.2f}" for loss in losses]
    PAGE.has(
        f"loss is {losses[0]:.2f} without positions and {losses[2]:.2f} with sinusoids",
        f"act in every layer, and reach {losses[3]:.2f}.",
    )
    samples = " ".join(run["samples"][0]["text"] for run in runs[2])
    assert PAGE.quoted in " ".join(samples.split())


def test_the_loss_of_knowing_how_frequent_each_letter_is():
    try:
        corpus = read_corpus()
    except FileNotFoundError:
        pytest.skip("Tiny Shakespeare is not here")
    counts, unseen = Counter(corpus.train), Counter(corpus.validation)
    chances = {letter: n / counts.total() for letter, n in counts.items()}
    loss = -sum(n * math.log(chances[letter]) for letter, n in unseen.items()) / unseen.total()
    PAGE.has(
        f"\\ln {len(counts)} = {math.log(len(counts)):.2f}$",
        f"That alone would give a loss of {loss:.2f} on the same text",
    )


def test_losses_beyond_the_length_of_training():
    kept = json.loads((ROOT / "docs_src/results/longer.json").read_text(encoding="utf-8"))
    spans = [(32, 64), (64, 80), (128, 192)]
    rows = PAGE.rows("position | 32 to 63 | 64 to 79 | 128 to 191 |")
    for (_, *told), positions in zip(rows, ("sinusoidal", "rotary"), strict=True):
        losses = [run["losses"] for run in kept if run["positions"] == positions]
        assert len(losses) == 3
        assert told == [f"{mean(mean(one[a:b]) for one in losses):.2f}" for a, b in spans]
