"""``feed.xml``: the news of ``site.toml`` as an Atom feed (RFC 4287).

Dates are those that the author wrote down, so that the same sources give the same feed. A feed must
say when it changed last; one without news says the start of Unix time.
"""

import datetime
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape


@dataclass(frozen=True, slots=True)
class Entry:
    """One piece of news about one page."""

    date: datetime.date
    title: str
    summary: str
    #: Absolute address of the page.
    url: str


def feed(base_url: str, title: str, summary: str, entries: Sequence[Entry]) -> bytes:
    """The feed, newest first; entries of one day keep their order."""
    newest_first = sorted(entries, key=lambda entry: entry.date, reverse=True)
    updated = newest_first[0].date if newest_first else datetime.date(1970, 1, 1)
    lines = [
        '<?xml version="1.0" encoding="UTF-8"?>',
        '<feed xmlns="http://www.w3.org/2005/Atom">',
        f"  <id>{escape(base_url)}</id>",
        f"  <title>{escape(title)}</title>",
        f"  <subtitle>{escape(summary)}</subtitle>",
        f"  <updated>{_stamp(updated)}</updated>",
        f"  <author><name>{escape(title)}</name></author>",
        f'  <link rel="self" href="{escape(base_url)}feed.xml"/>',
        f'  <link rel="alternate" href="{escape(base_url)}"/>',
        *(line for entry in newest_first for line in _entry(entry)),
        "</feed>",
    ]
    return ("\n".join(lines) + "\n").encode()


def _entry(entry: Entry) -> list[str]:
    return [
        "  <entry>",
        # Two pieces of news may be about one page; the fragment keeps their identities apart.
        f"    <id>{escape(entry.url)}#news-{entry.date.isoformat()}</id>",
        f"    <title>{escape(entry.title)}</title>",
        f"    <updated>{_stamp(entry.date)}</updated>",
        f'    <link href="{escape(entry.url)}"/>',
        f"    <summary>{escape(entry.summary)}</summary>",
        "  </entry>",
    ]


def _stamp(date: datetime.date) -> str:
    return f"{date.isoformat()}T00:00:00Z"
