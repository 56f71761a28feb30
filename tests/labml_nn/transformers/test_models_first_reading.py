"""Every number of the page on the encoder–decoder is what the code computes."""

import json
import math
import re
import textwrap
from typing import Any

import pytest
import torch
from lesson_pages import ROOT, Page, numbers, result
from stages import check_stage
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

PAGE = Page(models)
WORDS = ["padding", "start", "end", "who", "sleeps", "?", "the", "dog"]


def test_attention_of_the_example():
    found = drawn._pass()
    products = (found["q"] @ found["k"].T)[0]
    PAGE.says(
        "number by number, and add up: {:.0f}, {:.0f}, {:.0f}.", *products.abs() * products.sign()
    )
    PAGE.says("you have the **scores** {:.0f}, {:.0f}, {:.0f}.", *products / 2)
    weights, values = found["weights"][0], found["v"][:, 1]
    total = weights @ values
    PAGE.says("{:.3f} · 2 - {:.3f} · 2 = {:.3f} in", weights[1], weights[2], total)
    assert values.tolist() == pytest.approx([0, 2, -2], abs=1e-3)
    # The numbers that are shown add up, too.
    assert weights.mul(1000).round().sum() == 1000


def test_the_sum_and_the_feed_forward_step():
    found = drawn._pass()
    assert drawn.X[0, 1] == -1
    PAGE.says("now it has {:.3f}:", found["after"][0, 1])
    read = PAGE.vector("biases 0) *who* reads")
    assert read == pytest.approx(found["read"][0].tolist(), abs=5e-3)
    says, before = found["says"][0, 0], drawn.X[0, 0]
    PAGE.says("So the sum is {:.2f}, and with the bias of -1", sum(read[:3]))
    PAGE.says("there remains {:.2f}.", says)
    PAGE.says("to *question*: {:.0f} + {:.2f} = {:.2f}.", before, says, before + says)
    assert found["out"][0, 0].item() == pytest.approx((before + says).item())
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
    query = PAGE.vector("Let *the* ask for a verb")
    memory = F.layer_norm(drawn._pass()["out"], (4,))
    verbs = memory[:, drawn.FEATURES.index("verb")]
    PAGE.says("Those are {:.2f}, {:.0f} and {:.0f}.", *verbs)
    weights = (query[0] * verbs / 2).softmax(0)
    PAGE.says("Then *sleeps* gets the weight {:.3f}.", weights[1])
    assert listed(weights, 3) in drawn.across().alt
    # What is written behind each word; its weights add up as printed.
    rows = [numbers(row) for row in re.findall(r"\w+ \(([^)]*)\)[;.]", drawn.crossing().alt)]
    assert [round(sum(row), 3) for row in rows] == [1, 1, 1]
    assert drawn._answered()[1] == ["the", "dog", "end"]


def test_the_signature_picture_follows_one_token():
    """Its weights are on the verb, as the caption says."""
    caption = PAGE.text.split("](figure:encoder_decoder.whole)")[0][-60:]
    token, verb = re.findall(r"\*([^*]+)\*", caption)
    (weights,) = re.findall(rf"Those of {token} are as .*?: \(([^)]*)\)", drawn.whole().alt)
    assert numbers(weights)[drawn.SOURCE.index(verb)] > 0.95


def test_layer_normalisation_by_hand():
    x = torch.tensor(PAGE.vector("Do it by hand for"))
    assert x.mean() == 2 and x.var(correction=0) == 2
    PAGE.says("Divide by its root, {:.3f}.", math.sqrt(2))
    # The words of the example have mean 0 and variance 1.
    assert (drawn.X.mean(1) == 0).all() and (drawn.X.var(1, correction=0) == 1).all()
    caption = PAGE.text.split("](figure:encoder_decoder.normalised)")[0][-70:]
    gains, biases = (numbers(found) for found in re.findall(r"\([\d, ]*\)", caption))
    normed = F.layer_norm(x, (4,), torch.tensor(gains), torch.tensor(biases))
    assert listed(normed.round(decimals=3), 3) in drawn.normalised().alt


def test_logits_probabilities_and_losses():
    logits, names = torch.tensor(list(drawn.LOGITS.values())), list(drawn.LOGITS)
    shares = logits.softmax(0)
    # The exponentials add up as they are printed.
    (told,) = re.findall(r"Exponentials: (.*?)\.(?= )", drawn.logits().alt)
    *powers, total = numbers(told)
    assert round(sum(powers), 3) == total
    losses = [F.cross_entropy(logits, torch.tensor(names.index(name))) for name in ("the", "dog")]
    PAGE.says("is *the*, with the probability {:.3f}.", shares[0])
    PAGE.says("minus its natural logarithm, {:.2f}.", losses[0])
    PAGE.says("been *dog*, the loss would be {:.2f}.", losses[1])


def test_input_and_label_are_shifted_by_one():
    inputs, labels = list(drawn.TARGET), list(drawn.NEXT)
    assert labels[:-1] == inputs[1:] and (inputs[0], labels[-1]) == ("start", "end")


def test_the_small_model_answers_all_questions():
    """Also those that it has not seen; and it looks where the page says."""
    asked = answers.SINGLE + answers.DOUBLE
    PAGE.says("There are {} questions", len(asked))
    PAGE.says("on {} of them", len(asked) - len(answers.HELD_OUT))
    for verbs in drawn.QUESTIONS:
        if verbs in answers.HELD_OUT:
            assert f"*who {' and '.join(verbs)} ?*" in PAGE.text.lower()
    source = answers.tokens([answers.question(verbs) for verbs in asked])
    written = answers.trained().greedy_decode(source, start_token=1, end_token=2, max_len=8)
    expected = answers.tokens([[*answers.answer(verbs), "end"] for verbs in asked])
    assert torch.equal(written, expected)
    found = drawn._answers(("sleeps", "sings"))
    looks = [torch.tensor(step["weights"]).argmax() for step in found["steps"]]
    assert [found["asked"][look] for look in looks] == [
        *("who", "sleeps", "and", "who", "sings", "?")
    ]


def test_the_stage_shows_what_the_model_computes():
    def computed(step, question):
        found = drawn._answers(drawn.QUESTIONS[question])
        steps = found["steps"]
        inputs = [one["input"] for one in steps]
        return {
            "look stroke-width": [
                max(w * drawn.LOOK, 0.7) for one in steps for w in one["weights"]
            ],
            "next": [one["names"] for one in steps],
            "share": [one["shares"] for one in steps],
            "asked": found["asked"] * 6,
            "said": [word for t in range(6) for word in inputs[: t + 1]],
            "says": [drawn._looks(found, step)],
            "bar width": [max(share * drawn.BAR, 0.5) for one in steps for share in one["shares"]],
        }

    check_stage(drawn.writing(), computed, within={"look stroke-width": 1e-3, "share": 5.1e-4})


# The whole in code, and the plain program that writes.


def build(width: int, heads: int, hidden: int, layers: int, n_vocab: int) -> EncoderDecoder:
    def layer(cross: bool) -> TransformerLayer:
        return TransformerLayer(
            d_model=width,
            self_attn=MultiHeadAttention(heads, width, 0.0),
            src_attn=MultiHeadAttention(heads, width, 0.0) if cross else None,
            feed_forward=FeedForward(width, hidden, 0.0),
            dropout_prob=0.0,
        )

    embeds = [EmbeddingsWithPositionalEncoding(width, n_vocab) for _ in range(2)]
    stacks = Encoder(layer(False), layers), Decoder(layer(True), layers)
    return EncoderDecoder(*stacks, *embeds, Generator(n_vocab, width))


@torch.no_grad()
def copy_layer(bare: Any, layer: TransformerLayer) -> None:
    """The parameters of a layer of the module, in one of the page's short version."""
    for mine, theirs in ((bare.look, layer.self_attn), (bare.ask, layer.src_attn)):
        if theirs is None:
            continue
        parts = [theirs.query.linear, theirs.key.linear, theirs.value.linear]
        mine.in_proj_weight.copy_(torch.cat([part.weight for part in parts]))
        mine.in_proj_bias.copy_(torch.cat([part.bias for part in parts]))
        mine.out_proj.load_state_dict(theirs.output.state_dict())
    norms = (layer.norm_self_attn, getattr(layer, "norm_src_attn", None), layer.norm_ff)
    for norm, theirs in zip(bare.norms, norms, strict=True):
        if theirs is not None:
            norm.load_state_dict(theirs.state_dict())
    bare.think[0].load_state_dict(layer.feed_forward.layer1.state_dict())
    bare.think[2].load_state_dict(layer.feed_forward.layer2.state_dict())


@pytest.mark.parametrize(
    ("width", "heads", "hidden", "layers", "s", "t", "b"),
    [(8, 2, 12, 1, 3, 5, 2), (12, 3, 20, 2, 7, 4, 3), (32, 4, 64, 3, 9, 11, 1)],
)
@torch.no_grad()
def test_the_whole_in_code_is_the_module(width, heads, hidden, layers, s, t, b):
    torch.manual_seed(width)
    module = build(width, heads, hidden, layers, 17)
    for parameter in module.parameters():
        parameter.add_(0.1 * torch.randn_like(parameter))
    make, halves = PAGE.made["Layer"], (module.encoder, module.decoder)
    stacks = [nn.ModuleList(make(width, heads, hidden) for _ in range(layers)) for _ in halves]
    for bare, whole in zip(stacks, halves, strict=True):
        for one, other in zip(bare, whole.layers, strict=True):
            copy_layer(one, other)
    norms = [half.norm for half in halves]
    x, y = torch.randn(s, b, width), torch.randn(t, b, width)
    found = PAGE.made["logits"](*stacks, norms, module.generator.projection, x, y)
    decoded = module.decoder(y, module.encoder(x), None, subsequent_mask(t))
    torch.testing.assert_close(found, module.generator(decoded), rtol=0, atol=5e-6)


def test_the_example_is_learned_and_written():
    """The page's plain program writes the answer, and so does the method with caches."""
    torch.manual_seed(0)
    model = build(8, 2, 16, 1, len(WORDS))
    src = torch.tensor([[3], [4], [5]])
    tgt = torch.tensor([[1], [6], [7], [2]])
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for _ in range(60):
        optimizer.zero_grad()
        model.loss(src, tgt).backward()
        optimizer.step()
    model.eval()
    shown = next(part for part in PAGE.source.split("```") if "def write" in part)
    known = {"torch": torch, "subsequent_mask": subsequent_mask}
    exec(textwrap.dedent(shown.removeprefix("python\n")), known)
    with torch.no_grad():
        plain = known["write"](model, src, 1, 2, 9)
    cached = model.greedy_decode(src, start_token=1, end_token=2, max_len=9)
    assert torch.equal(plain, cached)
    assert [WORDS[i] for i in cached[:, 0]] == ["the", "dog", "end"]


# The trained model, and how a model begins.


def test_the_trained_model():
    found = result("encoder_decoder")
    vocabulary = found["run"]["model"]["config"]["n_vocab"]
    texts = json.loads((ROOT / "docs_src/results/encoder_decoder/vocabulary.json").read_text())
    assert vocabulary - len(texts["characters"]) == 3  # padding, start, end
    PAGE.says(
        "among its {0} tokens, the loss is $\\ln {0} = {1:.1f}$", vocabulary, math.log(vocabulary)
    )
    PAGE.says("It reached {:.2f} in training", found["result"]["train_loss"])
    assert found["run"]["model"]["config"]["n_layers"] == 2


def test_embeddings_start_smaller_than_those_of_the_paper():
    glorot = math.sqrt(2 / 37_512)
    PAGE.says("37512}} = {:.4f}$", glorot)
    PAGE.says("After the factor $\\sqrt C$ it is {:.2f},", math.sqrt(512) * glorot)


def test_beam_search_and_shares():
    for first, second in ((0.6, 0.3), (0.4, 0.9)):
        PAGE.says("{} \\cdot {} = {:.2f}", first, second, first * second)
    layer = build(8, 2, 16, 1, len(WORDS)).encoder.layers[0]
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
