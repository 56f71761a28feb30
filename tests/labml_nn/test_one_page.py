"""A lesson's forward pass stands on the lesson's own page, by a trace of the lines that run."""

import collections
import inspect
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

#: Share of the executed lines that stand in the lesson's own file, and files at most. The files of
#: `labml_nn/kernels`, which dispatch, do not count as files.
EXPECTED = {
    # Two lines keep what `attn` shows.
    "multi-head attention": (0.87, 2),
    "positional encoding": (0.9, 1),
    "elman": (0.9, 2),
    "lstm": (0.9, 2),
    "gru": (0.9, 2),
    "linear attention": (0.9, 2),
    "delta net": (0.9, 2),
    "gated delta net": (0.9, 2),
    "mamba-2": (0.9, 2),
    "feedback": (0.75, 3),
    "encoder-decoder": (0.0, 5),
}


def lessons() -> dict[str, tuple[Callable[[], object], type]]:
    """A training forward pass of each lesson, and the class whose file is the lesson's."""
    import torch

    from labml_nn.lstm import LSTM
    from labml_nn.lstm.gru import GRU
    from labml_nn.recurrent.delta_net import DeltaNet
    from labml_nn.recurrent.elman import Elman
    from labml_nn.recurrent.gated_delta_net import GatedDeltaNet
    from labml_nn.recurrent.linear_attention import LinearAttention
    from labml_nn.recurrent.mamba2 import Mamba2
    from labml_nn.transformers import feedback, models
    from labml_nn.transformers.feed_forward import FeedForward
    from labml_nn.transformers.mha import MultiHeadAttention
    from labml_nn.transformers.positional_encoding import PositionalEncoding
    from labml_nn.transformers.utils import subsequent_mask

    x = torch.randn(7, 2, 12)
    attention, elman = MultiHeadAttention(3, 12), Elman(12, 10, 2, 0.1)
    lstm, gru = (kind(12, 10, 2, dropout_prob=0.1) for kind in (LSTM, GRU))
    linear = LinearAttention(12, 3)
    delta, gated, mamba2 = DeltaNet(12, 3), GatedDeltaNet(12, 3), Mamba2(12, 3, 5, 7)
    encoding = PositionalEncoding(12, 0.1)
    layer = feedback.FeedbackTransformerLayer(
        d_model=12,
        attn=feedback.FeedbackAttention(3, 12, 0.1, is_kv_precomputed=True),
        feed_forward=FeedForward(12, 24),
        dropout_prob=0.1,
    )
    kv = feedback.FeedbackTransformerKV(layer, 2, 12, 3)

    def stack(src_attn: bool) -> models.TransformerLayer:
        return models.TransformerLayer(
            d_model=12,
            self_attn=MultiHeadAttention(3, 12),
            src_attn=MultiHeadAttention(3, 12) if src_attn else None,
            feed_forward=FeedForward(12, 24),
            dropout_prob=0.1,
        )

    translator = models.EncoderDecoder(
        models.Encoder(stack(False), 2),
        models.Decoder(stack(True), 2),
        models.EmbeddingsWithPositionalEncoding(12, 11),
        models.EmbeddingsWithPositionalEncoding(12, 13),
        models.Generator(13, 12),
    )
    src, tgt = torch.randint(11, (7, 2)), torch.randint(13, (5, 2))
    src_mask = torch.ones(1, 7, 2, dtype=torch.bool)
    return {
        "multi-head attention": (
            lambda: attention(query=x, key=x, value=x),
            MultiHeadAttention,
        ),
        "positional encoding": (lambda: encoding(x), PositionalEncoding),
        "elman": (lambda: elman(x), Elman),
        "lstm": (lambda: lstm(x), LSTM),
        "gru": (lambda: gru(x), GRU),
        "linear attention": (lambda: linear(x), LinearAttention),
        "delta net": (lambda: delta(x), DeltaNet),
        "gated delta net": (lambda: gated(x), GatedDeltaNet),
        "mamba-2": (lambda: mamba2(x), Mamba2),
        "feedback": (lambda: kv(x), type(kv)),
        "encoder-decoder": (
            lambda: translator(src, tgt, src_mask, subsequent_mask(5)),
            models.EncoderDecoder,
        ),
    }


def executed(call: Callable[[], object]) -> dict[str, set[int]]:
    """The lines of the library that a call runs, by file."""
    import labml_nn

    folder = str(Path(labml_nn.__file__).parent)
    lines: dict[str, set[int]] = collections.defaultdict(set)

    def inside(frame, event, argument):
        if event == "line":
            lines[frame.f_code.co_filename].add(frame.f_lineno)
        return inside

    def enter(frame, event, argument):
        return inside if frame.f_code.co_filename.startswith(folder) else None

    call()  # what is prepared once does not count
    sys.settrace(enter)
    try:
        call()
    finally:
        sys.settrace(None)
    return lines


def report() -> None:
    """Prints, for each lesson, the share of lines in its own file, and the number of files."""
    for name, (call, cls) in lessons().items():
        lines = executed(call)
        own = inspect.getsourcefile(cls)
        share = len(lines[own]) / sum(map(len, lines.values()))
        files = [file for file in lines if f"{os.sep}kernels{os.sep}" not in file]
        print(f"{name}\t{share}\t{len(files)}")


@pytest.fixture(scope="module")
def traced() -> dict[str, tuple[float, int]]:
    """In a process of its own, where the library has no shape checks and no kernels."""
    child = subprocess.run(
        [sys.executable, __file__],
        capture_output=True,
        text=True,
        check=True,
        cwd=ROOT,
        env={**os.environ, "LABML_NN_KERNELS": "0", "PYTHONPATH": str(ROOT)},
    )
    rows = [line.split("\t") for line in child.stdout.splitlines()]
    return {name: (float(share), int(files)) for name, share, files in rows}


@pytest.mark.parametrize("lesson", EXPECTED)
def test_a_lesson_explains_its_forward_pass_by_itself(traced, lesson):
    share, files = traced[lesson]
    least, most = EXPECTED[lesson]
    assert share >= least, f"{share:.0%} of the lines are on the page of {lesson}"
    assert files <= most, f"{lesson} runs in {files} files"


if __name__ == "__main__":
    report()
