"""Every number of the page on the encoder–decoder is what the code computes."""

import json
import math
import re
import textwrap
from pathlib import Path
from typing import Any

import pytest
import torch
from stages import check_first, play
from torch import nn
from torch.nn import functional as F

from docs_src.figures import encoder_decoder as drawn
from docs_src.results import answers
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
from pylit.figures.draw import listed

SOURCE = Path(models.__file__).read_text(encoding="utf-8")
PAGE = re.sub(r"\s+", " ", re.sub(r"^ *# ?", "", SOURCE, flags=re.M)).replace("−", "-")
RESULT = Path(__file__).parents[3] / "docs_src/results/encoder_decoder/result.json"
WORDS = ["padding", "start", "end", "who", "sleeps", "?", "the", "dog"]


TERMS = re.search(r"weights: (\S+ · 2 - \S+ · 2 = \S+) in", PAGE)[1]  # type: ignore[index]
QUESTION = ("sleeps", "sings")


def said(before: str) -> list[float]:
    """The three numbers after some words."""
    found = re.search(re.escape(before) + r" (-?\d+), (-?\d+), (-?\d+)", PAGE)
    assert found, before
    return [float(number) for number in found.groups()]


def vector(after: str) -> torch.Tensor:
    """The first numbers in brackets after some words."""
    found = re.search(re.escape(after) + r"[^(]*\(([^)]*)\)", PAGE)
    assert found, after
    return torch.tensor([float(number) for number in found[1].split(",")])


def test_attention_of_the_example():
    found = drawn._pass()
    products = (found["q"] @ found["k"].T)[0]
    assert said("number by number, and add up:") == pytest.approx(products.tolist(), abs=1e-3)
    assert said("you have the **scores**") == pytest.approx((products / 2).tolist(), abs=1e-3)
    weights, values = found["weights"][0], found["v"][:, 1]
    a, b, total = (float(number) for number in re.findall(r"[\d.]+", TERMS)[::2])
    assert [a, b] == [round(weights[1].item(), 3), round(weights[2].item(), 3)]
    assert values.tolist() == pytest.approx([0, 2, -2], abs=1e-3)
    assert total == pytest.approx(a * 2 - b * 2, abs=1e-6)
    assert total == pytest.approx((weights @ values).item(), abs=5e-4)
    # The numbers that are shown add up, too.
    assert weights.mul(1000).round().sum() == 1000


def test_the_sum_and_the_feed_forward_step():
    found = drawn._pass()
    after = found["after"][0]
    assert f"now it has {after[1]:.3f}:" in PAGE and drawn.X[0, 1] == -1
    read = vector("biases 0) *who* reads")
    torch.testing.assert_close(read, found["read"][0], rtol=0, atol=5e-3)
    total = read[:3].sum().item()
    assert f"So the sum is {total:.2f}, and with the bias of -1 there remains" in PAGE
    says, before = found["says"][0, 0].item(), drawn.X[0, 0].item()
    assert f"there remains {says:.2f}." in PAGE
    assert f"to *question*: {before:.0f} + {says:.2f} = {before + says:.2f}." in PAGE
    assert found["out"][0, 0].item() == pytest.approx(drawn.X[0, 0] + found["says"][0, 0])
    assert (found["fits"][1:] <= 1e-4).all()
    assert found["out"][1:].allclose(drawn.X[1:], atol=1e-4)


def test_attention_does_not_change_the_other_two_words():
    """Their queries and scores are 0, and so is the plain average of the values."""
    found = drawn._pass()
    assert not found["q"][1:].abs().max() > 1e-4
    torch.testing.assert_close(found["weights"][1:], torch.full((2, 3), 1 / 3), rtol=0, atol=1e-4)
    assert found["v"].mean(0).abs().max() < 1e-4
    torch.testing.assert_close(found["after"][1:], drawn.X[1:], rtol=0, atol=1e-4)


def test_cross_attention_by_hand():
    """The memory has what the layer returned, normalised; its verbs are the keys."""
    query = vector("Let *the* ask for a verb")
    memory = F.layer_norm(drawn._pass()["out"], (4,))
    verbs = memory[:, drawn.FEATURES.index("verb")]
    assert f"Those are {verbs[0]:.2f}, {verbs[1]:.0f} and {verbs[2]:.0f}." in PAGE
    weights = (query[0] * verbs / 2).softmax(0)
    assert f"Then *sleeps* gets the weight {weights[1]:.3f}." in PAGE
    assert listed(weights, 3) in drawn.across().alt


def test_the_weights_of_cross_attention_add_up():
    """As printed; each query and the word that is written behind it."""
    rows = re.findall(r"\w+ \(([^)]*)\)[;.]", drawn.crossing().alt)
    numbers = [[float(n) for n in row.split(", ")] for row in rows]
    assert len(numbers) == 3 and [round(sum(row), 3) for row in numbers] == [1, 1, 1]
    assert drawn._answered()[1] == ["the", "dog", "end"]


def test_the_signature_picture_follows_one_token():
    """Its weights are on the verb, as the caption says."""
    caption = PAGE.split("](figure:encoder_decoder.whole)")[0][-60:]
    token, verb = re.findall(r"\*([^*]+)\*", caption)
    shown = re.search(
        rf"Those of {token} are as thick as its weights: \(([^)]*)\)", drawn.whole().alt
    )
    weights = [float(weight) for weight in shown[1].split(", ")]  # type: ignore[index]
    assert weights[drawn.SOURCE.index(verb)] > 0.95


def test_the_words_have_mean_0_and_variance_1():
    assert (drawn.X.mean(1) == 0).all() and (drawn.X.var(1, correction=0) == 1).all()


def test_layer_normalisation_by_hand():
    x = vector("Do it by hand for")
    assert x.mean() == 2 and x.var(correction=0) == 2
    assert f"Divide by its root, {math.sqrt(2):.3f}." in PAGE
    caption = PAGE.split("](figure:encoder_decoder.normalised)")[0][-70:]
    gains, biases = (eval(found) for found in re.findall(r"\([\d, ]*\)", caption))
    norm = nn.LayerNorm(4)
    with torch.no_grad():
        norm.weight.copy_(torch.tensor(gains))
        norm.bias.copy_(torch.tensor(biases))
    assert listed(norm(x).detach().round(decimals=3), 3) in drawn.normalised().alt


def test_logits_probabilities_and_losses():
    logits, names = torch.tensor(list(drawn.LOGITS.values())), list(drawn.LOGITS)
    shares = logits.softmax(0)
    # The exponentials add up as they are printed.
    powers, total = re.search(
        r"Exponentials: \(([^)]*)\), in sum ([\d.]+)\.", drawn.logits().alt
    ).groups()
    assert round(sum(float(power) for power in powers.split(", ")), 3) == float(total)
    losses = [F.cross_entropy(logits, torch.tensor(names.index(name))) for name in ("the", "dog")]
    assert f"is *the*, with the probability {shares[0]:.3f}." in PAGE
    assert f"minus its natural logarithm, {losses[0]:.2f}." in PAGE
    assert f"been *dog*, the loss would be {losses[1]:.2f}." in PAGE


def test_input_and_label_are_shifted_by_one():
    inputs, labels = list(drawn.TARGET), list(drawn.NEXT)
    assert labels[:-1] == inputs[1:] and (inputs[0], labels[-1]) == ("start", "end")


def test_the_small_model_answers_all_questions():
    """Also those that it has not seen; and it looks where the page says."""
    asked = answers.SINGLE + answers.DOUBLE
    unseen = len(answers.HELD_OUT)
    assert f"There are {len(asked)} questions" in PAGE
    assert f"on {len(asked) - unseen} of them" in PAGE
    offered = [verbs for verbs in drawn.QUESTIONS if verbs in answers.HELD_OUT]
    assert [" and ".join(verbs) for verbs in offered] == re.findall(
        r"\*who (\w+ and \w+) \?\*", PAGE.split("Step through an answer")[0][-150:].lower()
    )
    source = answers.tokens([answers.question(verbs) for verbs in asked])
    network = answers.trained()
    written = network.greedy_decode(source, start_token=1, end_token=2, max_len=8)
    expected = answers.tokens([[*answers.answer(verbs), "end"] for verbs in asked])
    assert torch.equal(written, expected)
    for verbs in drawn.QUESTIONS:
        steps = drawn._answers(verbs)["steps"]
        said = [answers.ANIMALS[verb] for verb in verbs]
        assert [step["names"][0] for step in steps] == [
            "the",
            said[0],
            "and",
            "the",
            said[1],
            "end",
        ]
    looks = [torch.tensor(step["weights"]).argmax() for step in drawn._answers(QUESTION)["steps"]]
    assert [drawn._answers(QUESTION)["asked"][look] for look in looks] == [
        *("who", "sleeps", "and", "who", "sings", "?")
    ]


def test_the_stage_shows_what_the_model_computes():
    check_first(drawn.writing())
    for number, verbs in enumerate(drawn.QUESTIONS):
        found = drawn._answers(verbs)
        for step in range(6):
            (shown,) = play(drawn.writing(), {"question": number, "step": step})
            assert shown.said == drawn._looks(found, step)
            thick = [max(w * drawn.LOOK, 0.7) for one in found["steps"] for w in one["weights"]]
            assert shown.places("look", "stroke-width") == pytest.approx(thick, abs=1e-3)
            assert shown.texts("next") == [name for one in found["steps"] for name in one["names"]]
            shares = [share for one in found["steps"] for share in one["shares"]]
            assert shown.numbers("share") == pytest.approx(shares, abs=5.1e-4)
            assert shown.texts("asked") == found["asked"] * 6
            inputs = [one["input"] for one in found["steps"]]
            assert shown.texts("said") == [word for t in range(6) for word in inputs[: t + 1]]


def test_the_whole_in_code_is_the_module():
    listing = next(part for part in (models.__doc__ or "").split("```") if "class Layer" in part)
    known: dict[str, Any] = {}
    exec(listing.removeprefix("python\n"), known)
    largest = 0.0
    for width, heads, hidden, layers, (s, t, b) in (
        (8, 2, 12, 1, (3, 5, 2)),
        (12, 3, 20, 2, (7, 4, 3)),
        (32, 4, 64, 3, (9, 11, 1)),
    ):
        torch.manual_seed(width)
        module = stack(width, heads, hidden, layers)
        stacks = [
            nn.ModuleList(known["Layer"](width, heads, hidden) for _ in range(layers))
            for _ in range(2)
        ]
        for bare, whole in zip(stacks, (module.encoder, module.decoder), strict=True):
            for one, other in zip(bare, whole.layers, strict=True):
                copy_layer(one, other)
        norms = [module.encoder.norm, module.decoder.norm]
        x, y = torch.randn(s, b, width), torch.randn(t, b, width)
        with torch.no_grad():
            found = known["logits"](*stacks, norms, module.generator.projection, x, y)
            decoded = module.decoder(y, module.encoder(x), None, subsequent_mask(t))
            expected = module.generator(decoded)
        largest = max(largest, (found - expected).abs().max().item())
    assert largest < 5e-6


def test_the_notebook_begins_with_it():
    listing = next(part for part in (models.__doc__ or "").split("```") if "class Layer" in part)
    notebook = Path(__file__).parents[3] / "docs_src/notebooks/encoder_decoder.md"
    assert listing[listing.index("class Layer") :] in notebook.read_text(encoding="utf-8")


def copy_layer(bare: Any, layer: TransformerLayer) -> None:
    """The parameters of a layer of the module, in one of the page's short version."""
    with torch.no_grad():
        for mine, theirs in ((bare.look, layer.self_attn), (bare.ask, layer.src_attn)):
            if theirs is None:
                continue
            parts = [theirs.query.linear, theirs.key.linear, theirs.value.linear]
            mine.in_proj_weight.copy_(torch.cat([part.weight for part in parts]))
            biases = [torch.zeros_like(p.weight[:, 0]) if p.bias is None else p.bias for p in parts]
            mine.in_proj_bias.copy_(torch.cat(biases))
            mine.out_proj.load_state_dict(theirs.output.state_dict())
        norms = (layer.norm_self_attn, getattr(layer, "norm_src_attn", None), layer.norm_ff)
        for norm, theirs in zip(bare.norms, norms, strict=True):
            if theirs is not None:
                norm.load_state_dict(theirs.state_dict())
        bare.think[0].load_state_dict(layer.feed_forward.layer1.state_dict())
        bare.think[2].load_state_dict(layer.feed_forward.layer2.state_dict())


def stack(width: int, heads: int, hidden: int, layers: int) -> EncoderDecoder:
    """A model whose parameters are all random."""

    def layer(cross: bool) -> TransformerLayer:
        return TransformerLayer(
            d_model=width,
            self_attn=MultiHeadAttention(heads, width, 0.0),
            src_attn=MultiHeadAttention(heads, width, 0.0) if cross else None,
            feed_forward=FeedForward(width, hidden, 0.0),
            dropout_prob=0.0,
        )

    embeds = [EmbeddingsWithPositionalEncoding(width, 17) for _ in range(2)]
    stacks = Encoder(layer(False), layers), Decoder(layer(True), layers)
    model = EncoderDecoder(*stacks, *embeds, Generator(17, width))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    return model


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
    assert special == 3 and f"among its {vocabulary} tokens" in PAGE
    guess = re.search(rf"\$\\ln {vocabulary} = (\S+)\$ nats", PAGE)
    said = re.search(r"It reached (\S+) in training, and (\S+) on replies", PAGE)
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
