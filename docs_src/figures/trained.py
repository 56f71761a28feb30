"""What a trained model looks at, and how surprised it is."""

from html import escape
from pathlib import Path

import torch

from labml_nn.attention_maps import attention_maps
from labml_nn.experiments.checkpoint import load_run
from pylit.figures.draw import LINE, WIDTH, Figure, Panel, Table, element, heat_map, line

RESULTS = Path(__file__).parents[1] / "results"
#: From the validation split: no model has seen it.
BEFORE, SAID = "KATHARINA:\n", "My tongue will tell the anger of my heart"
LOOKED = "the anger of my heart"


def attention():
    """Two heads, found by what they do."""
    model, vocabulary = _trained()
    tokens = _tokens(LOOKED, vocabulary)
    found = [
        (found.title, head, found.weights[:, :, 0, head])
        for found in attention_maps(model, tokens, vocabulary=vocabulary)
        for head in range(found.weights.shape[3])
    ]
    before = max(found, key=lambda one: _before(one[2]))
    others = [one for one in found if one is not before]
    far = max(others, key=lambda one: _distance(one[2]))
    letters = [letter.replace(" ", "␣") for letter in LOOKED]
    panels = [
        heat_map(
            weights.tolist(),
            title=f"{title}, head {head + 1}",
            down="query",
            across="key",
            rows=letters,
            columns=letters,
            cell=12.0,
            most=1.0,
        )
        for title, head, weights in (before, far)
    ]
    rows = [
        [f"{title}, head {head + 1}", f"{_before(weights):.2f}", f"{_distance(weights):.1f}"]
        for title, head, weights in found
    ]
    return Figure(
        panels,
        f"Two tables of {len(LOOKED)} queries by as many keys, of a trained transformer over the "
        f"words “{LOOKED}”. In the first, queries give the letter before them "
        f"{_before(before[2]):.2f} of their weight on average; in the second they look "
        f"{_distance(far[2]):.1f} letters back.",
        Table(["head", "weight of the letter before", "letters back"], rows, title="All heads"),
    )


def surprise():
    """How surprising each letter of a verse is, with all before it in view."""
    costs, best = _costs("autoregressive", BEFORE, SAID)
    half = SAID.rindex(" ", 0, len(SAID) // 2 + 3) + 1
    most = max(costs)
    panels = [_bars(SAID[i:j], costs[i:j], most) for i, j in ((0, half), (half, len(SAID)))]
    first, later = _split(SAID, costs)
    rows = [
        [letter.replace(" ", "␣"), f"{cost:.2f}", likely.replace(" ", "␣").replace("\n", "↵")]
        for letter, cost, likely in zip(SAID, costs, best, strict=True)
    ]
    return Figure(
        panels,
        f"A bar for each letter of “{SAID}”. Letters that begin a word cost {first:.2f} nats on "
        f"average, those inside of words and the spaces behind them {later:.2f}.",
        Table(["letter", "nats", "most probable"], rows, title="Each letter", align="lrl"),
    )


def surprise_of_elman():
    """The same for the Elman network, for the second half of the verse."""
    costs, _ = _costs("elman", BEFORE + SAID.removesuffix(LOOKED), LOOKED)
    first, later = _split(LOOKED, costs)
    return Figure(
        [_bars(LOOKED, costs, max(costs))],
        f"A bar for each letter of “{LOOKED}”. Letters that begin a word cost {first:.2f} nats on "
        f"average, those inside of words and the spaces behind them {later:.2f}.",
    )


@torch.no_grad()
def _costs(name, before, said):
    """The loss of each letter that was said, in nats, and the letter that the model expected."""
    model, vocabulary = _trained(name)
    logits, _ = model.eval()(_tokens(before + said, vocabulary)[:-1])
    chances = logits[:, 0].log_softmax(-1)[len(before) - 1 :]
    costs = [
        -row[vocabulary.index(letter)].item() for row, letter in zip(chances, said, strict=True)
    ]
    return costs, [vocabulary[int(row.argmax())] for row in chances]


def _split(said, costs):
    """The mean loss of letters that begin a word, and of all others."""
    starts = [cost for i, cost in enumerate(costs) if not i or said[i - 1] == " "]
    others = [cost for i, cost in enumerate(costs) if i and said[i - 1] != " "]
    return sum(starts) / len(starts), sum(others) / len(others)


def _bars(letters, costs, most):
    """Bars over letters; the taller, the more surprising."""
    step, high = WIDTH / len(letters), 70.0
    bars = {True: "", False: ""}
    for i, cost in enumerate(costs):
        is_first = not i or letters[i - 1] == " "
        tall = cost / most * high
        bars[is_first] += f"M{i * step + 1:.5g} {high + 4:g}v{-tall:.5g}h{step - 2:.5g}v{tall:.5g}z"
    at = " ".join(f"{(i + 0.5) * step:.5g}" for i in range(len(letters)))
    parts = (
        *(element("path", f"f t{int(is_first)}", d=d) for is_first, d in bars.items()),
        element("text", "", escape(letters), x=at, y=high + LINE + 4, text_anchor="middle"),
        line(0, high + 4, WIDTH, high + 4, "g"),
    )
    return Panel(WIDTH, high + LINE + 10, parts)


def _trained(name="autoregressive"):
    run = load_run(RESULTS / name)
    return run.model(), run.vocabulary.texts


def _tokens(words, vocabulary):
    return torch.tensor([vocabulary.index(letter) for letter in words])[:, None]


def _before(weights):
    """The mean weight of the letter before."""
    return weights.diagonal(-1).mean().item()


def _distance(weights):
    """How far back queries look, on average."""
    at = torch.arange(len(weights))
    return (weights * (at[:, None] - at)).sum(1).mean().item()
