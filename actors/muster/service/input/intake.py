"""What the service remembers of what came in."""

from __future__ import annotations

from pathlib import Path
from typing import final

import attrs

from muster.service.input.repeats import Repeats


@final
@attrs.frozen(eq=False)
class Intake:
    """What the service remembers of what came in.

    Attributes:
        repeats: The requests that may be repeated.
    """

    repeats: Repeats


def open_intake(state: Path | None) -> Intake:
    """Return what a service remembers at its start.

    Args:
        state: The state directory, or None without one.
    """
    return Intake(Repeats(state))
