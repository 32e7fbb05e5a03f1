"""Reading configurations that are named on the command line."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TextIO

from muster.cli._options import STDIN
from muster.config_files import read_content
from muster.feeds import is_feed, word_of


def read_configuration_text(source: str) -> bytes | None:
    """Read the text of a configuration; None if the process has no standard input.

    Raises:
        OSError: If it cannot be read.
    """
    if source != STDIN:
        with Path(source).open("rb") as file:
            return read_content(file)
    stream: TextIO | None = sys.stdin
    return None if stream is None else read_content(stream.buffer)


# COMMAND-21
def told_as_feed(name: str, content: bytes) -> str | None:
    """Return what to say of a file that is no configuration because it is a feed, or None.

    Args:
        name: Its name for messages.
        content: Its content.
    """
    if not is_feed(content):
        return None
    return f"is a feed, not a configuration: run it with `muster replay {word_of(name)}`"
