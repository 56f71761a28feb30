"""A lesson's forward pass stands on the lesson's own page, by a trace of the lines that run."""

import collections
import inspect
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from small_models import small

from docs_src.lessons import LESSONS

ROOT = Path(__file__).parents[2]

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


def lessons() -> Iterator[tuple[str, Callable[[], object], Path]]:
    """A training forward pass of each lesson, and the file of the lesson.

    Of a lesson that is the page of a model by name, its outermost modules in such a model.
    """
    import torch

    import labml_nn
    from labml_nn.language_model import LanguageModel
    from labml_nn.recurrent.gated_delta_net import GatedDeltaNet
    from labml_nn.transformers.mha import MultiHeadAttention
    from labml_nn.transformers.positional_encoding import PositionalEncoding

    x = torch.randn(7, 2, 12)
    attention, encoding = MultiHeadAttention(3, 12), PositionalEncoding(12, 0.1)
    gated = GatedDeltaNet(12, 3)
    yield "mha", lambda: attention(query=x, key=x, value=x), LESSONS["mha"]
    yield "positional_encoding", lambda: encoding(x), LESSONS["positional_encoding"]
    page = LESSONS["delta_net"].with_name("gated_delta_net.py")
    yield "gated_delta_net", lambda: gated(x), page

    for name in sorted(LESSONS.keys() & set(labml_nn.models())):
        model = labml_nn.create(name, n_vocab=13, **small(name, dropout_prob=0.1))
        calls: list[Callable[[], object]] = []

        def keep(module, arguments, named, calls=calls, page=LESSONS[name]):
            if Path(inspect.getsourcefile(type(module)) or "") == page and not calls:
                calls.append(lambda: module(*arguments, **named))

        hooks = [
            module.register_forward_pre_hook(keep, with_kwargs=True)
            for module in model.modules()
            if not isinstance(module, LanguageModel)
        ]
        tokens = torch.randint(3, 13, (7, 2))
        model.loss(tokens, tokens)
        for hook in hooks:
            hook.remove()
        yield name, calls[0], LESSONS[name]


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
    for name, call, page in lessons():
        lines = executed(call)
        own = str(page)
        share = len(lines[own]) / sum(map(len, lines.values()))
        dispatch = (f"{os.sep}kernels{os.sep}", f"{os.sep}reference.py")
        files = [file for file in lines if not any(part in file for part in dispatch)]
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
        env={
            **os.environ,
            "LABML_NN_KERNELS": "0",
            "PYTHONPATH": f"{ROOT}{os.pathsep}{Path(__file__).parent}",
        },
    )
    rows = [line.split("\t") for line in child.stdout.splitlines()]
    return {name: (float(share), int(files)) for name, share, files in rows}


@pytest.mark.parametrize("lesson", [*LESSONS, "gated_delta_net"])
def test_a_lesson_explains_its_forward_pass_by_itself(traced, lesson):
    share, files = traced[lesson]
    least, most = OTHERS.get(lesson, USUAL)
    assert share >= least, f"{share:.0%} of the lines are on the page of {lesson}"
    assert files <= most, f"{lesson} runs in {files} files"


if __name__ == "__main__":
    report()
