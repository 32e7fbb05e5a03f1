"""What an ask may run on a cluster of Ray."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, final

import attrs


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
    """How a run has ended by itself.

    Attributes:
        status: The exit status of a command, or minus the number of the signal that ended it; None
            for a callable.
        value: What a callable has returned; None for a command.
    """

    status: int | None = None
    value: object = None
