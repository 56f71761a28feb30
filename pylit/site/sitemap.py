"""``sitemap.xml`` and ``robots.txt``: what a search engine is told about the site.

There is no ``lastmod``: a date from the clock or from the file system would give two builds of the
same sources two different sites, and search engines ignore dates that are not trustworthy.
"""

from collections.abc import Iterable
from html import escape

from pylit.page.render import canonical


def sitemap(base_url: str, urls: Iterable[str]) -> bytes:
    """The addresses of all pages, absolute, sorted."""
    lines = [
        '<?xml version="1.0" encoding="UTF-8"?>',
        '<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">',
        *(f"  <url><loc>{escape(canonical(base_url, url))}</loc></url>" for url in sorted(urls)),
        "</urlset>",
    ]
    return ("\n".join(lines) + "\n").encode()


def robots(base_url: str) -> bytes:
    """Everything may be read; where the sitemap is, if the site has an address."""
    lines = ["User-agent: *", "Allow: /"]
    if base_url:
        lines += ["", f"Sitemap: {base_url}sitemap.xml"]
    return ("\n".join(lines) + "\n").encode()
