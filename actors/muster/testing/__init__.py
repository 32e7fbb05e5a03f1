"""Helpers for tests of programs that embed Muster, and of Muster itself."""

from __future__ import annotations

from muster.testing._helpers import Inputs, Interleaving, Recording, check

__all__ = ["Inputs", "Interleaving", "Recording", "check"]
