"""The grammar of each dialect of docstrings, as one table of cases, from its own specification:
what an author writes, and what a reader sees.

What is seen is in a short form, block by block: ``[Args]`` is the title of a section, and
``x int = text`` a term with its type and description; ``<code>`` is a block of code, ``# Title`` a
headline, ``* item`` an item of a list, and ``(Note) text`` an alert.
"""

from html.parser import HTMLParser

import pytest
from note_tools import render

from pylit.notes.dialects import dialect_of


class Seen(HTMLParser):
    """The blocks of a note in the short form."""

    def __init__(self) -> None:
        super().__init__()
        self.blocks: list[str] = []
        self._open: list[str] = []
        self._title = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        name = dict(attrs).get("class") or ""
        opened = self._open[-1:] == ["dd"] and self.blocks[-1].endswith("= ")
        begins = {"dt": "", "li": "* ", "pre": "<", "h1": "# ", "h2": "# ", "h3": "# ", "hr": "--"}
        begins["p"] = "[" if name == "label" else "(" if name == "markdown-alert-title" else ""
        alert = self.blocks and self.blocks[-1].endswith(") ")
        item = self._open[-1:] == ["li"] and self.blocks[-1] == "* "
        if tag in begins and not (tag == "p" and (opened or alert or item)):
            self.blocks.append(begins[tag])
        if tag == "dd":
            self.blocks[-1] += " = "
        if tag == "p":
            self._title = begins["p"]
        if tag not in ("hr", "br"):
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        self._open.pop()
        if tag == "p" and self._title:
            self.blocks[-1] += {"[": "]", "(": ") "}[self._title]
            self._title = ""
        if tag == "pre":
            self.blocks[-1] = f"{self.blocks[-1].rstrip()}>"

    def handle_data(self, data: str) -> None:
        if self._open and (data.strip() or self._open[-1] not in ("dl", "dd", "ul", "div")):
            self.blocks[-1] += data


def seen(text: str, dialect: str) -> list[str]:
    """What a reader sees of a docstring, in the short form."""
    read = Seen()
    read.feed(render(text.strip("\n"), docstrings=dialect, own=False).html)
    blocks = (" ".join(block.split()).removesuffix(" =") for block in read.blocks)
    return [*filter(None, blocks)]


GOOGLE = [
    (
        """
Sum.

Args:
    x (int): The x.
    y: The y,
        continued.
""",
        ["Sum.", "[Args]", "x int = The x.", "y = The y, continued."],
    ),
    (
        """
Args:
    x: The x.
""",
        ["[Args]", "x = The x."],
    ),
    (
        """
Args:
x: The x.
y (int): The y,
    continued.

More text.
""",
        ["[Args]", "x = The x.", "y int = The y, continued.", "More text."],
    ),
    (
        """
Args:
x: The x.
Returns:
    int: How many.
""",
        ["[Args]", "x = The x.", "[Returns]", "int = How many."],
    ),
    (
        """
Returns:
int: The number.
""",
        ["[Returns]", "int = The number."],
    ),
    (
        """
Sum.
Args:
    x: The x.
Returns:
    The weather: sunny.
""",
        ["Sum.", "[Args]", "x = The x.", "[Returns]", "The weather: sunny."],
    ),
    (
        """
Sum.

Args:

    x: The x.

    y: The y.

        Second paragraph.
""",
        ["Sum.", "[Args]", "x = The x.", "y = The y.", "Second paragraph."],
    ),
    (
        r"""
Sum.

Args:
    x, y (int): Both.
    *args: Rest.
    **kwargs: More.
    \*others: Escaped.
    \*\*more: Escaped.
    `z`: In backticks.
    ``w`` (int, optional): In two.
    a or b: Either.
    c/d: Either.
    e.f: Dotted.
    g_: Trailing.
""",
        [
            "Sum.",
            "[Args]",
            "x, y int = Both.",
            "*args = Rest.",
            "**kwargs = More.",
            "*others = Escaped.",
            "**more = Escaped.",
            "z = In backticks.",
            "w int, optional = In two.",
            "a, b = Either.",
            "c, d = Either.",
            "e.f = Dotted.",
            "g_ = Trailing.",
        ],
    ),
    (
        r"""
Sum.

Args:
    kind (Literal["x",
        "y"]): The kind.
    other (dict[str,
    int]): The other.
    back (int or \
        str): The third.
    last (Callable[[int], str]): A (parenthesis.
""",
        [
            "Sum.",
            "[Args]",
            'kind Literal["x", "y"] = The kind.',
            "other dict[str, int] = The other.",
            "back int or str = The third.",
            "last Callable[[int], str] = A (parenthesis.",
        ],
    ),
    (
        """
Sum.

Args:
    x (int) : Space before the colon.
    y (:class:`~pk.Thing`): A role.
    z (`Thing`, optional): Backticks.
""",
        [
            "Sum.",
            "[Args]",
            "x int = Space before the colon.",
            "y Thing = A role.",
            "z Thing, optional = Backticks.",
        ],
    ),
    (
        """
Sum.

Args:
    x: The x.
    This line is no argument.
    y: The y.
""",
        ["Sum.", "[Args]", "x = The x. This line is no argument.", "y = The y."],
    ),
    (
        """
Sum.

Args:
    This is prose, all of it: nothing more.

After.
""",
        ["Sum.", "[Args]", "This is prose, all of it: nothing more.", "After."],
    ),
    (
        """
Sum.

Raises:
    ValueError: one.
    ~pk.MyError: two.
    :exc:`pk.Other`: three.
    :class:`~pk.Third`: four.
    `SomeError`: five.
    IOError, OSError: six.
    KeyError or TypeError: seven.
    EOFError:
        eight.
    OverflowError
""",
        [
            "Sum.",
            "[Raises]",
            "ValueError = one.",
            "MyError = two.",
            "pk.Other = three.",
            "Third = four.",
            "SomeError = five.",
            "IOError, OSError = six.",
            "KeyError, TypeError = seven.",
            "EOFError = eight.",
            "OverflowError",
        ],
    ),
    (
        """
Sum.

Raises:
    If something is wrong.
""",
        ["Sum.", "[Raises]", "If something is wrong."],
    ),
    (
        """
Sum.

Returns:
    dict[str, list[int]]: A map.
""",
        ["Sum.", "[Returns]", "dict[str, list[int]] = A map."],
    ),
    (
        """
Sum.

Returns:
    tuple(int, str): A pair.
""",
        ["Sum.", "[Returns]", "tuple(int, str) = A pair."],
    ),
    (
        """
Sum.

Returns:
    int or None: A number.
""",
        ["Sum.", "[Returns]", "int or None = A number."],
    ),
    (
        """
Sum.

Returns:
    :class:`~pk.Thing`: It.
""",
        ["Sum.", "[Returns]", "Thing = It."],
    ),
    (
        """
Sum.

Returns:
    A map::

        {"a": 1}

    and more.
""",
        ["Sum.", "[Returns]", "A map:", '{"a": 1}', "and more."],
    ),
    (
        """
Sum.

Returns:
    Literal["x",
        "y"]: The kind.
""",
        ["Sum.", "[Returns]", 'Literal["x", "y"] = The kind.'],
    ),
    (
        """
Sum.

Yields:
    int: The next.
""",
        ["Sum.", "[Yields]", "int = The next."],
    ),
    (
        """
Sum.

Warns:
    UserWarning: If odd.
""",
        ["Sum.", "[Warns]", "UserWarning = If odd."],
    ),
    (
        """
Class.

Attributes:
    size (int): The size.
    name: The name.
""",
        ["Class.", "[Attributes]", "size int = The size.", "name = The name."],
    ),
    (
        """
Class.

Methods:
    run(x, y): Runs.
    stop: Stops.
""",
        ["Class.", "[Methods]", "run(x, y) = Runs.", "stop = Stops."],
    ),
    (
        """
Sum.

See Also:
    other.func: It.
    :func:`more`
    a, b
""",
        ["Sum.", "[See Also]", "other.func = It.", "more", "a, b"],
    ),
    (
        """
Sum.

Note:
    Careful.

Warning:
    More care.
""",
        ["Sum.", "(Note) Careful.", "(Warning) More care."],
    ),
    (
        """
Sum.

Example:
    # not a title
    f(1)

    >>> f(1)
    2
""",
        ["Sum.", "[Example]", "# not a title f(1)", "<>>> f(1) 2>"],
    ),
    (
        """
Sum.

Examples:
    Title
    -----
    Text.
""",
        ["Sum.", "[Examples]", "Title", "--", "Text."],
    ),
    (
        """
Run it.

```
pip install x: y
Args:
    no
```

Args:
    x: The x.
""",
        ["Run it.", "<pip install x: y Args: no>", "[Args]", "x = The x."],
    ),
    (
        """
Run it:
```
pip install x
make y
```
Then stop.

Args:
    x: The x.
""",
        ["Run it:", "<pip install x make y>", "Then stop.", "[Args]", "x = The x."],
    ),
    (
        """
Run it.

~~~
pip install x
~~~

Args:
    x: The x.
""",
        ["Run it.", "<pip install x>", "[Args]", "x = The x."],
    ),
    (
        """
Sum.

Args:
    x: The x.

```
make
```

End.
""",
        ["Sum.", "[Args]", "x = The x.", "<make>", "End."],
    ),
    (
        """
Sum.

Args:
    x: As in

        ```
        make: it
        ```

        and so on.
    y: The y.
""",
        ["Sum.", "[Args]", "x = As in", "<make: it>", "and so on.", "y = The y."],
    ),
    (
        """
Sum.

Args:
    x: One of

        * a: first
        * b

    y: Others:
        - c
        - d
""",
        ["Sum.", "[Args]", "x = One of", "* a: first", "* b", "y = Others:", "* c", "* d"],
    ),
    (
        """
Sum.

Keyword Args:
    x: The x.

Other Parameters:
    y: The y.
""",
        ["Sum.", "[Keyword Args]", "x = The x.", "[Other Parameters]", "y = The y."],
    ),
    (
        """
Sum.

Todo:
    * one
    * two
""",
        ["Sum.", "(Todo)", "* one", "* two"],
    ),
    (
        """
Sum.

Shape:
    - Input: (N, C)
""",
        ["Sum.", "[Shape]", "* Input: (N, C)"],
    ),
    (
        """
Sum.

References:
    A work.

Args:
    x: The x.

---

Text.
""",
        ["Sum.", "[References]", "A work.", "[Args]", "x = The x.", "--", "Text."],
    ),
    (
        """
Sum.

Returns:
    x (int): The x.
    y: The y.
""",
        ["Sum.", "[Returns]", "x int = The x.", "y = The y."],
    ),
    (
        """
Sum.

Args:
    x: see https://a.org/b: it.
    https://a.org is a link
""",
        ["Sum.", "[Args]", "x = see https://a.org/b: it. https://a.org is a link"],
    ),
    (
        """
Sum.

    Args:
        a (int): The first.
        kind (Literal["x",
"y"]): The kind.
        b (int): The last.

    Returns:
        int: How many.
""",
        [
            "Sum.",
            "[Args]",
            "a int = The first.",
            'kind Literal["x", "y"] = The kind.',
            "b int = The last.",
            "[Returns]",
            "int = How many.",
        ],
    ),
    (
        """
Sum.

Args:
    x: The x.
    ---
    y: The y.

Returns:
    See the class.

Raises:
    - ValueError: if odd
""",
        [
            "Sum.",
            "[Args]",
            "x = The x.",
            "--",
            "y = The y.",
            "[Returns]",
            "See the class.",
            "[Raises]",
            "* ValueError: if odd",
        ],
    ),
    (
        """
Sum.

Attention:
    Careful.

Custom section:
    Some text.
""",
        ["Sum.", "(Attention) Careful.", "[Custom section]", "Some text."],
    ),
]

NUMPY = [
    (
        """
Sum.

Parameters
----------
x : int
    The x.
y
    The y.
z : {"a", "b"}, optional
    The z.
""",
        ["Sum.", "[Parameters]", "x int = The x.", "y = The y.", 'z {"a", "b"}, optional = The z.'],
    ),
    (
        """
Parameters
----------
x : int
    The x.
""",
        ["[Parameters]", "x int = The x."],
    ),
    (
        """
Sum.

Parameters
--
x : int
    The x.
""",
        ["Sum.", "[Parameters]", "x int = The x."],
    ),
    (
        """
Sum.

Parameters
--------------------
x : int
    The x.
Returns
===
int
    The number.
""",
        ["Sum.", "[Parameters]", "x int = The x.", "[Returns]", "int = The number."],
    ),
    (
        """
Sum.

Parameters
-
x : int
    The x.

Returns
-------
int
""",
        ["Sum.", "Parameters - x : int The x.", "[Returns]", "int"],
    ),
    (
        r"""
Sum.

Parameters
----------
combine : {"drop", "keep", \
           "override"} or callable
    How.
other : int
    The other.
""",
        [
            "Sum.",
            "[Parameters]",
            'combine {"drop", "keep", "override"} or callable = How.',
            "other int = The other.",
        ],
    ),
    (
        """
Sum.

Parameters
----------
combine : {"drop", "keep",
"override"} or callable
    How.
kind : str or
    None
    The kind.
other : int
    The other.
""",
        [
            "Sum.",
            "[Parameters]",
            'combine {"drop", "keep", "override"} or callable = How.',
            "kind str or None = The kind.",
            "other int = The other.",
        ],
    ),
    (
        r"""
Sum.

Parameters
----------
x, y : array_like
    Both.
*args, **kwargs
    Rest.
\*more : Any
    More.
`a` : int
    Backticks.
``b``: int
    Two.
**c** : int
    Bold.
d_ : int
    Trailing.
""",
        [
            "Sum.",
            "[Parameters]",
            "x, y array_like = Both.",
            "*args, **kwargs = Rest.",
            "*more Any = More.",
            "a int = Backticks.",
            "b int = Two.",
            "c int = Bold.",
            "d_ int = Trailing.",
        ],
    ),
    (
        """
Sum.

Parameters
----------
x : :class:`~pk.Thing`
    A role.
f : callable(a, b)
    A call.
""",
        ["Sum.", "[Parameters]", "x Thing = A role.", "f callable(a, b) = A call."],
    ),
    (
        """
Sum.

Parameters
----------
x : int
    The x.

    More.

    - one
    - two
y : int
""",
        ["Sum.", "[Parameters]", "x int = The x.", "More.", "* one", "* two", "y int"],
    ),
    (
        """
Sum.

Returns
-------
int
    The number.
str
    The text.
""",
        ["Sum.", "[Returns]", "int = The number.", "str = The text."],
    ),
    (
        """
Sum.

Returns
-------
x : int
    The x.
""",
        ["Sum.", "[Returns]", "x int = The x."],
    ),
    (
        """
Sum.

Returns
-------
The number of things in it.
""",
        ["Sum.", "[Returns]", "The number of things in it."],
    ),
    (
        """
Sum.

Returns
-------
list of int or None
    The list.
""",
        ["Sum.", "[Returns]", "list of int or None = The list."],
    ),
    (
        """
Sum.

Yields
------
int
    The next.
""",
        ["Sum.", "[Yields]", "int = The next."],
    ),
    (
        """
Sum.

Raises
------
ValueError
    If odd.
:exc:`pk.Other`
    If even.
KeyError, TypeError
    If both.
~pk.Third
    Never.
""",
        [
            "Sum.",
            "[Raises]",
            "ValueError = If odd.",
            "pk.Other = If even.",
            "KeyError, TypeError = If both.",
            "Third = Never.",
        ],
    ),
    (
        """
Sum.

Warns
-----
UserWarning
    If odd.
""",
        ["Sum.", "[Warns]", "UserWarning = If odd."],
    ),
    (
        """
Sum.

See Also
--------
func_a : Does a.
func_b, func_c
:func:`~pk.d` : Does d.
`e` : Does e.
pk.f
    Does f.
""",
        [
            "Sum.",
            "[See Also]",
            "func_a = Does a.",
            "func_b, func_c",
            "d = Does d.",
            "e = Does e.",
            "pk.f = Does f.",
        ],
    ),
    (
        """
Sum.

Notes
-----
Text of the note.

Examples
--------
# no title
>>> f(1)
2
""",
        ["Sum.", "[Notes]", "Text of the note.", "[Examples]", "# no title", "<>>> f(1) 2>"],
    ),
    (
        """
Class.

Attributes
----------
x : float
    The x.
y
""",
        ["Class.", "[Attributes]", "x float = The x.", "y"],
    ),
    (
        """
Class.

Methods
-------
colorspace(c='rgb')
    Represent.
gamma(n=1.0)
    Change.
stop
    Stops.
""",
        [
            "Class.",
            "[Methods]",
            "colorspace(c='rgb') = Represent.",
            "gamma(n=1.0) = Change.",
            "stop = Stops.",
        ],
    ),
    (
        """
Sum.

```
pip install x
```

Parameters
----------
x : int
    The x.

```
make
y : int
```

End of it.
""",
        [
            "Sum.",
            "<pip install x>",
            "[Parameters]",
            "x int = The x.",
            "<make y : int>",
            "End of it.",
        ],
    ),
    (
        """
Sum:
~~~
make
~~~

Parameters
----------
x : int
    The x.
""",
        ["Sum:", "<make>", "[Parameters]", "x int = The x."],
    ),
    (
        """
Sum.

Parameters
----------
x : int
    The x.

This is a text, which fits no section.

.. note:: Careful.

Returns
-------
int
""",
        [
            "Sum.",
            "[Parameters]",
            "x int = The x.",
            "This is a text, which fits no section.",
            "(Note) Careful.",
            "[Returns]",
            "int",
        ],
    ),
    (
        """
Sum.

Custom title
------------
Text.

Parameters
----------
x : int
""",
        ["Sum.", "# Custom title", "Text.", "[Parameters]", "x int"],
    ),
    (
        """
Sum.

Custom title
--
Text.

Returns
-------
int
""",
        ["Sum.", "Custom title -- Text.", "[Returns]", "int"],
    ),
    (
        """
Sum.

References
----------
.. [1] A work.

Parameters
----------
x
    The x.
""",
        ["Sum.", "[References]", "[1] A work.", "[Parameters]", "x = The x."],
    ),
    (
        """
Sum.

    Parameters
    ----------
    x : {"a",
"b"}
        The x.
    y : int
        The y.
""",
        ["Sum.", "[Parameters]", 'x {"a", "b"} = The x.', "y int = The y."],
    ),
]

SPHINX = [
    (
        """
Sum.

:param x: The x.
:param int y: The y
    continued.
:param z: The z.
:type z: str or None
:returns: The sum.
:rtype: int
""",
        [
            "Sum.",
            "[Parameters]",
            "x = The x.",
            "y int = The y continued.",
            "z str or None = The z.",
            "[Returns]",
            "int = The sum.",
        ],
    ),
    (
        """
:param x: The x.
""",
        ["[Parameters]", "x = The x."],
    ),
    (
        """
Sum.

:param n: The n.
:meta public:
:meta hide-value:
""",
        ["Sum.", "[Parameters]", "n = The n."],
    ),
    (
        """
Sum.

:meta private:
""",
        ["Sum."],
    ),
    (
        """
Sum.

:param n: The n.
:raises ValueError:
    - if odd
    - if large
:meta private:
""",
        ["Sum.", "[Parameters]", "n = The n.", "[Raises]", "ValueError", "* if odd", "* if large"],
    ),
    (
        """
Sum.

:raises: if odd
:raises ValueError, TypeError: if even
:raises :exc:`~pk.Other`: never
:except KeyError: no
""",
        [
            "Sum.",
            "[Raises]",
            "if odd",
            "ValueError, TypeError = if even",
            "Other = never",
            "KeyError = no",
        ],
    ),
    (
        """
Sum.

:rtype: int
""",
        ["Sum.", "[Returns]", "int"],
    ),
    (
        """
Sum.

:returns: A number.
:returns: Or none.
:rtype: int or None
""",
        ["Sum.", "[Returns]", "int or None = A number.", "int or None = Or none."],
    ),
    (
        """
Sum.

:yields: The next.
:rtype: int
""",
        ["Sum.", "[Yields]", "int = The next."],
    ),
    (
        """
Sum.

:type x: int
""",
        ["Sum.", "[Parameters]", "x int"],
    ),
    (
        """
Class.

:ivar size: The size.
:vartype size: int
:cvar int kind: The kind.
:vartype name: str
""",
        ["Class.", "[Attributes]", "size int = The size.", "kind int = The kind.", "name str"],
    ),
    (
        """
Sum.

:param n: The n.
:Example:

>>> f(1)
""",
        ["Sum.", "[Parameters]", "n = The n.", "[Example]", "<>>> f(1)>"],
    ),
    (
        """
Sum.

:param n: The n.
:Example: It is so.
:since version: 3

End.
""",
        [
            "Sum.",
            "[Parameters]",
            "n = The n.",
            "[Example]",
            "It is so.",
            "[Since version]",
            "3",
            "End.",
        ],
    ),
    (
        """
Sum.

:param foo: This goes on
    in a second line.

    A second paragraph.

:param bar: A list:

    * First
    * Second

After.
""",
        [
            "Sum.",
            "[Parameters]",
            "foo = This goes on in a second line.",
            "A second paragraph.",
            "bar = A list:",
            "* First",
            "* Second",
            "After.",
        ],
    ),
    (
        """
Sum.

:param x: Goes on
at the margin.
:key y: The y.
:keyword z: The z.
:arg a: The a.
:argument b: The b.
:parameter c: The c.
:kwarg d: The d.
""",
        [
            "Sum.",
            "[Parameters]",
            "x = Goes on at the margin.",
            "y = The y.",
            "z = The z.",
            "a = The a.",
            "b = The b.",
            "c = The c.",
            "d = The d.",
        ],
    ),
    (
        r"""
Sum.

:param dict[str, int] x: The x.
:param :class:`~pk.Thing` y: The y.
:param *args: Rest.
:param \**kwargs: More.
:param z: The z: it.
""",
        [
            "Sum.",
            "[Parameters]",
            "x dict[str, int] = The x.",
            "y Thing = The y.",
            "*args = Rest.",
            "**kwargs = More.",
            "z = The z: it.",
        ],
    ),
    (
        """
Sum.

```
make
:param no: no
```

:param x: The x.

~~~
make
~~~
""",
        ["Sum.", "<make :param no: no>", "[Parameters]", "x = The x.", "<make>"],
    ),
    (
        """
Sum:
```
make
```
:param x: The x.
""",
        ["Sum:", "<make>", "[Parameters]", "x = The x."],
    ),
    (
        """
Sum :class:`~pk.Thing`.

:smile: is no field here: a word.

Text with
:smile: in it.
""",
        ["Sum Thing.", "[Smile]", "is no field here: a word.", "Text with :smile: in it."],
    ),
    (
        """
Sum.

:return: It.

.. note:: Careful.

.. deprecated:: 2.0
   Use it.
""",
        ["Sum.", "[Returns]", "It.", "(Note) Careful.", "(Deprecated since version 2.0) Use it."],
    ),
    (
        """
Sum.

:param x:
    The x.
:param y:

    The y.
:param z:
""",
        ["Sum.", "[Parameters]", "x = The x.", "y = The y.", "z"],
    ),
    (
        """
Sum.

:param x: The x.
.. note:: Careful.

:returns: It.
>>> f(1)
2
""",
        [
            "Sum.",
            "[Parameters]",
            "x = The x.",
            "(Note) Careful.",
            "[Returns]",
            "It.",
            "<>>> f(1) 2>",
        ],
    ),
]


@pytest.mark.parametrize(("text", "blocks"), GOOGLE)
def test_google(text: str, blocks: list[str]) -> None:
    assert seen(text, "google") == blocks


@pytest.mark.parametrize(("text", "blocks"), NUMPY)
def test_numpy(text: str, blocks: list[str]) -> None:
    assert seen(text, "numpy") == blocks


@pytest.mark.parametrize(("text", "blocks"), SPHINX)
def test_sphinx(text: str, blocks: list[str]) -> None:
    assert seen(text, "sphinx") == blocks


@pytest.mark.parametrize(
    ("dialect", "cases"), [("google", GOOGLE), ("numpy", NUMPY), ("sphinx", SPHINX)]
)
def test_each_of_these_docstrings_is_recognised(
    dialect: str, cases: list[tuple[str, list[str]]]
) -> None:
    # A section that no specification knows gives no docstring away.
    others = [text for text, _ in cases if dialect_of(text.strip("\n"), "auto") != dialect]
    assert all("Shape:" in text for text in others), others
