"""Why asks are not running at the end of a batch, computed when an explanation is requested.

Nothing here changes the view. Rounds do no work for it, except to record failed binds and the
failures of Strict groups.
"""

from __future__ import annotations

from muster_core.view.reasons.explainer import Explainer
from muster_core.view.reasons.room import NodeRoom

__all__ = ["Explainer", "NodeRoom"]
