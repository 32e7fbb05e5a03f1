"""The work that an ask may run on Ray, its message to the agent, and its errors.

It hides how functions and values are pickled, and how the names of runs are made and parsed.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from os import PathLike, fspath
from typing import TYPE_CHECKING, Any, Final, final
from urllib.parse import unquote

import attrs
from typing_extensions import override

from muster._errors import NotStartedError, WorkFailedError
from muster.ray._messages import NEVER_S, CallWork, CommandWork, Ended, GateOf, Run
from muster.subprocesses import Command, variables
from muster_core.errors import EventError, MusterError

if TYPE_CHECKING:
    from muster._surface.allocation import Allocation
    from muster.ray._nodes import RayRequest


def _is_named(_call: Call, _field: object, function: Any) -> None:  # noqa: ANN401 - it is checked
    """Refuse what is not a function, nor the name of one."""
    if isinstance(function, str):
        module, _, name = function.partition(":")
        if not module or not name:
            msg = f"function: {function!r} must be 'package.module:name'"
            raise ValueError(msg)
    elif not callable(function):
        msg = f"function: {function!r:.100} must be a function, or its name"
        raise TypeError(msg)


def _are_several(_call: Call, _field: object, args: Any) -> None:  # noqa: ANN401 - it is checked
    """Refuse one argument where the arguments are wanted; a text would be taken apart."""
    if isinstance(args, str | bytes) or not isinstance(args, Sequence):
        msg = f"args: {args!r:.100} must be a list or tuple of the arguments"
        raise TypeError(msg)


@final
@attrs.frozen
class Call:
    """A function to call in a worker of Ray.

    Attributes:
        function: The function: ``package.module:name``, which the worker imports, or a callable,
            which is sent to it by ``cloudpickle``.
        args: Its arguments. They are pickled.
        kwargs: Its keyword arguments. They are pickled.
        runtime_env: Ray's runtime environment of the worker.
        options: Further options of Ray's task, such as ``max_calls``. What Muster decides cannot
            be set: amounts, retries, and where the task runs.

    Raises:
        TypeError: If the function is none, or the arguments are not a list or tuple.
        ValueError: If the name of the function has no module.
    """

    function: str | Callable[..., object] = attrs.field(validator=_is_named)
    args: Sequence[Any] = attrs.field(default=(), validator=_are_several)
    kwargs: Mapping[str, Any] = attrs.field(factory=dict[str, Any])
    runtime_env: Mapping[str, Any] = attrs.field(factory=dict[str, Any])
    options: Mapping[str, Any] = attrs.field(factory=dict[str, Any])


@final
@attrs.frozen
class Result:
    """The result of a run that has ended by itself.

    Attributes:
        status: The exit status of a command, or minus the number of the signal that ended it; None
            for a callable.
        value: What a callable has returned; None for a command.
    """

    status: int | None = None
    value: object = None


@final
class RayLostError(NotStartedError):
    """The connection to Ray has ended, and with it all that ran on it.

    A run that raises it does not count for ``bind_attempts``. The connection is made again by
    itself.
    """


@final
class RayUnreachableError(MusterError):
    """There is no Ray at an address, or the process that is to be connected to it cannot start."""


_MOST: Final = 300
"""The longest text about an error in the decision log, in characters."""


class RunFailedError(MusterError):
    """A run could not be started, or the worker or the node where it ran has gone."""


@final
class NodeGoneError(RunFailedError):
    """The node where a run was to be, or was, has gone."""


@final
class WorkError(WorkFailedError):
    """A callable was started and has raised, or its value could not be transferred.

    The text of the error has the remote traceback. The decision log has one line of it.

    Args:
        line: The error of the callable, in one line.
        text: The error with the remote traceback; None if there is none.
    """

    def __init__(self, line: str, text: str | None = None) -> None:
        super().__init__(line if text is None else text)
        self._line = line

    @property
    @override
    def message(self) -> str:
        """The message about the failure in the decision log."""
        return self._line if len(self._line) <= _MOST else f"{self._line[: _MOST - 1]}…"


Work = Call | Command | str
"""The work of an ask; a text is for the shell."""


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
class RunTerms:
    """The terms of runs.

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
        """The grace period in messages to the agent."""
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


def gate_of(allocation: Allocation, terms: RunTerms) -> GateOf | None:
    """Return the gate at which the members wait that were bound with an allocation, or None."""
    if not terms.has_gates or allocation.peers == 1:
        return None
    return {
        "name": f"{allocation.gang}/{allocation.step}",
        "peers": allocation.peers,
        "reserve": terms.reserves,
    }


def run_message(
    number: int,
    allocation: Allocation,
    node: str,
    declared: RayRequest,
    work: Work,
    terms: RunTerms,
) -> Run:
    """Return the message that begins a run.

    Args:
        number: The number of the run.
        allocation: The allocation.
        node: The id of the node of Ray.
        declared: The amounts that it declares to Ray.
        work: The work.
        terms: Its terms.

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
        msg = "cloudpickle is missing: pip install 'muster-scheduler[ray]'"
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
