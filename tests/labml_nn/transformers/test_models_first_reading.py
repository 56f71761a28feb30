"""Every number of the page on the encoder–decoder is what the code computes."""

import math
import re

import pytest
import torch
from lesson_pages import Page, numbers, result
from stages import check_stage
from torch import nn
from torch.nn import functional as F

from docs_src.figures import encoder_decoder as drawn
from docs_src.results import answers
from labml_nn.transformers import models
from labml_nn.transformers.encoder_decoder import EncoderDecoderLanguageModel
from labml_nn.transformers.models import EmbeddingsWithPositionalEncoding, EncoderDecoder
from labml_nn.transformers.utils import subsequent_mask
from pylit.figures.draw import listed

PAGE = Page(models)
WORDS = ["padding", "start", "end", "who", "sleeps", "?", "the", "dog"]


def glorot(features):
    """The deviation with which a tied matrix of 37,000 tokens would start."""
    return math.sqrt(2 / (37_000 + features))


FOUND = drawn._pass()
PRODUCTS = (FOUND["q"] @ FOUND["k"].T)[0]
WEIGHTS, VALUES = FOUND["weights"][0], FOUND["v"][:, 1]
BEFORE, SAYS = drawn.X[0, 0], FOUND["says"][0, 0]
VERBS = F.layer_norm(FOUND["out"], (4,))[:, drawn.FEATURES.index("verb")]
LOGITS = torch.tensor(list(drawn.LOGITS.values()))
LOSSES = -LOGITS.log_softmax(0)
NAMES = list(drawn.LOGITS)
ASKED = answers.SINGLE + answers.DOUBLE
TRAINED = result("encoder_decoder")
N_VOCAB = TRAINED["run"]["model"]["config"]["n_vocab"]


def test_numbers_on_the_way():
    PAGE.has(
        "number by number, and add up: {:.0f}, {:.0f}, {:.0f}.".format(*PRODUCTS),
        "you have the **scores** {:.0f}, {:.0f}, {:.0f}.".format(*PRODUCTS / 2),
        "{:.3f} · 2 - {:.3f} · 2 = {:.3f} in".format(*WEIGHTS[1:], WEIGHTS @ VALUES),
        f"now it has {FOUND['after'][0, 1]:.3f}:",
        f"there remains {SAYS:.2f}.",
        f"to *question*: {BEFORE:.0f} + {SAYS:.2f} = {FOUND['out'][0, 0]:.2f}.",
        "Those are {:.2f}, {:.0f} and {:.0f}.".format(*VERBS),
        f"Divide by its root, {math.sqrt(2):.3f}.",
        f"is *the*, with the probability {LOGITS.softmax(0)[0]:.3f}.",
        f"minus its natural logarithm, {LOSSES[NAMES.index('the')]:.2f}.",
        f"been *dog*, the loss would be {LOSSES[NAMES.index('dog')]:.2f}.",
        f"There are {len(ASKED)} questions",
        f"on {len(ASKED) - len(answers.HELD_OUT)} of them",
        f"among its {N_VOCAB} tokens, the loss is $\\ln {N_VOCAB}",
        f"= {math.log(N_VOCAB):.1f}$",
        f"It reached {TRAINED['result']['train_loss']:.2f} in training",
        f"37512}} = {glorot(512):.4f}$",
        f"After the factor $\\sqrt C$ it is {math.sqrt(512) * glorot(512):.2f},",
        f"0.6 \\cdot 0.3 = {0.6 * 0.3:.2f}",
        f"0.4 \\cdot 0.9 = {0.4 * 0.9:.2f}",
    )


def test_the_feed_forward_step():
    read = PAGE.vector("biases 0) *who* reads")
    assert read == pytest.approx(FOUND["read"][0].tolist(), abs=5e-3)
    PAGE.says("So the sum is {:.2f}, and with the bias of -1", sum(read[:3]))


def test_the_layer_does_not_change_the_other_two_words():
    """Their queries and scores are 0, and so is the plain average of the values."""
    torch.testing.assert_close(FOUND["weights"][1:], torch.full((2, 3), 1 / 3), rtol=0, atol=1e-4)
    for name in ("after", "out"):
        torch.testing.assert_close(FOUND[name][1:], drawn.X[1:], rtol=0, atol=1e-4)


def test_cross_attention_by_hand():
    query = PAGE.vector("Let *the* ask for a verb")
    weights = (query[0] * VERBS / 2).softmax(0)
    PAGE.says("Then *sleeps* gets the weight {:.3f}.", weights[1])
    assert listed(weights, 3) in drawn.across().alt
    assert drawn._answered()[1] == ["the", "dog", "end"]


def test_layer_normalisation_by_hand():
    x = torch.tensor(PAGE.vector("Do it by hand for"))
    assert x.mean() == 2 and x.var(correction=0) == 2
    caption = PAGE.text.split("](figure:encoder_decoder.normalised)")[0][-70:]
    gains, biases = (numbers(found) for found in re.findall(r"\([\d, ]*\)", caption))
    normed = F.layer_norm(x, (4,), torch.tensor(gains), torch.tensor(biases))
    assert listed(normed.round(decimals=3), 3) in drawn.normalised().alt


def test_the_small_model_answers_all_questions():
    """Also those that it has not seen; and it looks where the page says."""
    for verbs in drawn.QUESTIONS:
        if verbs in answers.HELD_OUT:
            assert f"*who {' and '.join(verbs)} ?*" in PAGE.text.lower()
    source = answers.tokens([answers.question(verbs) for verbs in ASKED])
    written = answers.trained().greedy_decode(source, start_token=1, end_token=2, max_len=8)
    expected = answers.tokens([[*answers.answer(verbs), "end"] for verbs in ASKED])
    assert torch.equal(written, expected)
    found = drawn._answers(("sleeps", "sings"))
    looks = [torch.tensor(step["weights"]).argmax() for step in found["steps"]]
    assert [found["asked"][look] for look in looks] == ["who", "sleeps", "and", "who", "sings", "?"]


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
def build(**sizes: int) -> EncoderDecoder:
    made = EncoderDecoderLanguageModel.from_config({"dropout_prob": 0.0, "tied": False} | sizes)
    return made.transformer


#: The parts of a layer of the page, and what the module calls them.
PARTS = {"look": "self_attn", "ask": "src_attn", "out_proj": "output"}
PARTS |= {"norms.0": "norm_self_attn", "norms.1": "norm_src_attn", "norms.2": "norm_ff"}
PARTS |= {"think.0": "feed_forward.layer1", "think.2": "feed_forward.layer2"}


def as_module(bare: nn.Module) -> dict[str, torch.Tensor]:
    """The parameters of a layer of the page by the names of the module."""
    found = {}
    for name, tensor in bare.state_dict().items():
        for told, own in PARTS.items():
            name = name.replace(told, own)
        split = "in_proj_" in name  # the three input projections, one above the other
        for part, rows in zip(("query", "key", "value"), tensor.chunk(3), strict=False):
            found[name.replace("in_proj_", f"{part}.linear.")] = rows if split else tensor
    return found


@torch.no_grad()
def test_the_whole_in_code_is_the_module():
    torch.manual_seed(0)
    module = build(n_vocab=17, d_model=12, heads=3, d_ff=20, n_layers=2)
    halves = module.encoder, module.decoder
    stacks = [nn.ModuleList(PAGE.made["Layer"](12, 3, 20) for _ in range(2)) for _ in halves]
    for bare, half in zip(stacks, halves, strict=True):
        for parameter in [*bare.parameters(), *half.norm.parameters()]:
            parameter.add_(0.1 * torch.randn_like(parameter))
        for one, other in zip(bare, half.layers, strict=True):
            missing, _ = other.load_state_dict(as_module(one), strict=False)
            assert not missing
    x, y = torch.randn(7, 3, 12), torch.randn(4, 3, 12)
    norms = [half.norm for half in halves]
    found = PAGE.made["logits"](*stacks, norms, module.generator.projection, x, y)
    decoded = module.decoder(y, module.encoder(x), None, subsequent_mask(4))
    torch.testing.assert_close(found, module.generator(decoded), rtol=0, atol=5e-6)


def test_the_example_is_learned_and_written():
    """The page's plain program writes the answer, and so does the method with caches."""
    torch.manual_seed(0)
    made = build(n_vocab=len(WORDS), d_model=8, heads=2, d_ff=16, n_layers=1)
    embeds = [EmbeddingsWithPositionalEncoding(8, len(WORDS)) for _ in range(2)]
    model = EncoderDecoder(made.encoder, made.decoder, *embeds, made.generator)
    src = torch.tensor([[3], [4], [5]])
    tgt = torch.tensor([[1], [6], [7], [2]])
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for _ in range(60):
        optimizer.zero_grad()
        model.loss(src, tgt).backward()
        optimizer.step()
    model.eval()
    known = {"torch": torch, "subsequent_mask": subsequent_mask}
    exec(PAGE.program("def write"), known)
    with torch.no_grad():
        plain = known["write"](model, src, 1, 2, 9)
    cached = model.greedy_decode(src, start_token=1, end_token=2, max_len=9)
    assert torch.equal(plain, cached)
    assert [WORDS[i] for i in cached[:, 0]] == ["the", "dog", "end"]
