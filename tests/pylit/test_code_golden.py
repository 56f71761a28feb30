"""Code in, linked HTML out: the files in ``golden/code``."""

from pathlib import Path

from linked_sources import Project

from pylit.code.highlight import highlight

GOLDEN = Path(__file__).with_name("golden") / "code"
UTILS = "from . import masks\ndef clone_module_list(module, n): ...\n"
MASKS = "def causal(seq_len): ...\n"


def test_code_becomes_the_golden_html():
    source = (GOLDEN / "attention.py").read_text(encoding="utf-8")
    project = Project(
        {
            "pkg/attention.py": source,
            "pkg/utils.py": UTILS,
            "pkg/masks.py": MASKS,
        }
    )
    links = project.resolver("pkg/attention.py").tokens()
    html = "\n".join(highlight(source, links, lambda link: link.url))
    golden = GOLDEN / "attention.html"
    assert html == golden.read_text(encoding="utf-8")
