"""Who depends on whom in a Transformer and in a Feedback Transformer, measured with gradients."""

import torch
import torch.fx.experimental.symbolic_shapes  # `autograd.grad` imports it, in a figure's time

from labml_nn.transformers.feed_forward import FeedForward
from labml_nn.transformers.feedback import (
    FeedbackAttention,
    FeedbackTransformer,
    FeedbackTransformerLayer,
)
from labml_nn.transformers.mha import MultiHeadAttention
from labml_nn.transformers.models import Encoder, TransformerLayer
from labml_nn.transformers.utils import subsequent_mask
from pylit.figures.draw import WIDTH, Figure, Panel, Table, element, line, polyline, text

STEPS, LAYERS, SIZE = 5, 2, 16

Node = tuple[int, int]  # step and layer; layer 0 is the embedding


def unrolled():
    """Both models, their outputs as dots and what follows from what as lines."""
    ordinary, feedback = _ordinary(STEPS), _feedback(STEPS)
    found = [_longest(depends) for depends in (ordinary, feedback)]
    counts = [sum(layer > 0 for _, layer in chain) for chain in found]
    rows = [
        [str(steps), *(str(_layers(model(steps))) for model in (_ordinary, _feedback))]
        for steps in range(1, STEPS + 1)
    ]
    return Figure(
        [
            _panel("Transformer", ordinary, found[0]),
            _panel("Feedback Transformer", feedback, found[1]),
        ],
        f"Two grids of {STEPS} steps by {LAYERS} layers above the embeddings. In the "
        f"Transformer all lines go up, and the longest chain passes {counts[0]} layers. In the "
        "Feedback Transformer a line leads from the top of each step to the first layer of "
        f"the next, and the longest chain passes {counts[1]} layers.",
        Table(["steps", "Transformer", "feedback"], rows, title="Layers in the longest chain"),
    )


def _ordinary(steps):
    """Which outputs depend on which, in an encoder that cannot see the future."""
    layer = TransformerLayer(
        d_model=SIZE,
        self_attn=MultiHeadAttention(2, SIZE, 0.0),
        feed_forward=FeedForward(SIZE, SIZE, 0.0),
        dropout_prob=0.0,
    )
    encoder = Encoder(layer, LAYERS)
    x = torch.randn(steps, 1, SIZE, requires_grad=True)
    outputs = [x]
    for one in encoder.layers:
        one.register_forward_hook(lambda module, given, output: outputs.append(output))
    encoder(x, subsequent_mask(steps))
    return _dependence({(t, i): (rows, t) for i, rows in enumerate(outputs) for t in range(steps)})


def _feedback(steps):
    """The same in a Feedback Transformer, whose layers run once for each step."""
    layer = FeedbackTransformerLayer(
        d_model=SIZE,
        attn=FeedbackAttention(2, SIZE, 0.0, max_distance=steps),
        feed_forward=FeedForward(SIZE, SIZE, 0.0),
        dropout_prob=0.0,
    )
    model = FeedbackTransformer(layer, LAYERS)
    outputs = [[] for _ in model.layers]
    for i, one in enumerate(model.layers):
        one.register_forward_hook(lambda module, given, output, i=i: outputs[i].append(output))
    x = torch.randn(steps, 1, SIZE, requires_grad=True)
    model(x)
    nodes = {(t, 0): (x, t) for t in range(steps)}
    nodes |= {(t, i + 1): (rows[t], 0) for i, rows in enumerate(outputs) for t in range(steps)}
    return _dependence(nodes)


def _dependence(nodes):
    """For each node those before it whose change would change it: where a gradient arrives."""
    tensors = list({id(tensor): tensor for tensor, _ in nodes.values()}.values())
    depends: dict[Node, set[Node]] = {}
    for node, (tensor, row) in nodes.items():
        output = tensor if tensor.dim() == 2 else tensor[row]
        others = [other for other in tensors if other is not tensor]
        sent = torch.randn_like(output)
        gradients = torch.autograd.grad(output, others, sent, retain_graph=True, allow_unused=True)
        arrived = {id(t): g for t, g in zip(others, gradients, strict=True) if g is not None}
        depends[node] = {
            other
            for other, (source, r) in nodes.items()
            if id(source) in arrived
            and bool((arrived[id(source)] if source.dim() == 2 else arrived[id(source)][r]).any())
        }
    return depends


def _longest(depends):
    """The longest chain in which each output depends on the one before."""
    chains: dict[Node, list[Node]] = {}
    for node in sorted(depends, key=lambda node: len(depends[node])):
        before = [chains[other] for other in sorted(depends[node])]
        chains[node] = [*max(before, key=len, default=[]), node]
    return max((chains[node] for node in sorted(chains, reverse=True)), key=len)


def _layers(depends):
    return sum(layer > 0 for _, layer in _longest(depends))


def _direct(depends):
    """Without the lines that only sum up others: a to c, where a leads to b and b to c."""
    for node, before in depends.items():
        by_way = set().union(*(depends[other] for other in before))
        yield from ((other, node) for other in sorted(before - by_way))


def _panel(title, depends, chain):
    def place(node):
        step, layer = node
        return 58.0 + step * 51, 32.0 + (LAYERS - layer) * 46

    parts = [text(0, 11, title, classes="h")]
    for layer in range(LAYERS + 1):
        words = f"layer {layer}" if layer else "tokens"
        parts.append(text(0, place((0, layer))[1] + 4, words))
    parts += [line(*place(a), *place(b), "l t4 thin") for a, b in _direct(depends)]
    parts.append(element("path", "l t1 thick", d=polyline(map(place, chain))))
    for node in sorted(depends):
        x, y = place(node)
        parts.append(element("circle", f"f t{1 if node in chain else 4}", cx=x, cy=y, r=4))
    for step in range(STEPS):
        parts.append(text(place((step, 0))[0], 32 + LAYERS * 46 + 20, f"step {step}", "middle"))
    return Panel(WIDTH, 32 + LAYERS * 46 + 24, tuple(parts))
