"""The optional arguments of an ask, for all methods that add asks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, TypedDict


class AskOptions(TypedDict, total=False):
    """The options of an ask. Each is optional; None is the same as leaving it out.

    Attributes:
        priority: The priority; default 0.
        priority_class: The priority class, which gives the ask its priority.
        gang: The gang that the ask is a member of.
        annotations: Annotations about its gang.
        node: The only node on which the ask may run.
        selector: Attributes that the node must have.
        run_for: The ask completes by itself this long after it was bound, in seconds or as a
            duration such as ``1m30s``.
        estimate: How long the ask is expected to take, in seconds or as a duration; it plans and
            ends nothing. Default: ``run_for``, else the ``estimate.default`` of its queue.
        retries: How often the ask is tried again after its work has failed; default 0.
        command: What is to run for it: a program with its arguments, or a text for the shell. It
            is kept and shown, as are the next two; a binder may run it.
        env: Environment variables for the command.
        workdir: The working folder of the command.
        devices: The devices that the ask needs, as in a feed: ``{"gpu": 2}`` is two whole ones,
            ``{"gpu": {"milli": 250}}`` a quarter of one. The resources may be empty beside them.
    """

    priority: int | None
    priority_class: str | None
    gang: str | None
    annotations: Mapping[str, str] | None
    node: str | None
    selector: Mapping[str, str] | None
    run_for: float | str | None
    estimate: float | str | None
    retries: int | None
    command: Sequence[str] | str | None
    env: Mapping[str, str] | None
    workdir: str | None
    devices: Mapping[str, object] | None


_NAMES: Final = tuple(AskOptions.__annotations__)


def check_options(method: str, options: Mapping[str, object]) -> None:
    """Refuse unknown options, as Python does for keyword arguments in a signature.

    Args:
        method: The name of the called method.
        options: The options that it was called with.

    Raises:
        TypeError: If an option is unknown.
    """
    for name in options:
        if name not in _NAMES:
            msg = (
                f"{method}() got an unexpected keyword argument {name!r}; "
                f"options of an ask are {', '.join(_NAMES)}"
            )
            raise TypeError(msg)
