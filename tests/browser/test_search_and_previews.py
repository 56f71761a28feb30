"""Finding a thing by its name, and looking at it without going there, both by keyboard."""

from collections.abc import Callable

import pytest
from browser_tools import MHA, Visit
from playwright.sync_api import expect

pytestmark = pytest.mark.browser


#: What a search for each of the words finds first; some of them are misspelt.
QUERIES = """
labml_nn/transformers/mha.html: mha, attention, atention, multi head attention, multihead
labml_nn/transformers/mha.html: mutli-head attention, scaled dot product attention, cross attention
labml_nn/transformers/mha.html#MultiHeadAttention: MultiHeadAttention
labml_nn/transformers/mha.html#KVCache: kv cache
labml_nn/transformers/mha.html#keyvalue-cache-kv-cache: key value cache, key-value cache
labml_nn/transformers/positional_encoding.html: positional encoding, postional encoding
labml_nn/transformers/positional_encoding.html: position embedding, sinusoidal
labml_nn/transformers/models.html: encoder decoder, seq2seq, transformer, tranformer
labml_nn/transformers/models.html: attention is all you need, teacher forcing
labml_nn/transformers/models.html#TransformerLayer: TransformerLayer
labml_nn/recurrent/elman/index.html: elman, elmann, rnn, recurrent neural network, hidden state
labml_nn/recurrent/elman/bptt.html: bptt, backpropagation through time, backpropogation
labml_nn/recurrent/elman/bptt.html: vanishing gradients
labml_nn/lstm/index.html: lstm, long short-term memory, forget gate, cell state
labml_nn/lstm/gru.html: gru, gated recurrent unit, update gate
labml_nn/recurrent/mamba2.html: mamba, mamba-2, ssd, state space model, selective state space
labml_nn/recurrent/linear_attention.html: linear attention, linear transformer, katharopoulos
labml_nn/transformers/feedback/index.html: feedback, feedback transformer, fedback transformer
labml_nn/transformers/feedback/index.html#FeedbackAttention: FeedbackAttention, feedback attention
labml_nn/transformers/autoregressive.html: gpt, decoder only
labml_nn/transformers/modern.html: rope, rotary embeddings, rmsnorm, swiglu
labml_nn/transformers/feed_forward.html: feed forward
labml_nn/transformers/layer_norm.html: layer norm, layer normalization
labml_nn/transformers/utils.html: causal mask, padding mask
labml_nn/transformers/utils.html#subsequent_mask: subsequent_mask
labml_nn/transformers/label_smoothing_loss.html: label smoothing
labml_nn/optimizers/muon.html: muon
labml_nn/language_model.html: forward pass, perplexity
labml_nn/sampling.html: sampling, temperature, top p, how to generate text
labml_nn/kernels/attention.html: flash attention
labml_nn/experiments/presets.html: learning rate schedule
labml_nn/experiments/tiny_shakespeare.html: tiny shakespeare
labml_nn/experiments/trainer.html: gradient clipping, mixed precision
labml_nn/experiments/distributed.html: torchrun
labml_nn/experiments/checkpoint.html: resume
labml_nn/saving.html: save model
labml_nn/attention_maps/index.html: attention map
index.html: install
reading.html#how-to-cite: how to cite
reading.html: cite, citation
notation.html: notation
glossary.html: glosary
exercises.html: exercises
performance.html: benchmark
"""


def test_feedback_attention_is_found_by_keyboard(visit: Callable[..., Visit]):
    window = visit("index.html")
    page = window.page
    assert not [address for address in window.requests if "search" in address]
    page.keyboard.press("/")
    page.keyboard.type("FeedbackAttention")
    chosen = page.locator("#results [aria-selected=true]")
    expect(chosen.locator("b")).to_have_text("FeedbackAttention")
    active = page.locator("#search input").get_attribute("aria-activedescendant")
    assert chosen.get_attribute("id") == active
    page.keyboard.press("ArrowDown")
    expect(chosen.locator("b")).not_to_have_text("FeedbackAttention", use_inner_text=True)
    page.keyboard.press("ArrowUp")
    page.keyboard.press("Enter")
    page.wait_for_url("**#FeedbackAttention")
    expect(page.locator("[id='FeedbackAttention']")).to_be_in_viewport()


def test_what_readers_type_finds_its_page_first(visit: Callable[..., Visit]):
    page = visit("index.html").page
    page.keyboard.press("/")
    field, status = page.locator("#search input"), page.locator("#search [role=status]")
    results = page.locator("#results")
    missed = []
    for expected, queries in (line.split(": ") for line in QUERIES.strip().splitlines()):
        for text in queries.split(", "):
            field.fill(text)
            expect(results).to_have_attribute("data-query", text)
            expect(status).to_contain_text("result")
            first = page.locator("#results a").first.evaluate("link => link.href")
            if not first.endswith(f"/{expected}"):
                missed.append((text, expected, first))
    assert not missed, "\n".join(map(str, missed))
    field.fill("variance of a dot product")
    expect(page.locator("#results small mark").first).to_be_visible()
    assert "\\" not in page.locator("#results").inner_text()


def test_the_dialog_closes_with_escape_and_gives_the_focus_back(visit: Callable[..., Visit]):
    page = visit(MHA).page
    page.locator("#search-button").focus()
    page.keyboard.press("Enter")
    expect(page.locator("#search")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.locator("#search")).to_be_hidden()
    assert page.evaluate("document.activeElement.id") == "search-button"


def test_a_preview_opens_with_tab_and_closes_with_escape(visit: Callable[..., Visit]):
    page = visit(MHA).page
    link = page.locator(".c > pre a.x:not(.e)", has_text="check_attention").first
    # The element before the link in the order of Tab, so that Tab itself moves the focus.
    link.evaluate("element => { element.focus(); }")
    page.keyboard.press("Shift+Tab")
    page.keyboard.press("Tab")
    preview = page.locator("#preview")
    expect(preview).to_be_visible()
    expect(preview).to_contain_text("def check_attention(")
    expect(link).to_have_attribute("aria-describedby", "preview")
    page.keyboard.press("Escape")
    expect(preview).to_be_hidden()
    assert link.get_attribute("aria-describedby") is None
    assert link.evaluate("element => element === document.activeElement")


def test_a_preview_stays_inside_a_narrow_window(visit: Callable[..., Visit]):
    page = visit(MHA, 320).page
    page.locator(".c > pre a.x:not(.e)").last.focus()
    expect(page.locator("#preview")).to_be_visible()
    box = page.locator("#preview").bounding_box()
    assert box is not None
    assert box["x"] >= 0
    assert box["x"] + box["width"] <= 320
