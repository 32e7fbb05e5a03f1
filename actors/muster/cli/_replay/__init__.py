"""``muster replay``: the command, and what it prints."""

from __future__ import annotations

from muster.cli._replay.run import command

__all__ = ["command"]
