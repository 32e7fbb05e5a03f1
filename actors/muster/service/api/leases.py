"""Leases of nodes: ``PUT /api/v1/nodes/{name}/lease``."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

from muster._runtime.clock import WallClock
from muster.service.access.who import Role
from muster.service.endpoints.kinds import in_path
from muster.service.endpoints.table import Answer, Asked, Endpoint, json_response, not_found
from muster.service.problems import Problem
from muster_core.values.nearest import did_you_mean

if TYPE_CHECKING:
    from starlette.responses import Response

    from muster_core.coordinator.coordinator import CoordinatorMachine
    from muster_core.structures.steps import Steps

_EPOCH: Final = datetime.fromtimestamp(0, UTC)


async def _renew(asked: Asked) -> Response:
    name = asked.value("name", str)
    lease_us = asked.service.intake.leases.renew(name) or await _look_again(asked, name)
    until = _EPOCH + timedelta(microseconds=WallClock.now_us() + lease_us)
    written = until.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return json_response({"node": name, "lease": lease_us / 1e6, "until": written})


# INPUT-17
async def _look_again(asked: Asked, name: str) -> int:
    """Renew a lease between two batches, when everybody has heard of the nodes that there are.

    Raises:
        Problem: If it cannot be renewed, with the reason.
    """

    def read(machine: CoordinatorMachine) -> Steps[int | Problem]:
        yield
        nodes = machine.view.nodes.nodes
        if name not in nodes:
            return not_found("node", name, did_you_mean(name, nodes))
        # The node may have come in the meantime.
        lease_us = asked.service.intake.leases.renew(name)
        if lease_us is not None:
            return lease_us
        return Problem(409, f"node: {name!r} has no lease: it was added without one, and stays")

    found = await asked.service.look(read)
    if isinstance(found, Problem):
        raise found
    return found


# INPUT-9
ENDPOINTS: Final = (
    Endpoint(
        "PUT",
        "/api/v1/nodes/{name:path}/lease",
        "Renew the lease of a node, so that it stays.",
        Role.ADMIN,
        _renew,
        parameters=(in_path("name", "The name of the node."),),
        answers={
            200: Answer(
                "It is renewed.",
                {
                    "type": "object",
                    "properties": {
                        "node": {"type": "string"},
                        "lease": {"type": "number", "description": "how long, in seconds"},
                        "until": {
                            "type": "string",
                            "format": "date-time",
                            "description": "when it runs out, by the clock of the server",
                        },
                    },
                    "required": ["node", "lease", "until"],
                },
            ),
            404: Answer("There is no such node: it may have been removed, so add it again."),
            409: Answer("The node has no lease."),
        },
        tag="state",
    ),
)
