"""Fast weights: the feature map, and the rule beside that of DeltaNet and token by token."""

import pytest
import torch

from labml_nn.recurrent.delta_net import delta_rule_loop
from labml_nn.transformers import fast_weights
from labml_nn.transformers.fast_weights import DPFP, FastWeightsAttention, token_wise
from labml_nn.transformers.feed_forward import FeedForward

T, B, H, D, L = 7, 2, 3, 4, 2
C = H * D


@pytest.fixture(autouse=True)
def seeded():
    torch.manual_seed(0)


def model(module):
    layer = module.FastWeightsAttentionTransformerLayer(
        d_model=C,
        attn=module.FastWeightsAttention(H, C, 0.1, DPFP(2)),
        feed_forward=FeedForward(C, 10),
        dropout_prob=0.1,
    )
    return module.FastWeightsAttentionTransformer(layer, L).double().eval()


@pytest.mark.parametrize("nu", [1, 3])
def test_features_are_positive_and_sum_to_one(nu):
    features = DPFP(nu)(torch.randn(50, D, dtype=torch.double))
    assert features.shape == (50, 2 * D * nu) and (features >= 0).all()
    torch.testing.assert_close(features.sum(-1), torch.ones(50).double(), rtol=0, atol=1e-3)
    # Half of the numbers of [k, -k] are zero, and so is each product with one of them.
    assert ((features == 0).sum(-1) >= D * nu).all()


def test_token_by_token_is_the_same():
    at_once, one_by_one = model(fast_weights), model(token_wise)
    weights = {
        name.replace("interpolation_weight", "gate"): weight
        for name, weight in at_once.state_dict().items()
    }
    one_by_one.load_state_dict(weights, strict=True)
    x = torch.randn(T, B, C, dtype=torch.double)
    torch.testing.assert_close(one_by_one(x), at_once(x))


def test_the_rule_is_that_of_delta_net():
    attention = FastWeightsAttention(H, C, 0.0, DPFP()).double()
    x = torch.randn(T, B, C, dtype=torch.double)
    query, key = (attention.phi(part(x)) for part in (attention.query, attention.key))
    beta = attention.interpolation_weight(x)[..., 0]
    memory = x.new_zeros(B, H, 2 * D, D)
    found, _ = delta_rule_loop(query, key, attention.value(x), beta, memory)
    torch.testing.assert_close(attention(x), attention.output(found.flatten(-2)))
