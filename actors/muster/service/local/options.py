"""How commands run on this machine."""

from __future__ import annotations

from typing import Final, final

import attrs

MIB: Final = 1024 * 1024


@final
@attrs.frozen
class LocalOptions:
    """How commands run on this machine.

    Attributes:
        log_bytes: How much of the output of each start is kept, in bytes.
        grace_s: How long a command may take to end after SIGTERM, in seconds; then it is killed.
        end_jobs: Whether commands are ended when the service ends; without a state directory they
            always are.
        adds_node: Whether this machine becomes a node at the first start, if there is none.
    """

    log_bytes: int = 64 * MIB
    grace_s: float = 10.0
    end_jobs: bool = False
    adds_node: bool = True
