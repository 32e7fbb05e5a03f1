"""The decision view: what the coordinator knows of all owners, and its rounds of decisions.

The view belongs to the coordinator. It is built only from the owners' reports. A round places
asks on nodes, one after the other, and works on the view alone; commits tell the owners afterwards.
"""

from __future__ import annotations

from muster_core.view.decision_view import DecisionView

__all__ = ["DecisionView"]
