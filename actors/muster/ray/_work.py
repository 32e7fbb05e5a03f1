"""What an ask may run on a cluster of Ray."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, final

import attrs


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
    """

    function: str | Callable[..., object]
    args: Sequence[Any] = ()
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
