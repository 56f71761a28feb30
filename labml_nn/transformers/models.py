r"""
---
title: Encoder–decoder Transformer (sequence to sequence)
summary: >
  The Transformer of "Attention Is All You Need": layer, encoder, decoder, the loss with
  teacher forcing and greedy decoding, in one file.
notebook: notebooks/encoder_decoder.ipynb
paper: https://arxiv.org/abs/1706.03762
---

A **sequence-to-sequence** model reads one sequence and writes another: a sentence and
its translation, a question and its answer. The paper translates English into German and
into French ([@vaswani2017attention, §5]). Earlier models used two recurrent networks,
of which the first had to compress the whole source into one vector for the second
([@sutskever2014sequence]). Attention removed that vector ([@bahdanau2014neural]), but
recurrent networks still process the positions of a sequence one after the other. The
Transformer has two stacks of layers without recurrence:

* The **encoder** turns $S$ source tokens into $S$ vectors, the *memory* $m$. All
  positions are computed in parallel, and each attends to all others, on both sides.
* The **decoder** writes the target from left to right. To predict the next token it
  attends to the tokens written so far (masked self-attention) and, in every layer, to
  the whole memory (**cross-attention**).

![The architecture, after Figure 1 of the paper: the encoder on the left, the decoder on
the right. Each sub-layer normalises its input first
(pre-norm).](figure:encoder_decoder.diagram)

<details><summary>Symbols, their code and shapes</summary>

| Symbol | Code | Shape | Meaning |
|:--|:--|:--|:--|
| $w$ | `src` of `encode` | `[S, B]` | source tokens |
| $y$ | `tgt` of `decode` | `[T, B]` | target tokens, $y_0$ is the start token |
| $E$ | `linear.weight` | `[V, C]` | token embeddings |
| $PE$ | `positional_encodings` | `[max_len, 1, C]` | positional encoding |
| $x$ | `x` of `residual` | `[T, B, C]` | features: one vector for each position |
| $z$ | `z` | `[T, B, C]` | input of a sub-layer |
| $m$ | `memory` of `decode` | `[S, B, C]` | the encoder's output |
| $M$ | `src_mask`, `tgt_mask` of `decode` | `[1, S, B]`, `[T, T, 1]` | masks |
| $p$ | `logits` of `loss` | `[T, B, V]` | softmax of these logits: the next token |

$B$ sequences, $C$ features, $H$ heads, $F$ hidden features of the feed-forward network,
$V$ tokens in a vocabulary, $L$ layers.

</details>
"""

import math
from collections.abc import Callable, Sequence

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from labml_nn.checks import (
    check_bool,
    check_integer,
    check_integers,
    check_probability,
    check_same_width,
    check_sizes,
)
from labml_nn.transformers.mha import KVCache
from labml_nn.transformers.positional_encoding import (
    fixed_positions,
    get_positional_encoding,
    learned_positions,
)
from labml_nn.transformers.utils import subsequent_mask
from labml_nn.utils import independent_copies

__all__ = [
    "Decoder",
    "EmbeddingsWithLearnedPositionalEncoding",
    "EmbeddingsWithPositionalEncoding",
    "Encoder",
    "EncoderDecoder",
    "Generator",
    "TransformerLayer",
]


class EmbeddingsWithPositionalEncoding(nn.Module):
    r"""
    ## Embeddings with positional encoding

    $$x_t = \sqrt{C} \, E_{w_t} + PE_t$$

    The table $E$ holds a learned vector for each token. Attention does not see the
    order of its inputs, so each stack adds a [positional
    encoding](positional_encoding.py) at its input, once.

    **Why $\sqrt{C}$.** §3.4 gives no reason; this is ours. A sinusoid has a root mean
    square of $1 / \sqrt{2}$ at any width. Glorot's initialisation, below, gives the
    entries of $E$ a standard deviation of $\sqrt{2 / (V + C)}$, 0.014 for 10,000 tokens
    and 512 features: the position would drown the token. The factor makes it 0.31.

    **Shared embeddings** (§3.4). The paper uses one matrix for both embeddings and for
    the generator ([@press2017using]), which is possible because source and target share
    one vocabulary. As an output matrix $E$ needs small entries: a variance of $1 / C$
    gives logits of variance 1. As an embedding it needs large ones, which the factor
    $\sqrt{C}$ makes of them. Here each module has its own matrix until you assign one
    to the others.

    * `d_model` is the number of features, $C$
    * `n_vocab` is the number of tokens, $V$
    * `max_len` is the number of precomputed positions, and no limit
    """

    positional_encodings: Tensor

    def __init__(self, d_model: int, n_vocab: int, max_len: int = 5000) -> None:
        super().__init__()
        check_sizes(d_model=d_model, n_vocab=n_vocab, max_len=max_len)
        self.linear = nn.Embedding(n_vocab, d_model)
        self.d_model = d_model
        table = get_positional_encoding(d_model, max_len)
        self.register_buffer("positional_encodings", table)

    def forward(
        self, x: Int[Tensor, "T B"], *, offset: int = 0
    ) -> Float[Tensor, "T B C"]:
        """`x` holds tokens, and `offset` is the position of the first of them."""
        positions = fixed_positions(self.positional_encodings, offset, len(x))
        embedded: Tensor = self.linear(x) * math.sqrt(self.d_model)
        return embedded + positions


class EmbeddingsWithLearnedPositionalEncoding(nn.Module):
    """
    ### Embeddings with learned positions

    The same sum with a trained table. `max_len` is the length of the longest sequence;
    a longer one raises a `ValueError`.
    """

    def __init__(self, d_model: int, n_vocab: int, max_len: int = 5000) -> None:
        super().__init__()
        check_sizes(d_model=d_model, n_vocab=n_vocab, max_len=max_len)
        self.linear = nn.Embedding(n_vocab, d_model)
        self.d_model = d_model
        self.positional_encodings = nn.Parameter(torch.zeros(max_len, 1, d_model))

    def forward(
        self, x: Int[Tensor, "T B"], *, offset: int = 0
    ) -> Float[Tensor, "T B C"]:
        positions = learned_positions(self.positional_encodings, offset, len(x))
        embedded: Tensor = self.linear(x) * math.sqrt(self.d_model)
        return embedded + positions


class TransformerLayer(nn.Module):
    r"""
    ## Transformer layer

    A layer of the encoder has two sub-layers: [self-attention](mha.py), in which the
    positions exchange information, and a [feed-forward network](feed_forward.py), which
    processes each position alone. A layer of the decoder has cross-attention between
    the two: a target position first collects what was written so far, and attends to
    the source with that as its query (§3.1). The two kinds of sub-layers are

    \begin{align}
    \operatorname{Attention}(Q, K, V)
        &= \operatorname{softmax}\!\big(Q K^\top / \sqrt{C / H}\big) \, V \\
    \operatorname{FFN}(z) &= \max(0, \; z W_1 + b_1) \, W_2 + b_2
    \end{align}

    with $H$ heads of attention side by side. For given weights attention is linear in
    the values: it moves and mixes features. The feed-forward network transforms them,
    and holds $8 C^2$ of the $12 C^2$ weights of an encoder layer if $F = 4C$. All
    positions share its weights, so that what is learned at one serves at all, for
    sequences of any length; each layer has its own.

    * `d_model` is the number of features, $C$
    * `self_attn` is the self-attention, a `MultiHeadAttention`
    * `src_attn` is the cross-attention to the source; layers of a decoder need it
    * `feed_forward` is the feed-forward network
    * `dropout_prob` is the dropout probability of each sub-layer's output
    * `norm_first` selects pre-norm (`True`) or the paper's post-norm (`False`)
    * `norm` makes a normalisation of $C$ features, such as [RMSNorm](modern.py)

    Raises `ValueError` for submodules of another width than `d_model`.
    """

    def __init__(
        self,
        *,
        d_model: int,
        self_attn: nn.Module,
        src_attn: nn.Module | None = None,
        feed_forward: nn.Module,
        dropout_prob: float,
        norm_first: bool = True,
        norm: Callable[[int], nn.Module] = nn.LayerNorm,
    ) -> None:
        super().__init__()
        check_sizes(d_model=d_model)
        check_probability(dropout_prob=dropout_prob)
        check_bool(norm_first=norm_first)
        check_same_width(
            d_model=d_model,
            self_attn=_width(self_attn),
            src_attn=_width(src_attn),
            feed_forward=_width(feed_forward),
        )
        self.size = d_model
        self.norm_first = norm_first
        self.self_attn = self_attn
        self.src_attn = src_attn
        self.feed_forward = feed_forward
        self.dropout = nn.Dropout(dropout_prob)

        self.norm_self_attn = norm(d_model)
        if src_attn is not None:
            self.norm_src_attn = norm(d_model)
        self.norm_ff = norm(d_model)

        # Set `is_save_ff_input` to store the input of the feed-forward network in each
        # forward pass, which kNN-LM ([@khandelwal2019generalization]) needs.
        self.is_save_ff_input = False
        self.ff_input: Tensor | None = None

    def residual(
        self,
        x: Float[Tensor, "T B C"],
        norm: nn.Module,
        sublayer: Callable[[Tensor], Tensor],
    ) -> Float[Tensor, "T B C"]:
        r"""
        ### Residual connection and normalisation

        A sub-layer $f$ does not replace the features, it adds to them:

        \begin{align}
        \text{pre-norm} && x
            &\leftarrow x + \operatorname{Dropout}(f(\operatorname{LN}(x))) \\
        \text{post-norm} && x
            &\leftarrow \operatorname{LN}(x + \operatorname{Dropout}(f(x)))
        \end{align}

        The **residual connection** is a path from the last layer to the first on which
        no weight multiplies the gradient, so deep stacks can be trained, and a layer
        only has to learn what to add. **Layer normalisation** gives each vector mean 0
        and variance 1 over its $C$ features, so every sub-layer receives inputs of the
        same scale.

        The paper normalises after the sum (§3.1). Then every layer rescales the
        residual path as well, and training needs a careful warm-up of the learning rate
        ([@xiong2020layer]). With pre-norm, the default, the residual path stays free.
        """
        if self.norm_first:
            x = x + self.dropout(sublayer(norm(x)))
        else:
            x = norm(x + self.dropout(sublayer(x)))
        return x

    def forward(
        self,
        *,
        x: Float[Tensor, "T B C"],
        mask: Bool[Tensor, "#T _ #B"] | None,
        src: Float[Tensor, "S B C"] | None = None,
        src_mask: Bool[Tensor, "#T _ #B"] | None = None,
        cache: KVCache | None = None,
        src_cache: KVCache | None = None,
    ) -> Float[Tensor, "T B C"]:
        r"""
        ### All sub-layers

        * `x` are the features, and `mask` says which position may attend to which
        * `src` is the memory; without it there is no cross-attention. `src_mask` hides
          its padding, `[1, S, B]`
        * `cache` and `src_cache` hold keys and values of earlier calls, in generation
        """
        # Attention modules of your own need not accept a cache.
        cached = {} if cache is None else {"cache": cache}
        x = self.residual(
            x,
            self.norm_self_attn,
            lambda z: self.self_attn(query=z, key=z, value=z, mask=mask, **cached),
        )

        # Cross-attention: queries come from the target, keys and values from the
        # memory. The weights have shape `[T, S, B, H]`, and the softmax runs over the
        # $S$ positions of the source: each target position, in each head, has a
        # distribution over the source. No causal mask is needed, because the source is
        # known completely.
        if src is not None:
            assert self.src_attn is not None, "`src` needs a layer with `src_attn`"
            attend = self.src_attn
            src_cached = {} if src_cache is None else {"cache": src_cache}
            source = {"key": src, "value": src, "mask": src_mask, **src_cached}
            x = self.residual(
                x, self.norm_src_attn, lambda z: attend(query=z, **source)
            )

        return self.residual(x, self.norm_ff, self._feed_forward)

    def _feed_forward(self, z: Float[Tensor, "T B C"]) -> Float[Tensor, "T B C"]:
        if self.is_save_ff_input:
            self.ff_input = z.detach().clone()
        output: Tensor = self.feed_forward(z)
        return output


class Encoder(nn.Module):
    r"""
    ## Encoder

    $L$ layers, each with the output of the one below as its input. They have the same
    shape and parameters of their own, drawn independently; version 0.5.1 started them
    as exact copies.

    With pre-norm nothing bounds the sum on the residual path: its variance grows with
    each layer. So a **final normalisation** follows the last layer, and the decoder
    attends to vectors of a fixed scale. Post-norm layers end in a normalisation
    already: give `final_norm=False` for the paper's stack.

    With a causal mask the same class is the stack of a decoder-only language model,
    such as the [autoregressive transformer](autoregressive.py).

    * `layer` is the pattern, and the first layer keeps its parameters
    * `n_layers` is the number of layers, $L$
    * `final_norm` is whether there is a final normalisation, and `norm` makes it
    """

    def __init__(
        self,
        layer: TransformerLayer,
        n_layers: int,
        *,
        final_norm: bool = True,
        norm: Callable[[int], nn.Module] = nn.LayerNorm,
    ) -> None:
        super().__init__()
        check_sizes(n_layers=n_layers)
        check_bool(final_norm=final_norm)
        self.size = layer.size
        self.layers = independent_copies(layer, n_layers)
        self.norm = norm(layer.size) if final_norm else nn.Identity()

    def forward(
        self,
        x: Float[Tensor, "T B C"],
        mask: Bool[Tensor, "#T _ #B"] | None = None,
        caches: Sequence[KVCache] | None = None,
    ) -> Float[Tensor, "T B C"]:
        """
        `mask` hides padding, `[1, T, B]`, or later positions, `[T, T, 1]`. `caches` has
        one cache for each layer.
        """
        for i, layer in enumerate(self.layers):
            x = layer(x=x, mask=mask, cache=caches[i] if caches else None)
        encoded: Tensor = self.norm(x)
        return encoded


class Decoder(nn.Module):
    """
    ## Decoder

    The same stack with cross-attention in every layer. All layers attend to the *final*
    output of the encoder, each with its own projections of it.

    Arguments are those of `Encoder`. Raises `ValueError` if `layer` has no `src_attn`.
    """

    def __init__(
        self,
        layer: TransformerLayer,
        n_layers: int,
        *,
        final_norm: bool = True,
        norm: Callable[[int], nn.Module] = nn.LayerNorm,
    ) -> None:
        super().__init__()
        check_sizes(n_layers=n_layers)
        check_bool(final_norm=final_norm)
        if layer.src_attn is None:
            raise ValueError(
                "the `layer` of a Decoder has no `src_attn`, so it cannot attend to "
                "the source; build it with src_attn=MultiHeadAttention(...), or use "
                "Encoder"
            )
        self.size = layer.size
        self.layers = independent_copies(layer, n_layers)
        self.norm = norm(layer.size) if final_norm else nn.Identity()

    def forward(
        self,
        x: Float[Tensor, "T B C"],
        memory: Float[Tensor, "S B C"],
        src_mask: Bool[Tensor, "#T _ #B"] | None,
        tgt_mask: Bool[Tensor, "#T _ #B"] | None,
        *,
        caches: Sequence[KVCache] | None = None,
        src_caches: Sequence[KVCache] | None = None,
    ) -> Float[Tensor, "T B C"]:
        """
        `src_mask` hides padding of the source, `[1, S, B]`, and `tgt_mask` later
        positions of the target, `[T, T, 1]`. `caches` and `src_caches` have one cache
        for each layer, for keys and values of the target and of the source.
        """
        for i, layer in enumerate(self.layers):
            x = layer(
                x=x,
                mask=tgt_mask,
                src=memory,
                src_mask=src_mask,
                cache=caches[i] if caches else None,
                src_cache=src_caches[i] if src_caches else None,
            )
        decoded: Tensor = self.norm(x)
        return decoded


class Generator(nn.Module):
    """
    ## Generator

    One logit for each token of the vocabulary. The softmax belongs to the loss, as
    PyTorch's `cross_entropy` expects, and to the sampler in generation.

    `n_vocab` is the number of tokens, and `d_model` the number of features.
    """

    def __init__(self, n_vocab: int, d_model: int) -> None:
        super().__init__()
        check_sizes(n_vocab=n_vocab, d_model=d_model)
        self.projection = nn.Linear(d_model, n_vocab)

    def forward(self, x: Float[Tensor, "*axes C"]) -> Float[Tensor, "*axes V"]:
        logits: Tensor = self.projection(x)
        return logits


class EncoderDecoder(nn.Module):
    r"""
    ## Encoder–decoder

    * `encoder` and `decoder` are the two stacks
    * `src_embed` and `tgt_embed` turn tokens `[T, B]` into vectors `[T, B, C]`
    * `generator` turns the decoder's output into logits

    Source and target may have different vocabularies, but all modules have one width;
    otherwise a `ValueError` is raised.
    """

    def __init__(
        self,
        encoder: Encoder,
        decoder: Decoder,
        src_embed: nn.Module,
        tgt_embed: nn.Module,
        generator: nn.Module,
    ) -> None:
        super().__init__()
        check_same_width(
            encoder=_width(encoder),
            decoder=_width(decoder),
            src_embed=_width(src_embed),
            tgt_embed=_width(tgt_embed),
            generator=_width(generator),
        )
        self.encoder = encoder
        self.decoder = decoder
        self.src_embed = src_embed
        self.tgt_embed = tgt_embed
        self.generator = generator

        # All matrices are initialised after [@glorot2010understanding]: uniform, with
        # variance $2 / (\text{fan}_{in} + \text{fan}_{out})$, which approximately keeps
        # the variance of features in the forward pass and of gradients in the backward
        # pass.
        for parameter in self.parameters():
            if parameter.dim() > 1:
                nn.init.xavier_uniform_(parameter)

    def forward(
        self,
        src: Int[Tensor, "S B"],
        tgt: Int[Tensor, "T B"],
        src_mask: Bool[Tensor, "1 S #B"] | None,
        tgt_mask: Bool[Tensor, "#T T #B"] | None,
    ) -> Float[Tensor, "T B C"]:
        """
        ### Forward pass

        * `src` and `tgt` are tokens
        * `src_mask` is `True` at real tokens of the source. It serves $S$ queries in
          the encoder and $T$ in the decoder, so its first axis is 1
        * `tgt_mask` is the causal mask of the target, `[T, T, 1]`

        Returns the decoder's features, as in version 0.5.1. `logits` also applies the
        generator.
        """
        return self.decode(self.encode(src, src_mask), src_mask, tgt, tgt_mask)

    def encode(
        self, src: Int[Tensor, "S B"], src_mask: Bool[Tensor, "#S S #B"] | None
    ) -> Float[Tensor, "S B C"]:
        """Source tokens to memory."""
        memory: Tensor = self.encoder(self.src_embed(src), src_mask)
        return memory

    def decode(
        self,
        memory: Float[Tensor, "S B C"],
        src_mask: Bool[Tensor, "#T S #B"] | None,
        tgt: Int[Tensor, "T B"],
        tgt_mask: Bool[Tensor, "#T T #B"] | None,
    ) -> Float[Tensor, "T B C"]:
        """Target tokens and memory to features of the target."""
        decoded: Tensor = self.decoder(self.tgt_embed(tgt), memory, src_mask, tgt_mask)
        return decoded

    def logits(
        self,
        src: Int[Tensor, "S B"],
        tgt: Int[Tensor, "T B"],
        src_mask: Bool[Tensor, "1 S #B"] | None,
        tgt_mask: Bool[Tensor, "#T T #B"] | None,
    ) -> Float[Tensor, "T B V"]:
        """The same call, up to the scores of the token after each position."""
        logits: Tensor = self.generator(self(src, tgt, src_mask, tgt_mask))
        return logits

    def loss(
        self,
        src: Int[Tensor, "S B"],
        tgt: Int[Tensor, "T B"],
        *,
        padding_token: int = 0,
        label_smoothing: float = 0.0,
    ) -> Float[Tensor, ""]:
        r"""
        ## Loss with teacher forcing

        $$\mathcal{L} = -\frac{1}{N} \sum_b \sum_{t}
            \ln p(y_{t+1, b} \mid y_{0b}, \dots, y_{tb}, \; w_b)$$

        The decoder receives the *true* tokens so far at each position, whatever it
        would have predicted itself: **teacher forcing**. So one forward pass trains all
        predictions of a target, in parallel.

        In generation the model continues its *own* tokens. After a wrong one it is in a
        situation that training never showed, and the next error becomes more likely:
        errors accumulate (*exposure bias*). A low loss does not measure that.
        *Scheduled sampling* feeds some of the model's own tokens in training, which
        ends the parallel computation.

        * `src` holds source tokens
        * `tgt` holds targets with a start token before and an end token after them
        * `padding_token` fills up both, at the end
        * `label_smoothing` is $\varepsilon$: the target is $1 - \varepsilon$ on the
          label, plus $\varepsilon / V$ on every token; 0.1 in the paper (§5.4). Then no
          logit has to grow without end, as a target of 1 demands: the model is less
          confident, its perplexity worse, its accuracy and BLEU better

        Returns the mean cross-entropy over the $N$ labels that are not padding, in
        nats.
        """
        check_integer("padding_token", padding_token)
        check_integers("src", src, "S B")
        check_integers("tgt", tgt, "T B")
        if len(tgt) < 2 or tgt.shape[1] != src.shape[1]:
            raise ValueError(
                f"`tgt` has shape {list(tgt.shape)} and `src` {list(src.shape)}; "
                "expected a target for each source, of at least two tokens"
            )
        check_probability(label_smoothing=label_smoothing)

        # **Shift.** Input and label are the same sequence, one position apart: position
        # $t$ receives $y_t$ and predicts $y_{t+1}$.
        #
        # ```text
        # input   start  w  h  y  ?
        # label   w      h  y  ?  end
        # ```
        #
        inputs, labels = tgt[:-1], tgt[1:]

        # **Causal mask.** Position $t$ may attend to positions up to $t$; the next one
        # holds its label. Padding comes last, so this mask hides it as well.
        tgt_mask = subsequent_mask(len(inputs), device=tgt.device)

        # **Padding mask.** The source has no causal mask, so its padding must be hidden
        # explicitly, in the encoder and in cross-attention.
        src_mask = (src != padding_token).unsqueeze(0)

        logits = self.logits(src, inputs, src_mask, tgt_mask)
        return F.cross_entropy(
            logits.flatten(0, 1),
            labels.flatten().long(),
            ignore_index=padding_token,
            label_smoothing=label_smoothing,
        )

    @torch.no_grad()
    def greedy_decode(
        self,
        src: Int[Tensor, "S B"],
        *,
        start_token: int,
        end_token: int,
        max_len: int,
        padding_token: int = 0,
    ) -> Int[Tensor, "N B"]:
        r"""
        ## Greedy decoding

        Generation encodes the source once. Then the decoder writes token after token,
        and the most probable one is the next input:

        $$y_{t+1} = \arg\max_v \; p(v \mid y_0, \dots, y_t, \; w)$$

        The [KV cache](mha.py) makes a step cheap: one query per layer attends to the
        cached keys and values of the target, and to those of the source.

        **What greedy decoding misses.** The most probable token need not begin the most
        probable sequence. If "a" has probability 0.6 but all its continuations 0.3, and
        "b" has 0.4 with a continuation of 0.9, greedy decoding finds $0.6 \cdot 0.3 =
        0.18$ and misses $0.4 \cdot 0.9 = 0.36$. *Beam search* extends the $k$ best
        prefixes in parallel; the paper uses $k = 4$ and a penalty for short outputs
        (§6.1).

        * `src` holds source tokens, padded at the end
        * `start_token` is $y_0$, and a sequence is complete after `end_token`
        * `max_len` is the largest number of tokens to write
        * `padding_token` fills up `src`, and the output after the end token

        Returns the targets without the start token, $N \le$ `max_len`. Call `eval()`
        first, which turns dropout off.
        """
        check_sizes(max_len=max_len)
        check_integer("padding_token", padding_token)
        check_integer("start_token", start_token)
        check_integer("end_token", end_token)
        check_integers("src", src, "S B")
        src_mask = (src != padding_token).unsqueeze(0)
        memory = self.encode(src, src_mask)
        layers = self.decoder.layers
        caches = [KVCache() for _ in layers]
        src_caches = [KVCache() for _ in layers]
        token = torch.full_like(src[:1], start_token)
        finished = torch.zeros_like(src[0], dtype=torch.bool)
        written = []
        for t in range(max_len):
            # The new token is the only query, and nothing stands after it: no mask.
            x = self.tgt_embed(token, offset=t)
            x = self.decoder(
                x, memory, src_mask, None, caches=caches, src_caches=src_caches
            )

            # From now on `src_caches` hold the keys and values of the whole memory.
            memory = memory[:0]
            token = self.generator(x).argmax(-1).to(src.dtype)
            token = token.masked_fill(finished, padding_token)
            written.append(token)
            finished = finished | (token[0] == end_token)
            if bool(finished.all()):
                break
        return torch.cat(written)


# The number of features that a submodule works on, or `None` if it does not tell.
def _width(module: nn.Module | None) -> int | None:
    for path in ("size", "d_model", "layer1.in_features", "projection.in_features"):
        width: object = module
        for name in path.split("."):
            width = getattr(width, name, None)
        if isinstance(width, int):
            return width
    return None


# ## Try it
#
# A trained model of two layers runs in this page: give it a speech, and see what each
# token of its reply attends to in the source.
#
# ![Before the first letter of the reply, one head attends to a letter of the speaker's
# name.](figure:live.cross)

# ## Common mistakes and their symptoms
#
# | Mistake | What happens | Symptom |
# |:--|:--|:--|
# | no shift | the input of a position is its label | loss near 0, output repeats |
# | no causal mask | the next position holds the label | near 0; output much worse |
# | no padding mask | real tokens attend to padding | results depend on the batch |
# | padding in the loss | the model learns to predict padding | loss looks too small |
# | no end token | nothing teaches the model to stop | output runs on to `max_len` |
#
# The first two are easy to overlook: training looks excellent. Without the mask the
# model has learned to look where in generation nothing stands yet. A test: change a
# target token, and the logits at earlier positions must not change.
#
# ## Cost
#
# | Attention, and its mask | Weights | Time per layer |
# |:--|:--|:--|
# | encoder, self-attention; padding | `[S, S, B, H]` | $O(S^2 C)$ |
# | decoder, self-attention; causal | `[T, T, B, H]` | $O(T^2 C)$ |
# | decoder, cross-attention; padding of the source | `[T, S, B, H]` | $O(S T C)$ |
#
# Projections and feed-forward networks add $O((S + T) C^2)$, which dominates up to
# lengths of several times the width: a layer of the encoder takes $12 S C^2$ for them
# and $2 S^2 C$ for scores and averages, as much at $S = 6 C$. In training the number of
# sequential steps does not depend on the lengths. Generation encodes the source once
# and then takes $T$ steps of the decoder one after the other, each $O((S + T) C + C^2)$
# per layer with caches. So layers are cheaper in the encoder ([@kasai2020deep]).
#
# ![Parameters of a model like the paper's base, but with three separate matrices for
# tokens, and the work for a pair of 32 tokens each.](figure:counts.encoder_decoder)
#
# ## The models of the paper
#
# The base model has $L = 6$ layers in each stack, $C = 512$, $H = 8$, $F = 2048$ and
# dropout 0.1. A batch has about 25,000 source and as many target tokens (§5.1). Adam
# ($\beta_1 = 0.9$, $\beta_2 = 0.98$) has a learning rate that rises for 4,000 updates
# and then falls: at update $n$ it is $C^{-1/2} \min(n^{-1/2}, \; n \cdot 4000^{-3/2})$
# (§5.3). With post-norm, gradients near the output are large at first, and long steps
# would diverge ([@xiong2020layer]). The big model, with $C = 1024$ and $H = 16$,
# reached 28.4 BLEU from English to German, over two more than the best results before
# (§6.1). One stack alone is a model as well: an encoder, which sees both sides of a
# position, classifies texts (BERT, [@devlin2018bert]), and a decoder without
# cross-attention [continues them](autoregressive.py).
#
# ## Differences from the paper
#
# * **Pre-norm** and one normalisation after each stack; `norm_first=False` and
#   `final_norm=False` give the paper's post-norm.
# * **No sharing** of embeddings and generator unless you assign one matrix to them.
# * **Dropout** is applied to each sub-layer's output as in §5.4, and also to attention
#   weights and hidden features, if those modules were built with it. §5.4 also applies
#   it to the sums of embeddings and positions; here and in version 0.5.1 there is none.
# * **Greedy decoding** in place of beam search.
#
# ## Pseudo-code
#
# With pre-norm; $\text{MHA}(X, Y, M)$ is [multi-head attention](mha.py) with queries
# from $X$, keys and values from $Y$ and mask $M$. Dropout is left out.
#
# $$\begin{array}{l}
# \textbf{procedure } \text{Encode}(w) \\
# \quad x \gets \sqrt{C} \, E_w + PE \\
# \quad \textbf{for } l = 1, \dots, L \\
# \quad\quad z \gets \text{LN}(x), \quad x \gets x + \text{MHA}(z, z, M_{src}) \\
# \quad\quad z \gets \text{LN}(x), \quad x \gets x + \text{FFN}(z) \\
# \quad \textbf{return } \text{LN}(x) \\
# \textbf{procedure } \text{Decode}(y, m) \\
# \quad x \gets \sqrt{C} \, E_y + PE \\
# \quad \textbf{for } l = 1, \dots, L \\
# \quad\quad z \gets \text{LN}(x), \quad x \gets x + \text{MHA}(z, z, M_{tgt}) \\
# \quad\quad z \gets \text{LN}(x), \quad x \gets x + \text{MHA}(z, m, M_{src}) \\
# \quad\quad z \gets \text{LN}(x), \quad x \gets x + \text{FFN}(z) \\
# \quad \textbf{return } \text{softmax}(\text{LN}(x) \, W^G + b^G)
# \end{array}$$
#
# | Parameter | Shape | | Activation | Shape |
# |:--|:--|:--|:--|:--|
# | `src_embed.linear`, `tgt_embed.linear` | `[V, C]` | | $x$, $z$ | `[T, B, C]` |
# | `self_attn`, `src_attn`: four matrices | `[C, C]`, `[C]` | | $m$ | `[S, B, C]` |
# | `feed_forward.layer1` | `[F, C]`, `[F]` | | hidden features | `[T, B, F]` |
# | `feed_forward.layer2` | `[C, F]`, `[C]` | | attention weights | `[T, S, B, H]` |
# | `norm_self_attn`, … | `[C]`, `[C]` | | | |
# | `generator.projection` | `[V, C]`, `[V]` | | logits | `[T, B, V]` |
#
# With $F = 4C$ a layer of the encoder has $12 C^2 + 13 C$ parameters and one of the
# decoder $16 C^2 + 19 C$.
#
# ## Exercises
#
# **1.** Table 3 of the paper gives 65 million parameters for the base model, with $L =
# 6$, $C = 512$, $F = 4C$ and one matrix for about 37,000 tokens. Find a formula, and
# check it.
#
# <details><summary>Answer</summary>
#
# $L \, (28 C^2 + 32 C)$ for the layers, $4 C$ for the two final normalisations, $V C$
# for the shared matrix, and the generator's biases, $V$: 97 % of the rounded 65
# million, for a vocabulary whose exact size the paper does not tell. The number of
# heads does not appear. The [language model](encoder_decoder.py) has this architecture;
# on the device `meta` tensors have shapes but no values.
#
# ```python
# import torch
# import labml_nn
#
# L, C, V = 6, 512, 37_000
# with torch.device("meta"):
#     sizes = {"n_vocab": V, "d_model": C, "heads": 8, "n_layers": L}
#     model = labml_nn.create("encoder_decoder", **sizes)
# count = sum(parameter.numel() for parameter in model.parameters())
# assert L * (28 * C**2 + 32 * C) + 4 * C + V * C + V == count == 63_121_544
# ```
#
# </details>
#
# **2.** Train a small model to reverse sequences of four digits, and let it write.
#
# <details><summary>Answer</summary>
#
# Cross-attention has to find position $3 - t$ of the source for position $t$ of the
# target, which it can do from the positional encodings.
#
# ```python
# import torch
# from labml_nn.transformers import Decoder, Encoder, EncoderDecoder, Generator
# from labml_nn.transformers import MultiHeadAttention, TransformerLayer
# from labml_nn.transformers.feed_forward import FeedForward
# from labml_nn.transformers.models import EmbeddingsWithPositionalEncoding
#
# def layer(src_attn=None):
#     return TransformerLayer(
#         d_model=32,
#         self_attn=MultiHeadAttention(4, 32, 0.0),
#         src_attn=src_attn,
#         feed_forward=FeedForward(32, 64, 0.0),
#         dropout_prob=0.0,
#     )
#
# def digits():  # tokens 0, 1 and 2 are padding, start and end
#     return torch.randint(3, 13, (4, 64))
#
# stacks = Encoder(layer(), 1), Decoder(layer(MultiHeadAttention(4, 32, 0.0)), 1)
# embeds = [EmbeddingsWithPositionalEncoding(32, n_vocab=13) for _ in range(2)]
# model = EncoderDecoder(*stacks, *embeds, Generator(13, 32))
# optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
# start, end = torch.full((1, 64), 1), torch.full((1, 64), 2)
# for _ in range(100):
#     src = digits()
#     loss = model.loss(src, torch.cat([start, src.flip(0), end]))
#     optimizer.zero_grad()
#     loss.backward()
#     optimizer.step()
#
# src = digits()
# written = model.eval().greedy_decode(src, start_token=1, end_token=2, max_len=9)
# right = written[:4] == src.flip(0)
# assert right.float().mean() > 0.8  # by chance it would be 0.1
# ```
#
# </details>
#
# **3.** Write a beam search for a function `log_probabilities(prefix)`, and find the
# sequence that greedy decoding misses in the example above.
#
# <details><summary>Answer</summary>
#
# Every prefix of the beam is extended by every token, and the $k$ best are kept. With
# $k = 1$ it is greedy decoding.
#
# ```python
# import math
#
# NEXT = {
#     "": {"a": 0.6, "b": 0.4},
#     "a": {"c": 0.3, "d": 0.3, "e": 0.4 * 0.7, "f": 0.4 * 0.3},
#     "b": {"c": 0.9, "d": 0.1},
# }
#
# def log_probabilities(prefix):
#     return {token: math.log(p) for token, p in NEXT[prefix].items()}
#
# def beam_search(k, length):
#     beam = [(0.0, "")]
#     for _ in range(length):
#         beam = [
#             (score + more, prefix + token)
#             for score, prefix in beam
#             for token, more in log_probabilities(prefix).items()
#         ]
#         beam = sorted(beam, reverse=True)[:k]
#     return beam[0]
#
# score, greedy = beam_search(k=1, length=2)
# assert greedy[0] == "a" and math.isclose(math.exp(score), 0.18)
# score, best = beam_search(k=2, length=2)
# assert best == "bc" and math.isclose(math.exp(score), 0.36)
# ```
#
# </details>
