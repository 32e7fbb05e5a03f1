"""Why asks are not running at the end of a batch: computed when somebody wants to know.

Nothing here alters the view, and nothing is done for it while rounds are run but that a bind
that fails and a Strict group that gives up leave a note.
"""

from __future__ import annotations

from muster_core.view.reasons.explainer import Explainer

__all__ = ["Explainer"]
