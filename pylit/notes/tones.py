"""Roles and their colours: which words of a first reading, and which symbols, have a tone.

A page names them in its front matter, on one line: ``tones: {query: 3, key: 1, value: 2}``. The
tones are those of figures (`pylit.figures.draw`). A word has its tone in the plural, too. A single
letter is a symbol, and colours no word.
"""

import re
from functools import lru_cache

_PAIR = re.compile(r"\s*([^\W\d][\w -]*?)\s*:\s*([0-6])\s*")


class Tones:
    """The tones of a page. Raises `ValueError` for what is no list of words with tones."""

    def __init__(self, written: str) -> None:
        pairs = written.strip().removeprefix("{").removesuffix("}").split(",")
        found = [_PAIR.fullmatch(pair) for pair in pairs] if written else []
        if not all(found):
            raise ValueError("it is no list of words, each with a tone from 0 to 6")
        self.words = {match[1]: int(match[2]) for match in found if match}
        each = "|".join(f"({_forms(word)})" for word in self.words)
        self._one = re.compile(rf"\b(?:{each})\b" if each else r"(?!)", re.IGNORECASE)
        self._names, self._tones = tuple(self.words), tuple(self.words.values())

    def __bool__(self) -> bool:
        return bool(self.words)

    def of(self, name: str) -> int | None:
        """The tone of a variable, by its name."""
        match = self._one.fullmatch(name)
        return self._tones[match.lastindex - 1] if match and match.lastindex else None

    def coloured(self, html: str) -> str:
        """Text of a note, escaped, with its words in their colours."""

        def tinted(match: re.Match[str]) -> str:
            if len(self._names[(match.lastindex or 1) - 1]) == 1:
                return match[0]
            return f'<span class="t{self._tones[(match.lastindex or 1) - 1]}">{match[0]}</span>'

        return self._one.sub(tinted, html)


def _forms(word: str) -> str:
    """A word, in the singular and in the plural; a letter has none."""
    if len(word) == 1:
        return re.escape(word)
    if re.search("[^aeiou]y$", word):
        return f"{word[:-1]}(?:y|ies)"
    return f"{word}(?:e?s)?"


@lru_cache(maxsize=100)
def read_tones(written: str) -> Tones:
    """The tones that front matter names; none where it cannot be read, which is told elsewhere."""
    try:
        return Tones(written)
    except ValueError:
        return NO_TONES


NO_TONES = Tones("")
