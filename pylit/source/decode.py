"""Bytes of a Python file to text, as Python decides it, and never without a text.

Of a file that is not in its encoding, what is valid UTF-8 is read as that, and every other byte
becomes ``\\xe9``, as Python would write it.
"""

import codecs
import io
import tokenize
from typing import NamedTuple


class Fault(NamedTuple):
    """What is wrong with the bytes of a file, and where; line and column count from 1."""

    line: int
    column: int
    message: str


def decode(raw: bytes) -> tuple[str, Fault | None]:
    """The text of a file, lines ended by ``\\n`` and no byte order mark, and its first fault."""
    encoding = "utf-8"
    try:
        encoding, _ = tokenize.detect_encoding(io.BytesIO(raw).readline)
        text = raw.decode(encoding)
        # Encodings such as `unicode_escape` can make what is no text at all.
        text.encode("utf-8")
        return _unix(text), None
    except UnicodeDecodeError as error:
        before = _unix(raw[: error.start].decode(encoding, "replace"))
        line, column = before.count("\n") + 1, len(before) - before.rfind("\n")
        message = f"byte 0x{raw[error.start]:02X} is not {encoding.upper()}"
        fault = Fault(line, column, message)
    except (SyntaxError, ValueError) as error:
        fault = Fault(1, 1, f"Python cannot read it: {error}")
    return _unix(raw.removeprefix(codecs.BOM_UTF8).decode("utf-8", "backslashreplace")), fault


def _unix(text: str) -> str:
    """`text` with every line ended by ``\\n``."""
    return text.replace("\r\n", "\n").replace("\r", "\n")


def cut(line: str, start: int, stop: int | None) -> str:
    """A stretch of a line by the columns of the ast, which count bytes of UTF-8."""
    if line.isascii():
        return line[start:stop]
    return line.encode()[start:stop].decode(errors="ignore")
