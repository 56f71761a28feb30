"""Every number of the page on positional encoding is what the code computes."""

import json
import math
import re
from collections import Counter
from pathlib import Path
from statistics import mean

import pytest
import torch

from labml_nn.experiments.data import read_corpus
from labml_nn.transformers import positional_encoding
from labml_nn.transformers.encoder_decoder import EncoderDecoderLanguageModel
from labml_nn.transformers.positional_encoding import (
    LearnedPositionalEncoding,
    PositionalEncoding,
    get_positional_encoding,
)

SOURCE = Path(positional_encoding.__file__).read_text(encoding="utf-8")
PAGE = re.sub(r"\s+", " ", re.sub(r"^# ?", "", SOURCE, flags=re.M))
RESULTS = Path(__file__).parents[3] / "docs_src/results"
NUMBER = r"[−-]?\d+(?:\.\d+)?"


def rows(*titles: str) -> list[list[float]]:
    """The numbers of the table with these titles; words are left out."""
    text = (positional_encoding.__doc__ or "").split("| " + " | ".join(titles) + " |\n")[1]
    found = []
    for line in text.splitlines()[1:]:
        if not line.startswith("|"):
            break
        found.append([float(n.replace("−", "-")) for n in re.findall(NUMBER, line)])
    return found


def vector(after: str) -> torch.Tensor:
    """The first numbers in brackets after some words."""
    found = re.search(re.escape(after) + r"[^(]*\(([^)]*)\)", PAGE)
    assert found, after
    return torch.tensor([float(n.replace("−", "-")) for n in found[1].split(",")])


FEATURES = torch.tensor(rows("token", "features $x$"))
TABLE = torch.tensor(
    rows(
        *("position $p$", "sine of $p$", "cosine of $p$"),
        *("sine of $0.01 p$", "cosine of $0.01 p$"),
    ),
    dtype=torch.float64,
)


def attend(x: torch.Tensor) -> torch.Tensor:
    return (x @ x.T / 2).softmax(dim=1) @ x


def test_attention_without_positions_sees_a_bag_of_words():
    expected = vector("the weighted average of the three vectors is")
    outputs = attend(FEATURES)
    torch.testing.assert_close(outputs[1], expected, rtol=0, atol=5e-4)
    weights = (FEATURES @ FEATURES.T / 2).softmax(1)[1]
    said = re.search(r"the weights (\S+), (\S+) and (\S+) of them", PAGE)
    assert said and [f"{w:.3f}" for w in weights] == [*said.groups()]
    order = [2, 1, 0]
    torch.testing.assert_close(attend(FEATURES[order]), outputs[order])


def test_the_table_is_the_encoding_of_four_features():
    assert TABLE[:, 0].tolist() == [0, 1, 2, 3]
    exact = get_positional_encoding(4, 4, dtype=torch.float64)[:, 0]
    torch.testing.assert_close(TABLE[:, 1:], exact, rtol=0, atol=5e-3)


def test_with_positions_the_two_sentences_differ():
    table = get_positional_encoding(4, 3)[:, 0]
    second = FEATURES[1] + table[1]
    torch.testing.assert_close(vector("(0.84, 0.54, 0.01, 1.00) ="), second, rtol=0, atol=5e-3)
    for words, order in (("*bites* receives", [0, 1, 2]), ("in *dog bites man*, and", [2, 1, 0])):
        found = attend(FEATURES[order] + table)[1]
        after = words if order[0] else "average above with these sums, *bites* receives"
        torch.testing.assert_close(found, vector(after), rtol=0, atol=5e-3)


def test_digits_of_the_counter():
    for position, *digits in rows("position", "digits"):
        assert int("".join(str(int(digit)) for digit in digits), 2) == position


def test_directions_of_the_encodings():
    """How many hold 99 % of the squares."""
    table = get_positional_encoding(512, 128, dtype=torch.float64)[:, 0]
    shares = (squares := torch.linalg.svdvals(table) ** 2).cumsum(0) / squares.sum()
    assert f"128 positions lie nearly all in {int((shares < 0.99).sum()) + 1} of the 512" in PAGE


def test_a_hand_starts_at_the_top_and_turns_clockwise():
    right, up = get_positional_encoding(2, 2)[:, 0].T
    assert (right[0], up[0]) == (0, 1) and right[1] > 0 and up[1] < 1


def test_hands_and_their_precision():
    table = get_positional_encoding(512, 800, dtype=torch.float64)[:, 0]
    slow, fast = table[:, -2:], table[:, :2]
    turns = 2 * math.pi * 10000 ** (510 / 512)
    assert f"the last one takes {turns:,.0f} positions" in PAGE

    def apart(hand, p, q):
        return (hand[p] - hand[q]).norm().item()

    assert f"its tip moves by {apart(slow, 0, 1):.4f}, too little" in PAGE
    assert f"fastest hand moves by {apart(fast, 0, 1):.2f} in a straight line" in PAGE
    assert apart(fast, 0, 1) == pytest.approx(2 * math.sin(0.5))
    assert round(710 / (2 * math.pi), 4) == 113.0
    assert f"only {apart(fast, 14, 724):.5f} apart" in PAGE
    assert table.square().mean().sqrt().item() == pytest.approx(1 / math.sqrt(2), abs=1e-3)
    lengths = table.norm(dim=1)
    torch.testing.assert_close(lengths, torch.full_like(lengths, math.sqrt(256)))


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


def test_a_rotation_takes_every_position_to_another():
    table = get_positional_encoding(32, 40, dtype=torch.float64)[:, 0]
    k, frequencies = 7, 10000.0 ** (-torch.arange(0, 32, 2) / 32)
    cos, sin = (k * frequencies).cos(), (k * frequencies).sin()
    sines, cosines = table[:-k, 0::2], table[:-k, 1::2]
    torch.testing.assert_close(table[k:, 0::2], cos * sines + sin * cosines, rtol=0, atol=1e-5)
    torch.testing.assert_close(table[k:, 1::2], cos * cosines - sin * sines, rtol=0, atol=1e-5)


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


def test_the_lines_that_print_the_table(capsys):
    (program,) = re.findall(r"```python\n(import torch\n\np, i, C.*?)```", SOURCE, re.S)
    names: dict[str, object] = {}
    exec(program, names)
    angles = names["angles"]
    assert isinstance(angles, torch.Tensor)
    printed = torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1).double()
    torch.testing.assert_close(printed, TABLE[:, 1:], rtol=0, atol=0.0051)
    assert "0.8415" in capsys.readouterr().out


def test_losses_with_each_kind_of_positions():
    names = ("positions/none", "positions/learned", "positions/sinusoidal")
    # The study of depths has the same run with rotary positions.
    studies = [*names, "feedback_depth/transformer-4"]
    runs = [
        [json.loads(file.read_text(encoding="utf-8")) for file in RESULTS.glob(f"{study}-seed*")]
        for study in studies
    ]
    assert [len(of) for of in runs] == [5, 5, 5, 5]
    assert [of[0]["run"]["model"]["config"]["positions"] for of in runs] == [
        *("none", "learned", "sinusoidal", "rotary")
    ]
    losses = [mean(run["result"]["validation_loss"] for run in of) for of in runs]
    (said,) = cells("| no positions | learned vectors | sinusoids | rotary positions |")
    assert said == [f"{loss:.2f}" for loss in losses]
    assert max(run["result"]["seconds"] for of in runs for run in of) < 60
    assert {round(run["result"]["seconds"]) for run in runs[2]} <= {17, 18}
    (quote,) = re.findall(r"(?s)\n> (.*?)\n\n", SOURCE)
    assert quote.replace("\\\n> ", "\n") in "".join(run["samples"][0]["text"] for run in runs[2])


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
