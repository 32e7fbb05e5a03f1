"""``muster check``: the command, and what it prints."""

from __future__ import annotations

from muster.cli._check.run import command

__all__ = ["command"]
