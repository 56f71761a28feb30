"""Finding a thing by its name, and looking at it without going there, both by keyboard."""

import re

import pytest
from browser_tools import MHA, Open, box
from playwright.sync_api import Page, expect

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


def test_feedback_attention_is_found_by_keyboard(visit: Open):
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


#: What a search in Chinese for each of the words finds first.
QUERIES_IN_CHINESE = """
labml_nn/transformers/mha.html: 注意力, 多头注意力, 自注意力, 查询 键 值, multi-head attention
labml_nn/transformers/positional_encoding.html: 位置编码, 正弦编码
labml_nn/transformers/models.html: 编码器 解码器, 序列到序列, 教师强制
labml_nn/transformers/feedback/index.html: 反馈记忆, feedback transformer
labml_nn/recurrent/elman/index.html: 循环神经网络, 隐状态, elman
labml_nn/lstm/index.html: 长短期记忆, 遗忘门, 细胞状态, LSTM
labml_nn/lstm/gru.html: 门控循环单元, 更新门
labml_nn/recurrent/linear_attention.html: 线性注意力, 快速权重
labml_nn/recurrent/delta_net.html: delta 规则
labml_nn/recurrent/mamba2.html: 状态空间模型, 状态空间对偶
faults.html: 常见错误
notation.html: 形状
reading.html: 怎样阅读
glossary.html: 词汇表
exercises.html: 练习
"""


def first_results(page: Page, text: str) -> list[str]:
    """The addresses of the first three results, and of fewer if there are no more."""
    page.locator("#search input").fill(text)
    results = page.locator("#results")
    expect(results).to_have_attribute("data-query", text)
    return results.locator("a").evaluate_all("links => links.slice(0, 3).map(link => link.href)")


@pytest.mark.parametrize(("prefix", "queries"), [("", QUERIES), ("zh/", QUERIES_IN_CHINESE)])
def test_what_readers_type_finds_its_page_first(prefix: str, queries: str, visit: Open):
    page = visit(f"{prefix}index.html").page
    page.keyboard.press("/")
    missed = []
    for expected, texts in (line.split(": ") for line in queries.strip().splitlines()):
        for text in texts.split(", "):
            first, *_ = first_results(page, text)
            if not first.endswith(f"/{prefix}{expected}"):
                missed.append((text, expected, first))
    assert not missed, "\n".join(map(str, missed))


def test_results_show_what_was_found_and_formulas_as_words(visit: Open):
    page = visit("index.html").page
    page.keyboard.press("/")
    first_results(page, "variance of a dot product")
    expect(page.locator("#results small mark").first).to_be_visible()
    assert "\\" not in page.locator("#results").inner_text()


def test_a_search_in_chinese_speaks_it_and_finds_in_english_what_has_no_chinese_page(visit: Open):
    page = visit("zh/index.html").page
    page.keyboard.press("/")
    (english,) = first_results(page, "torchrun")[:1]
    assert english.endswith("/labml_nn/experiments/distributed.html")
    first_results(page, "注意力")
    expect(page.locator("#search [role=status]")).to_have_text(re.compile(r"^\d+ 个结果$"))
    expect(page.locator("#results a").first.locator("b mark").first).to_have_text("注意力")


#: What readers ask, in their own words, and a part of the address of what is wanted among the first
#: three results.
QUESTIONS = """
mha.html: why divide by sqrt; why do we divide by the square root of d_k?; why several heads?
mha.html: what does softmax do; what is the kv cache
mha.html | memory.html: cost of attention for long sequences
mha.html: do different heads learn different things
transformers/mha.html: how does attention work; what is attention; what is a query key and value
transformers/utils.html | mha.html | autoregressive: what does a causal mask do
transformers/utils.html | mha.html: how do I mask padding
mha.html | faults: why is my attention NaN
mha.html | models.html | glossary: difference between self-attention and cross-attention
positional_encoding.html: why sine and cosine; why do transformers need positions
positional_encoding.html: does attention know the order of words
positional_encoding.html: what happens with longer texts than in training
positional_encoding.html | results: learned or sinusoidal positions, which is better
modern.html | positional_encoding: rotary position embedding
positional_encoding.html | feedback: alibi
models.html | glossary: what is teacher forcing
models.html | sampling: how does greedy decoding work
models.html: beam search; why residual connections; encoder vs decoder
models.html | layer_norm: pre-norm or post-norm
feed_forward.html | models.html: what is the feed-forward network for
recurrent/elman/index.html: what is a recurrent neural network
elman: vanishing gradient; why do gradients explode
bptt.html: truncated bptt
elman/index | memory | results | mha: rnn vs transformer
elman/index | glossary: what is the hidden state
lstm/index: how does an lstm remember; forget gate bias
lstm: lstm vs gru
gru: what does the update gate do
recurrent/linear_attention: linear attention explained; why is linear attention faster
delta_net: what is the delta rule
mamba2: state space models; how is mamba different from attention; what is selective in mamba
transformers/feedback/index.html: feedback transformer memory
feedback: why is the feedback transformer slow
sampling.html: top-k sampling; what does temperature do; how to generate text
presets.html: learning rate warmup
command_line | tiny_shakespeare | experiments: how to train on my own text
saving.html | checkpoint: how do I save and load a model
saving.html | checkpoint | moved | transformers: load old checkpoints
checkpoint.html: fine-tune; how do I fine-tune a saved model
language_model.html | glossary: what is perplexity
results.html | memory: which model is best
models.html | autoregressive: how many parameters does a transformer have
autoregressive.html: weight tying
notation.html: what do the letters T B C mean
"""
IN_CHINESE = """
mha.html: 为什么除以根号; 注意力是怎么工作的; 什么是多头注意力; 为什么需要多个头; 键值缓存
utils.html | mha.html | autoregressive: 因果掩码
utils.html | mha.html: 填充掩码怎么用
positional_encoding.html: 为什么用正弦和余弦; 注意力知道顺序吗
modern.html | positional_encoding: 旋转位置编码
models.html | encoder_decoder: 编码器和解码器的区别
models.html: 束搜索; 残差连接
layer_norm.html | models.html: 层归一化
elman/index: 什么是循环神经网络
elman: 梯度消失
elman | trainer: 梯度裁剪
bptt: 沿时间反向传播
lstm: LSTM和GRU的区别
linear_attention: 线性注意力为什么快
feedback: 反馈Transformer
sampling: 温度采样
label_smoothing: 标签平滑
language_model | glossary: 困惑度
"""


@pytest.mark.parametrize(("prefix", "questions"), [("", QUESTIONS), ("zh/", IN_CHINESE)])
def test_questions_find_what_answers_them(prefix: str, questions: str, visit: Open):
    page = visit(f"{prefix}index.html").page
    page.keyboard.press("/")
    missed = []
    for line in questions.strip().splitlines():
        wanted, _, asked = line.partition(": ")
        for question in asked.split("; "):
            found = first_results(page, question)
            if not any(part in url for url in found for part in wanted.split(" | ")):
                missed.append((question, wanted, *found))
    assert not missed, "\n".join(map(str, missed))


def test_what_is_asked_for_is_explained_and_nothing_is_offered_that_misses_it(visit: Open):
    page = visit("index.html").page
    page.keyboard.press("/")
    ask, answer = page.locator("#ask"), page.locator("#answer")
    expect(answer).to_be_hidden()
    ask.get_by_role("button").first.click()
    expect(ask).to_be_hidden()
    expect(page.locator("#results a").filter(has_text="Multi-head attention").first).to_be_visible()
    page.locator("#search input").fill("what is perplexity?")
    expect(answer).to_contain_text("perplexity")
    expect(answer.get_by_role("link")).to_have_attribute(
        "href", re.compile("glossary.html#perplexity")
    )
    for nothing in ("kubernetes", "what is a zebra doing"):
        page.locator("#search input").fill(nothing)
        expect(page.locator("#search [role=status]")).to_contain_text("No results")
        expect(answer).to_be_hidden()
    page.locator("#search input").fill("attention")
    expect(page.locator("#results")).to_have_attribute("data-query", "attention")
    titles = page.locator("#results [role=group]").evaluate_all(
        "all => all.map(one => one.ariaLabel)"
    )
    assert titles[0] == "Lessons" and {*titles} == {"Lessons", "Code", "More"}


def test_the_pages_that_were_read_last_are_offered(visit: Open):
    window = visit(MHA)
    window.open("labml_nn/lstm/index.html")
    window.open(MHA)
    window.page.keyboard.press("/")
    offered = window.page.locator("#ask a")
    assert [link.get_attribute("href").rpartition("labml_nn/")[2] for link in offered.all()] == [
        "lstm/index.html"
    ]
    offered.first.click()
    window.page.wait_for_url("**/lstm/index.html")


def test_the_dialog_closes_with_escape_and_gives_the_focus_back(visit: Open):
    page = visit(MHA).page
    page.locator("#search-button").focus()
    page.keyboard.press("Enter")
    expect(page.locator("#search")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.locator("#search")).to_be_hidden()
    assert page.evaluate("document.activeElement.id") == "search-button"


def test_a_preview_stays_inside_a_narrow_window(visit: Open):
    page = visit(MHA, 320).page
    page.locator(".c > pre a.x:not(.e)", has_text="check_attention").first.focus()
    expect(page.locator("#preview")).to_contain_text("def check_attention(")
    preview = box(page.locator("#preview"))
    assert preview["x"] >= 0 and preview["x"] + preview["width"] <= 320
