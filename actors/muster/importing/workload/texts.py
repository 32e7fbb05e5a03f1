"""Texts of a dump as names in a feed, and instants as a feed writes them."""

from __future__ import annotations

import re
from typing import Final
from zlib import crc32

from muster_core.decisions import seconds

_NO_NAME: Final = re.compile(r"[\x00-\x1f\x7f/]+")
_NO_QUEUE: Final = re.compile(r"[^a-zA-Z0-9_:#@-]+")
_NO_GANG: Final = re.compile(r"[^a-z0-9]+")
LONGEST_QUEUE: Final = 64
"""The longest name of a queue, in characters."""


def name_of(text: str) -> str:
    """Return a text as the name of an application, ask or node; ``-`` stands for what it may not have."""
    return _NO_NAME.sub("-", text)


def queue_name_of(text: str) -> str:
    """Return a text as the name of one queue, in lower case; may be empty.

    Other characters than ``a-z 0-9 _ : # @ -`` become ``-``; it is cut after 64 characters.
    """
    return _NO_QUEUE.sub("-", text.strip())[:LONGEST_QUEUE].lower()


def queue_path_of(text: str) -> str:
    """Return a text as the path of a queue, such as ``root.a.b``; empty if it names none.

    A path that does not begin with ``root`` is relative to the root. Other characters than a name
    may have become ``-``.
    """
    names = [name for name in map(queue_name_of, text.split(".")) if name]
    if names[:1] == ["root"]:
        del names[0]
    return ".".join(["root", *names]) if names else ""


def gang_name_of(app: str) -> str:
    """Return the name of the gang of an application, as Kubernetes names objects.

    A name with other characters than ``a-z 0-9`` gets a checksum, so that two stay two.
    """
    name = _NO_GANG.sub("-", app.lower()).strip("-")[:150]
    return f"job-{name}" if name == app else f"job-{name}-{crc32(app.encode()):08x}"


def seconds_of(at_us: int) -> int | float:
    """Return microseconds as seconds, as a feed writes them."""
    return seconds(at_us)
