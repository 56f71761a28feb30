"""The pictures of multi-head attention: its worked example, heads, masks, its task, trained heads.

Every number comes out of the lesson's module, with the matrices of the worked example, or out of
the runs of its task and of its trained model. The roles have the same tones on all pages.
"""

import math
from itertools import pairwise
from pathlib import Path

import torch

from docs_src.tasks import mha as task
from docs_src.tasks import results
from labml_nn import kernels
from labml_nn.attention_maps import attention_maps
from labml_nn.experiments.checkpoint import load_run
from labml_nn.transformers.mha import KVCache, MultiHeadAttention
from labml_nn.transformers.utils import padding_mask, subsequent_mask
from pylit.figures.draw import (
    WIDTH,
    Choice,
    Figure,
    Knob,
    Panel,
    Plot,
    Stage,
    arc,
    arrow,
    box,
    cell,
    element,
    frame,
    grab,
    grid,
    hatch,
    heat_map,
    hook,
    letter,
    line,
    listed,
    loop,
    polyline,
    ribbon,
    short,
    shown,
    square,
    tag,
    text,
    title,
    word,
)

#: Tones of the roles. `SECOND` is that of a second head.
A, K, V, Q, GREY, SECOND = range(6)

# --- The worked example ---------------------------------------------------------------------------

SENTENCE = ("the", "dog", "left", "the", "bone", "because", "it", "was", "tired")
#: The three words of the example, and what their features, queries and keys say.
TOKENS = ("dog", "bone", "tired")
FEATURES = ("noun", "alive", "thing", "adjective")
X = torch.tensor([[1.0, 1, 0, 0], [1, 0, 1, 0], [0, 1, 0, 1]])
W_Q = torch.tensor([[0.0, 0, 0, 4], [0, 2, 0, 0], [0, 0, 2, 0], [2, 0, 0, 0]])
W_K = torch.tensor([[1.0, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0], [-1, 0, 0, 1]])
W_V = torch.tensor([[0.0, 0], [10, 0], [0, 10], [0, 10]])
#: A second head, in which what is alive looks for things, and things for what is alive.
SECOND_HEAD = (
    torch.tensor([[2.0, 0, 0, 0], [0, 0, 2, 0], [0, 2, 0, 0], [0, 0, 0, 0]]),
    torch.eye(4),
    torch.tensor([[0.0, 0], [10, 0], [0, 10], [0, 0]]),
)
#: Both heads write to *alive*, the first to *adjective*, the second to *thing*.
W_O = torch.tensor([[0, 0.1, 0, 0], [0, 0, 0, 0.1], [0, 0.1, 0, 0], [0, 0, 0.1, 0]])
#: What the query of *dry* would be, which goes with things instead.
DRY = torch.tensor([0.0, 0, 1, 1])


def _module(*others):
    """The lesson's module with the matrices of the example, and those of other heads."""
    attention = MultiHeadAttention(1 + len(others), 4, 0.0, bias=False, d_k=4, d_v=2)
    parts = attention.query, attention.key, attention.value
    with torch.no_grad():
        for part, matrices in zip(parts, zip((W_Q, W_K, W_V), *others, strict=True), strict=True):
            part.linear.weight.copy_(torch.cat(matrices, 1).T)
    return attention


def _attend(mask=None, x=X, attention=None):
    """Queries, keys, values, weights and averages of the module, with an axis of heads."""
    attention, x = attention or _module(), x[:, None]
    with torch.no_grad(), kernels.disabled():
        q, k, v = attention.query(x), attention.key(x), attention.value(x)
        full = None if mask is None else attention.prepare_mask(mask, q.shape, k.shape)
        averages = attention.attend(q, k, v, full)
    assert attention.attn is not None
    return q[:, 0], k[:, 0], v[:, 0], attention.attn[:, :, 0], averages[:, 0]


def _one(mask=None, x=X):
    """The same of the only head."""
    q, k, v, weights, averages = _attend(mask, x)
    return q[:, 0], k[:, 0], v[:, 0], weights[..., 0], averages[:, 0]


def _rows(matrix, digits=None):
    """A matrix in words, a row for each token."""
    pairs = zip(TOKENS, matrix.tolist(), strict=True)
    return "; ".join(f"{token} {listed(row, digits)}" for token, row in pairs)


def _weights(row):
    """Weights in words."""
    pairs = zip(TOKENS, row.tolist(), strict=True)
    return ", ".join(f"{weight:.3f} to {token}" for token, weight in pairs)


#: Middles of the words of the sentence, 27 pixels high, and the places of the three.
MIDDLES = (20.0, 76.0, 134.0, 188.0, 246.0, 340.0, 419.0, 467.0, 540.0)
PLACES = (1, 4, 8)


def _sentence(y):
    """The sentence, with the words that are not followed in grey."""
    for i, (x, token) in enumerate(zip(MIDDLES, SENTENCE, strict=True)):
        grey = {} if i in PLACES else {"style": "fill:var(--muted)"}
        yield element("text", "w large", token, x=x, y=y, **grey)


def sentence():
    """The sentence, with a line from its last word to each word of the example."""
    *_, weights, _ = _one()
    dog, bone, tired = weights[2].tolist()
    y, full = 150.0, 20.0
    start = MIDDLES[8]
    parts = (
        arc(start - 6, MIDDLES[1], y, 168, dog, full=full),
        arc(start - 22, MIDDLES[4], y, 92, bone, full=full),
        loop(start + 14, y, 52, tired, full=full),
        *_sentence(182),
        text((MIDDLES[1] + start) / 2, 50, f"{dog:.3f}", "middle", "big t0"),
        text((MIDDLES[4] + start - 16) / 2, 108, f"{bone:.3f}", "middle", "big t0"),
        text(600, 84, f"{tired:.3f}", "end", "big t0"),
    )
    return Figure(
        [Panel(600, 196, parts)],
        f"The sentence “{' '.join(SENTENCE)}”. From “tired” a line leads to three words, as thick "
        f"as its weight: {_weights(weights[2])} itself.",
    )


def layer():
    """Vectors go in, others are added to them; and where in a Transformer this happens."""
    *_, weights, _ = _one()
    received = weights @ X
    left, side, wide, out, high, low = 62.0, 18.0, 34.0, 24.0, 122.0, 240.0
    xs = [left + wide / 2 + i * 84.0 for i in range(3)]
    inside = [title("three vectors in, below, and three out")]
    for t, x in enumerate(xs):
        near = t == 2
        inside += [
            ribbon(xs[s], low - 3, x, high + 4 * side + 3, weight, A if near else GREY, 12, near)
            for s, weight in enumerate(weights[t].tolist())
        ]
        # What a token was goes past attention, and is added again.
        aside, plus = x + wide / 2 + 12, high - 13
        corners = (x + wide / 2, low + 2 * side), (aside, low + 2 * side), (aside, plus), (x, plus)
        inside.append(element("path", "l t4", d=polyline(corners)))
        inside.append(arrow(x, high - 2, x, out + 4 * side + 2, "l t4"))
    look = {"step": 84.0, "most": 2}
    inside += grid(left, out, (X + received).T, GREY, wide, side, digits=1, **look)
    inside += grid(left, high, received.T, A, wide, side, digits=1, **look)
    inside += grid(left, low, X.T, GREY, wide, side, **look)
    for y in (out, low):
        inside += [
            text(left - 8, y + (i + 0.5) * side + 4, name, "end") for i, name in enumerate(FEATURES)
        ]
    for y, words, tone in (
        (high - 9, "+ itself", ""),
        (high + 2 * side + 4, "receives", "t0"),
        ((high + 4 * side + low) / 2 + 4, "attention", "t0 on"),
    ):
        inside.append(text(left - 8, y, words, "end", tone))
    inside += [word(x, low + 4 * side + 20, token) for x, token in zip(xs, TOKENS, strict=True)]
    bottom = low + 4 * side + 26

    ys, xs = (286.0, 218.0, 160.0), [22 + i * 24.0 for i in range(6)]
    whole = [title("a Transformer"), cell(4, 130, 160, 178, GREY, 0.05)]
    for a in xs:
        whole += [ribbon(b, ys[0], a, ys[1], 0.1, A) for b in xs]
        whole += [arrow(a, ys[1] - 6, a, ys[2] + 7, "l t4"), arrow(a, ys[2], a, 108, "l t4 thin")]
    for y in ys:
        circles = (element("circle", "f t4", cx=x, cy=y, r=4) for x in xs)
        whole += circles
    whole += [
        text(174, 248, "attention", classes="t0 on"),
        text(174, 264, "mixes the tokens"),
        text(174, 184, "feed-forward", classes="on"),
        text(174, 200, "each token alone"),
        text(174, 144, "one layer"),
        *(line(x, 100 - i * 5, x, 98 - i * 5, "l t4") for x in xs for i in range(3)),
        text(174, 98, "more layers"),
        arrow(xs[-1], 80, xs[-1], 60, "l t4"),
        text(xs[-1], 48, "prediction", "middle", "on"),
        text(174, 48, "for example"),
        text(174, 62, "the next word"),
        text((xs[0] + xs[-1]) / 2, bottom - 7, "a vector for each token", "middle"),
    ]
    return Figure(
        [Panel(WIDTH, bottom, tuple(inside)), Panel(WIDTH, bottom, tuple(whole))],
        "Left, “dog”, “bone” and “tired” each have a column of four features. Lines as thick as "
        "the weights lead from these columns to what each token receives, and this is added to its "
        f"own column. In the sum of “tired” the cell for a noun is {(X + received)[2, 0]:.1f}, for "
        "most comes from “dog”. Right, a layer of a Transformer: attention connects all tokens, "
        "then a feed-forward network works on each of them alone. More layers follow, and a "
        "prediction.",
    )


#: The same as the numbers of the example, in words.
ROLES = (
    ("query", "it looks for", Q, ("an adjective", "an adjective", "a noun, alive")),
    ("key", "it advertises", K, ("a noun, alive", "a noun, a thing", "an adjective")),
    ("value", "it hands over", V, ("about this dog", "about this bone", "about tiredness")),
)


def roles():
    """What three tokens look for, advertise and hand over, in words."""
    panels, w, h, top = [], 122.0, 30.0, 22.0
    for name, does, tone, said in ROLES:
        parts = [text(0, 11, name, classes=f"h t{tone}"), text(46, 11, does)]
        for i, (token, words) in enumerate(zip(TOKENS, said, strict=True)):
            y = top + i * (h + 4)
            parts.append(word(40, y + 20, token, "end"))
            # The query that is followed, and the key that it fits best.
            near = (name == "query") == (token == "tired") and token != "bone"
            parts.append(cell(46, y, w, h, tone, 0.3 if near else 0.08, "" if near else "far"))
            parts.append(text(46 + w / 2, y + 19, words, classes="n"))
        panels.append(Panel(170, top + 3 * (h + 4), tuple(parts)))
    alt = []
    for i, token in enumerate(TOKENS):
        each = ", ".join(f"{name} “{words[i]}”" for name, _, _, words in ROLES)
        alt.append(f"{token.capitalize()}: {each}.")
    return Figure(
        panels,
        f"What three words look for, advertise and hand over. {' '.join(alt)}",
    )


BOOK = (("Ann", "3"), ("Bob", "7"), ("Eve", "1"))


def dictionary():
    """A dictionary returns one value, attention a blend."""
    *_, weights, _ = _one()
    rows, kx, vx, w, h = (52.0, 92.0, 132.0), 96.0, 178.0, 60.0, 28.0

    def entry(x, y, words, tone, near=True):
        ground = cell(x, y - h / 2, w, h, tone, 0.18 if near else 0.05, "" if near else "far")
        return ground + text(x + w / 2, y + 4, words, classes="n" if near else "z")

    heads = [
        text(w / 2, rows[1] - 22, "query", "middle", "t3"),
        text(kx + w / 2, 30, "keys", "middle", "t1"),
        text(vx + w / 2, 30, "values", "middle", "t2"),
    ]
    hard = [title("a dictionary"), *heads, entry(0, rows[1], "Bob", Q)]
    for y, (key, value) in zip(rows, BOOK, strict=True):
        near = key == "Bob"
        hard.append(line(kx + w, y, vx, y, "l t0 thick" if near else "g"))
        hard += [entry(kx, y, key, K, near), entry(vx, y, value, V, near)]
    hard += [
        line(w, rows[1], kx, rows[1], "l t0 thick"),
        arrow(vx + w, rows[1], 270, rows[1], "l t0 thick"),
        text(288, rows[1] + 4, "7", "end", "sum"),
    ]

    soft = [title("attention"), *heads]
    for y, weight in zip(rows, weights[2].tolist(), strict=True):
        soft.append(ribbon(w, rows[1], kx, y, weight))
        soft.append(ribbon(kx + w, y, vx, y, weight))
        soft.append(ribbon(vx + w, y, 268, rows[1], weight))
    soft.append(entry(0, rows[1], "tired", Q))
    for y, token in zip(rows, TOKENS, strict=True):
        soft += [entry(kx, y, token, K), entry(vx, y, token, V)]
    soft.append(element("circle", "f t2", cx=272, cy=rows[1], r=8))
    soft.append(text(288, rows[1] + 24, "blend", "end", "t2 halo"))
    return Figure(
        [Panel(WIDTH, 150, tuple(hard)), Panel(WIDTH, 150, tuple(soft))],
        "Left, a dictionary: the query “Bob” is equal to one key, and its value 7 comes out. "
        "Right, attention: the query of “tired” meets three keys, and their values flow together, "
        f"with the weights {_weights(weights[2])}.",
    )


def vectors():
    """The features, queries, keys and values of the three tokens."""
    q, k, v, _, _ = _one()
    left, w, h, top = 48.0, 59.0, 28.0, 34.0
    panels = []
    for symbol, name, matrix, tone, labels in (
        ("x", "features: what a token is", X, GREY, FEATURES),
        ("q", "query: what it looks for", q, Q, FEATURES),
        ("k", "key: what it advertises", k, K, FEATURES),
        ("v", "value: what it hands over", v, V, ("alive", "thing, adj.")),
    ):
        parts = [letter(0, 11, (symbol, None if tone == GREY else tone))]
        parts.append(text(14, 11, name, classes="h"))
        parts += [
            text(left + (j + 0.5) * w, top - 6, label, "middle") for j, label in enumerate(labels)
        ]
        parts += [word(left - 8, top + (i + 0.5) * h + 4, t, "end") for i, t in enumerate(TOKENS)]
        parts += grid(left, top, matrix, tone, w, h)
        panels.append(Panel(WIDTH, top + 3 * h + 2, tuple(parts)))
    return Figure(
        panels,
        "Four tables with a row for each word. In features, queries and keys the columns are "
        f"{', '.join(FEATURES)}. Features: {_rows(X)}. Queries: {_rows(q)}. Keys: {_rows(k)}. "
        f"Values, of two numbers: {_rows(v)}.",
    )


def projections():
    """The features of a token pick rows of a matrix; their sum is its query, key or value."""
    left, side, top, said, panels, x = 58.0, 26.0, 34.0, [], [], X[2]
    dark = [i for i in range(4) if not x[i]]
    for name, symbol, matrix, tone in (
        ("query", "Q", W_Q, Q),
        ("key", "K", W_K, K),
        ("value", "V", W_V, V),
    ):
        columns, most = matrix.shape[1], matrix.abs().max().item()
        at, below = left + 48, top + 4 * side + 14
        parts = [word(left + 12, top - 8, "tired")]
        parts.append(letter(at + columns * side / 2, top - 8, ("W", tone, symbol), at="middle"))
        parts.append(text(at + columns * side / 2, 12, f"4 × {columns}", "middle"))
        parts.append(text(left + 12, 12, "1 × 4", "middle"))
        for i, feature in enumerate(FEATURES):
            y = top + (i + 0.5) * side
            parts.append(text(left - 6, y + 4, feature, "end", "" if i in dark else "on"))
            if i not in dark:
                parts.append(arrow(left + 27, y, at - 4, y, f"l t{tone}"))
        parts += grid(left, top, [[value] for value in x], GREY, 24, side, dim=dark, most=1.5)
        parts += grid(at, top, matrix, tone, side, side, dim=dark, most=most)
        parts.append(line(at, below - 7, at + columns * side, below - 7, f"l t{tone}"))
        parts.append(text(at - 8, below + side / 2 + 4, name, "end", f"t{tone}"))
        parts.append(text(left - 6, below + side / 2 + 4, f"1 × {columns}", "end"))
        result = (x @ matrix).tolist()
        parts += grid(at, below, [result], tone, side, side, most=most)
        panels.append(Panel(at + columns * side + 2, below + side + 2, tuple(parts), growth=1.05))
        said.append(f"the {name} is {listed(result)}")
    return Figure(
        panels,
        "Three matrices with a row for each of the features noun, alive, thing and adjective. "
        "“Tired” has the features alive and adjective; these rows light up, and below stands their "
        f"sum: {'; '.join(said)}.",
    )


# --- The stage: one query in four steps -----------------------------------------------------------

STEPS = ("Compare", "Scale", "Softmax", "Average")
#: Places in the panels in which `mha.js` draws too.
GEOMETRY = {"mid": 128, "unit": 6, "hundred": 84, "rows": (60, 100, 140)}


def _pair(numbers):
    """Two numbers of two digits each."""
    return "({:.2f}, {:.2f})".format(*numbers).replace("-", "−")


def _step(number, name, *formula):
    """The title of a panel, and its formula."""
    return [title(f"{number}  {name}"), letter(288, 11, *formula, at="end")]


def _compare(q, keys, products):
    """Numbers of the query times those of each key, added up."""
    left, w, h, top = 46.0, 51.0, 32.0, 34.0
    parts = _step(1, "Compare", ("q", Q), " · ", ("k", K))
    parts += [text(left + (j + 0.5) * w, top - 6, f, "middle", "s") for j, f in enumerate(FEATURES)]
    parts.append(text(left - 8, top + 18, "query", "end", "t3"))
    for j in range(4):
        inside = cell(left + j * w + 1, top + 1, w - 2, 26, Q, 0.2)
        inside += hook(text(left + (j + 0.5) * w, top + 18, shown(q[j]), classes="n"), "q")
        parts.append(grab(inside, FEATURES[j], unit=12))
    first, end = top + 52, WIDTH
    parts += [text(left - 8, first - 8, "keys", "end", "t1"), text(end, first - 8, "sum", "end")]
    for i, (token, key) in enumerate(zip(TOKENS, keys, strict=True)):
        y = first + i * h
        parts.append(word(left - 8, y + h / 2 + 4, token, "end"))
        grounds = "".join(square(left + j * w + 1, y + 1, w - 2, h - 2) for j in range(4))
        parts.append(element("path", "k t1", d=grounds, fill_opacity=".1"))
        for j in range(4):
            inside = hook(tag("tspan", shown(q[j]), class_="p-t3"), "factor")
            inside += "·" + tag("tspan", shown(key[j]), class_="p-t1")
            place = {"x": left + (j + 0.5) * w, "y": y + h / 2 + 4}
            parts.append(element("text", "n", inside, **place))
        parts.append(hook(text(end, y + h / 2 + 4, f"= {shown(products[i])}", "end", "sum"), "sum"))
    return Panel(WIDTH, first + 3 * h + 2, tuple(parts))


def _scale(products, scores):
    """Each product moves to half its distance from 0."""
    h, top, mid, unit = 40.0, 40.0, GEOMETRY["mid"], GEOMETRY["unit"]
    parts = _step(2, "Scale", ("e", None), " = ", ("q", Q), " · ", ("k", K), " / √4")
    bottom = top + 3 * h
    for tick in range(-12, 13, 4):
        x = mid + tick * unit
        parts += [line(x, top - 4, x, bottom, "g"), text(x, bottom + 15, shown(tick), "middle")]
    parts += [
        text(0, top - 12, "○ product", classes="on"),
        text(72, top - 12, "● score", classes="on"),
    ]
    for i, token in enumerate(TOKENS):
        y = GEOMETRY["rows"][i]
        a, b = mid + products[i] * unit, mid + scores[i] * unit
        parts.append(word(38, y + 5, token, "end"))
        parts.append(hook(line(a, y, b, y, "l t4"), "shift"))
        look = {"cy": y, "r": 5}
        parts.append(element("circle", "l t4", cx=a, **look, data_p="product"))
        parts.append(element("circle", "f t4", cx=b, **look, data_p="score"))
        words = f"{shown(products[i])} / 2 = {shown(scores[i])}"
        parts.append(hook(text(WIDTH, y + 4, words, "end", "num"), "half"))
    return Panel(WIDTH, bottom + 20, tuple(parts))


def _softmax(scores, powers, shares):
    """Scores, their exponentials, and the weights."""
    top, h, bar = 40.0, 30.0, 158.0
    parts = _step(3, "Softmax", ("A", A), " = exp ", ("e", None), " / sum")
    for x, words, at in ((80, "score", "end"), (142, "exp", "end"), (bar, "weight", "start")):
        parts.append(text(x, top - 6, words, at, "t0" if at == "start" else ""))
    for i, token in enumerate(TOKENS):
        y = top + i * h + 19
        parts.append(word(38, y, token, "end"))
        parts.append(hook(text(80, y, shown(scores[i]), "end", "num"), "e"))
        parts.append(hook(text(142, y, f"{powers[i]:.3f}", "end", "num"), "exp"))
        size = {"x": bar, "y": y - 14, "width": shares[i] * GEOMETRY["hundred"], "height": 19}
        parts.append(element("rect", "f t0", **size, fill_opacity=".6", data_p="bar"))
        parts.append(hook(text(WIDTH, y, f"{shares[i]:.3f}", "end", "sum t0"), "share"))
    y = top + 3 * h
    parts += [line(94, y, 142, y, "g"), line(244, y, WIDTH, y, "g"), text(80, y + 18, "sum", "end")]
    parts.append(hook(text(142, y + 18, f"{sum(powers):.3f}", "end", "num"), "total"))
    parts.append(text(WIDTH, y + 18, "1.000", "end", "num"))
    return Panel(WIDTH, y + 24, tuple(parts))


def _average(values, shares, result):
    """Weight times value, added up; and each number of the result as the parts of its sum."""
    top, h = 40.0, 30.0
    parts = _step(4, "Average", ("A", A), " · ", ("v", V), " , added up")
    for x, words, tone in ((82, "weight", "t0"), (172, "value", "t2")):
        parts.append(text(x, top - 6, words, "end", tone))
    parts.append(text(WIDTH, top - 6, "weight · value", "end"))
    for i, token in enumerate(TOKENS):
        y = top + i * h + 19
        parts.append(word(38, y, token, "end"))
        parts.append(hook(text(82, y, f"{shares[i]:.3f}", "end", "num t0"), "times"))
        parts.append(text(97, y, "·", "middle"))
        d = square(112, y - 15, 30, 22) + square(143, y - 15, 30, 22)
        look = {"d": d, "fill_opacity": short(0.05 + 0.5 * shares[i])}
        parts.append(element("path", "k t2", **look, data_p="fades"))
        parts += [text(127 + 31 * j, y, shown(values[i][j]), classes="n") for j in (0, 1)]
        parts.append(text(186, y, "=", "middle"))
        words = _pair([shares[i] * value for value in values[i]])
        parts.append(hook(text(WIDTH, y, words, "end", "num"), "part"))
    y = top + 3 * h
    parts += [line(204, y, WIDTH, y, "g"), text(186, y + 18, "sum", "middle")]
    parts.append(hook(text(WIDTH, y + 18, _pair(result), "end", "sum t2"), "result"))
    return Panel(WIDTH, y + 24, tuple(parts))


def stage():
    """What *tired* receives, in four steps."""
    qs, keys, values, weights, averages = _one()
    q, shares, result = qs[2].tolist(), weights[2].tolist(), averages[2].tolist()
    products = (keys @ qs[2]).tolist()
    scores = [product / math.sqrt(len(q)) for product in products]
    powers = [math.exp(score) for score in scores]
    best = shares.index(max(shares))
    says = f"The largest weight, {shares[best]:.3f}, goes to {TOKENS[best]}. The average of the "
    says += f"values is {_pair(result)}."
    knobs = [Knob(name, name, -4, 4, 1, value) for name, value in zip(FEATURES, q, strict=True)]
    rows = [*qs.int().tolist(), (DRY @ W_Q).int().tolist()]
    queries = [dict(zip(FEATURES, row, strict=True)) for row in rows]
    whose = Choice("whose", "query of", (*TOKENS, "dry"), 2, queries)
    data = {"names": FEATURES, "tokens": TOKENS, **GEOMETRY}
    data |= {"keys": keys.int().tolist(), "values": values.int().tolist()}
    return Figure(
        [
            _compare(q, keys.tolist(), products),
            _scale(products, scores),
            _softmax(scores, powers, shares),
            _average(values.tolist(), shares, result),
        ],
        f"Query {listed(q)}: products {listed(products)}, scores {listed(scores)}, weights "
        f"{listed(shares, 3)}, average {_pair(result)}.",
        stage=Stage("attention", (whose, *knobs), data, says, STEPS),
    )


# --- Why the scores are scaled --------------------------------------------------------------------

#: Numbers of features whose dot products are drawn.
SIZES = (4, 16, 64)
KEYS = 8


def _products():
    """Dot products of random queries with eight random keys each, for each number of features."""
    torch.manual_seed(0)
    return {
        d: torch.einsum("nd,nkd->nk", torch.randn(20_000, d), torch.randn(20_000, KEYS, d))
        for d in SIZES
    }


def scaling():
    """Dot products of random vectors and their softmax, with the division and without."""
    found, panels, said, h, top = _products(), [], [], 66.0, 52.0
    mid, unit, bars = 114.0, 2.8, 192.0
    for name, divided in (("dot products", False), ("divided by √d, as scores are", True)):
        parts = [title(name), text(mid, 30, "how often they occur", "middle")]
        parts.append(text(WIDTH, 30, f"weights of {KEYS} keys", "end", "t0"))
        shares = []
        for i, d in enumerate(SIZES):
            base = top + i * h + 44
            scores = found[d] / math.sqrt(d) if divided else found[d]
            parts.append(text(0, base - 8, f"d = {d}", classes="on"))
            parts.append(line(mid - 20 * unit, base, mid + 20 * unit, base, "g"))
            parts.append(_curve(scores.flatten(), mid, base, unit))
            weights = scores.softmax(1).sort(1, descending=True).values.mean(0).tolist()
            shares.append(weights[0])
            for j, weight in enumerate(weights):
                size = {"x": bars + j * 12, "y": base - 44 * weight, "width": 10}
                parts.append(element("rect", "f t0", **size, height=max(44 * weight, 0.8)))
            parts.append(text(bars, base - 44 * weights[0] - 4, f"{weights[0]:.2f}", classes="t0"))
        base += 16
        parts += [text(mid + x * unit, base, shown(x), "middle") for x in (-8, 0, 8)]
        parts.append(text(WIDTH, base, "largest … smallest", "end"))
        panels.append(Panel(WIDTH, base + 8, tuple(parts)))
        said.append(", ".join(f"{share:.2f}" for share in shares))
    return Figure(
        panels,
        "Dot products of random vectors with d = 4, 16 and 64 features. Left, without the "
        "division: the curves become wider, and the largest of eight weights grows, "
        f"{said[0]}. Right, divided by √d: all three curves are alike, and so are the weights, "
        f"with largest ones of {said[1]}.",
    )


def _curve(found, middle, base, unit):
    """How often which of some numbers were found."""
    step = 0.3 * found.std().item()
    edge = 10.5 * step
    heights = torch.histc(found, 21, -edge, edge) / len(found) / step
    points = [
        (middle + (i - 10) * step * unit, base - 115 * y) for i, y in enumerate(heights.tolist())
    ]
    return element("path", "l t4", d=polyline(points))


#: Terms after which a sum is looked at.
TERMS = (1, 4, 16, 64)


def spread():
    """Dot products as sums that grow term by term, and how far from 0 they usually are."""
    torch.manual_seed(1)
    terms = torch.randn(20_000, 64) * torch.randn(20_000, 64)
    sums = torch.cat([torch.zeros(20_000, 1), terms.cumsum(1)], 1)
    plot = Plot(
        (0, 64),
        (-30, 30),
        title="24 dot products, term by term",
        x_label="terms",
        y_label="sum",
        x_ticks=TERMS[1:],
    )
    for path in sums[:24, ::2]:
        points = [plot.at(2 * n, y) for n, y in enumerate(path.clamp(-30, 30).tolist())]
        plot.add(element("path", "l t4 thin", d=polyline(points)))
    root = [n**0.5 for n in range(65)]
    plot.line(range(65), root, label="plus and minus the root")
    plot.line(range(65), [-y for y in root])
    rows, top = [title("20,000 such sums")], 46.0
    for x, words in ((52, "terms"), (150, "variance"), (254, "its root")):
        rows.append(text(x, top - 14, words, "end"))
    for i, n in enumerate(TERMS):
        y, variance = top + i * 34 + 12, sums[:, n].var().item()
        rows.append(text(52, y, str(n), "end", "sum"))
        rows.append(text(150, y, f"{variance:.1f}", "end", "num"))
        rows.append(text(254, y, f"{variance**0.5:.1f}", "end", "num t0"))
    said = ", ".join(f"{sums[:, n].var():.1f} for {n}" for n in TERMS)
    return Figure(
        [plot.panel(), Panel(WIDTH, top + 4 * 34, tuple(rows))],
        "Left, 24 sums of products of random numbers, which spread from 0 as the root of the "
        f"number of their terms. Right, the variance of 20,000 such sums: {said} terms.",
    )


# --- All tokens, heads ----------------------------------------------------------------------------


def together():
    """The same for all tokens: projection, products, weights, averages."""
    q, k, v, weights, averages = _one()
    left, side, gap, high = 44.0, 24.0, 10.0, 26.0
    panels = []

    def names(y):
        return [word(left - 7, y + (i + 0.5) * high + 4, t, "end") for i, t in enumerate(TOKENS)]

    def product(name, first, second, result, tones, wide, sizes, foot, look=None):
        """Rows of the first meet columns of the second."""
        n, columns = len(second), len(second[0])
        x, top = left + len(first[0]) * wide[0] + gap, 34.0
        y = top + n * side + gap
        parts = [title(name), *names(y)]
        parts.append(text(left + len(first[0]) * wide[0] / 2, y - 6, sizes[0], "middle"))
        parts.append(text(x + columns * wide[1] / 2, top - 6, sizes[1], "middle"))
        parts += grid(x, top, second, tones[1], wide[1], side)
        parts += grid(left, y, first, tones[0], wide[0], high, dim=(0, 1), **(look or {}))
        parts += grid(
            x, y, result, tones[2], wide[1], high, dim=(0, 1), digits=2 if name[0] == "4" else None
        )
        width = len(first[0]) * wide[0] + gap + columns * wide[1]
        parts.append(frame(left - 1, y + 2 * high - 1, width + 2, high + 2, GREY))
        parts.append(letter(x + columns * wide[1] / 2, y + 3 * high + 17, *foot, at="middle"))
        return Panel(WIDTH, y + 3 * high + 24, tuple(parts))

    panels.append(
        product(
            "1  queries of all tokens",
            X,
            W_Q,
            q,
            (GREY, Q, Q),
            (side, 30.0),
            ("3 × 4", "4 × 4"),
            (("X", None), ("W", Q, "Q"), " = ", ("Q", Q), "  3 × 4"),
        )
    )
    panels.append(
        product(
            "2  each query with each key",
            q,
            k.T,
            q @ k.T,
            (Q, K, GREY),
            (side, 40.0),
            ("3 × 4", "4 × 3"),
            (("Q", Q), ("K", K, "⊤"), "  3 × 3"),
        )
    )
    y, below, wide = 34.0, 136.0, 44.0
    third = [title("3  divide by 2, softmax of each row"), *names(y), *names(below)]
    third += grid(left, y, q @ k.T / 2, GREY, wide, high, dim=(0, 1), most=3)
    third += grid(left, below, weights, A, wide, high, dim=(0, 1), digits=3, most=1)
    third.append(arrow(left + 1.5 * wide, y + 3 * high + 4, left + 1.5 * wide, below - 5, "l t4"))
    third += [frame(left - 1, at + 2 * high - 1, 3 * wide + 2, high + 2, GREY) for at in (y, below)]
    x = left + 3 * wide + 12
    third.append(letter(x, y + 1.5 * high + 5, ("Q", Q), ("K", K, "⊤"), " / √4"))
    third.append(letter(x, below + 1.5 * high + 5, ("A", A), "  3 × 3"))
    panels.append(Panel(WIDTH, below + 3 * high + 4, tuple(third)))
    panels.append(
        product(
            "4  averages",
            weights,
            v,
            averages,
            (A, V, V),
            (38.0, 42.0),
            ("3 × 3", "3 × 2"),
            (("A", A), ("V", V), "  3 × 2"),
            {"digits": 3, "most": 1},
        )
    )
    return Figure(
        panels,
        "Four products with their sizes. 1: features, 3 × 4, times W^Q, 4 × 4, are the queries. 2: "
        "queries as rows and keys as columns, and where they meet, their products. 3: divided by "
        "2, and the softmax of each row. 4: weights as rows and values as columns, and where they "
        "meet, the averages. In the framed row of “tired”: "
        f"{', '.join(listed(m[2].tolist(), 3) for m in (q, q @ k.T, weights, averages))}.",
    )


def heads():
    """Two heads of *dog*: above the words what it is like, below them what it left."""
    weights = _attend(attention=_module(SECOND_HEAD))[3][0].T
    start, y, parts = MIDDLES[1], 156.0, list(_sentence(156))
    for head, (row, tone, edge, up) in enumerate(
        zip(weights.tolist(), (A, SECOND), (y - 32, y + 14), (1, -1), strict=True)
    ):
        best = row.index(max(row))
        for s in sorted((1, 2), key=row.__getitem__):
            end = MIDDLES[PLACES[s]]
            height = up * (30 + 0.2 * (end - start)) * (1 if s == best else 0.5)
            parts.append(arc(start + 3, end, edge, height, row[s], tone, 18, near=s == best))
        parts.append(loop(start - 10, edge, up * 36, row[0], tone, 18, near=False))
        end = MIDDLES[PLACES[best]]
        middle = (start + end) / 2
        place = edge - up * (0.75 * (30 + 0.2 * (end - start)) + 11) + (0 if up > 0 else 16)
        place = max(place, 14)
        parts.append(text(middle, place, f"{row[best]:.3f}", "middle", f"large halo t{tone}"))
        name = f"head {head + 1}: {('what is it like?', 'what did it leave?')[head]}"
        side = (308, 90) if up > 0 else (430, edge + 66)
        parts.append(text(*side, name, "middle", f"large halo t{tone}"))
    return Figure(
        [Panel(600, 248, tuple(parts))],
        f"The sentence “{' '.join(SENTENCE)}”, with lines from “dog”, as thick as the weights. "
        f"Above, head 1: {_weights(weights[0])}. Below, head 2: {_weights(weights[1])}.",
    )


def joined():
    """The path of both heads with its numbers, and how the output projection joins them."""
    attention = _module(SECOND_HEAD)
    with torch.no_grad():
        attention.output.weight.copy_(W_O.T)
    _, _, v, weights, averages = _attend(attention=attention)
    with torch.no_grad(), kernels.disabled():
        out = attention(query=X[:, None], key=X[:, None], value=X[:, None])[:, 0]
    left, wide, high, first = 40.0, 38.0, 25.0, []
    for head, tone in enumerate((A, SECOND)):
        y = 44 + head * (3 * high + 60)
        at = left + 3 * wide + 12, left + 3 * wide + 12 + 48 + 14
        first.append(text(0, y - 27, f"head {head + 1}", classes=f"h t{tone}"))
        for x, parts in (
            (left + 1.5 * wide, (("A", tone), "  3 × 3")),
            (at[0] + 24, (("V", V), "  3 × 2")),
            (at[1] + 36, (("A", tone), ("V", V), "  3 × 2")),
        ):
            first.append(letter(x, y - 7, *parts, at="middle"))
        first += [word(left - 7, y + (i + 0.5) * high + 4, t, "end") for i, t in enumerate(TOKENS)]
        first += grid(left, y, weights[..., head], tone, wide, high, digits=3, most=1)
        first += grid(at[0], y, v[:, head], V, 24, high, most=10)
        first += grid(at[1], y, averages[:, head], tone, 36, high, digits=2, most=10)
        first.append(text(at[0] - 6, y + 1.5 * high + 4, "·", "middle"))
        first.append(text(at[1] - 7, y + 1.5 * high + 4, "=", "middle"))
    # The first head is that of the example. The second one has matrices that are not shown.
    scores = weights[..., 1].log()
    scores -= scores.min(1, keepdim=True).values
    rows = ", ".join(f"{name} {listed(row, 0)}" for name, row in zip(TOKENS, scores, strict=True))
    first.append(text(0, y + 3 * high + 20, f"its scores: {rows}"))
    bottom = y + 3 * high + 26

    left, wide, high, top = 76.0, 42.0, 22.0, 44.0
    second = [title("side by side, times the output matrix")]
    for head, tone in enumerate((A, SECOND)):
        x = left + 2 * head * wide
        second.append(text(x + wide, top - 7, f"head {head + 1}", "middle", f"t{tone}"))
        second += grid(x, top, averages[:, head], tone, wide, high, digits=2, most=10)
    y = top + 3 * high + 28
    second.append(text(left + 4 * wide + 8, top + 1.5 * high + 4, "3 × 4"))
    parts = "times ", ("W", None, "O"), "  4 × 4"
    second.append(letter(left + 2 * wide, y - 7, *parts, at="middle"))
    about = ("alive", "thing, adj.", "alive", "thing")
    second += [text(left - 7, y + (i + 0.7) * high, one, "end", "s") for i, one in enumerate(about)]
    second += grid(left, y, W_O, GREY, wide, high)
    end = y + 4 * high + 28
    second += [
        text(left + (j + 0.5) * wide, end - 6, f, "middle", "s")
        for j, f in enumerate((*FEATURES[:3], "adj."))
    ]
    second.append(text(left - 22, end - 6, "=", "middle"))
    second += grid(left, end, out, GREY, wide, high, digits=1)
    second.append(text(left + 4 * wide + 8, end + 1.5 * high + 4, "3 × 4"))
    for y in (top, end):
        second += [word(left - 7, y + (i + 0.5) * high + 4, t, "end") for i, t in enumerate(TOKENS)]
    return Figure(
        [Panel(300, bottom, tuple(first)), Panel(WIDTH, end + 3 * high + 2, tuple(second))],
        "Left, two heads: weights, 3 × 3, times values, 3 × 2, are averages, 3 × 2. Of dog head "
        f"1 gives {listed(averages[0, 0], 2)} and head 2 {listed(averages[0, 1], 2)}. Right, both "
        "side by side are 3 × 4, and times W^O, 4 × 4, they are features again, of dog "
        f"{listed(out[0], 1)}.",
    )


FOREIGN = ("der", "Hund", "war", "müde")


def kinds():
    """Where queries, keys and values come from in self-attention and in cross-attention."""
    panels = []
    for name, source, target in (
        ("self-attention: one sequence", SENTENCE[:4], SENTENCE[:4]),
        ("cross-attention: two sequences", FOREIGN, ("the", "dog", "was")),
    ):
        parts = [title(name)]
        xs = [44.0 + 66 * i for i in range(4)]
        for x, token in zip(xs, source, strict=False):
            parts += [cell(x - 28, 128, 24, 22, K, 0.25), cell(x + 2, 128, 24, 22, V, 0.25)]
            parts.append(letter(x - 16, 144, ("k", K), at="middle"))
            parts.append(letter(x + 14, 144, ("v", V), at="middle"))
            parts.append(word(x, 170, token))
        asking = len(target) - 1
        for x in xs:
            parts.append(ribbon(xs[asking], 66, x - 1, 127, 0.14))
        for i, (x, token) in enumerate(zip(xs, target, strict=False)):
            near = i == asking
            parts.append(cell(x - 13, 44, 26, 22, Q, 0.25 if near else 0.05, "" if near else "far"))
            parts.append(letter(x, 60, ("q", Q if near else None), at="middle"))
            parts.append(word(x, 36, token))
        same = source == target
        parts.append(
            text(
                0,
                192,
                "queries, keys and values from X"
                if same
                else "queries from X; keys and values from Y and Z",
            )
        )
        panels.append(Panel(WIDTH, 196, tuple(parts)))
    return Figure(
        panels,
        "Left, self-attention: “the dog left the” makes queries, keys and values. Right, "
        "cross-attention: the query of “was” in “the dog was” meets the keys and values of “der "
        "Hund war müde”.",
    )


# --- Masks ----------------------------------------------------------------------------------------


def causal():
    """Hidden scores become −∞, so that their weights are 0 and the others still sum to one."""
    mask = subsequent_mask(3)
    q, k, _, weights, _ = _one(mask)
    hidden, left, w, h, top = (~mask[:, :, 0]).tolist(), 56.0, 62.0, 34.0, 40.0
    panels = []
    for name, symbol, matrix, tone, sign in (
        ("scores ", ("e", None), q @ k.T / 2, GREY, "−∞"),
        ("weights ", ("A", A), weights, A, "0"),
    ):
        parts = [title(name), letter(7.4 * len(name), 11, symbol)]
        parts += [word(left + (j + 0.5) * w, top - 8, token) for j, token in enumerate(TOKENS)]
        parts += [word(left - 8, top + (i + 0.5) * h + 4, t, "end") for i, t in enumerate(TOKENS)]
        most, digits = (2, None) if tone == GREY else (1, 3)
        look = {"hidden": hidden, "most": most, "digits": digits, "sign": sign}
        parts += grid(left, top, matrix, tone, w, h, **look)
        panels.append(Panel(WIDTH, top + 3 * h + 3, tuple(parts)))
    return Figure(
        panels,
        "Two tables of three queries by three keys. Above the diagonal the cells are hatched, the "
        f"scores −∞ and the weights 0. Weights: {_rows(weights, 3)}.",
    )


BATCH = (("the", "dog", "was", "tired"), ("it", "slept", "(pad)", "(pad)"))


def padded():
    """A padded batch, and which keys its queries may see."""
    lengths = torch.tensor([sum(token != "(pad)" for token in row) for row in BATCH])
    mask = padding_mask(lengths, 4)[0].T.tolist()
    w, h, top, side = 70.0, 32.0, 26.0, 28.0
    batch = [title("a batch of two sequences")]
    for b, row in enumerate(BATCH):
        y = top + b * (h + 8)
        for s, token in enumerate(row):
            x = 1 + s * w
            if mask[b][s]:
                batch += [cell(x, y, w - 5, h, GREY, 0.08), word(x + w / 2 - 2, y + 21, token)]
            else:
                batch.append(hatch(x, y, w - 5, h))
                batch.append(text(x + w / 2 - 2, y + 20, token, classes="z halo"))
    seen = [title("what each of four queries may see")]
    for b, row in enumerate(BATCH):
        x, keys = 1 + b * 150.0, [token for token in row if token != "(pad)"]
        seen.append(word(x, top + 12, " ".join(keys), "start", "small"))
        seen += grid(x, top + 20, [[1] * sum(mask[b])] * 4, A, side, 22, most=2)
        if gone := 4 - sum(mask[b]):
            seen.append(hatch(x + sum(mask[b]) * side + 1, top + 21, gone * side - 2, 86))
    ends = top + 2 * h + 10, top + 110
    return Figure(
        [Panel(WIDTH, ends[0], tuple(batch)), Panel(WIDTH, ends[1], tuple(seen))],
        "Left, a batch of two sequences: “the dog was tired”, and “it slept” with two tokens of "
        "padding. Right, four queries by four keys for each, with the padding hatched.",
    )


# --- Gains and price ------------------------------------------------------------------------------


def price():
    """Steps between two words, and scores of a text of T tokens."""
    count = len(SENTENCE)
    xs = [14 + i * 32.0 for i in range(count)]
    paths = [title("recurrent network: seven steps"), title("attention: one step", 92)]
    for i, (a, b) in enumerate(pairwise(xs)):
        paths.append(arrow(a + 8, 36, b - 8, 36, "l t0 thick" if i else "l t4 thin"))
    for i, x in enumerate(xs[:-1]):
        weight, tone = (0.3, A) if i == 1 else (0.1, GREY)
        paths.append(arc(xs[-1], x, 172, 20 + 0.24 * (xs[-1] - x), weight, tone, near=i == 1))
    for y in (36.0, 180.0):
        for i, x in enumerate(xs):
            kind, opacity = ("f", "") if i in (1, count - 1) else ("k", ".1")
            circle = {"cx": x, "cy": y, "r": 6, "fill_opacity": opacity}
            paths.append(element("circle", f"{kind} t4", **circle))
        paths += [word(xs[i], y + 25, SENTENCE[i]) for i in (1, 4, 8)]
    squares, x, side = [title("a score for each pair")], 0.0, 10.0
    for count in (3, 6, 12):
        y = 32 + side * (12 - count)
        cells = "".join(
            square(x + i * side, y + j * side, side - 1, side - 1)
            for i in range(count)
            for j in range(count)
        )
        squares.append(element("path", "f t0", d=cells, fill_opacity=".45"))
        squares.append(text(x, 32 + 12 * side + 17, f"{count} tokens", classes="on"))
        squares.append(text(x, 32 + 12 * side + 32, f"{count * count} scores"))
        x += max(count * side, 60) + 24
    return Figure(
        [Panel(WIDTH, 210, tuple(paths)), Panel(WIDTH, 210, tuple(squares))],
        "Left, from “dog” to “tired”: a recurrent network takes seven steps, attention one. Right: "
        "3 tokens have 9 scores, 6 have 36 and 12 have 144.",
    )


def order():
    """In another order each token receives the same."""
    panels, said, h, w, left = [], [], 30.0, 56.0, 150.0
    for name, places in (("one order", (0, 1, 2)), ("another order", (2, 0, 1))):
        averages = _one(x=X[list(places)])[4]
        parts = [title(name), text(left + w, 30, "what it receives", "middle")]
        for i, place in enumerate(places):
            near, y = TOKENS[place] == "tired", 38 + i * h
            parts.append(word(70, y + h / 2 + 5, TOKENS[place], "end", "mid"))
            parts.append(
                arrow(84, y + h / 2, left - 10, y + h / 2, "l t0 thick" if near else "l t4")
            )
            parts += grid(left, y, averages[i : i + 1], V, w, h, digits=2, most=10)
            if near:
                parts.append(frame(left - 1, y - 1, 2 * w + 2, h + 2, A))
        panels.append(Panel(WIDTH, 38 + 3 * h + 4, tuple(parts)))
        said.append(listed(averages[places.index(2)], 2))
    return Figure(
        panels,
        "The three words in two orders. “Tired” receives "
        f"{said[0]} in the first and {said[1]} in the second.",
    )


def cache():
    """What a new token computes, and what it finds in the cache."""
    attention, kept, weights = _module(), KVCache(), []
    left, w, h, top = 92.0, 64.0, 34.0, 40.0
    parts = [title("new token"), text(left + 1, 11, "keys and values", classes="h")]
    parts.append(text(left + 1, 27, "dashed: from the cache"))
    for t, token in enumerate(TOKENS):
        x, y = X[t : t + 1, None], top + t * (h + 6)
        with torch.no_grad(), kernels.disabled():
            attention(query=x, key=x, value=x, cache=kept)
        weights.append(attention.attn[:, :, 0, 0].tolist())
        parts += [word(0, y + h / 2 + 5, token, "start"), cell(54, y + 5, 24, h - 10, Q, 0.25)]
        parts.append(letter(66, y + h / 2 + 5, ("q", Q), at="middle"))
        for s in range(len(kept.keys)):
            for x, name, tone in ((left + 1, "k", K), (left + 30, "v", V)):
                look = (0.3, "") if s == t else (0.04, "d")
                parts.append(cell(x + s * w, y, 26, h, tone, *look))
                ink = tone if s == t else None
                parts.append(letter(x + s * w + 13, y + h / 2 + 5, (name, ink), at="middle"))
    left, w, high = 56.0, 62.0, h + 6
    new = [title("weights: one new row each time")]
    new += [word(left + (i + 0.5) * w, top - 8, token) for i, token in enumerate(TOKENS)]
    for t, token in enumerate(TOKENS):
        new.append(word(left - 8, top + t * high + h / 2 + 5, token, "end"))
        new += grid(left, top + t * high, weights[t], A, w, h, most=1, digits=3)
    bottom = top + 3 * high
    return Figure(
        [Panel(WIDTH, bottom, tuple(parts)), Panel(WIDTH, bottom, tuple(new))],
        "Left, each of three tokens makes one query, one key and one value; the keys and values of "
        "earlier tokens, dashed, come from the cache. Right, each token adds a row of weights.",
    )


# --- The task -------------------------------------------------------------------------------------

CALLED = ("Ann", "Mia", "Eve", "Bob", "Ida", "Tom", "Zoe", "Kim")


def book():
    """A telephone book with the weights of a trained network."""
    weights = results("mha", "weights")["attention"][0]
    names = [*CALLED, CALLED[task.ASKED]]
    xs, y = [34.0 + i * 66 for i in range(9)], 118.0
    best, parts = max(range(8), key=weights.__getitem__), []
    for i in sorted(range(8), key=weights.__getitem__):
        parts.append(arc(xs[8], xs[i], y, 34 + 0.16 * (xs[8] - xs[i]), weights[i], full=20))
    parts.append(loop(xs[8] + 8, y, 40, weights[8], full=20))
    for i, (x, name) in enumerate(zip(xs, names, strict=True)):
        digit = "?" if i == 8 else str(task.DIGITS_SHOWN[i])
        parts.append(
            cell(x - 30, y + 6, 60, 58, Q if i == 8 else GREY, 0.2 if i in (8, best) else 0.05)
        )
        parts.append(word(x, y + 30, name, size="large"))
        parts.append(text(x, y + 55, digit, "middle", "large"))
    at = (xs[best] + xs[8]) / 2
    parts.append(
        text(
            at,
            y - 0.75 * (34 + 0.16 * (xs[8] - xs[best])) - 14,
            f"{weights[best]:.2f}",
            "middle",
            "big halo t0",
        )
    )
    return Figure(
        [Panel(600, 188, tuple(parts))],
        "Eight names with a digit each, and “Bob ?”. From it lines lead to all of them, as thick "
        f"as the weights of a trained network: {weights[best]:.2f} of the weight lies on Bob "
        f"{task.DIGITS_SHOWN[best]}.",
    )


LABELS = {"attention": "attention", "fixed": "a weight for each place", "average": "equal weights"}


def curves():
    """Accuracy on new telephone books, five seeds for each network."""
    found = results("mha", "curve")
    steps = range(0, task.UPDATES + 1, task.EVERY)
    plot = Plot((0, task.UPDATES), (0, 1), title="share of right answers", x_label="updates")
    tones = {"attention": A, "fixed": SECOND, "average": GREY}
    for model, runs in found.items():
        for run in runs:
            points = [plot.at(*point) for point in zip(steps, run, strict=True)]
            plot.add(element("path", f"l t{tones[model]} thin", d=polyline(points)))
    ends = {model: sum(run[-1] for run in runs) / len(runs) for model, runs in found.items()}
    bars = [title("after the last update")]
    for i, (model, share) in enumerate(ends.items()):
        y = 30 + i * 50
        tone = f"t{tones[model]}"
        size = {"x": 0, "y": y + 8, "width": 230 * share, "height": 18}
        bars.append(text(0, y, LABELS[model], classes=f"on {tone}"))
        bars.append(element("rect", f"f {tone}", **size, fill_opacity=".6"))
        bars.append(text(230 * share + 6, y + 22, f"{share:.1%}".replace("%", " %"), classes="sum"))
    said = ", ".join(f"{LABELS[model]} {share:.1%}" for model, share in ends.items())
    return Figure(
        [plot.panel(), Panel(WIDTH, 180, tuple(bars))],
        f"Right answers against updates, five seeds for each network. In the end: {said}.",
    )


# --- Trained heads --------------------------------------------------------------------------------

RESULTS = Path(__file__).parents[1] / "results"
SAID = "ROMEO:\nWhat is thy"
#: The heads that the page names: the line break after a name, and the character before.
TRAINED = ((1, 0), (2, 0))
SIGNS = {"\n": "↵", " ": "␣"}


def _maps():
    """The weights of two heads of the trained character model, [T, S]."""
    run = load_run(RESULTS / "autoregressive")
    tokens = torch.tensor([run.vocabulary.texts.index(sign) for sign in SAID])[:, None]
    maps = attention_maps(run.model(), tokens, vocabulary=run.vocabulary.texts)
    return [maps[layer].weights[:, :, 0, head] for layer, head in TRAINED]


def looking():
    """Two trained heads: where the last character looks, and its neighbours."""
    maps, panels, said = _maps(), [], []
    signs = [SIGNS.get(sign, sign) for sign in SAID]
    xs = [10 + i * 16.0 for i in range(len(signs))]
    names = ("looks for the line break", "looks at the character before")
    for (layer, head), weights, name in zip(TRAINED, maps, names, strict=True):
        parts = [title(f"layer {layer + 1}, head {head + 1}"), text(110, 11, name)]
        for t in range(SAID.index("\n") + 1, len(signs)):
            row = weights[t, : t + 1].tolist()
            for s, weight in enumerate(row[:-1]):
                if weight > 0.15:
                    height = 14 + 0.36 * (xs[t] - xs[s])
                    parts.append(arc(xs[t], xs[s], 118, height, weight, full=6))
        for x, sign in zip(xs, signs, strict=True):
            parts.append(text(x, 134, sign, "middle", "on"))
        panels.append(Panel(WIDTH, 140, tuple(parts)))
    line_break = SAID.index("\n")
    said = maps[0][line_break + 2 :, line_break].mean(), maps[1].diagonal(-1).mean()
    return Figure(
        panels,
        "The text “ROMEO: What is thy”, with lines from the characters of the speech to those that "
        f"they attend to. Left, a head that gives the line break {said[0]:.2f} of the weight on "
        f"average. Right, one that gives {said[1]:.2f} to the character before.",
    )


def trained():
    """The maps of the same heads."""
    maps, panels = _maps(), []
    signs = [SIGNS.get(sign, sign) for sign in SAID]
    for (layer, head), weights in zip(TRAINED, maps, strict=True):
        panels.append(
            heat_map(
                weights.tolist(),
                title=f"layer {layer + 1}, head {head + 1}",
                down="query",
                across="key",
                rows=signs,
                columns=signs,
                cell=14.0,
                most=1.0,
            )
        )
    at = SAID.index("\n")
    return Figure(
        panels,
        f"Two maps of {len(SAID)} queries by as many keys, empty above the diagonal. In the first "
        f"there is a column at the line break, with {maps[0][at + 2 :, at].mean():.2f} of the "
        "weight on average; in the second a line below the diagonal, with "
        f"{maps[1].diagonal(-1).mean():.2f}.",
    )


# --- The steps and their code ---------------------------------------------------------------------

#: The steps of a head from the bottom to the top: words, tone, and the method that does it.
CHAIN = (
    ("compare, Q Kᵀ", GREY, "get_scores"),
    ("scale by 1/√d", GREY, "attend"),
    ("mask with −∞", GREY, "prepare_mask"),
    ("softmax", A, "attend"),
    ("dropout", A, "attend"),
    ("average, A V", V, "attend"),
)


def diagram():
    """The steps of one head, and all heads between their projections; boxes lead to the code."""
    to, high, gap, x, top = "#MultiHeadAttention", 26.0, 14.0, 112.0, 34.0
    bottom = top + len(CHAIN) * (high + gap)
    one = [title("one head")]
    for level, (words, tone, method) in enumerate(reversed(CHAIN)):
        y = top + level * (high + gap)
        one.append(arrow(x, y + high + gap, x, y + high + 1, "l t4"))
        one.append(box(x, y, 132, high, words, tone, f"{to}.{method}"))
    one.append(arrow(x, top, x, top - 13, "l t4"))
    one.append(letter(x, bottom + 14, ("Q", Q), ", ", ("K", K), at="middle"))
    one.append(letter(226, bottom + 14, ("V", V), at="middle"))
    one.append(line(226, bottom, 226, top + high / 2, "l t2"))
    one.append(arrow(226, top + high / 2, x + 67, top + high / 2, "l t2"))

    x, rows = 132.0, (bottom - high - gap, top + 2.1 * (high + gap), top)
    every = [title("all heads")]
    for i, (name, tone) in enumerate((("query", Q), ("key", K), ("value", V))):
        at = x + (i - 1) * 76
        every.append(letter(at, bottom + 14, ("XYZ"[i], None), at="middle"))
        every.append(arrow(at, bottom, at, rows[0] + high + 1, "l t4"))
        every.append(box(at, rows[0], 66, high, name, tone, "#PrepareForMultiHeadAttention"))
        every.append(arrow(at, rows[0], at, rows[1] + high + 14, f"l t{tone}"))
    for i in (2, 1, 0):
        at = {"x": x - 102 + 6 * i, "y": rows[1] + 6 - 6 * i, "height": high}
        # The page hides what lies behind a head.
        every.append(element("rect", style="fill:var(--page)", width=204, rx=4, **at))
        words, link = ("", "") if i else ("head 1 … H", f"{to}.attend")
        every.append(box(x + 6 * i, at["y"], 204, high, words, GREY, link))
    every.append(arrow(x, rows[1] - 6, x, rows[2] + high + 1, "l t4"))
    every.append(text(x + 10, (rows[1] + rows[2] + high) / 2 + 1, "side by side"))
    every.append(box(x, rows[2], 132, high, "output projection", GREY, f"{to}.forward"))
    every.append(arrow(x, rows[2], x, rows[2] - 13, "l t4"))
    return Figure(
        [Panel(WIDTH, bottom + 20, tuple(one)), Panel(WIDTH, bottom + 20, tuple(every))],
        "Left, from bottom to top: compare, scale, mask, softmax, dropout, and the average of the "
        "values, which enter only there. Right: three projections, the heads side by side, and the "
        "output projection.",
    )
