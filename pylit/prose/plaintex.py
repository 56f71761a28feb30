r"""Formulas in words: what search results, descriptions and cards show where no formula can be set.

``\frac{QK^\top}{\sqrt{d_k}}`` becomes ``QKᵀ/√d_k``: letters, signs of Unicode, and the names of
functions. Scripts keep TeX's ``_``, so that a symbol is found by the name of its variable.
"""

import re
import unicodedata
from collections.abc import Iterator
from contextlib import suppress

_TOKEN = re.compile(r"\\([A-Za-z]+)|\\.|\s+|(.)", re.DOTALL)
#: Commands and their signs, in turns.
_PAIRS = r"""
cdot · times × odot ⊙ otimes ⊗ oplus ⊕ circ ∘ pm ± sum ∑ prod ∏ int ∫ partial ∂ nabla ∇ infty ∞ in ∈
le ≤ leq ≤ ge ≥ geq ≥ ne ≠ neq ≠ approx ≈ sim ∼ equiv ≡ ll ≪ gg ≫ propto ∝ to → mapsto ↦ gets ←
leftarrow ← rightarrow → Rightarrow ⇒ mid | dots … ldots … cdots … vdots … top ᵀ prime ′ ell ℓ
lfloor ⌊ rfloor ⌋ lceil ⌈ rceil ⌉ langle ⟨ rangle ⟩ lVert ‖ rVert ‖ Vert ‖ vert | varepsilon ε
"""
_SIGNS = dict(zip(_PAIRS.split()[::2], _PAIRS.split()[1::2], strict=True))
#: They say how their argument looks.
_LOOKS = """
text textbf textit textrm texttt mathrm mathbf mathit mathsf mathtt mathcal mathbb boldsymbol bm
operatorname mathop left right big Big bigl bigr Bigl Bigr displaystyle textstyle hat bar tilde vec
overline underline underbrace overbrace limits nolimits
"""
_MUTE = frozenset(_LOOKS.split())
_SUPERSCRIPTS = dict(zip("0123456789+-n", "⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻ⁿ", strict=True))
_SPACED = frozenset("=<>+←→⇒≤≥≠≈∼∈∝")


def plain_tex(tex: str) -> str:
    """A formula as a line of text."""
    tokens = iter(_TOKEN.finditer(re.sub(r"\\(?:begin|end)\{[^}]*\}|\\q?quad", " ", tex)))
    try:
        text = "".join(_words(tokens)).replace("&", "")
    except RecursionError:  # Hundreds of groups inside each other, which nobody would read out.
        return "…"
    return " ".join(re.sub(r"\s+([,.;)])|(?<=[a-z])\s+(?=\()", r"\1", text).split())


def _words(tokens: Iterator[re.Match[str]]) -> Iterator[str]:
    """What stands before the end of a group, piece by piece."""
    for token in tokens:
        command, sign = token[1], token[2]
        if sign == "}":
            return
        if sign == "^":
            yield _raised(_argument(tokens))
        elif sign == "_":
            yield f"_{_grouped(_argument(tokens))}"
        elif sign == "{":
            yield "".join(_words(tokens))
        elif sign in _SPACED:
            yield f" {sign} "
        elif sign:
            yield "−" if sign == "-" else sign
        elif command in ("frac", "tfrac", "dfrac"):
            yield f"{_grouped(_argument(tokens))}/{_grouped(_argument(tokens))}"
        elif command == "sqrt":
            yield f"√{_grouped(_argument(tokens))}"
        elif command in _SIGNS:
            found = _SIGNS[command]
            yield f" {found} " if found in _SPACED else found
        elif command:
            yield "" if command in _MUTE else _greek(command)
        elif token[0][1:] in ("{", "}", "%", "_", "#", "$", "&"):
            yield token[0][1:]
        else:
            yield " "


def _argument(tokens: Iterator[re.Match[str]]) -> str:
    """The group, the command or the sign that comes next."""
    for token in tokens:
        if token[2] == "{":
            return "".join(_words(tokens)).strip()
        if not token[0].isspace():
            return "".join(_words(iter([token]))).strip() or _argument(tokens)
    return ""


def _grouped(text: str) -> str:
    """An argument in brackets, unless it is one word."""
    return text if re.fullmatch(r"√?[\w.,′ᵀ]*", text) else f"({text.replace(' ', '')})"


def _raised(text: str) -> str:
    if text in ("ᵀ", "′"):
        return text
    plain = text.replace("−", "-")
    if all(character in _SUPERSCRIPTS for character in plain):
        return "".join(_SUPERSCRIPTS[character] for character in plain)
    return f"^{_grouped(text)}"


def _greek(command: str) -> str:
    size = "SMALL" if command.islower() else "CAPITAL"
    name = command.upper().replace("LAMBDA", "LAMDA")  # As Unicode spells it.
    with suppress(KeyError):
        return unicodedata.lookup(f"GREEK {size} LETTER {name}")
    return f" {command} "
