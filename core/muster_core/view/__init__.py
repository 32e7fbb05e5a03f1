"""The decision view: the state that rounds decide on, and the rounds.

The view belongs to the coordinator. It is built only from the owners' reports. A round
works on the view alone; commits tell the owners afterwards.
"""

from __future__ import annotations

from muster_core.view.decision_view import DecisionView

__all__ = ["DecisionView"]
