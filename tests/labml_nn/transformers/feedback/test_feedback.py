"""The feedback transformers: against a plain loop, step by step, and where 0.5.1 went wrong."""

import copy
import io
import pickle

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from labml_nn.transformers.feedback import (
    FeedbackAttention,
    FeedbackMemory,
    FeedbackTransformer,
    FeedbackTransformerKV,
    FeedbackTransformerLayer,
    FeedForward,
)

T, B, C, H, F, L = 5, 2, 12, 3, 28, 2
#: PyTorch's tracer makes an instance of `torch.autograd.Function` and warns itself not to.
COMPILED = pytest.mark.filterwarnings("ignore:.*should not be instantiated:DeprecationWarning")
BOTH = pytest.mark.parametrize("shared", [False, True], ids=["own", "shared"])


def build(shared, *, dropout=0.0, n_layers=L, d_model=C, heads=H, package=None, **options):
    """A model whose parameters are all random; `package` is the library without its hook."""
    names = vars(package) if package else globals()
    torch.manual_seed(0)
    attn = names["FeedbackAttention"](heads, d_model, dropout, is_kv_precomputed=shared, **options)
    layer = names["FeedbackTransformerLayer"](
        d_model=d_model,
        attn=attn,
        feed_forward=names["FeedForward"](d_model, F, dropout),
        dropout_prob=dropout,
    )
    if shared:
        model = names["FeedbackTransformerKV"](layer, n_layers, d_model, heads)
    else:
        model = names["FeedbackTransformer"](layer, n_layers)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) / 8)
    return model


def tokens(*shape, seed=0, dtype=torch.float32):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*(shape or (T, B, C)), generator=generator, dtype=dtype)


def plain(model, x_seq):
    """The paper's loop with nothing clever: lists, `torch.stack`, one layer after the other."""
    keys, values, top = [], [], []
    for x in x_seq:
        outputs = [x]
        for layer in model.layers:
            if keys:
                x = layer(x=x, key=torch.stack(keys), value=torch.stack(values))
            else:
                x = layer(x=x, key=None, value=None)
            outputs.append(x)
        shares = torch.softmax(model.weights, 0)
        memory = sum(share * output for share, output in zip(shares, outputs, strict=True))
        shared = isinstance(model, FeedbackTransformerKV)
        keys.append(model.key(memory) if shared else memory)
        values.append(model.value(memory) if shared else memory)
        top.append(x)
    return model.norm(torch.stack(top))


def gradients(model, output, seed=0):
    """Gradients of a fixed, lopsided sum of an output."""
    weight = tokens(*output.shape, seed=seed).to(output)
    return torch.autograd.grad((output * weight).sum(), list(model.parameters()))


@BOTH
def test_equals_the_plain_loop(shared):
    model, x = build(shared), tokens().requires_grad_()
    got, expected = model(x), plain(model, x)
    torch.testing.assert_close(got, expected)
    torch.testing.assert_close(gradients(model, got), gradients(model, expected))
    for_x = [torch.autograd.grad(y.square().sum(), x)[0] for y in (model(x), plain(model, x))]
    torch.testing.assert_close(*for_x)


def test_memory_by_hand():
    """Layers that add 1 and 2 to every feature, and shares of 1/2, 1/4 and 1/4."""
    model = build(False)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
        for number, layer in enumerate(model.layers, start=1):
            layer.feed_forward.layer2.bias.fill_(number)
        model.weights.copy_(torch.tensor([0.5, 0.25, 0.25]).log())
    x = torch.full((1, B, C), 10.0)
    _, memory = model.scan(x)
    # 1/2 of 10 + 1/4 of 11 + 1/4 of 13
    torch.testing.assert_close(memory.keys.rows, torch.full((1, B, C), 11.0))
    assert memory.values is memory.keys


@BOTH
def test_steps_equal_the_whole(shared):
    model, x, memory = build(shared), tokens(), None
    whole, whole_memory = model.scan(x)
    for t in range(T):
        y, memory = model.step(x[t], memory)
        assert isinstance(memory, FeedbackMemory)
        assert len(memory) == t + 1
        torch.testing.assert_close(y, whole[t])
    torch.testing.assert_close(memory.keys.rows, whole_memory.keys.rows)
    torch.testing.assert_close(memory.values.rows, whole_memory.values.rows)


@BOTH
@settings(deadline=None, max_examples=10)
@given(cuts=st.sets(st.integers(1, T - 1)))
def test_pieces_of_any_length_equal_the_whole(shared, cuts):
    """Gradients too: they flow from one piece into the one before, through the memory."""
    model, x, memory, outputs = build(shared), tokens(), None, []
    for piece in torch.tensor_split(x, sorted(cuts)):
        y, memory = model.scan(piece, memory)
        outputs.append(y)
    whole = model(x)
    torch.testing.assert_close(torch.cat(outputs), whole)
    torch.testing.assert_close(
        gradients(model, torch.cat(outputs)), gradients(model, whole), rtol=1e-4, atol=1e-5
    )


@BOTH
def test_an_older_memory_stays_good(shared):
    """Two continuations from one point, as a beam search has them."""
    model, x = build(shared), tokens(7, B, C)
    _, memory = model.scan(x[:3])
    for last in ([3, 4], [5, 6]):
        y, longer = model.scan(x[last], memory)
        torch.testing.assert_close(y, model(x[[0, 1, 2, *last]])[3:])
        assert (len(longer), len(memory)) == (5, 3)


@BOTH
def test_detached_memory_cuts_gradients_only(shared):
    model, x = build(shared), tokens().requires_grad_()
    _, memory = model.scan(x[:3])
    y, _ = model.scan(x[3:], memory.detach())
    torch.testing.assert_close(y, model(x)[3:])
    gradient = torch.autograd.grad(y.square().sum(), x)[0]
    assert gradient[:3].count_nonzero() == 0
    assert gradient[3:].count_nonzero() > 0


@BOTH
@settings(deadline=None, max_examples=10)
@given(position=st.integers(0, T - 1), seed=st.integers(0, 99))
def test_no_output_sees_the_future_and_the_last_sees_everything(shared, position, seed):
    model, x = build(shared), tokens(seed=seed)
    changed = x.clone()
    changed[position] += 1 + tokens(B, C, seed=seed + 1)
    before, after = model(x), model(changed)
    torch.testing.assert_close(before[:position], after[:position])
    assert (before[position:] - after[position:]).abs().amax((1, 2)).min() > 1e-6


@BOTH
def test_sequences_of_a_batch_do_not_mix(shared):
    model, x = build(shared), tokens(T, 3, C)
    torch.testing.assert_close(model(x[:, [2, 0, 1]]), model(x)[:, [2, 0, 1]])
    torch.testing.assert_close(model(x[:, 1:2]), model(x)[:, 1:2])


def test_low_layers_read_high_ones():
    """What the model is for: with all shares on the top layer, layer 1 reads the top, a step later.

    In an ordinary decoder a top layer has no influence on anything but its own output.
    """
    model, x = build(False), tokens()
    with torch.no_grad():
        model.weights.copy_(torch.tensor([-50.0, -50.0, 50.0]))
    seen = []
    model.layers[0].register_forward_hook(lambda *call: seen.append(call[-1]))
    top = model.layers[-1].feed_forward.layer2.bias
    model(x)
    effects = [
        torch.autograd.grad(y.sum(), top, allow_unused=True, retain_graph=True)[0] for y in seen
    ]
    assert effects[0] is None
    assert all(effect.count_nonzero() for effect in effects[1:])


@BOTH
def test_gradients_numerically(shared):
    model = build(shared, n_layers=2, d_model=2, heads=1, max_distance=2).double()
    x = tokens(4, 1, 2, dtype=torch.float64).requires_grad_()
    assert torch.autograd.gradcheck(model, (x,))
    names = [name for name, _ in model.named_parameters() if "feed_forward" not in name]

    def call(*chosen):
        named = dict(zip(names, chosen, strict=True))
        return torch.func.functional_call(model, named, (x.detach(),))

    assert torch.autograd.gradcheck(call, tuple(model.get_parameter(name) for name in names))


# What version 0.5.1 got wrong.


@BOTH
def test_two_forward_passes_before_a_backward_pass(shared):
    model, first, second = build(shared), tokens(seed=1), tokens(seed=2)
    expected = gradients(model, model(first))
    output = model(first)
    model(second)
    torch.testing.assert_close(gradients(model, output), expected)


@BOTH
def test_losses_of_two_sequences_add_up(shared):
    model, first, second = build(shared), tokens(seed=1), tokens(3, B, C, seed=2)
    separate = [gradients(model, model(x)) for x in (first, second)]
    outputs = torch.cat([model(first), model(second)])
    weight = torch.cat([tokens(T, B, C), tokens(3, B, C)])
    together = torch.autograd.grad((outputs * weight).sum(), list(model.parameters()))
    torch.testing.assert_close(together, tuple(a + b for a, b in zip(*separate, strict=True)))


@BOTH
def test_backward_twice_through_one_graph(shared):
    model = build(shared)
    loss = model(tokens()).square().sum()
    once = torch.autograd.grad(loss, list(model.parameters()), retain_graph=True)
    torch.testing.assert_close(torch.autograd.grad(loss, list(model.parameters())), once)


@BOTH
def test_more_than_512_steps_and_more_than_the_table(shared):
    """520 tokens, and 9 distances: those beyond share the farthest."""
    model = build(shared, n_layers=1, max_distance=9)
    x = tokens(520, 1, C)
    longer = build(shared, n_layers=1, max_distance=519)
    state = model.state_dict()
    rows = torch.arange(-510, 9).clamp(min=0)
    for name in ("layers.0.attn.key_pos_embeddings", "layers.0.attn.key_pos_bias"):
        state[name] = state[name][rows]
    longer.load_state_dict(state)
    with torch.no_grad():
        y, memory = model.scan(x)
        torch.testing.assert_close(y, longer(x), rtol=1e-4, atol=1e-5)
        next_y, _ = model.step(x[0], memory)
        torch.testing.assert_close(next_y, model(torch.cat([x, x[:1]]))[-1])


@BOTH
def test_copies_after_use(shared):
    model, x = build(shared), tokens()
    expected = model(x)
    copies = [copy.deepcopy(model), pickle.loads(pickle.dumps(model))]
    buffer = io.BytesIO()
    torch.save(model, buffer)
    buffer.seek(0)
    copies.append(torch.load(buffer, weights_only=False))
    for copied in copies:
        torch.testing.assert_close(copied(x), expected)


@BOTH
def test_another_precision_after_use(shared):
    model, x = build(shared), tokens()
    expected = model(x)
    model.double()
    torch.testing.assert_close(model(x.double()), expected.double(), rtol=1e-5, atol=1e-5)
    model.bfloat16()
    assert model(x.bfloat16()).dtype == torch.bfloat16


@BOTH
def test_another_batch_size_after_use(shared):
    model = build(shared)
    model(tokens())
    assert model(tokens(3, 4, C)).shape == (3, 4, C)


def test_free_is_harmless():
    model = build(True)
    output = model(tokens())
    model.free()
    output.sum().backward()
    assert model.key.linear.weight.grad is not None


@BOTH
def test_layers_begin_with_parameters_of_their_own(shared):
    torch.manual_seed(0)
    attn = FeedbackAttention(H, C, is_kv_precomputed=shared)
    layer = FeedbackTransformerLayer(
        d_model=C, attn=attn, feed_forward=FeedForward(C, F), dropout_prob=0.1
    )
    model = FeedbackTransformerKV(layer, L, C, H) if shared else FeedbackTransformer(layer, L)
    first, second = model.layers
    assert not torch.equal(first.attn.query.linear.weight, second.attn.query.linear.weight)
    assert not torch.equal(first.feed_forward.layer1.weight, second.feed_forward.layer1.weight)
    assert second.attn.key_pos_embeddings.count_nonzero() == 0


def test_a_smaller_table_has_no_parameters_out_of_reach():
    """At length T a memory has at most T - 1 rows; a table of that size is trained in every row."""
    model = build(True, max_distance=T - 1)
    model(tokens()).square().sum().backward()
    for layer in model.layers:
        reached = layer.attn.key_pos_embeddings.grad.abs().sum((1, 2))
        assert reached.shape == (T - 1,)
        assert (reached > 0).all()


@BOTH
def test_autocast(shared):
    model, x = build(shared), tokens().requires_grad_()
    expected = model(x)
    with torch.autocast("cpu", torch.bfloat16):
        whole, memory = model.scan(x[:-1])
        last, _ = model.step(x[-1], memory)
    got = torch.cat([whole, last[None]])
    torch.testing.assert_close(got.float(), expected, rtol=0.1, atol=0.1)
    got.float().square().sum().backward()
    assert torch.isfinite(x.grad).all()


@BOTH
@COMPILED
def test_compiled_in_one_graph(unhooked, shared):
    package = unhooked("labml_nn.transformers.feedback")
    model, x = build(shared, package=package), tokens(3, B, C)
    torch._dynamo.reset()
    compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
    got = compiled(x)
    torch.testing.assert_close(got, model(x))
    torch.testing.assert_close(gradients(model, got), gradients(model, model(x)))


@BOTH
@COMPILED
def test_compiled_steps(unhooked, shared):
    """More of them than the compiler would compile one by one: it gives up after eight."""
    package = unhooked("labml_nn.transformers.feedback")
    model, x, memory, outputs = build(shared, package=package), tokens(11, B, C), None, []
    torch._dynamo.reset()
    step = torch.compile(model.step, fullgraph=True, backend="eager")
    with torch.no_grad():
        for token in x:
            y, memory = step(token, memory)
            outputs.append(y)
        torch.testing.assert_close(torch.stack(outputs), model(x))


@BOTH
def test_generation_under_inference_mode_goes_on_outside(shared):
    model, x = build(shared), tokens()
    with torch.inference_mode():
        _, memory = model.scan(x[:3])
    with torch.no_grad():
        y, _ = model.scan(x[3:], memory)
        torch.testing.assert_close(y, model(x)[3:])


@BOTH
def test_dropout_in_training_only(shared):
    model, x = build(shared, dropout=0.5), tokens()
    assert not torch.equal(model(x), model(x))
    model.eval()
    assert torch.equal(model(x), model(x))


# Errors.


@BOTH
@pytest.mark.parametrize(
    ("shape", "message"),
    [
        ((0, B, C), r"`x_seq` has shape \[0, 2, 12\]: the sequence is empty"),
        ((B, C), r"`x_seq` has shape \[2, 12\]; expected \[T, B, C\]"),
        ((T, B, C + 1), r"`x_seq` has shape \[5, 2, 13\].*d_model = 12"),
    ],
)
def test_wrong_sequences(unhooked, shared, shape, message):
    model = build(shared, package=unhooked("labml_nn.transformers.feedback"))
    with pytest.raises(ValueError, match=message):
        model(torch.zeros(shape))


@BOTH
def test_wrong_types(unhooked, shared):
    model = build(shared, package=unhooked("labml_nn.transformers.feedback"))
    with pytest.raises(TypeError, match=r"`x_seq` has dtype torch.int64.*embed tokens"):
        model(torch.zeros(T, B, C, dtype=torch.int64))
    with pytest.raises(TypeError, match=r"`x_seq` has dtype torch.float64.*torch.float32"):
        model(tokens().double())


@BOTH
def test_a_step_is_one_token(unhooked, shared):
    model = build(shared, package=unhooked("labml_nn.transformers.feedback"))
    with pytest.raises(ValueError, match=r"`x` has shape \[5, 2, 12\]; expected \[B, C\].*`scan`"):
        model.step(tokens())


@BOTH
def test_memory_of_another_model(unhooked, shared):
    package = unhooked("labml_nn.transformers.feedback")
    model, x = build(shared, package=package), tokens()
    _, deeper = build(shared, n_layers=3, package=package).scan(x)
    with pytest.raises(ValueError, match=r"`memory` was written by 3 layers.* this model has 2"):
        model.step(x[0], deeper)
    _, other = build(not shared, package=package).scan(x)
    with pytest.raises(ValueError, match=r"`memory` has rows of shape \[2, .*; expected \[2, "):
        model.step(x[0], other)
    _, wider = model.scan(tokens(T, 3, C))
    with pytest.raises(ValueError, match=r"rows of shape \[3, .*a batch of 2"):
        model.step(x[0], wider)
    _, double = copy.deepcopy(model).double().scan(x.double())
    with pytest.raises(TypeError, match=r"`memory` has dtype torch.float64 but `x_seq` has.*32"):
        model.step(x[0], double)


def test_layers_of_the_other_kind():
    attn = {shared: FeedbackAttention(H, C, is_kv_precomputed=shared) for shared in (False, True)}
    layer = {
        shared: FeedbackTransformerLayer(
            d_model=C, attn=attn[shared], feed_forward=FeedForward(C, F), dropout_prob=0.1
        )
        for shared in attn
    }
    with pytest.raises(ValueError, match=r"FeedbackTransformer needs.*is_kv_precomputed=False"):
        FeedbackTransformer(layer[True], L)
    with pytest.raises(ValueError, match=r"FeedbackTransformerKV needs.*is_kv_precomputed=True"):
        FeedbackTransformerKV(layer[False], L, C, H)
    with pytest.raises(ValueError, match=r"d_model = 12 and 3 heads.*d_model = 12 and 4 heads"):
        FeedbackTransformerKV(layer[True], L, C, 4)
    with pytest.raises(ValueError, match=r"`d_model` \(12\) must be divisible by `heads` \(5\)"):
        FeedbackTransformerKV(layer[True], L, C, 5)
    with pytest.raises(ValueError, match=r"`n` \(0\) must be at least 1"):
        FeedbackTransformer(layer[False], 0)


@BOTH
def test_functional_gradients(shared):
    """`torch.func` differentiates a model as a function of its parameters."""
    model = build(shared)
    parameters, x = dict(model.named_parameters()), tokens()

    def loss(given):
        return torch.func.functional_call(model, given, (x,)).square().sum()

    got = torch.func.grad(loss)(parameters)
    expected = torch.autograd.grad(loss(parameters), list(parameters.values()))
    for name, gradient in zip(parameters, expected, strict=True):
        torch.testing.assert_close(
            got[name], gradient, msg=lambda text, name=name: f"{name}: {text}"
        )


@BOTH
def test_shapes_without_numbers(shared):
    with torch.device("meta"):
        model = build(shared)
    y, memory = model.scan(torch.empty(T, B, C, device="meta"))
    assert y.is_meta
    assert y.shape == (T, B, C)
    assert len(memory) == T
