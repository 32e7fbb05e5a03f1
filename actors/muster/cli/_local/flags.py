"""The options of ``muster serve`` about commands that run on this machine."""

from __future__ import annotations

from collections.abc import Callable, MutableMapping
from typing import Any, Final, TypeVar

import attrs
import click

from muster.service.options import LocalOptions
from muster_core.errors import QuantityError
from muster_core.values.devices import MOST_DEVICES
from muster_core.values.quantities import parse_duration

Function = TypeVar("Function", bound=Callable[..., Any])

_DEFAULT: Final = LocalOptions()
_SECOND_US: Final = 1_000_000


def _seconds(_context: click.Context, _parameter: click.Parameter, value: str) -> float:
    """Read a time: seconds, or a duration such as ``30s``.

    Raises:
        click.BadParameter: If it is none.
    """
    try:
        return parse_duration(value) / _SECOND_US
    except QuantityError as error:
        raise click.BadParameter(str(error)) from None


_OPTIONS: Final = (
    click.option(
        "--log-bytes",
        type=click.IntRange(min=0),
        default=_DEFAULT.log_bytes,
        show_default=True,
        metavar="BYTES",
        help="With --run local: how much output of each start of an ask is kept.",
    ),
    click.option(
        "--grace",
        "grace_s",
        default=f"{_DEFAULT.grace_s:g}s",
        show_default=True,
        callback=_seconds,
        metavar="TIME",
        help="With --run local or ray: how long a command may take to end before it is killed.",
    ),
    click.option(
        "--end-jobs",
        is_flag=True,
        help="With --run local: end the commands with the service, instead of leaving them to the "
        "next start.",
    ),
    click.option(
        "--no-node",
        is_flag=True,
        help="With --run local: do not add this machine as a node at the first start.",
    ),
    click.option(
        "--gpus",
        type=click.IntRange(0, MOST_DEVICES),
        metavar="N",
        help="With --run local: how many GPUs this machine has as a node; 0 for none. Otherwise "
        "nvidia-smi and rocm-smi are asked.",
    ),
    click.option(
        "--no-cgroups",
        is_flag=True,
        help="With --run local: do not run each command in a cgroup of its own, which limits it to "
        "what its ask asks for.",
    ),
)


def local_options(function: Function) -> Function:
    """Add the options about commands that run on this machine."""
    for option in reversed(_OPTIONS):
        function = option(function)
    return function


def take_local(values: MutableMapping[str, Any]) -> LocalOptions:
    """Take the values of these options out of those of a command.

    Raises:
        click.UsageError: If they contradict each other.
    """
    values["adds_node"] = not values.pop("no_node")
    values["uses_cgroups"] = not values.pop("no_cgroups")
    if values["gpus"] is not None and not values["adds_node"]:
        msg = "--gpus is about the node that --no-node does not add: leave out one of them"
        raise click.UsageError(msg)
    return LocalOptions(**{one.name: values.pop(one.name) for one in attrs.fields(LocalOptions)})
