r"""
---
title: Ink and signs
summary: >
  Colours that can be read in the light and in the dark, and signs for what one cannot
  see: what the pictures of attention are drawn with.
---

A square of a [picture](picture.py) is ink of one colour on the ground of the picture,
and its opacity is the weight: more ink is more weight, on any ground. Ground, ink and
text are variables of CSS with a value for light and one for dark.

Which of the two holds is decided where the picture is looked at: by the theme that the
page has chosen (`data-theme` on this site, and the marks of Jupyter, Colab and VS
Code), or else by the reader's system. The picture brings its ground along, so that it
can be read even where page and system disagree.

| Symbol | Code | Meaning |
|:--|:--|:--|
| | `LIGHT`, `DARK` | the colours of the two themes |
| | `CHOSEN` | how pages say which theme they have chosen |
| | `style()` | the rules that all pictures carry |
| | `visible()` | a label in which everything shows |
| | `legend()` | how much ink is how much weight |
"""

import unicodedata
from collections.abc import Iterator
from html import escape

# ## Colours
#
# Those of this site. Text stands on the ground with a contrast of 16 to 1, and smaller
# text with more than 6 to 1, in both themes; WCAG asks for 4.5.
LIGHT = {
    "ground": "#ffffff",
    "ink": "#0550ae",
    "text": "#1b1f24",
    "muted": "#57606a",
    "rule": "#c3cad2",
}
DARK = {
    "ground": "#14171c",
    "ink": "#7cb7ff",
    "text": "#e3e7ec",
    "muted": "#a3adb8",
    "rule": "#424a53",
}

# Pages say which theme they have chosen in ways of their own.
CHOSEN = {
    "light": ('[data-theme="light"]', '[data-jp-theme-light="true"]', ".vscode-light"),
    "dark": (
        '[data-theme="dark"]',
        '[data-jp-theme-light="false"]',
        '[theme="dark"]',
        ".vscode-dark",
    ),
}


def style() -> str:
    """
    ## The style of all pictures

    Every rule begins with the class of our pictures, and touches nothing else on the
    page that a picture stands on. A program that knows no variables takes the colours
    of the light theme.
    """
    light, dark = (
        "".join(f"--attention-{name}:{colour};" for name, colour in theme.items())
        for theme in (LIGHT, DARK)
    )
    chosen = {
        theme: ",".join(f"{mark} .attention-map" for mark in marks)
        for theme, marks in CHOSEN.items()
    }
    fills = "".join(
        f".attention-map .{name}{{fill:{LIGHT[name]};fill:var(--attention-{name})}}"
        for name in ("ground", "ink", "text", "muted")
    )
    return (
        f".attention-map{{{light}max-width:100%;height:auto;"
        "font:11px ui-monospace,'DejaVu Sans Mono',Menlo,Consolas,monospace}"
        f"@media (prefers-color-scheme:dark){{.attention-map{{{dark}}}}}"
        f"{chosen['light']}{{{light}}}{chosen['dark']}{{{dark}}}{fills}"
        ".attention-map .frame{fill:none;"
        f"stroke:{LIGHT['rule']};stroke:var(--attention-rule)}}"
        ".attention-map .head{font-weight:600;font-size:13px}"
        ".attention-map .ink{shape-rendering:crispEdges}"
    )


SIGNS = {" ": "␣", "\n": "↵", "\t": "⇥", "\r": "␍"}
LONGEST = 14  # signs of a label, before it is cut


def visible(token: str) -> str:
    r"""
    ## Signs that one cannot see

    To a model of letters a space is a letter like others. `" the"` is shown as `␣the`,
    a new line as `↵`, the empty token as `∅`, and what has no picture of its own by its
    number, such as `\u200b`. A combining mark gets a circle to stand on.
    """
    shown = "".join(map(_visible_sign, token)) or "∅"
    if unicodedata.category(shown[0]).startswith("M"):
        shown = "◌" + shown
    return shown if len(shown) <= LONGEST else shown[: LONGEST - 1] + "…"


def _visible_sign(sign: str) -> str:
    if sign in SIGNS:
        return SIGNS[sign]
    invisible = unicodedata.category(sign)[0] in "CZ"
    return f"\\u{ord(sign):04x}" if invisible else sign


def written(text: str, place: str, anchor: str) -> Iterator[str]:
    """
    ## What is written

    * `place` is a transformation of SVG, which may turn it as well
    * `anchor` says whether the place is the `start`, the `middle` or the `end`
    """
    if text:
        yield (
            f'<text class="text" transform="{place}" text-anchor="{anchor}">'
            f"{escape(text)}</text>"
        )


def legend(scale: float, more: bool, x: float, y: float) -> Iterator[str]:
    """
    ## How much ink is how much weight

    From nothing to `scale`, or `more`, with the upper left corner at `x`, `y`.
    """
    yield f'<text class="muted" x="{number(x)}" y="{number(y + 10)}">0</text>'
    yield f'<g class="ink" transform="translate({number(x + 10)} {number(y)})">'
    for i in range(11):
        yield f'<rect x="{8 * i}" y="0" width="8" height="11" fill-opacity="{i / 10}"/>'
    yield f'</g><text class="muted" x="{number(x + 104)}" y="{number(y + 10)}">'
    yield f"{scale:.2g}{' or more' if more else ''}</text>"


def number(x: float) -> str:
    """Pixels, to a tenth: short, and the same on every machine."""
    return f"{x:.1f}".removesuffix(".0")


# ## Exercises
#
# **1.** WCAG calls the contrast of two colours $(L_1 + 0.05) / (L_2 + 0.05)$, with the
# luminance $L$ of the lighter one first, and asks for at least 4.5 for text. Compute
# it for text on ground in both themes.
#
# <details><summary>Answer</summary>
#
# ```python
# from labml_nn.attention_maps.ink import DARK, LIGHT
#
# def luminance(colour):
#     parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
#     red, green, blue = (
#         x / 12.92 if x <= 0.04045 else ((x + 0.055) / 1.055) ** 2.4 for x in parts
#     )
#     return 0.2126 * red + 0.7152 * green + 0.0722 * blue
#
# def contrast(one, other):
#     low, high = sorted(map(luminance, (one, other)))
#     return (high + 0.05) / (low + 0.05)
#
# for theme in (LIGHT, DARK):
#     assert contrast(theme["text"], theme["ground"]) > 14
#     assert contrast(theme["muted"], theme["ground"]) > 6
# ```
#
# </details>
#
# **2.** Which labels do these tokens get: a word after a space, two new lines, nothing
# at all, and a long word?
#
# <details><summary>Answer</summary>
#
# ```python
# from labml_nn.attention_maps.ink import visible
#
# tokens = [" window", "\n\n", "", "honorificabilitudinitatibus"]
# labels = ["␣window", "↵↵", "∅", "honorificabil…"]
# assert list(map(visible, tokens)) == labels
# ```
#
# </details>
#
# **3.** Why opacity? What would go wrong with a fixed list of colours from white to
# blue?
#
# <details><summary>Answer</summary>
#
# White is the ground of a light page. On a dark one, the *unimportant* squares would
# shine, and the eye goes where the light is. A scale must begin at the ground that it
# is drawn on. Opacity does, whatever the ground; the brightness of what is seen then
# goes one way only, from the ground to the ink.
#
# ```python
# from labml_nn.attention_maps.ink import DARK, LIGHT
#
# def mixed(theme, opacity):  # what is seen, as red, green and blue
#     pairs = zip(bytes.fromhex(theme["ground"][1:]), bytes.fromhex(theme["ink"][1:]))
#     return [round(ground + opacity * (ink - ground)) for ground, ink in pairs]
#
# for theme in (LIGHT, DARK):
#     seen = [sum(mixed(theme, weight / 10)) for weight in range(11)]
#     assert seen in (sorted(seen), sorted(seen, reverse=True))
# ```
#
# </details>
