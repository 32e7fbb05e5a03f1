"""The files that pages are made of besides their markup: styles, scripts, libraries of others."""

from __future__ import annotations

from functools import lru_cache
from hashlib import sha256
from importlib.resources import files
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

_MEDIA: Final = {
    ".css": "text/css",
    ".js": "text/javascript",
    ".svg": "image/svg+xml",
}

# PAGE-18
_FOLDERS: Final = (
    ("", "muster.service.page", "static"),
    ("vendor/", "muster.service.page", "static/vendor"),
    ("figures/", "muster.figures", ""),
)
"""How addresses of files begin, and in which package and folder the files are."""


@lru_cache(maxsize=1)
def assets() -> Mapping[str, tuple[bytes, str]]:
    """Return all files by name, with their media types."""
    return {
        f"{prefix}{one.name}": (one.read_bytes(), media)
        for prefix, package, folder in _FOLDERS
        for one in files(package).joinpath(*folder.split("/")).iterdir()
        for suffix, media in _MEDIA.items()
        if one.name.endswith(suffix)
    }


@lru_cache(maxsize=256)
def static(name: str) -> str:
    """Return the address of a file that never changes under this address."""
    return f"/static/{name}?v={sha256(assets()[name][0]).hexdigest()[:12]}"
