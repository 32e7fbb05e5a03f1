"""The options of ``muster serve`` about commands that run on a cluster of Ray."""

from __future__ import annotations

from collections.abc import Callable, MutableMapping, Sequence
from pathlib import Path
from typing import Any, Final, TypeVar

import attrs
import click

from muster.service.options import RayOptions

Function = TypeVar("Function", bound=Callable[..., Any])

_PREFIX: Final = "ray_"


def _labels(
    _context: click.Context, _parameter: click.Parameter, values: Sequence[str]
) -> tuple[tuple[str, str], ...]:
    """Read labels: ``LABEL=VALUE``.

    Raises:
        click.BadParameter: If one is written otherwise, or a label is there twice.
    """
    labels: dict[str, str] = {}
    for value in values:
        label, mark, wanted = value.partition("=")
        if not label or not mark or not wanted:
            msg = f"{value!r}: must be LABEL=VALUE"
            raise click.BadParameter(msg)
        if label in labels:
            msg = f"{value!r}: the label {label} is there twice"
            raise click.BadParameter(msg)
        labels[label] = wanted
    return tuple(labels.items())


_OPTIONS: Final = (
    click.option(
        "--ray-address",
        metavar="ADDRESS",
        help="With --run ray: the cluster, such as 10.0.0.1:6379. [default: auto, the one that "
        "runs on this machine]",
    ),
    click.option(
        "--ray-namespace",
        metavar="NAME",
        help="With --run ray: the namespace of the commands in Ray. [default: muster]",
    ),
    click.option(
        "--ray-python",
        type=click.Path(path_type=Path),
        metavar="FILE",
        help="With --run ray: the Python that speaks to Ray: it has ray, and the version of "
        "Python that the cluster has. [default: the one of the service]",
    ),
    click.option(
        "--ray-node-name",
        metavar="LABEL",
        help="With --run ray: the label of Ray's nodes that has their names. [default: their ids]",
    ),
    click.option(
        "--ray-select",
        multiple=True,
        callback=_labels,
        metavar="LABEL=VALUE",
        help="With --run ray: use nodes with this label only; may be given several times.",
    ),
    click.option(
        "--ray-warm",
        type=click.IntRange(min=0),
        default=0,
        show_default=True,
        metavar="N",
        help="With --run ray: how many workers are started on each node in advance.",
    ),
    click.option(
        "--ray-detached/--no-ray-detached",
        default=None,
        help="With --run ray: whether commands outlive the service, and are found again at its "
        "next start. [default: with --state]",
    ),
    click.option(
        "--ray-output",
        type=click.Path(path_type=Path),
        metavar="DIR",
        help="With --run ray: the folder, on each node, for what commands write. [default: Ray's "
        "own logs]",
    ),
)


def ray_options(function: Function) -> Function:
    """Add the options about commands that run on a cluster of Ray."""
    for option in reversed(_OPTIONS):
        function = option(function)
    return function


def take_ray(values: MutableMapping[str, Any], grace_s: float) -> RayOptions:
    """Take the values of these options out of those of a command.

    Args:
        values: The values of all options.
        grace_s: How long a command may take to end, in seconds.
    """
    given = [one.name for one in attrs.fields(RayOptions) if f"{_PREFIX}{one.name}" in values]
    return RayOptions(**{name: values.pop(f"{_PREFIX}{name}") for name in given}, grace_s=grace_s)
