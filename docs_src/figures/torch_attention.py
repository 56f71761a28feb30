"""Pictures for our notes on PyTorch's attention, of the worked example of our lesson."""

import torch

from docs_src.dog_sleeps import as_torch
from docs_src.figures.mha import TOKENS, W_K, W_Q, A, K, Q, V, X
from labml_nn.transformers.mha import MultiHeadAttention
from pylit.figures.draw import WIDTH, Figure, Panel, frame, grid, letter, listed, text, title, word

#: Without a matrix of values each word hands over its features as they are.
W_V = torch.eye(4)
GREY, ERROR = 4, 6


def _example():
    """PyTorch's module with the matrices of the example, in one head."""
    ours = MultiHeadAttention(1, 4, 0.0, bias=False)
    with torch.no_grad():
        for part, matrix in zip((ours.query, ours.key, ours.value), (W_Q, W_K, W_V), strict=True):
            part.linear.weight.copy_(matrix.T)
        ours.output.weight.copy_(torch.eye(4))
    return as_torch(ours)


def packed():
    """The packed matrix, and one product with it."""
    weight = _example().in_proj_weight.detach()
    w, h, top = 34.0, 17.0, 30.0
    matrix, product = [title("in_proj_weight")], [title("in_proj_weight times tired")]
    vectors = (weight @ X[2]).tolist()
    for n, (name, tone) in enumerate((("Q", Q), ("K", K), ("V", V))):
        y = top + n * (4 * h + 8)
        matrix.append(letter(0, y + 2 * h + 4, ("W", tone, name)))
        matrix += grid(40, y, weight[4 * n : 4 * n + 4], tone, w, h, most=4)
        part = vectors[4 * n : 4 * n + 4]
        small = name.lower()
        product.append(letter(0, y + 2 * h + 4, (small, tone)))
        product += grid(40, y, [[value] for value in part], tone, w, h, most=4)
        product.append(text(88, y + 2 * h + 4, f"rows {4 * n} to {4 * n + 3}"))
    height = top + 12 * h + 22
    parts = "; ".join(
        f"{name} {listed(vectors[4 * n : 4 * n + 4])}" for n, name in enumerate(("q", "k", "v"))
    )
    return Figure(
        [Panel(WIDTH, height, tuple(matrix)), Panel(WIDTH, height, tuple(product))],
        "A matrix of 12 rows and 4 columns: rows 0 to 3 make queries, 4 to 7 keys, 8 to 11 "
        f"values. Its product with the features of tired has all three: {parts}.",
    )


def masks():
    """The causal mask of our lesson, that of PyTorch, and the weights with each of them."""
    visible = torch.ones(3, 3, dtype=torch.bool).tril()
    theirs, x = _example(), X[:, None]
    with torch.no_grad():
        right = theirs(x, x, x, attn_mask=~visible)[1][0]
        wrong = theirs(x, x, x, attn_mask=visible)[1][0]
    w, h, left, top = 62.0, 28.0, 56.0, 40.0
    panels = []
    for name, weights, mask in (
        ("attn_mask=~visible", right, ~visible),
        ("attn_mask=visible, by mistake", wrong, visible),
    ):
        parts = [title(name)]
        parts += [word(left + (j + 0.5) * w, top - 8, t) for j, t in enumerate(TOKENS)]
        parts += [word(left - 8, top + (i + 0.5) * h + 4, t, "end") for i, t in enumerate(TOKENS)]
        number = weights.nan_to_num(0.0)
        parts += grid(left, top, number, A, w, h, hidden=mask.tolist(), most=1, digits=2, sign="0")
        for i in [i for i in range(3) if weights[i].isnan().all()]:
            y = top + (i + 0.5) * h + 4
            parts += [text(left + (j + 0.5) * w, y, "NaN", "middle", "n halo t6") for j in range(3)]
        panels.append(Panel(WIDTH, top + 3 * h + 4, tuple(parts)))
    rows = "; ".join(
        f"{token} {listed(row, 2)}" for token, row in zip(TOKENS, right.tolist(), strict=True)
    )
    return Figure(
        panels,
        "Two tables of weights, three queries by three keys. With the inverted mask each word sees "
        f"itself and earlier words: {rows}. With the mask of our lesson dog sees only later words "
        "and tired sees nothing: its row is NaN.",
    )


def repeated():
    """The masks of two sequences for two heads, in the order that PyTorch wants, and in another."""
    # The last key of the first sequence is padding: [B, T, S] with one query.
    hidden = torch.tensor([[[False, False, True]], [[False, False, False]]])
    heads, w, h, left, top = 2, 40.0, 24.0, 118.0, 30.0
    panels, said = [], []
    for name, mask in (
        ("mask.repeat_interleave(2, dim=0)", hidden.repeat_interleave(heads, dim=0)),
        ("mask.repeat(2, 1, 1)", hidden.repeat(heads, 1, 1)),
    ):
        parts, wrong = [title(name)], []
        for n, row in enumerate(mask):
            sequence, head = divmod(n, heads)
            y = top + n * (h + 8)
            parts.append(text(0, y + h / 2 + 4, f"sequence {sequence}, head {head}"))
            parts += grid(left, y, torch.ones(1, 3), A, w, h, hidden=row.tolist(), most=2)
            if not torch.equal(row, hidden[sequence]):
                parts.append(frame(left - 2, y - 2, 3 * w + 4, h + 4, ERROR))
                wrong.append(f"head {head} of sequence {sequence}")
        panels.append(Panel(WIDTH, top + len(mask) * (h + 8), tuple(parts)))
        said.append(f"{name} gives a wrong mask to {' and '.join(wrong) or 'nobody'}")
    return Figure(
        panels,
        "Four masks of three keys, two heads of each of two sequences. The last key of sequence 0 "
        f"is hidden. {'; '.join(said)}.",
    )
