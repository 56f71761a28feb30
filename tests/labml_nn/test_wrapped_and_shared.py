"""Models that are wrapped, exported, moved over the meta device, or shared by threads."""

import copy
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from kernel_cases import SMALL, V, language_model
from sweeps import swept
from torch import nn
from torch.export import export

from labml_nn.checks import check_state
from labml_nn.sampling import generate


@pytest.fixture(params=SMALL)
def model(request):
    torch.manual_seed(0)
    return language_model(request.param).eval()


@pytest.fixture
def tokens():
    return torch.randint(3, V, (5, 2))


def test_a_checkpoint_fills_an_empty_model(model, tokens):
    """Tables that it does not contain are computed again. Its tensors may take the place of
    parameters, also on the meta device; and what is tied stays tied.
    """
    with torch.device("meta"):
        empty, other = (type(model)(model.config) for _ in range(2))
    other.to_empty(device="cpu").load_state_dict(model.state_dict())
    copied = copy.deepcopy(model)
    for one in (empty, copied):
        one.load_state_dict(copy.deepcopy(model.state_dict()), assign=True)
    names = [name for name, _ in model.named_parameters()]
    for one in (empty, copied, other):
        assert [name for name, _ in one.named_parameters()] == names
        assert torch.equal(generate(one.eval(), tokens, 3), generate(model, tokens, 3))
        assert torch.equal(one.predict(tokens), model.predict(tokens))


@pytest.mark.filterwarnings("ignore:.*torch.jit.script:DeprecationWarning")
def test_generation_with_a_wrapped_model(tmp_path, model, tokens):
    """By DistributedDataParallel and by `torch.compile`."""
    expected = generate(model, tokens, 3)
    given = {"init_method": f"file://{tmp_path}/store", "rank": 0, "world_size": 1}
    torch.distributed.init_process_group("gloo", **given)
    try:
        wrapped = nn.parallel.DistributedDataParallel(model)
        assert torch.equal(generate(wrapped, tokens, 3), expected)
        assert torch.equal(generate(torch.compile(wrapped), tokens, 3), expected)
        with pytest.raises(TypeError, match="is a Linear; expected a language model"):
            generate(nn.parallel.DistributedDataParallel(nn.Linear(1, 1)), tokens, 3)
    finally:
        torch.distributed.destroy_process_group()


EXPORTED = [name for name in SMALL if name != "encoder_decoder"]


# The attention weights of the last call are no part of what is exported.
@pytest.mark.filterwarnings("ignore:The tensor attribute", "ignore::FutureWarning")
@pytest.mark.parametrize("name", swept(EXPORTED, "autoregressive", "lstm", "mamba2"))
def test_export_with_its_state(name, tokens):
    """The lengths of recurrent loops are fixed then."""
    model = language_model(name).eval()
    logits, state = model(tokens)
    exported = export(model, (tokens,)).module()
    found, after = exported(tokens)
    torch.testing.assert_close(found, logits)
    assert type(after) is type(state)
    longer = export(model, (tokens, state)).module()(tokens, state)[0]
    torch.testing.assert_close(longer, model(tokens, state)[0])


def test_threads_share_a_model():
    """Its dropout is off in each of them, and on again after the last."""
    torch.manual_seed(0)
    model = language_model("autoregressive", dropout_prob=0.5).train()
    prompt = torch.randint(3, V, (3, 1))
    expected = generate(model, prompt, 6)
    with ThreadPoolExecutor(4) as pool:
        texts = pool.map(lambda _: generate(model, prompt, 6), range(80))
    assert all(torch.equal(text, expected) for text in texts)
    assert all(module.training for module in model.modules())


@pytest.mark.parametrize("name", ["autoregressive", "feedback"])
def test_a_wrong_state(name, tokens):
    model = language_model(name)
    _, state = model(tokens)
    with pytest.raises(TypeError, match="`state` is a int; expected what the model returned"):
        check_state(5, type(state), tokens)
    with pytest.raises(ValueError, match="that of a batch of 2, and `tokens` has the shape"):
        model(tokens[:, :1], state)
