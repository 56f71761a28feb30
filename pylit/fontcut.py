"""Cutting fonts with fontTools, and measuring them. Only a build that cuts one imports this module:
fontTools takes longer to import than most builds take to run.
"""

import io
import logging
from collections.abc import Iterable, Mapping, Sequence

from fontTools.subset import Options, Subsetter  # type: ignore[import-untyped]
from fontTools.ttLib import TTFont  # type: ignore[import-untyped]
from fontTools.varLib.instancer import (  # type: ignore[import-untyped]
    instantiateVariableFont,
)


def cut(
    source: bytes,
    characters: Iterable[int],
    *,
    features: Sequence[str] = (),
    drop_tables: Sequence[str] = (),
    weights: tuple[int, int] | None = None,
    flavor: str | None = "woff2",
) -> bytes:
    """A font with only some characters, code points: the same bytes for the same ones.

    `features` of OpenType are kept, `drop_tables` left out besides those that fontTools leaves out;
    of a variable font only `weights`, one or a range. `flavor` None is a file that is not packed.
    """
    # Some tables name characters that their font does not hold; nobody can act on that.
    logging.getLogger("fontTools").setLevel(logging.ERROR)
    font = TTFont(io.BytesIO(source), recalcTimestamp=False)
    options = Options(hinting=False, layout_features=list(features))
    options.drop_tables += drop_tables
    subsetter = Subsetter(options)
    subsetter.populate(unicodes=characters)
    subsetter.subset(font)
    if weights is not None:
        low, high = weights
        instantiateVariableFont(font, {"wght": low if low == high else weights}, inplace=True)
    font.flavor = flavor
    out = io.BytesIO()
    font.save(out)
    return out.getvalue()


def measure(source: bytes, frequency: Mapping[str, int]) -> tuple[dict[str, float], float]:
    """Heights of a font, and the mean width of letters that occur with `frequency`, in em."""
    font = TTFont(io.BytesIO(source))
    unit, line = font["head"].unitsPerEm, font["hhea"]
    names, widths = font.getBestCmap(), font["hmtx"]
    total = sum(widths[names[ord(letter)]][0] * count for letter, count in frequency.items())
    heights = {"ascent": line.ascent, "descent": -line.descent, "line-gap": line.lineGap}
    mean = total / sum(frequency.values()) / unit
    return {name: height / unit for name, height in heights.items()}, mean
