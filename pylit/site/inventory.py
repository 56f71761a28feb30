"""``objects.inv``: the names on this site, so that Sphinx projects can link to them.

The format is version 2 of Sphinx's inventories: four lines of text, then, compressed, one line per
object, ``name domain:role priority address displayed-name``. Intersphinx resolves
``:py:class:`labml_nn.transformers.mha.MultiHeadAttention``` with it.
"""

import zlib
from collections.abc import Iterable

from pylit.model import PageLink, Target

_ROLES = {
    "module": "py:module",
    "class": "py:class",
    "function": "py:function",
    "method": "py:method",
    "constant": "py:data",
}


def inventory(project: str, targets: Iterable[Target], prose: Iterable[PageLink]) -> bytes:
    """The inventory of a site's definitions, and of its prose pages as Sphinx documents."""
    lines = {_line(t.definition.dotted, _ROLES[t.definition.kind], 1, t.url) for t in targets}
    for page in prose:
        lines.add(_line(page.url.removesuffix(".html"), "std:doc", -1, page.url, page.title))
    header = (
        "# Sphinx inventory version 2\n"
        f"# Project: {' '.join(project.split())}\n"
        "# Version: \n"
        "# The remainder of this file is compressed using zlib.\n"
    )
    body = "".join(sorted(lines)).encode()
    return header.encode() + zlib.compress(body, 9)


def _line(name: str, role: str, priority: int, url: str, shown: str = "-") -> str:
    # `$` stands for the object's name, which most anchors end with.
    if name and url.endswith(name):
        url = url.removesuffix(name) + "$"
    return f"{name} {role} {priority} {url} {' '.join(shown.split())}\n"
