"""The models of the pages in real Chromium: the same logits as torch with the same weights."""

import math
import shutil
from pathlib import Path

import pytest
import torch
from sweeps import swept

from docs_src.live import poems, recall
from docs_src.live.export import NAMES, model_as_delivered, rounded_model
from labml_nn.experiments.data import random_numbers
from labml_nn.sampling import Chain, Nucleus, Temperature, TopK

pytestmark = pytest.mark.browser
LIVE = Path(__file__).parents[2] / "docs_src" / "live"
LENGTH = 200
TEXTS = (
    "ROMEO:\nBut, soft! what light through yonder window breaks?\nIt is the east, and Juliet is",
    "First Citizen:\nBefore we proceed any further, hear me speak.\n\nAll:\nSpeak, speak.\n\n",
    "zzz3 $& XQJ--'tis;.,,!?  \n\n:::",
    "a",
    "My tongue will tell the anger of my heart, or else my heart concealing it will break; ",
)
FEW = (TEXTS[0], "a")

POEM = "\n\n床前明月光\n疑是地上霜\n举头望明月\n低头思故乡\n\n白日依山尽\n黄河入海流\n"

#: Reads a text token by token, and counts the numbers of the last state.
READ = """([weights, script, tokens, source]) => {
  const model = live.models[weights], { step, encode } = live[script];
  let state = source ? encode(model, source) : undefined, logits;
  const read = tokens.map((token) => {
    ({ logits, state } = step(model, token, state));
    return [...logits];
  });
  return { read, numbers: live.panel.count(state) };
}"""

#: What the heads of a layer have found, and the sum of the values with the weights of the page.
ANSWERS = """([name, tokens]) => {
  const model = live.models[name], { step, answer_weights } = live.delta_net, read = [];
  for (const token of tokens) read.push(step(model, token, read.at(-1)?.state));
  return Array.from({ length: model.config.heads }, (_, head) => {
    const steps = read.map(({ state }) => state[1].steps[head]), weights = answer_weights(steps);
    const added = (e) => steps.reduce((sum, { v }, t) => sum + weights[t] * v[e], 0);
    const { found } = steps.at(-1);
    return [[...found], [...found].map((_, e) => added(e))];
  });
}"""

SAMPLE = """([logits, seed]) => {
  const options = { temperature: 0.7, k: 20, p: 0.9 }, random = live.random(seed);
  return Array.from({ length: 20000 }, () => live.sample(logits, options, random));
}"""


@pytest.fixture(scope="module")
def page(browser, tmp_path_factory):
    """A page that has loaded all models, from a disk."""
    folder = tmp_path_factory.mktemp("live")
    scripts = dict.fromkeys([*NAMES, *(script for script, *_ in recall.MODELS.values())])
    weights = [*NAMES, *(f"recall_{name}" for name in recall.MODELS), *poems.MODELS]
    parts = ["tensors", *scripts, *(f"weights/{name}" for name in weights), "recall"]
    shutil.copytree(LIVE, folder, dirs_exist_ok=True)
    loaded = "".join(f'<script src="{part}.js"></script>' for part in parts)
    begin = "<!doctype html><meta charset=utf-8><script>window.pylit = { _: text => text }</script>"
    folder.joinpath("index.html").write_text(begin + loaded)
    page = browser.new_page()
    page.goto((folder / "index.html").as_uri())
    yield page
    page.close()


def difference(page, weights, script, tokens, expected, source=None):
    """The largest one between the logits of the page and those of torch."""
    read = page.evaluate(READ, [weights, script, tokens, source])["read"]
    return (torch.tensor(read) - expected).abs().max().item()


def tokens_of(text, name):
    """The tokens that a model reads, and those of its source."""
    model, vocabulary = rounded_model(name)
    tokens = vocabulary.encode(text * math.ceil(LENGTH / len(text))).tolist()
    if name != "encoder_decoder":
        return tokens[:LENGTH], None
    return [model.config.start_token, *tokens[: LENGTH - 1]], tokens[: len(text)]


@pytest.mark.parametrize("texts", swept([FEW, TEXTS], FEW), ids=["few", "all"])
@pytest.mark.parametrize("name", NAMES)
def test_logits_are_those_of_torch(name, texts, page):
    model, _ = rounded_model(name)
    for text in texts:
        tokens, source = tokens_of(text, name)
        state = None if source is None else model.encode(torch.tensor(source)[:, None])
        with torch.no_grad():
            expected = model(torch.tensor(tokens)[:, None], state)[0][:, 0]
        assert difference(page, name, name, tokens, expected, source) < 1e-3


@pytest.mark.parametrize("name", swept(poems.MODELS, "tang_lstm"))
def test_logits_of_the_chinese_models_are_those_of_torch(name, page):
    model, vocabulary = model_as_delivered(name, poems.MODELS[name])
    tokens = vocabulary.encode((POEM * 3)[:90]).tolist()
    with torch.no_grad():
        expected = model(torch.tensor(tokens)[:, None])[0][:, 0]
    assert difference(page, name, poems.MODELS[name], tokens, expected) < 1e-3


@pytest.mark.parametrize("name", ["delta_net", "tang_delta_net"])
def test_the_weights_of_an_answer_make_it_of_the_values(name, page):
    kind = "delta_net"
    chinese = name in poems.MODELS
    _, vocabulary = model_as_delivered(name, kind) if chinese else rounded_model(name)
    tokens = vocabulary.encode(POEM[:22] if chinese else TEXTS[0]).tolist()
    for found, made in page.evaluate(ANSWERS, [name, tokens]):
        assert made == pytest.approx(found, abs=1e-4)


def numbers_of(state):
    """How many numbers a state of torch has."""
    if isinstance(state, torch.Tensor):
        return state.numel() if state.is_floating_point() else 0
    return sum(map(numbers_of, state)) if isinstance(state, (tuple, list)) else 0


@pytest.mark.parametrize(("pairs", "letters"), [(1, 1), (9, 4), (20, 20), (20, 10)])
@pytest.mark.parametrize("name", recall.MODELS)
def test_the_recall_game_is_that_of_torch(name, pairs, letters, page):
    model, (script, *_) = recall.delivered_model(name), recall.MODELS[name]
    task = recall.RecallGame(batch_size=1, seq_len=3 * recall.PAIRS)
    tokens = task.lines(random_numbers(11, pairs), pairs, letters).tokens
    with torch.no_grad():
        expected, state = model(tokens)
    read = page.evaluate(READ, [f"recall_{name}", script, tokens[:, 0].tolist()])
    assert (torch.tensor(read["read"]) - expected[:, 0]).abs().max() < 1e-3
    assert read["numbers"] == numbers_of(state)


def test_samples_are_those_of_torch_and_the_same_with_the_same_seed(page):
    logits = torch.randn(65, generator=torch.Generator().manual_seed(0)) * 3
    sampler = Chain(Temperature(0.7), TopK(20), Nucleus(0.9))
    expected = sampler.distribution(logits[None])[0]
    first, again, other = (page.evaluate(SAMPLE, [logits.tolist(), seed]) for seed in (1, 1, 2))
    shares = torch.tensor(first).bincount(minlength=65) / len(first)
    torch.testing.assert_close(shares, expected, atol=0.01, rtol=0)
    assert ((shares > 0) <= (expected > 0)).all()
    assert first == again != other
