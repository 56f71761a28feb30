"""The settings of a site, as the generator itself checks them."""

from pylit.config import settings
from pylit.figures.draw import Table


def every():
    """Each key with its meaning, its form and its default."""
    rows = [(key, about, f"{form} ({default})") for key, about, form, default in settings()]
    return Table(["setting", "meaning", "form (default)"], rows, align="lww")
