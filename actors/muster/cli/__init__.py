"""The command ``muster``."""

from __future__ import annotations

from muster.cli._main import main

__all__ = ["main"]
