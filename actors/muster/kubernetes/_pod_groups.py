"""The kinds of PodGroups, and what the status of one says: each kind has phases of its own."""

from __future__ import annotations

from typing import Any, Final, final

import attrs

from muster.kubernetes._api import Resource

POD_GROUPS: Final = Resource("scheduling.sigs.k8s.io/v1alpha1", "podgroups")
"""Those of the coscheduling plugin of the scheduler of Kubernetes."""

VOLCANO_POD_GROUPS: Final = Resource("scheduling.volcano.sh/v1beta1", "podgroups")
"""Those of Volcano."""

ENDED: Final = frozenset({"Finished", "Failed", "Completed"})
"""The phases of groups that have ended."""


@final
@attrs.frozen
class MemberCounts:
    """How many pods of a PodGroup there are.

    Attributes:
        scheduled: Those that have a node, and have not finished.
        running: Those of them that run.
        succeeded: Those that have succeeded.
        failed: Those that have failed.
    """

    scheduled: int = 0
    running: int = 0
    succeeded: int = 0
    failed: int = 0

    def status(self, resource: Resource, min_member: int) -> dict[str, Any]:
        """Return the status of a PodGroup of some kind that needs so many pods."""
        least, fields = max(1, min_member), attrs.asdict(self)
        if resource == VOLCANO_POD_GROUPS:
            del fields["scheduled"]
            return {"phase": self._volcano_phase(least), **fields}
        return {"phase": self._phase(least), **fields}

    def _phase(self, least: int) -> str:
        """Return a phase that all versions of the plugin know."""
        placed = self.scheduled + self.succeeded + self.failed
        if self.succeeded >= least:
            return "Finished"
        if self.running + self.succeeded >= least:
            return "Running"
        if self.failed and self.running + self.succeeded + self.failed >= least:
            return "Failed"
        if placed >= least:
            return "Scheduling"
        return "Unknown" if placed else "Pending"

    def _volcano_phase(self, least: int) -> str:
        if self.scheduled + self.succeeded >= least:
            return "Running" if self.scheduled else "Completed"
        # Volcano's controllers make the pods only of a group that is let in.
        return "Unknown" if self.running else "Inqueue"
