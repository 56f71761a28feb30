"""The feedback transformers in use: where 0.5.1 went wrong, compilers and precisions, errors."""

import copy
import io
import pickle

import pytest
import torch
from feedback_tools import BOTH, COMPILED, B, C, F, H, L, T, build, gradients, tokens

from labml_nn.transformers.feedback import (
    FeedbackAttention,
    FeedbackTransformer,
    FeedbackTransformerKV,
    FeedbackTransformerLayer,
    FeedForward,
)

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
