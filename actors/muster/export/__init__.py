"""Write a state directory as a feed: what was let in, and what happened as ``expect`` events.

A feed begins with nothing. So if it is to begin in the middle, the state at that instant is written
as events that lead to it, as exactly as events can; the differences that remain are reported.
"""

from __future__ import annotations

from muster.export._export import Exported, export

__all__ = ["Exported", "export"]
