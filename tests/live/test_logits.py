"""The models of the pages in real Chromium: the same logits as torch with the same weights."""

import functools
import http.server
import math
import shutil
import threading
from pathlib import Path

import pytest
import torch
from playwright.sync_api import sync_playwright
from sweeps import swept

from docs_src.live import poems, recall
from docs_src.live.export import NAMES, model_as_delivered, rounded_model
from labml_nn.experiments.data import random_numbers

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

#: Reads a text token by token, and every 50th logits again from the tokens alone.
READ = """([name, tokens, source]) => {
  const model = live.models[name], { step, encode } = live[name];
  const begin = () => (source ? encode(model, source) : undefined);
  const read = (some) => {
    let state = begin(), logits;
    return some.map((token) => {
      ({ logits, state } = step(model, token, state));
      return [...logits];
    });
  };
  const W = model.config.max_len, half = W >> 1;
  const slides = name === "autoregressive" || source;
  const again = [];
  for (let t = 0; t < tokens.length; t += 50) {
    const first = slides ? half * Math.max(0, Math.floor((t - W) / half) + 1) : 0;
    again.push(read(tokens.slice(first, t + 1)).at(-1));
  }
  return { cached: read(tokens), again };
}"""

#: Reads a line of the recall game, and counts the numbers of the state after it.
READ_LINE = """([weights, script, tokens]) => {
  const read = [];
  let state, logits;
  for (const token of tokens) {
    ({ logits, state } = live[script].step(live.models[weights], token, state));
    read.push([...logits]);
  }
  return { read, numbers: live.panel.count(state) };
}"""

#: The logits after each token.
READ_LINE_OF = """([weights, script, tokens]) => {
  let state, logits;
  return tokens.map((token) => {
    ({ logits, state } = live[script].step(live.models[weights], token, state));
    return [...logits];
  });
}"""

WRITE = """([name, tokens, source, seed]) => {
  const model = live.models[name], { step, encode } = live[name], random = live.random(seed);
  let state = source ? encode(model, source) : undefined, logits;
  for (const token of tokens) ({ logits, state } = step(model, token, state));
  const written = [], begun = performance.now();
  for (let i = 0; i < 60; i++) {
    const token = live.sample(logits, { temperature: 0.8, k: 40, p: 0.95 }, random);
    written.push(token);
    ({ logits, state } = step(model, token, state));
  }
  return { written, milliseconds: (performance.now() - begun) / 60 };
}"""


@pytest.fixture(scope="module")
def chromium():
    found = shutil.which("chromium") or shutil.which("google-chrome")
    if found is None:
        pytest.skip("Chromium is missing")
    with sync_playwright() as playwright:
        yield playwright.chromium.launch(executable_path=found, args=["--no-sandbox"])


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


@pytest.fixture(scope="module", params=swept(["file", "server"], "file"))
def page(request, chromium, tmp_path_factory):
    """A page that has loaded all models, from a disk and from a server."""
    folder = tmp_path_factory.mktemp("live")
    scripts = dict.fromkeys([*NAMES, *(script for script, *_ in recall.MODELS.values())])
    parts = ["tensors", *scripts, *(f"weights/{name}" for name in NAMES), "recall"]
    parts += [f"weights/recall_{name}" for name in recall.MODELS]
    parts += [f"weights/{name}" for name in poems.MODELS]
    shutil.copytree(LIVE, folder, dirs_exist_ok=True)
    scripts = "<script>window.pylit = { _: (text) => text }</script>"
    scripts += "".join(f'<script src="{part}.js"></script>' for part in parts)
    folder.joinpath("index.html").write_text(f"<!doctype html><meta charset=utf-8>{scripts}")
    handler = functools.partial(Quiet, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        address = f"http://127.0.0.1:{server.server_port}/index.html"
        page = chromium.new_page()
        page.goto(address if request.param == "server" else (folder / "index.html").as_uri())
        yield page
        server.shutdown()


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
    largest = 0.0
    for text in texts:
        tokens, source = tokens_of(text, name)
        state = None if source is None else model.encode(torch.tensor(source)[:, None])
        with torch.no_grad():
            expected = model(torch.tensor(tokens)[:, None], state)[0][:, 0]
        read = page.evaluate(READ, [name, tokens, source])
        for got, wanted in (("cached", expected), ("again", expected[::50])):
            largest = max(largest, (torch.tensor(read[got]) - wanted).abs().max().item())
    print(f"{name}: largest difference {largest:.1e}")
    assert largest < 1e-3


POEM = "\n\n床前明月光\n疑是地上霜\n举头望明月\n低头思故乡\n\n白日依山尽\n黄河入海流\n"


@pytest.mark.parametrize(("name", "kind"), poems.MODELS.items())
def test_logits_of_the_chinese_models_are_those_of_torch(name, kind, page):
    model, vocabulary = model_as_delivered(name, kind)
    tokens = vocabulary.encode((POEM * 3)[:90]).tolist()
    with torch.no_grad():
        expected = model(torch.tensor(tokens)[:, None])[0][:, 0]
    read = page.evaluate(READ_LINE_OF, [name, kind, tokens])
    assert (torch.tensor(read) - expected).abs().max() < 1e-3


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
    read = page.evaluate(READ_LINE, [f"recall_{name}", script, tokens[:, 0].tolist()])
    assert (torch.tensor(read["read"]) - expected[:, 0]).abs().max() < 1e-3
    assert read["numbers"] == numbers_of(state)


@pytest.mark.parametrize("name", NAMES)
def test_a_seed_writes_the_same_text(name, page):
    tokens, source = tokens_of(TEXTS[0], name)
    tokens = tokens[:20]
    first = page.evaluate(WRITE, [name, tokens, source, 7])
    print(f"{name}: {first['milliseconds']:.2f} ms a token")
    assert page.evaluate(WRITE, [name, tokens, source, 7])["written"] == first["written"]
    assert page.evaluate(WRITE, [name, tokens, source, 8])["written"] != first["written"]


def test_samplers_are_those_of_torch(page):
    from labml_nn.sampling import Chain, Nucleus, Temperature, TopK

    logits = torch.randn(65, generator=torch.Generator().manual_seed(0)) * 3
    sampler = Chain(Temperature(0.7), TopK(20), Nucleus(0.9))
    options = "{ temperature: 0.7, k: 20, p: 0.9 }"
    script = f"logits => [...live.distribution(Float32Array.from(logits), {options})]"
    got = page.evaluate(script, logits.tolist())
    torch.testing.assert_close(torch.tensor(got), sampler.distribution(logits[None])[0])
