"""What the agent is told of a run: the names, the amounts and the work."""

from __future__ import annotations

import pickle
from importlib import import_module
from os import fspath
from typing import TYPE_CHECKING, Final, final
from urllib.parse import unquote

import attrs

from muster.ray._errors import RunFailedError, WorkError
from muster.ray._messages import NEVER_S, CallWork, CommandWork, GateOf, Run
from muster.ray._work import Call, Result
from muster.subprocesses import Command, variables
from muster_core.errors import EventError

if TYPE_CHECKING:
    from collections.abc import Callable
    from os import PathLike

    from muster._surface.allocation import Allocation
    from muster.ray._amounts import Declared
    from muster.ray._messages import Ended

Work = Call | Command | str
"""What an ask may run; a text is for the shell."""


_DECIDED: Final = frozenset(
    {
        "accelerator_type",
        "label_selector",
        "lifetime",
        "max_restarts",
        "max_retries",
        "max_task_retries",
        "memory",
        "name",
        "namespace",
        "num_cpus",
        "num_gpus",
        "num_returns",
        "placement_group",
        "placement_group_bundle_index",
        "placement_group_capture_child_tasks",
        "resources",
        "retry_exceptions",
        "runtime_env",
        "scheduling_strategy",
    }
)
"""The options of Ray's tasks that Muster sets."""


@final
@attrs.frozen
class Terms:
    """How runs are run.

    Attributes:
        grace_s: How long work may take to end, in seconds.
        has_gates: Whether the members of a gang that were bound together begin together.
        reserves: Whether Ray reserves the room of these members.
        is_detached: Whether runs outlive the program.
        closing_s: How long work may take to end when the scheduler is closed, in seconds, if that
            is less; None for no such limit.
    """

    grace_s: float
    has_gates: bool = False
    reserves: bool = False
    is_detached: bool = False
    closing_s: float | None = None

    def grace_when(self, *, closing: bool) -> float:
        """Return how long work may take to end, in seconds."""
        if closing and self.closing_s is not None:
            return min(self.closing_s, self.grace_s)
        return self.grace_s

    @property
    def sent_grace_s(self) -> float:
        """The grace period, as the agent is told."""
        return min(self.grace_s, NEVER_S)


def name_of(app: str, ask: str, number: int) -> str:
    """Return the name of a run, ``app/ask/number``; a slash in a name is written ``%2F``."""
    return f"{_escaped(app)}/{_escaped(ask)}/{number}"


def parsed_name(name: str) -> tuple[str, str, int] | None:
    """Return application, ask and number from the name of a run; None if it is not one."""
    parts = name.split("/")
    if len(parts) != 3 or not (parts[2].isascii() and parts[2].isdecimal()):
        return None
    return unquote(parts[0]), unquote(parts[1]), int(parts[2])


def _escaped(name: str) -> str:
    return name.replace("%", "%25").replace("/", "%2F")


def gate_of(allocation: Allocation, terms: Terms) -> GateOf | None:
    """Return the gate at which the members wait that were bound with an allocation, or None."""
    if not terms.has_gates or allocation.peers == 1:
        return None
    return {
        "name": f"{allocation.gang}/{allocation.step}",
        "peers": allocation.peers,
        "reserve": terms.reserves,
    }


def order(
    number: int, allocation: Allocation, node: str, declared: Declared, work: Work, terms: Terms
) -> Run:
    """Return the message that begins a run.

    Args:
        number: The number of the run.
        allocation: The allocation.
        node: The id of the node of Ray.
        declared: What it declares to Ray.
        work: The work.
        terms: How it is run.

    Raises:
        ImportError: If it takes cloudpickle, which is not installed.
        RunFailedError: If the work cannot be pickled.
    """
    return {
        "do": "run",
        "id": number,
        "name": name_of(allocation.app, allocation.ask, allocation.number),
        "node": node,
        "cpus": declared.cpus,
        "gpus": declared.gpus,
        "memory": declared.memory,
        "resources": dict(declared.resources),
        "work": _work(work, allocation),
        "grace_s": terms.sent_grace_s,
        "gate": gate_of(allocation, terms),
        "detached": terms.is_detached,
    }


def _work(work: object, allocation: Allocation) -> CommandWork | CallWork:
    if isinstance(work, Call):
        return _call(work, allocation)
    command = Command(work) if isinstance(work, str) else work
    if not isinstance(command, Command):
        name = f"{allocation.app}/{allocation.ask}"
        msg = f"the work of {name} is {command!r:.100}, not a Call, Command or str"
        raise TypeError(msg)
    return {
        "kind": "command",
        "run": command.run if isinstance(command.run, str) else list(command.run),
        "cwd": _path(command.cwd),
        "env": {**command.env, **variables(allocation)},
        "stdin": _path(command.stdin),
        "stdout": _path(command.stdout),
        "stderr": _path(command.stderr),
    }


def _call(call: Call, allocation: Allocation) -> CallWork:
    function = call.function
    decided = sorted(_DECIDED & call.options.keys())
    if decided:
        msg = f"options: {decided[0]}: Muster decides that"
        raise EventError(msg)
    return {
        "kind": "call",
        "function": function if isinstance(function, str) else _pickled(function, "the function"),
        "arguments": _pickled((tuple(call.args), dict(call.kwargs)), "the arguments"),
        "env": variables(allocation),
        "runtime_env": dict(call.runtime_env),
        "options": dict(call.options),
    }


def _path(path: str | PathLike[str] | None) -> str | None:
    return None if path is None else fspath(path)


def _pickled(value: object, what: str) -> bytes:
    """Return a value as a worker unpickles it.

    Raises:
        ImportError: If cloudpickle is not installed.
        RunFailedError: If it cannot be pickled.
    """
    try:
        dumps: Callable[[object], bytes] = import_module("cloudpickle").dumps
    except ImportError as error:
        msg = "cloudpickle is missing: pip install '.[ray]' in a checkout of Muster"
        raise ImportError(msg, name="cloudpickle") from error
    try:
        return dumps(value)
    except Exception as error:
        msg = f"{what} cannot be pickled: {type(error).__name__}: {error}"
        raise RunFailedError(msg) from error


def result_of(ended: Ended) -> Result | WorkError:
    """Return how a run has ended; an error if the value cannot be unpickled here."""
    if ended["value"] is None:
        return Result(status=ended["status"])
    try:
        value: object = pickle.loads(ended["value"])
    except Exception as error:  # noqa: BLE001 - any of them is an error of the work
        return WorkError(f"the value cannot be unpickled here: {type(error).__name__}: {error}")
    return Result(status=ended["status"], value=value)
