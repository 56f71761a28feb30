"""A lesson's forward pass stands on the lesson's own page, by a trace of the lines that run."""

import collections
import inspect
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from small_models import small

import labml_nn
from docs_src.lessons import LESSONS

#: Share of the executed lines that stand in the lesson's own file, and files at most. The files of
#: `labml_nn/kernels` and `labml_nn/reference.py`, which dispatch, do not count as files.
USUAL = 0.9, 2
OTHERS = {
    # Of 25 lines, two keep what `attn` shows, and three check the inputs.
    "mha": (0.8, 3),
    "positional_encoding": (0.9, 1),
    "feedback": (0.75, 3),
    "encoder_decoder": (0.0, 5),
}


#: A small configuration of each lesson that is the page of a model.
MODELS = {name: small(name, dropout_prob=0.1) for name in LESSONS if name in labml_nn.models()}


def forward_pass(imported: Callable[[str], Any], lesson: str) -> tuple[Callable[[], object], Path]:
    """A training forward pass of a lesson, and its file.

    Of a lesson that is the page of a model by name, its outermost modules in such a model.
    """
    x = torch.randn(7, 2, 12)
    if lesson == "mha":
        attention = imported("labml_nn.transformers.mha").MultiHeadAttention(3, 12)
        return lambda: attention(query=x, key=x, value=x), LESSONS[lesson]
    if lesson == "positional_encoding":
        module = imported("labml_nn.transformers.positional_encoding").PositionalEncoding(12, 0.1)
        return lambda: module(x), LESSONS[lesson]
    if lesson == "gated_delta_net":
        module = imported("labml_nn.recurrent.gated_delta_net").GatedDeltaNet(12, 3)
        return lambda: module(x), LESSONS["delta_net"].with_name("gated_delta_net.py")

    model = imported("labml_nn").create(lesson, n_vocab=13, **MODELS[lesson])
    calls: list[Callable[[], object]] = []

    def keep(module, arguments, named):
        if Path(inspect.getsourcefile(type(module)) or "") == LESSONS[lesson] and not calls:
            calls.append(lambda: module(*arguments, **named))

    _, *modules = model.modules()
    hooks = [module.register_forward_pre_hook(keep, with_kwargs=True) for module in modules]
    tokens = torch.randint(3, 13, (7, 2))
    model.loss(tokens, tokens)
    for hook in hooks:
        hook.remove()
    return calls[0], LESSONS[lesson]


def executed(call: Callable[[], object], folder: str) -> dict[str, set[int]]:
    """The lines of the library that a call runs, by file."""
    lines: dict[str, set[int]] = collections.defaultdict(set)

    def inside(frame, event, argument):
        if event == "line":
            lines[frame.f_code.co_filename].add(frame.f_lineno)
        return inside

    def enter(frame, event, argument):
        return inside if frame.f_code.co_filename.startswith(folder) else None

    call()  # what is prepared once does not count
    before = sys.gettrace()
    sys.settrace(enter)
    try:
        call()
    finally:
        sys.settrace(before)
    return lines


@pytest.mark.parametrize("lesson", [*LESSONS, "gated_delta_net"])
def test_a_lesson_explains_its_forward_pass_by_itself(unhooked, lesson):
    library = unhooked("labml_nn")
    call, page = forward_pass(unhooked, lesson)
    with unhooked("labml_nn.kernels").disabled():
        lines = executed(call, str(Path(library.__file__).parent))
    share = len(lines[str(page)]) / sum(map(len, lines.values()))
    dispatch = (f"{os.sep}kernels{os.sep}", f"{os.sep}reference.py")
    files = [file for file in lines if not any(part in file for part in dispatch)]
    least, most = OTHERS.get(lesson, USUAL)
    assert share >= least, f"{share:.0%} of the lines are on the page of {lesson}"
    assert len(files) <= most, f"{lesson} runs in {files}"
