"""Every number of the page on the encoder–decoder is what the code computes."""

import json
import math
import re
import textwrap
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from labml_nn.transformers import models
from labml_nn.transformers.encoder_decoder import EncoderDecoderLanguageModel
from labml_nn.transformers.feed_forward import FeedForward
from labml_nn.transformers.mha import MultiHeadAttention
from labml_nn.transformers.models import (
    Decoder,
    EmbeddingsWithPositionalEncoding,
    Encoder,
    EncoderDecoder,
    Generator,
    TransformerLayer,
)
from labml_nn.transformers.utils import subsequent_mask

SOURCE = Path(models.__file__).read_text(encoding="utf-8")
PAGE = re.sub(r"\s+", " ", re.sub(r"^ *# ?", "", SOURCE, flags=re.M)).replace("−", "-")
RESULT = Path(__file__).parents[3] / "docs_src/results/encoder_decoder/result.json"
WORDS = ["padding", "start", "end", "who", "sleeps", "?", "the", "dog"]


def vector(after: str) -> torch.Tensor:
    """The first numbers in brackets after some words."""
    found = re.search(re.escape(after) + r"[^(]*\(([^)]*)\)", PAGE)
    assert found, after
    return torch.tensor([float(number) for number in found[1].split(",")])


def table(*titles: str) -> list[list[str]]:
    rows = (models.__doc__ or "").split("| " + " | ".join(titles) + " |\n")[1].splitlines()
    cells = []
    for row in rows[1:]:
        if not row.startswith("|"):
            break
        cells.append([cell.strip() for cell in row.strip("|").split("|")])
    return cells


def test_numbers_of_the_words():
    assert f"*{', '.join(WORDS)}*, numbered from 0" in PAGE
    said = re.search(r"\*who sleeps \?\* is (\d), (\d), (\d)", PAGE)
    assert said and [WORDS[int(n)] for n in said.groups()] == ["who", "sleeps", "?"]


def test_the_residual_sum():
    x, added = vector("Suppose a token has the features"), vector("a sub-layer returns")
    assert torch.equal(x + added, vector("goes on as the sum,"))


def test_layer_normalisation_by_hand():
    x = vector("Take")
    assert x.mean() == 2
    assert torch.equal(x - 2, vector("Subtract it and get"))
    assert x.var(correction=0) == 2
    norm = nn.LayerNorm(4, eps=0.0)
    close = {"rtol": 0, "atol": 5e-4}
    torch.testing.assert_close(norm(x), vector("1.414, and get"), **close)
    with torch.no_grad():
        norm.weight.copy_(vector("With the gains"))
        norm.bias.copy_(vector("and the biases"))
    expected = vector("the biases (0, 0, 0, 1) we get")
    torch.testing.assert_close(norm(x), expected, **close)
    assert torch.equal(vector("In our example the sub-layer reads"), expected)


def test_logits_probabilities_and_losses():
    rows = table("word", "logit", "exponential", "probability")
    logits = torch.tensor([float(row[1]) for row in rows])
    assert [f"{x:.2f}" for x in logits.exp()] == [row[2] for row in rows]
    assert [f"{x:.3f}" for x in logits.softmax(0)] == [row[3] for row in rows]
    assert f"their sum, which is {logits.exp().sum():.1f}:" in PAGE
    losses = {row[0]: F.cross_entropy(logits, torch.tensor(i)) for i, row in enumerate(rows)}
    assert f"= {losses['the']:.2f}$. Its unit" in PAGE
    assert f"= {losses['dog']:.2f}$ nats" in PAGE


def test_input_and_label_are_shifted_by_one():
    inputs, labels = ([*row[1:]] for row in table("position", "0", "1", "2"))
    assert labels[:-1] == inputs[1:] and (inputs[0], labels[-1]) == ("start", "end")
    steps = table("written so far", "next token")
    assert [row[1] for row in steps] == labels
    assert [row[0].split() for row in steps] == [inputs[: t + 1] for t in range(3)]


def small(n_vocab: int = len(WORDS)) -> EncoderDecoder:
    def layer(cross: bool) -> TransformerLayer:
        return TransformerLayer(
            d_model=8,
            self_attn=MultiHeadAttention(2, 8, 0.0),
            src_attn=MultiHeadAttention(2, 8, 0.0) if cross else None,
            feed_forward=FeedForward(8, 16, 0.0),
            dropout_prob=0.0,
        )

    embeds = [EmbeddingsWithPositionalEncoding(8, n_vocab) for _ in range(2)]
    stacks = Encoder(layer(False), 1), Decoder(layer(True), 1)
    return EncoderDecoder(*stacks, *embeds, Generator(n_vocab, 8))


def test_the_example_is_learned_and_written():
    """The page's plain program writes the answer, and so does the method with caches."""
    torch.manual_seed(0)
    model = small()
    src = torch.tensor([[3], [4], [5]])
    tgt = torch.tensor([[1], [6], [7], [2]])
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for _ in range(60):
        optimizer.zero_grad()
        model.loss(src, tgt).backward()
        optimizer.step()
    model.eval()
    shown = next(part for part in SOURCE.split("```") if "def write" in part)
    known = {"torch": torch, "subsequent_mask": subsequent_mask}
    exec(textwrap.dedent(shown.removeprefix("python\n")), known)
    with torch.no_grad():
        plain = known["write"](model, src, 1, 2, 9)
    cached = model.greedy_decode(src, start_token=1, end_token=2, max_len=9)
    assert torch.equal(plain, cached)
    assert [WORDS[i] for i in cached[:, 0]] == ["the", "dog", "end"]


def test_the_trained_model():
    found = json.loads(RESULT.read_text(encoding="utf-8"))
    vocabulary = found["run"]["model"]["config"]["n_vocab"]
    texts = json.loads((RESULT.parent / "vocabulary.json").read_text(encoding="utf-8"))
    special = vocabulary - len(texts["characters"])
    assert special == 3 and f"{len(texts['characters'])} different characters and three" in PAGE
    guess = re.search(rf"\$\\ln {vocabulary} = (\S+)\$ nats", PAGE)
    said = re.search(r"In training it falls to (\S+), .*? seen to (\S+):", PAGE)
    assert guess and said and guess[1] == f"{math.log(vocabulary):.1f}"
    losses = found["result"]["train_loss"], found["result"]["validation_loss"]
    assert [float(loss) for loss in said.groups()] == pytest.approx(losses, abs=5e-3)
    assert found["run"]["model"]["config"]["n_layers"] == 2


def test_embeddings_start_smaller_than_those_of_the_paper():
    deviation = math.sqrt(512) * math.sqrt(2 / (37_000 + 512))
    assert f"37512}} = {math.sqrt(2 / 37_512):.4f}$" in PAGE
    assert f"After the factor $\\sqrt C$ it is {deviation:.2f}," in PAGE
    table = nn.init.xavier_uniform_(torch.empty(37_000, 512))
    assert (math.sqrt(512) * table.std()).item() == pytest.approx(deviation, rel=0.01)


def test_beam_search_and_shares():
    a, top, b, best = 0.6, 0.3, 0.4, 0.9
    for product in (f"{a} \\cdot {top} = {a * top:.2f}", f"{b} \\cdot {best} = {b * best:.2f}"):
        assert product in PAGE
    layer = small().encoder.layers[0]
    weights = {name: p.numel() for name, p in layer.named_parameters() if p.dim() > 1}
    network = sum(count for name, count in weights.items() if name.startswith("feed_forward"))
    assert network == 2 * 8 * 16 and sum(weights.values()) == network + 4 * 8 * 8


def test_the_tied_model_predicts_what_it_received():
    """Before training; by less than without the final normalisation, the more layers it has."""
    torch.manual_seed(0)
    sizes = {"n_vocab": 68, "d_model": 128, "heads": 4}
    tokens = torch.randint(3, 68, (20, 8))
    tokens[0] = EncoderDecoderLanguageModel.Config(**sizes).start_token
    logits = []
    for n_layers in (1, 4):
        config = EncoderDecoderLanguageModel.Config(**sizes, n_layers=n_layers)
        model = EncoderDecoderLanguageModel(config).eval()
        with torch.no_grad():
            found, _ = model(tokens, model.encode(tokens))
        logits.append(found.gather(-1, tokens[..., None]).mean().item())
        assert F.cross_entropy(found.flatten(0, 1), tokens.flatten()) < math.log(68)
    assert 0 < logits[1] < logits[0] < 1


def test_a_tied_matrix_after_glorot_begins_with_a_large_loss():
    """What the page on the language model says of 512 features, 68 tokens and one layer."""
    torch.manual_seed(0)
    config = EncoderDecoderLanguageModel.Config(n_vocab=68, d_model=512, heads=8, n_layers=1)
    model = EncoderDecoderLanguageModel(config).eval()
    tokens, labels = torch.randint(3, 68, (2, 24, 8))
    tokens[0] = config.start_token

    def first_loss():
        with torch.no_grad():
            logits, _ = model(tokens, model.encode(tokens))
        return F.cross_entropy(logits.flatten(0, 1), labels.flatten()).item()

    assert first_loss() == pytest.approx(math.log(68), abs=0.1)
    nn.init.xavier_uniform_(model.transformer.generator.projection.weight)
    assert first_loss() > 20
