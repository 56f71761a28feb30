"""Every number of the page on positional encoding is what the code computes."""

import json
import math
import re
from collections import Counter
from pathlib import Path
from statistics import mean

import pytest
import torch
from stages import check_first, play

from docs_src.figures import positional_encoding as figures
from docs_src.figures.heads import SHARP
from docs_src.tasks import positional_encoding as task
from docs_src.tasks import results
from labml_nn import kernels
from labml_nn.experiments.data import read_corpus
from labml_nn.transformers import positional_encoding
from labml_nn.transformers.encoder_decoder import EncoderDecoderLanguageModel
from labml_nn.transformers.mha import MultiHeadAttention
from labml_nn.transformers.positional_encoding import (
    LearnedPositionalEncoding,
    PositionalEncoding,
    get_positional_encoding,
)

SOURCE = Path(positional_encoding.__file__).read_text(encoding="utf-8")
PAGE = re.sub(r"\s+", " ", re.sub(r"^# ?", "", SOURCE, flags=re.M))
RESULTS = Path(__file__).parents[3] / "docs_src/results"
NUMBER = r"[−-]?\d+(?:\.\d+)?"


def vector(after: str) -> torch.Tensor:
    """The first numbers in brackets after some words."""
    found = re.search(re.escape(after) + r"[^(]*\(([^)]*)\)", PAGE)
    assert found, after
    return torch.tensor([float(n.replace("−", "-")) for n in found[1].split(",")])


def listing(start: str) -> dict[str, object]:
    """The names that a program of the page defines; `start` is how it begins."""
    programs = re.findall(r"```python\n(.*?)```", re.sub(r"(?m)^# ?", "", SOURCE), re.S)
    (program,) = (program for program in programs if program.startswith(start))
    names: dict[str, object] = {}
    exec(program, names)
    return names


WORDS = listing("import torch\n\ndog, bites, man")
FEATURES = torch.stack([WORDS[word] for word in figures.TOKENS])  # type: ignore[misc]
TABLE = get_positional_encoding(4, 4, dtype=torch.float64)[:, 0]


def alt(name: str) -> str:
    return getattr(figures, name)().alt.replace("−", "-")


def attend(x: torch.Tensor) -> torch.Tensor:
    return (x @ x.T / 2).softmax(dim=1) @ x


def test_attention_without_positions_sees_a_bag_of_words(capsys: pytest.CaptureFixture[str]):
    assert torch.equal(FEATURES, figures.X)
    products = FEATURES @ FEATURES[1]
    assert "are 0, 1 and 0. Divided by $\\sqrt 4$ they are 0, 0.5 and 0." in PAGE
    assert products.tolist() == [0, 1, 0]
    outputs = attend(FEATURES)
    weights = (FEATURES @ FEATURES.T / 2).softmax(1)[1]
    said = re.search(r"makes the weights (\S+), (\S+) and (\S+?)\. ", PAGE)
    assert said and [f"{w:.3f}" for w in weights] == [*said.groups()]
    order = [2, 1, 0]
    torch.testing.assert_close(attend(FEATURES[order]), outputs[order])
    # The picture has the terms, which add up to the sum as they are printed.
    (shown,) = re.findall(r"add up to \(([^)]*)\)", alt("average"))
    terms = (weights[:, None] * FEATURES).double().round(decimals=3)
    assert shown == ", ".join(f"{value:.3f}" for value in terms.sum(0))
    torch.testing.assert_close(terms.sum(0).float(), outputs[1], rtol=0, atol=6e-4)
    # The program of the page prints the same rows in another order.
    listing("import torch\n\ndog, bites, man")
    printed = re.findall(r"\[[\d., ]+\]", capsys.readouterr().out)
    assert printed[:3] == printed[:2:-1]


def test_a_recurrent_state_tells_the_orders_apart():
    ends = re.findall(r"it is \(([^)]*)\)", alt("recurrent"))
    assert len(ends) == 2
    for order, end in zip(figures.ORDERS, ends, strict=True):
        # Each word is halved once for each word after it.
        expected = sum(FEATURES[i] / 2 ** (2 - step) for step, i in enumerate(order))
        assert torch.equal(torch.tensor([float(n) for n in end.split(",")]), expected)


def test_with_positions_the_two_sentences_differ():
    table = TABLE[:3].float()
    second = FEATURES[1] + table[1]
    torch.testing.assert_close(vector("(0, 1, 0, 0) +"), table[1], rtol=0, atol=5e-3)
    torch.testing.assert_close(vector("(0.84, 0.54, 0.01, 1.00) ="), second, rtol=0, atol=5e-3)
    said = ("Now *bites* receives", "in *dog bites man*, and")
    for words, order in zip(said, figures.ORDERS, strict=True):
        found = attend(FEATURES[list(order)] + table)[1]
        torch.testing.assert_close(found, vector(words), rtol=0, atol=5e-3)
    for positions, same in ((0 * table, True), (table, False)):
        first, second = (attend(FEATURES[list(order)] + positions) for order in figures.ORDERS)
        assert all(
            torch.allclose(first[place], second[2 - place], atol=1e-6) == same for place in range(3)
        )


@pytest.mark.parametrize(("width", "length"), [(4, 7), (32, 128), (88, 13), (512, 5000)])
def test_the_bare_version_is_the_module(width: int, length: int):
    bare = listing("import torch\nfrom torch import nn\n\n\nclass Sinusoids")["Sinusoids"]
    x = torch.randn(length, 3, width)
    ours = PositionalEncoding(width, 0.0)(x)
    largest = (bare(width)(x) - ours).abs().max().item()  # type: ignore[operator]
    assert largest <= (2e-5 if length < 1000 else 1e-3)


def test_directions_of_the_encodings():
    """How many hold 99 % of the squares."""
    table = get_positional_encoding(512, 128, dtype=torch.float64)[:, 0]
    shares = (squares := torch.linalg.svdvals(table) ** 2).cumsum(0) / squares.sum()
    assert f"128 positions lie nearly all in {int((shares < 0.99).sum()) + 1} of the 512" in PAGE


def test_a_hand_starts_at_the_top_and_turns_clockwise():
    right, up = get_positional_encoding(2, 2)[:, 0].T
    assert (right[0], up[0]) == (0, 1) and right[1] > 0 and up[1] < 1


def test_the_stage_computes_what_the_module_computes():
    figure = figures.clocks()
    check_first(figure)
    table = get_positional_encoding(2 * figures.HANDS, 49, dtype=torch.float64)[:, 0]
    settings = [
        {"position": 0, "hand": 0},
        {"position": 1, "hand": 11, "step": 1},
        {"position": 33, "hand": 2, "step": 3},
        {"position": 48, "hand": 7, "step": 2},
    ]
    for setting, shown in zip(settings, play(figure, *settings), strict=True):
        row = table[setting["position"]]
        # The columns of cells have two numbers each, so their order is that of the features.
        assert shown.numbers("n") == pytest.approx(row.tolist(), abs=5.1e-3)
        sine, cosine = row[2 * setting["hand"] : 2 * setting["hand"] + 2].tolist()
        assert shown.numbers("sine-number") == pytest.approx([sine], abs=5.1e-3)
        assert shown.numbers("cosine-number") == pytest.approx([cosine], abs=5.1e-3)
        x, y, length = figures.LARGE
        tip = shown.places("large-tip", "cx") + shown.places("large-tip", "cy")
        assert tip == pytest.approx([x + length * sine, y - length * cosine], abs=0.06)


def test_hands_and_their_precision():
    table = get_positional_encoding(512, 800, dtype=torch.float64)[:, 0]
    slow, fast = table[:, -2:], table[:, :2]
    turns = 2 * math.pi * 10000 ** (510 / 512)
    assert f"the last one takes {turns:,.0f} positions" in PAGE

    def apart(hand, p, q):
        return (hand[p] - hand[q]).norm().item()

    assert f"the tip of the slowest hand moves by {apart(slow, 0, 1):.4f}, too little" in PAGE
    assert f"fastest hand, which is 1 long, ends {apart(fast, 0, 1):.2f} from" in PAGE
    # As many hands in each decade.
    whole = 2 * math.pi * 10000 ** (torch.arange(256) / 256)
    decades = [((whole >= 10**n) & (whole < 10 ** (n + 1))).sum().item() for n in (1, 3)]
    assert decades[0] == decades[1]
    assert apart(fast, 0, 1) == pytest.approx(2 * math.sin(0.5))
    assert round(710 / (2 * math.pi), 4) == 113.0
    assert f"only {apart(fast, 14, 724):.5f} apart" in PAGE
    assert table.square().mean().sqrt().item() == pytest.approx(1 / math.sqrt(2), abs=1e-3)
    lengths = table.norm(dim=1)
    torch.testing.assert_close(lengths, torch.full_like(lengths, math.sqrt(256)))
    # Where there is room for the word.
    low, high = table[:100].aminmax(dim=0)
    assert (high - low < 0.1).double().mean().item() == pytest.approx(1 / 3, abs=0.01)


def test_how_sharply_a_head_looks_back():
    """The query of position 2 is the encoding of position 1; the weight of its key."""
    scores = TABLE @ TABLE[1] / 2
    weight, sharper = (scores.mul(factor).softmax(0)[1].item() for factor in (1, SHARP))
    assert f"with a weight of {weight:.2f}." in PAGE and f"with queries {SHARP:.0f} times" in PAGE
    assert f"as large it is {sharper:.2f}." in PAGE


def test_precision_of_the_table():
    """Libraries round sines differently, so the page says the size of the error."""
    exact = get_positional_encoding(512, 5000, dtype=torch.float64)
    error = (get_positional_encoding(512, 5000).double() - exact).abs()
    assert "about $10^{-5}$ in the first 128 positions and $4 \\cdot 10^{-4}$" in PAGE
    assert 10**-5.5 < error[:128].max().item() < 10**-4.5
    assert 2e-4 < error.max().item() < 8e-4


def test_evenly_spaced_hands_would_come_back_soon():
    periods = 2 * math.pi / (torch.arange(1, 257) / 256)
    assert (periods <= 60).float().mean().item() == pytest.approx(0.9, abs=0.005)


def test_scaling_the_embeddings():
    embedding = 512**-0.5
    assert f"the embedding would have {embedding:.3f}" in PAGE
    assert f"would be {math.sqrt(0.5) / embedding:.0f} times as large as the token" in PAGE
    model = EncoderDecoderLanguageModel(EncoderDecoderLanguageModel.Config(n_vocab=65))
    tokens = model.transformer.tgt_embed.tokens.weight
    width = tokens.shape[1]
    assert tokens.std() < width**-0.5, "the tied matrix of the encoder-decoder starts smaller"


def test_without_the_division_by_the_width():
    """The common mistake, and what it does to the features."""
    positions = torch.arange(1000, dtype=torch.float64)[:, None]
    even = torch.arange(0, 512, 2, dtype=torch.float64)
    for exponent, varying in ((even, 2), (even / 512, 503)):
        angles = positions * 10000.0**-exponent
        table = torch.cat([angles.sin(), angles.cos()], 1)
        assert int((table.amax(0) - table.amin(0) > 0.01).sum()) == varying
    assert round(2 * math.pi * 10000**2 / 1e6) == 628


def test_the_notebook_begins_with_the_bare_version():
    recipe = RESULTS.parent / "notebooks/positional_encoding.md"
    (code,) = re.findall(
        r"(?s)```python\nimport torch\nfrom torch import nn\n\n\n(class .*?)```", SOURCE
    )
    assert code in recipe.read_text(encoding="utf-8")


#: The block of the page, by its entries, which act on a row from the right.
BLOCK = r"""\begin{pmatrix} \cos \omega_i k & -\sin \omega_i k \\
               \sin \omega_i k & \cos \omega_i k \end{pmatrix}"""


def rotation(width: int, k: int) -> torch.Tensor:
    """The matrix that the page prints, for all hands."""
    assert BLOCK in SOURCE
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


def test_the_query_is_the_key_of_the_word_before():
    """With the block of the page, for the four features of the picture."""
    query = TABLE[2] @ rotation(4, -1)
    torch.testing.assert_close(query, TABLE[1], rtol=0, atol=1e-6)
    assert f"is the query ({', '.join(f'{n:.2f}' for n in query)})" in alt("back")


def test_an_equal_vector_fits_best():
    products = (table := get_positional_encoding(32, 200)[:, 0]) @ table.T
    assert torch.equal(products.argmax(1), torch.arange(200))


def test_what_checkpoints_hold_and_where_learning_starts():
    assert not PositionalEncoding(8, 0.0).state_dict()
    learned = LearnedPositionalEncoding(8, 0.0)
    assert list(learned.state_dict()) == ["positional_encodings"]
    assert not learned.positional_encodings.any()


def test_rotated_queries_and_keys_know_only_their_distance():
    """RoPE, in the words of the page."""
    from labml_nn.transformers.modern import rotate

    q, k = torch.randn(2, 1, 1, 1, 8, dtype=torch.float64)

    def score(t, s):
        at = [torch.tensor([[p]]) for p in (t, s)]
        return (rotate(q, at[0]) * rotate(k, at[1])).sum().item()

    assert score(3, 1) == pytest.approx(score(50, 48))
    assert score(3, 1) != pytest.approx(score(1, 3))


def cells(head: str) -> list[list[str]]:
    """The rows below the head of a table, anywhere in the file."""
    lines = re.sub(r"^# ?", "", SOURCE, flags=re.M).split(head + "\n")[1].splitlines()[1:]
    count = next(i for i, line in enumerate(lines) if not line.startswith("|"))
    return [[cell.strip() for cell in line.strip("| ").split("|")] for line in lines[:count]]


def runs(question: str, model: str) -> list[float]:
    found = results("positional_encoding", question)[model]
    return [share for share in found if isinstance(share, float)]


def test_order_decides_in_the_task():
    scores = {m: {q: runs(q, m) for q in task.QUESTIONS} for m in task.MODELS}
    assert all(len(of) == 5 for each in scores.values() for of in each.values())
    sinusoids = scores["sinusoids"]
    assert min(sinusoids["before"] + sinusoids["reverse"]) == 1.0
    first = sorted(sinusoids["first"])
    assert first[3:] == [1.0, 1.0] and first[:3] == pytest.approx([0.75] * 3, abs=0.03)
    assert f"After {task.UPDATES} updates two runs are always right. Three are right in" in PAGE
    means = {m: {q: mean(of) for q, of in each.items()} for m, each in scores.items()}
    for question in task.QUESTIONS:
        assert means["none"][question] < means["sinusoids"][question] - 0.3
    assert means["none"]["first"] == pytest.approx(0.5, abs=0.03), "it tosses a coin"
    # The most frequent of 12 letters.
    letters = torch.randint(task.LETTERS, (20000, task.LENGTH))
    share = torch.nn.functional.one_hot(letters).sum(1).amax(1).float().mean().item() / 12
    assert "is right in three of ten" in PAGE and round(10 * share) == 3
    for question in ("before", "reverse"):
        assert means["number"][question] < 0.4, "it drowns the features"
        assert means["none"][question] == pytest.approx(share, abs=0.02)
        assert means["learned"][question] < means["sinusoids"][question]
    assert min(scores["rotary"]["before"]) > 0.999
    assert max(scores["rotary"]["reverse"]) < 0.6, "distances are not enough"


def test_trained_heads_look_where_the_answer_is():
    for question, goal in (("before", lambda p: p - 1), ("reverse", lambda p: 11 - p)):
        first = results("positional_encoding", f"{question}_weights")["sinusoids"][0]
        weights = torch.tensor(first).view(12, 12)
        assert [weights[p].argmax().item() for p in range(1, 12)] == [goal(p) for p in range(1, 12)]


def test_products_of_turned_vectors():
    """The example of rotary positions."""
    tips = re.findall(r"At positions (\d) and (\d) they are \(([^)]*)\) and \(([^)]*)\)", PAGE)
    assert len(tips) == 2
    for t, s, q, k in tips:
        for position, shown in ((t, q), (s, k)):
            sine, cosine = math.sin(int(position)), math.cos(int(position))
            assert shown.replace("−", "-") == f"{sine:.2f}, {cosine:.2f}"
    assert f"dot product {math.cos(1):.2f}." in PAGE


def test_losses_with_each_kind_of_positions():
    names = [("positions", label) for label in ("none", "learned", "sinusoidal")]
    # The study of depths has the same run with rotary positions.
    runs = []
    for study, label in [*names, ("feedback_depth", "transformer-4")]:
        lines = (RESULTS / f"{study}.jsonl").read_text(encoding="utf-8").splitlines()
        runs.append([run for run in map(json.loads, lines) if run["label"] == label])
    assert [len(of) for of in runs] == [5, 5, 5, 5]
    assert [of[0]["run"]["model"]["config"]["positions"] for of in runs] == [
        *("none", "learned", "sinusoidal", "rotary")
    ]
    losses = [mean(run["result"]["validation_loss"] for run in of) for of in runs]
    (said,) = cells("| no positions | learned vectors | sinusoids | rotary positions |")
    none, _, sinusoids, rotary = said
    assert f"loss is {none} without positions and {sinusoids} with sinusoids" in PAGE
    assert f"act in every layer, and reach {rotary}." in PAGE
    assert said == [f"{loss:.2f}" for loss in losses]
    assert max(run["result"]["seconds"] for of in runs for run in of) < 60
    assert {round(run["result"]["seconds"]) for run in runs[2]} <= {17, 18}
    (quote,) = re.findall(r"(?s)\n# > (.*?)\n#\n", SOURCE)
    assert quote.replace("\\\n# > ", "\n") in "".join(run["samples"][0]["text"] for run in runs[2])


def test_the_loss_of_knowing_how_frequent_each_letter_is():
    try:
        text = read_corpus()
    except FileNotFoundError:
        pytest.skip("Tiny Shakespeare is not here")
    counts, unseen = Counter(text.train), Counter(text.validation)
    assert f"\\ln {len(counts)} = {math.log(len(counts)):.2f}$" in PAGE
    chances = {letter: n / counts.total() for letter, n in counts.items()}
    loss = -sum(n * math.log(chances[letter]) for letter, n in unseen.items()) / unseen.total()
    assert f"That alone would give a loss of {loss:.2f} on the same text" in PAGE


def test_losses_beyond_the_length_of_training():
    kept = json.loads((RESULTS / "longer.json").read_text(encoding="utf-8"))
    head = "| position | 32 to 63 | 64 to 79 | 128 to 191 |"
    spans = [(int(a), int(b) + 1) for a, b in re.findall(r"(\d+) to (\d+)", head)]
    for (_, *said), positions in zip(cells(head), ("sinusoidal", "rotary"), strict=True):
        losses = [run["losses"] for run in kept if run["positions"] == positions]
        assert len(losses) == 3
        assert said == [f"{mean(mean(one[a:b]) for one in losses):.2f}" for a, b in spans]
