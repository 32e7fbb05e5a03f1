"""The configuration in force, and a new one: read, tried, and put in force."""

from __future__ import annotations

from hashlib import sha256
from typing import TYPE_CHECKING, Final, cast, final

import attrs
import orjson
import yaml

from muster._runtime.clients.calls import Enter
from muster.config_files import parse_configuration
from muster.service.input.differing import document_of
from muster.service.problems import Problem
from muster_core.errors import ConfigError
from muster_core.events import Configure

if TYPE_CHECKING:
    from collections.abc import Sequence

    from muster._runtime.clients.calls import Entered
    from muster.feeds import Raw
    from muster.service.input.running import Running
    from muster_core.config.model import Configuration
    from muster_core.coordinator.coordinator import CoordinatorMachine
    from muster_core.errors import Problem as ConfigProblem
    from muster_core.events import Event
    from muster_core.structures.steps import Steps

YAML: Final = "application/yaml"
YAMLS: Final = frozenset({YAML, "application/x-yaml", "text/yaml", "text/x-yaml", "text/plain"})
"""The media types of YAML."""


_ADDED: Final = frozenset({"warnings", "origin"})
"""What an answer adds to a configuration; if it is sent back, it does not count."""


@final
@attrs.frozen
class InForce:
    """A configuration, and how it is shown.

    Attributes:
        configuration: The configuration.
        document: The configuration in the form of its file.
        checksum: Identifies what it says.
    """

    configuration: Configuration
    document: dict[str, Raw]
    checksum: str

    @property
    def etag(self) -> str:
        """The entity tag."""
        return f'"{self.checksum}"'

    def as_yaml(self) -> str:
        """Return it as YAML."""
        text: str = yaml.safe_dump(self.document, sort_keys=False, allow_unicode=True)
        return text

    def as_map(self) -> dict[str, object]:
        """Return it as a map, which is a configuration itself but for what is added."""
        return {
            **self.document,
            "checksum": self.checksum,
            "warnings": warnings_of(self.configuration),
        }


def shown(configuration: Configuration) -> InForce:
    """Return a configuration as it is shown."""
    document = document_of(configuration)
    packed = orjson.dumps(document, option=orjson.OPT_SORT_KEYS)
    return InForce(configuration, document, sha256(packed).hexdigest()[:32])


async def in_force(service: Running) -> InForce:
    """Return the configuration in force."""

    def read(machine: CoordinatorMachine) -> Steps[Configuration]:
        yield
        return machine.configuration

    return shown(await service.look(read))


def problems_of(problems: Sequence[ConfigProblem]) -> list[dict[str, object]]:
    """Return problems of a configuration as maps."""
    return [{"line": one.line, "path": one.path, "message": one.message} for one in problems]


def warnings_of(configuration: Configuration) -> list[dict[str, object]]:
    """Return the warnings about a configuration as maps."""
    return problems_of(configuration.told)


# INPUT-12
def read_configuration(body: bytes, partition: str | None) -> Configuration:
    """Return the configuration in a body.

    Args:
        body: YAML or JSON, in the form of a file.
        partition: The partition to run; None for ``default``, or else the only one.

    Raises:
        Problem: 422 if it is refused, with all problems.
    """
    try:
        return parse_configuration(_without_warnings(body), partition=partition)
    except ConfigError as error:
        found = problems_of(error.problems)
        raise Problem(422, "the configuration is refused", problems=found) from None


def _without_warnings(body: bytes) -> bytes:
    """Return a body without what :meth:`InForce.as_map` adds to a configuration."""
    if body.lstrip()[:1] != b"{":
        return body
    try:
        value = orjson.loads(body)
    except orjson.JSONDecodeError:
        return body
    if not isinstance(value, dict):
        return body
    written = cast("dict[str, object]", value)
    return orjson.dumps({name: one for name, one in written.items() if name not in _ADDED})


@final
@attrs.frozen
class _Unchanged:
    """Lets a configuration in if the one that its client has seen is still in force."""

    seen: Configuration

    def must_hear_first(self, _event: Event, _machine: CoordinatorMachine, /) -> bool:
        return False

    # INPUT-14
    def refusal(self, _event: Event, machine: CoordinatorMachine, /) -> str | None:
        return None if machine.configuration is self.seen else "changed"


async def put_in_force(
    service: Running, configuration: Configuration, seen: Configuration | None
) -> Entered:
    """Put a configuration in force.

    Args:
        service: The service.
        configuration: The configuration.
        seen: The one that has to be in force now; None for any.

    Raises:
        Problem: 412 if another one is in force now.
        RefusedError: If it cannot replace the one in force.
        ClosedSchedulerError: If the scheduler is closed.
    """
    call = Enter((Configure(configuration),), guard=None if seen is None else _Unchanged(seen))
    entered = await service.call(call, call.answer)
    (refusal,) = entered.refusals
    if not entered.batch:
        raise changed()
    if refusal is not None:
        raise refusal
    return entered


def changed() -> Problem:
    """Return the problem of a configuration that is not the one that the client has seen."""
    return Problem(412, "If-Match: another configuration is in force by now: read it again")
