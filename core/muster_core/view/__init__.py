"""The decision view: what a round needs to know, and the rounds.

The view is the coordinator's. It is built from what the owners report and from
nothing else; a round works on it alone, and the owners follow by commits.
"""

from __future__ import annotations

from muster_core.view.decision_view import DecisionView

__all__ = ["DecisionView"]
