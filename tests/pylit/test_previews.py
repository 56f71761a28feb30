"""What a preview shows of a definition."""

import json

from pylit.model import Definition, Target
from pylit.previews import preview_files
from pylit.references import no_bibliography
from pylit.tex import Rendered


def target(
    kind: str, qualname: str, signature: str, summary: str, module: str = "pkg.mod"
) -> Target:
    definition = Definition(kind, module, qualname, 1, signature, summary)  # type: ignore[arg-type]
    return Target(definition, f"{module.replace('.', '/')}.html#{qualname}".rstrip("#"))


def previews(targets: list[Target]) -> dict[str, bytes]:
    def typeset(tex: str, display: bool) -> Rendered:
        return Rendered(f"<m>{len(tex)}</m>")

    return dict(preview_files(targets, typeset=typeset, own=False, cite=no_bibliography))


def read(files: dict[str, bytes], path: str) -> dict[str, list[str]]:
    text = files[path].decode()
    return json.loads(text.removeprefix("pylit.previews(").removesuffix(");\n"))


def test_one_script_per_page_beside_its_address():
    files = previews(
        [
            target("function", "f", "f(x: int) -> int", "Add `1`."),
            target("class", "C", "C(nn.Module)", ""),
            target("module", "", "", "Modules.", "pkg.other"),
        ]
    )
    assert list(files) == ["assets/previews/pkg/mod.js", "assets/previews/pkg/other.js"]
    shown = read(files, "assets/previews/pkg/mod.js")
    assert shown["pkg.mod.f"][0].startswith(
        '<span class="hk">def</span> <span class="hd">f</span>('
    )
    assert shown["pkg.mod.f"][1] == "<p>Add <code>1</code>.</p>"
    assert shown["pkg.mod.C"][0].startswith('<span class="hk">class</span>')
    assert shown["pkg.mod.C"][1] == ""
    assert read(files, "assets/previews/pkg/other.js")["pkg.other"][0] == "pkg.other"


def test_a_preview_holds_no_links_no_anchors_and_no_raw_html():
    text = 'See [it](x.html) and <b onclick="f()">this</b>.[^1]\n\n[^1]: Note.'
    files = previews([target("function", "f", "f()", text)])
    shown = read(files, "assets/previews/pkg/mod.js")["pkg.mod.f"][1]
    assert "<a" not in shown
    assert " id=" not in shown
    assert "&lt;b onclick=" in shown


def test_formulas_are_set():
    files = previews([target("function", "f", "f()", "Is $a<b$.")])
    assert read(files, "assets/previews/pkg/mod.js")["pkg.mod.f"][1] == "<p>Is <m>3</m>.</p>"
