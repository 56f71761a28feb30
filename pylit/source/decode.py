"""Bytes of a Python file to text, as Python decides it, and never without a text.

Python source is UTF-8 unless a comment on one of its first two lines declares another encoding
(PEP 263). A file that is not in its encoding still becomes text: what is valid UTF-8 is read as
that, every other byte as the Windows-1252 character it most likely was, so that its page shows it.
"""

import codecs
import re
from dataclasses import dataclass

_COOKIE = re.compile(rb"^[ \t\f]*#.*?coding[:=][ \t]*([-\w.]+)")
_BLANK = re.compile(rb"^[ \t\f]*(?:#.*)?$")
_SAVE = "save the file as UTF-8"
# What `surrogateescape` makes of the bytes that are not UTF-8, and how they are shown.
_STRAY_BYTES = {
    0xDC00 + byte: bytes([byte]).decode("cp1252", "replace") for byte in range(0x80, 0x100)
}


@dataclass(frozen=True, slots=True)
class Fault:
    """What is wrong with the bytes of a file, and where; line and column count from 1."""

    line: int
    column: int
    message: str
    hint: str


def decode(raw: bytes) -> tuple[str, Fault | None]:
    """The text of a file, lines ended by ``\\n`` and no byte order mark, and its first fault."""
    for mark, encoding in (
        (codecs.BOM_UTF32_LE, "utf-32"),
        (codecs.BOM_UTF32_BE, "utf-32"),
        (codecs.BOM_UTF16_LE, "utf-16"),
        (codecs.BOM_UTF16_BE, "utf-16"),
    ):
        if raw.startswith(mark):
            text = _unix(raw.decode(encoding, "replace"))
            return text, Fault(1, 1, f"it is {encoding.upper()}, which Python cannot read", _SAVE)
    has_mark = raw.startswith(codecs.BOM_UTF8)
    raw = raw.removeprefix(codecs.BOM_UTF8)
    name, line, column = _declared(raw)
    if has_mark and name and not _is_utf_8(name):
        message = f"it declares `{name}` but begins with the byte order mark of UTF-8"
        return _lenient(raw), Fault(line, column, message, "remove the declaration")
    return _decode_as(raw, name or "utf-8", line, column)


def _declared(raw: bytes) -> tuple[str, int, int]:
    """The encoding that one of the first two lines declares, its line and column; else empty."""
    # No more than two lines are wanted, and a file may be one long line.
    for number, line in enumerate(re.split(rb"\r\n|\r|\n", raw, maxsplit=2)[:2], start=1):
        match = _COOKIE.match(line)
        if match is not None:
            return match[1].decode("ascii"), number, match.start(1) + 1
        if not _BLANK.match(line):
            break
    return "", 0, 0


def _is_utf_8(name: str) -> bool:
    """Whether `name` is one of the many names of UTF-8."""
    try:
        return codecs.lookup(name).name in ("utf-8", "utf-8-sig")
    except LookupError:
        return False


def _decode_as(raw: bytes, name: str, line: int, column: int) -> tuple[str, Fault | None]:
    """`raw` in the encoding `name`, which was declared at `line` and `column` if at all."""
    fault: Fault | None = None
    try:
        text = raw.decode(name)
        # Encodings such as `unicode_escape` can make what is no text at all.
        text.encode("utf-8")
        return _unix(text), None
    except UnicodeDecodeError as error:
        before = _unix(raw[: error.start].decode(name, "replace"))
        place = before.count("\n") + 1, len(before) - before.rfind("\n")
        declared = f"`{name}`, which it declares" if line else "UTF-8"
        hint = _SAVE if line else f"{_SAVE}, or declare its encoding: `# -*- coding: latin-1 -*-`"
        fault = Fault(*place, f"byte 0x{raw[error.start]:02X} is not {declared}", hint)
    except LookupError:
        message = f"it declares `{name}`, which is no encoding of text that Python knows"
        fault = Fault(line, column, message, _SAVE)
    except ValueError as error:
        fault = Fault(line, column, f"it is not `{name}`, which it declares: {error}", _SAVE)
    return _lenient(raw), fault


def _lenient(raw: bytes) -> str:
    """`raw` as UTF-8, stray bytes as Windows-1252."""
    return _unix(raw.decode("utf-8", "surrogateescape").translate(_STRAY_BYTES))


def _unix(text: str) -> str:
    """`text` with every line ended by ``\\n``."""
    return text.replace("\r\n", "\n").replace("\r", "\n")
