"""How the pods of a cluster of Kubernetes are bound and evicted; it needs nothing that is optional."""

from __future__ import annotations

from typing import Final, Literal, final

import attrs

SCHEDULER_NAME: Final = "muster"
"""The default name by which pods ask for Muster."""

Eviction = Literal["delete", "evict"]
"""How pods are taken from their nodes: deleted, or by the API that disruption budgets can refuse."""


@final
@attrs.frozen
class BindOptions:
    """How pods are bound and evicted.

    Attributes:
        timeout_s: How long a binding may take, in seconds; longer where others still have to go.
        concurrency: How many bindings may be under way at once.
        eviction: How pods are taken from their nodes.
        eviction_timeout_s: How long a binding waits for an eviction that is refused, in seconds.
    """

    timeout_s: float = 30.0
    concurrency: int = 32
    eviction: Eviction = "delete"
    eviction_timeout_s: float = 300.0
