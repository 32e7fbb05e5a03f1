"""``muster import``: make a feed of the workload of another system."""

from __future__ import annotations

from muster.cli._import.command import command

__all__ = ["command"]
