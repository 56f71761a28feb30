r"""
---
title: Multi-head attention
summary: >
  Every position asks a question, every position offers an answer, and several heads
  listen in different ways.
paper: https://arxiv.org/abs/1706.03762
---

The first working version of this page.
"""

import math
from collections.abc import Sequence

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn import functional as F

from labml_nn.checks import check_heads, check_probability, check_sequence, check_sizes
from labml_nn.transformers.utils import check_mask


class PrepareForMultiHeadAttention(nn.Module):
    """
    ## A linear map, split into heads
    """

    def __init__(self, d_model: int, heads: int, d_k: int, bias: bool):
        super().__init__()
        check_sizes(d_model=d_model, heads=heads, d_k=d_k)
        self.linear = nn.Linear(d_model, heads * d_k, bias=bias)
        self.heads = heads
        self.d_k = d_k

    def forward(self, x: Float[Tensor, "*axes C"]) -> Float[Tensor, "*axes H K"]:
        return torch.unflatten(self.linear(x), -1, (self.heads, self.d_k))


class MultiHeadAttention(nn.Module):
    r"""
    ## Multi-head attention
    """

    def __init__(
        self,
        heads: int,
        d_model: int,
        dropout_prob: float = 0.1,
        bias: bool = True,
        *,
        output_bias: bool | None = None,
        store_attn: bool = False,
    ):
        super().__init__()
        check_heads(heads, d_model)
        check_probability(dropout_prob=dropout_prob)
        self.d_k = d_model // heads
        self.heads = heads

        if output_bias is None:
            output_bias = bias
        self.query = PrepareForMultiHeadAttention(d_model, heads, self.d_k, bias=bias)
        self.key = PrepareForMultiHeadAttention(d_model, heads, self.d_k, bias=bias)
        self.value = PrepareForMultiHeadAttention(
            d_model, heads, self.d_k, bias=output_bias
        )
        self.softmax = nn.Softmax(dim=1)
        self.output = nn.Linear(d_model, d_model, bias=output_bias)
        self.dropout = nn.Dropout(dropout_prob)
        self.scale = 1 / math.sqrt(self.d_k)

        self.store_attn = store_attn
        self.attn: Tensor | None = None

    def get_scores(
        self, query: Float[Tensor, "T B H K"], key: Float[Tensor, "S B H K"]
    ) -> Float[Tensor, "T S B H"]:
        return torch.einsum("tbhk,sbhk->tsbh", query, key)

    def prepare_mask(
        self,
        mask: Bool[Tensor, "#T S #B"],
        query_shape: Sequence[int],
        key_shape: Sequence[int],
    ) -> Bool[Tensor, "#T S #B 1"]:
        return check_mask(mask, query_shape[0], key_shape[0], query_shape[1])[..., None]

    def attend(
        self,
        query: Float[Tensor, "T B H K"],
        key: Float[Tensor, "S B H K"],
        value: Float[Tensor, "S B H K"],
        mask: Bool[Tensor, "#T S #B 1"] | None,
    ) -> Float[Tensor, "T B H K"]:
        scores = self.get_scores(query, key) * self.scale
        if mask is not None:
            blind = ~mask.any(dim=1, keepdim=True)
            scores = scores.masked_fill(~(mask | blind), -math.inf)
        attn = self.softmax(scores)
        if mask is not None:
            attn = attn.masked_fill(blind, 0.0)
        if self.store_attn:
            self.attn = attn.detach()
        return torch.einsum("tsbh,sbhk->tbhk", self.dropout(attn), value)

    def attend_fast(
        self,
        query: Float[Tensor, "T B H K"],
        key: Float[Tensor, "S B H K"],
        value: Float[Tensor, "S B H K"],
        mask: Bool[Tensor, "#T S #B 1"] | None,
    ) -> Float[Tensor, "T B H K"]:
        attn_mask = None
        if mask is not None:
            blind = ~mask.any(dim=1, keepdim=True)
            attn_mask = (mask | blind).permute(2, 3, 0, 1)
        x = F.scaled_dot_product_attention(
            query.permute(1, 2, 0, 3),
            key.permute(1, 2, 0, 3),
            value.permute(1, 2, 0, 3),
            attn_mask=attn_mask,
            dropout_p=self.dropout.p if self.dropout.training else 0.0,
            scale=self.scale,
        ).permute(2, 0, 1, 3)
        if mask is not None:
            x = x.masked_fill(blind.squeeze(1).unsqueeze(-1), 0.0)
        return x

    def forward(
        self,
        *,
        query: Float[Tensor, "T B C"],
        key: Float[Tensor, "S B C"],
        value: Float[Tensor, "S B C"],
        mask: Bool[Tensor, "#T S #B"] | None = None,
    ) -> Float[Tensor, "T B C"]:
        d_model = self.heads * self.d_k
        weight = self.output.weight
        check_sequence("query", query, d_model, weight)
        check_sequence("key", key, d_model, weight)
        check_sequence("value", value, d_model, weight)
        self.attn = None
        if mask is not None:
            mask = self.prepare_mask(mask, query.shape, key.shape)
        readable = (
            self.store_attn
            or type(self).get_scores is not MultiHeadAttention.get_scores
            or "get_scores" in vars(self)
        )
        attend = self.attend if readable else self.attend_fast
        x = attend(self.query(query), self.key(key), self.value(value), mask)
        output: Tensor = self.output(x.flatten(-2))
        return output
