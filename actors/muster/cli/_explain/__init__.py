"""``muster explain``: the command, and what it prints."""

from __future__ import annotations

from muster.cli._explain.command import command

__all__ = ["command"]
