"""``muster compare``: the command, and what it prints."""

from __future__ import annotations

from muster.cli._compare.run import command

__all__ = ["command"]
