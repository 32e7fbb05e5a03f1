"""Helpers for tests of programs that embed Muster, and of Muster itself."""

from __future__ import annotations

from muster.testing._checking import check
from muster.testing._inputs import Inputs
from muster.testing._interleaving import Interleaving
from muster.testing._recording import Recording

__all__ = ["Inputs", "Interleaving", "Recording", "check"]
