"""What a page says of itself to programs: structured data, and an entry for bibliographies."""

from typing import Any

from pylit.page.view import PageView, SiteView
from pylit.prose.slugs import slugify


def structured(page: PageView, site: SiteView, address: str) -> dict[str, Any]:
    """The page at an absolute address, and the way to it, in the terms of schema.org."""
    whole = {"@type": "WebSite", "name": site.title, "url": site.base_url}
    about = {"description": page.summary, "inLanguage": site.language}
    if page.kind == "home":
        return {"@context": "https://schema.org", **whole, **about}
    article = {
        "@type": "TechArticle",
        "headline": page.title,
        "url": address,
        "isPartOf": whole,
        "timeRequired": f"PT{page.minutes}M",
        **about,
    }
    if page.paper_url:
        article["citation"] = page.paper_url
    if page.card:
        article["image"] = site.base_url + page.card
    steps = [(site.title, site.base_url)]
    steps += [
        # A crumb with a page of its own is a package.
        (step.title, site.base_url + step.url.removesuffix("index.html"))
        for step in page.crumbs[:-1]
        if step.url
    ]
    trail = [
        {"@type": "ListItem", "position": place, "name": name, "item": url}
        for place, (name, url) in enumerate([*steps, (page.title, address)], start=1)
    ]
    crumbs = {"@type": "BreadcrumbList", "itemListElement": trail}
    return {"@context": "https://schema.org", "@graph": [article, crumbs]}


def bibtex(page: PageView, site: SiteView, address: str) -> str:
    """How to cite the page. It has no date: a build does not know when it was written."""
    name = page.url.removesuffix(".html").removesuffix("/index").replace("/", " ")
    fields = {"title": page.title, "author": f"{{Authors of {site.title}}}", "url": address}
    lines = [f"  {key} = {{{value}}}," for key, value in fields.items() if value]
    return "\n".join([f"@misc{{{slugify(name)},", *lines, "}"])
