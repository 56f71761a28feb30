"""Encodings: as Python reads them, and a text in every case."""

import codecs
import io
import tokenize

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pylit.source.discover import decode

TEXT = "# größe €\nx = 'é'\n"


@pytest.mark.parametrize(
    "raw",
    [
        TEXT.encode(),
        codecs.BOM_UTF8 + TEXT.encode(),
        b"# -*- coding: latin-1 -*-\nx = '\xe9'\n",
        b"#!/usr/bin/python\n# vim: set fileencoding=cp1252 :\nx = '\x80'\n",
        b"x = 1\ry = 2\r",
        b"",
        b"x = 1\n# coding: latin-1\n# \xc3\xa9\n",
        b"\x0c# coding: latin-1\n# \xe9\n",
        # Only ends of lines end lines.
        "a\x0cb\x0bc\x1cd\u2028e\x85f\ng".encode(),
    ],
)
def test_as_python_reads_it(raw: bytes) -> None:
    text, fault = decode(raw)
    encoding, _ = tokenize.detect_encoding(io.BytesIO(raw).readline)
    assert text == io.TextIOWrapper(io.BytesIO(raw), encoding, newline=None).read()
    assert fault is None


CODING = b"# coding: "
UNREAD = "Python cannot read it: "


@pytest.mark.parametrize(
    ("raw", "text", "place", "said"),
    [
        (b"x = 1\n# caf\xe9 \xc3\xa9\n", "# caf\\xe9 é\n", (2, 6), "byte 0xE9 is not UTF-8"),
        (CODING + b"ascii\n# \xc3\xa9\n", "# é\n", (2, 3), "byte 0xC3 is not ASCII"),
        (CODING + b"klingon\n", "klingon\n", (1, 1), f"{UNREAD}unknown encoding: klingon"),
        (CODING + b"hex\n", "hex\n", (1, 1), f"{UNREAD}'hex' is not a text encoding"),
        (CODING + b"rot13\nx = 1", "x = 1", (1, 1), f"{UNREAD}'rot13' is not a text encoding"),
        (codecs.BOM_UTF8 + CODING + b"latin-1\n\xc3\xa9", "é", (1, 1), f"{UNREAD}encoding problem"),
        (CODING + b"unicode_escape\n\\ud800", "\\ud800", (1, 1), f"{UNREAD}'utf-8' codec can't"),
        (b"\xff\xfex\0", "\\xff\\xfex\0", (1, 1), f"{UNREAD}invalid or missing"),
    ],
)
def test_faults(raw: bytes, text: str, place: tuple[int, int], said: str) -> None:
    decoded, fault = decode(raw)
    assert decoded.endswith(text)
    assert fault is not None and fault[:2] == place
    assert fault[2].startswith(said)


@settings(deadline=None, max_examples=200)
@given(st.binary(max_size=60), st.sampled_from(["", "# coding: utf-7\n", "# coding: ascii\n"]))
def test_any_bytes_become_text(raw: bytes, first: str) -> None:
    text, fault = decode(first.encode() + raw)
    text.encode("utf-8")
    assert "\r" not in text
    if fault is not None:
        assert 1 <= fault[0] <= text.count("\n") + 1
        assert fault[1] >= 1
