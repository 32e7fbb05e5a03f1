"""What the service remembers of what came in."""

from __future__ import annotations

from pathlib import Path
from typing import final

import attrs

from muster.service.input.leases import Leases
from muster.service.input.repeats import Repeats
from muster.service.input.trying import OneAtATime


@final
@attrs.frozen(eq=False)
class Intake:
    """What the service remembers of what came in.

    Attributes:
        repeats: The requests that may be repeated.
        dry_runs: Lets one dry run after the other go on.
        comparisons: Likewise, for comparisons with the kept history.
        leases: The leases of nodes.
    """

    repeats: Repeats
    dry_runs: OneAtATime
    comparisons: OneAtATime
    leases: Leases


def open_intake(state: Path | None, leases: Leases) -> Intake:
    """Return what a service remembers at its start.

    Args:
        state: The state directory, or None without one.
        leases: The leases of nodes.
    """
    return Intake(Repeats(state), OneAtATime("a dry run"), OneAtATime("a comparison"), leases)
