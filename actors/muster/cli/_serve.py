"""``muster serve`` and ``muster token``: the service, and the tokens of its users.

The options about commands that run on this machine, and on a cluster of Ray, are added to those of
``muster serve``, each group with its own reader.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, MutableMapping, Sequence
from getpass import getuser
from pathlib import Path
from typing import Any, Final, TypeVar

import attrs
import click
import trio

from muster.cli._options import UNUSABLE, complain, example, require_extra
from muster.service.access import (
    ABSENT,
    ROLES,
    TokensError,
    append,
    listed_groups,
    mint,
    principal_of,
)
from muster.service.logs import LogWriter
from muster.service.options import Limits, LocalOptions, RayOptions, ServeOptions
from muster_core.errors import MusterError, QuantityError
from muster_core.values.devices import MOST_DEVICES
from muster_core.values.resources import parse_duration

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


_RAY_OPTIONS: Final = (
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
    for option in reversed(_RAY_OPTIONS):
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


_DEFAULT: Final = LocalOptions()
_SECOND_US: Final = 1_000_000


def _local_seconds(_context: click.Context, _parameter: click.Parameter, value: str) -> float:
    """Read a time: seconds, or a duration such as ``30s``.

    Raises:
        click.BadParameter: If it is none.
    """
    try:
        return parse_duration(value) / _SECOND_US
    except QuantityError as error:
        raise click.BadParameter(str(error)) from None


_LOCAL_OPTIONS: Final = (
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
        callback=_local_seconds,
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
    for option in reversed(_LOCAL_OPTIONS):
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


_LOG: Final = logging.getLogger("muster.service")

_FILE: Final = click.Path(path_type=Path)

_LIMITS: Final = (
    ("body_bytes", "BYTES", "The longest body of a request."),
    ("events", "N", "The most events of a request."),
    ("nesting", "N", "How deep the values of a body may be nested."),
    ("connections", "N", "The most open connections."),
    ("streams", "N", "The most streams of decisions and events at the same time."),
    ("calls", "N", "The most calls that wait for the scheduler."),
    ("head_bytes", "BYTES", "The longest head of a request."),
    ("head_s", "TIME", "How long the head of a request may take to arrive."),
    ("body_s", "TIME", "How long the body of a request may take to arrive."),
    ("idle_s", "TIME", "How long a connection may be idle."),
    ("write_s", "TIME", "How long a client may read nothing of its answer."),
)
"""The limits: their fields in `Limits`, what an option takes, and what it means."""


def _seconds(_context: click.Context, _parameter: click.Parameter, value: str) -> float:
    """Read a time: seconds, or a duration such as ``30s``.

    Raises:
        click.BadParameter: If it is none, or is 0.
    """
    try:
        seconds = parse_duration(value) / _SECOND_US
    except QuantityError as error:
        raise click.BadParameter(str(error)) from None
    if not seconds > 0:
        msg = f"{value!r}: must be above 0"
        raise click.BadParameter(msg)
    return seconds


def _limit_options(function: Function) -> Function:
    """Add an option for each limit."""
    default = Limits()
    for field, takes, about in reversed(_LIMITS):
        flag = f"--max-{field.removesuffix('_s').replace('_', '-')}"
        value = getattr(default, field)
        if takes == "TIME":
            option = click.option(
                f"{flag}-time",
                field,
                default=f"{value:g}s",
                callback=_seconds,
                metavar=takes,
                show_default=True,
                help=about,
            )
        else:
            option = click.option(
                flag,
                field,
                default=value,
                type=click.IntRange(min=1),
                metavar=takes,
                show_default=True,
                help=about,
            )
        function = option(function)
    return function


def _run_as(
    _context: click.Context, _parameter: click.Parameter, values: Sequence[str]
) -> tuple[tuple[str, str], ...]:
    """Read users: ``USER=ACCOUNT`` for one, ``ACCOUNT`` for all others.

    Raises:
        click.BadParameter: If a user is there twice, or a name is empty.
    """
    pairs: dict[str, str] = {}
    for value in values:
        user, mark, account = value.rpartition("=")
        if not account or (mark and not user):
            msg = f"{value!r}: must be USER=ACCOUNT, or ACCOUNT for all others"
            raise click.BadParameter(msg)
        if (user or "*") in pairs:
            msg = f"{value!r}: is said twice for {user or 'all others'}"
            raise click.BadParameter(msg)
        pairs[user or "*"] = account
    return tuple(pairs.items())


@click.command("serve", epilog=example("muster serve --config queues.yaml --state state"))
@click.option(
    "--config",
    type=_FILE,
    metavar="FILE",
    help="The configuration. One that was applied since it was read stays in force until the file "
    "changes.",
)
@click.option("--partition", metavar="NAME", help="The partition to run.")
@click.option(
    "--state",
    type=_FILE,
    metavar="DIR",
    help="Keep the state in this directory; without it nothing is kept.",
)
@click.option(
    "--keep", metavar="TIME", help="How long history is kept, such as 30d; default: for ever."
)
@click.option(
    "--durability",
    type=click.Choice(["full", "process"]),
    default="full",
    show_default=True,
    help="Whether what was answered survives a power cut, or only the end of the process.",
)
@click.option(
    "--checkpoint-every",
    type=click.IntRange(min=1),
    default=ServeOptions().checkpoint_every,
    show_default=True,
    metavar="N",
    help="After how many events a checkpoint is taken.",
)
@click.option(
    "--listen",
    multiple=True,
    metavar="ADDRESS",
    help="HOST:PORT or unix:PATH; may be given several times. Default: 127.0.0.1:9080; with --run "
    "local and no --tokens a socket in the folder of --state, for the user of the service.",
)
@click.option(
    "--host",
    "hosts",
    multiple=True,
    metavar="NAME",
    help="A name under which the service is reached, besides its addresses.",
)
@click.option("--tokens", type=_FILE, metavar="FILE", help="Who may do what; see muster token.")
@click.option("--tls-cert", type=_FILE, metavar="FILE", help="The certificate, for TLS.")
@click.option("--tls-key", type=_FILE, metavar="FILE", help="The key of the certificate.")
@click.option(
    "--yunikorn-listen",
    metavar="ADDRESS",
    help="Serve YuniKorn's end points on a port of their own as well.",
)
@click.option("--yunikorn-ui", type=_FILE, metavar="DIR", help="YuniKorn's web UI, for that port.")
@click.option(
    "--cluster",
    default=ServeOptions().cluster,
    show_default=True,
    metavar="NAME",
    help="The name of the cluster that YuniKorn's end points say.",
)
@click.option("--cors", is_flag=True, help="Let other web sites read YuniKorn's end points.")
@click.option(
    "--run",
    type=click.Choice(["none", "local", "ray"]),
    default="none",
    show_default=True,
    help="Who does the work of asks: whoever reads the decisions, this machine, or a cluster of "
    "Ray.",
)
@click.option(
    "--run-as",
    multiple=True,
    callback=_run_as,
    metavar="[USER=]ACCOUNT",
    help="The account for commands of a user, or of all others; may be given several times.",
)
@click.option(
    "--trust-submitters",
    is_flag=True,
    help="Run commands of submitters as the user of the service, or of Ray.",
)
@click.option(
    "--trust-local",
    is_flag=True,
    help="With --run local and no --tokens: listen on a loopback address, where every user of this "
    "machine can run commands as the user of the service.",
)
@click.option(
    "--log",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="The form of the log on standard error.",
)
@click.option("--watch", is_flag=True, help="Read files again when they have changed.")
@local_options
@ray_options
@_limit_options
@click.pass_context
def command(context: click.Context, /, **values: object) -> None:
    """Run Muster as a service, until Ctrl-C or SIGTERM; SIGHUP reads its files again.

    Exit status: 0 when it ended as it was told, 2 if it could not start or go on.
    """
    options = _options(values)
    with require_extra("serve"):
        from muster.service.startup_checks import problems_of  # noqa: PLC0415 - of the extra
    problems = problems_of(options)
    if problems:
        for problem in problems:
            complain(problem)
        context.exit(UNUSABLE)
    with LogWriter(options.log):
        if options.state is None:
            _LOG.warning("nothing is kept: name a directory with --state to keep the state")
        if options.trust_local:
            _LOG.warning(
                "every user of this machine can run commands as %s: --trust-local", getuser()
            )
        if not _run(options):
            context.exit(UNUSABLE)


def _options(values: Mapping[str, Any]) -> ServeOptions:
    limits = {one.name for one in attrs.fields(Limits)}
    others = {name: value for name, value in values.items() if name not in limits}
    local = take_local(others)
    ray = take_ray(others, local.grace_s)
    return ServeOptions(
        **others, local=local, ray=ray, limits=Limits(**{name: values[name] for name in limits})
    )


def _run(options: ServeOptions) -> bool:
    """Run the service; return whether it has ended as it was told."""
    with require_extra("serve"):
        from muster.service.process import Signals  # noqa: PLC0415 - of the extra
        from muster.service.serve import serve  # noqa: PLC0415 - of the extra

    with Signals() as signals:

        async def main() -> None:
            signals.start()
            await serve(options, ends=signals.ends, rereads=signals.rereads, listening=_tell)

        try:
            trio.run(main)
        except OSError as error:
            named = f"{error.filename}: " if error.filename else ""
            _LOG.error("%s%s", named, error.strerror or error)
            return False
        except MusterError as error:
            _LOG.error("%s", error)
            return False
    _LOG.info("the service has ended", extra={"fields": {"what": "change"}})
    return True


def _tell(addresses: Sequence[str]) -> None:
    for address in addresses:
        _LOG.info("listening on %s", address, extra={"fields": {"what": "change"}})
        if address.startswith("unix:"):
            _LOG.info("commands find it with MUSTER_SERVER=%s", address)


@click.group("token")
def token_command() -> None:
    """Make tokens for muster serve."""


@token_command.command(
    "new", epilog=example("muster token new ci --role submitter --user ci --tokens tokens")
)
@click.argument("name")
@click.option(
    "--role",
    type=click.Choice([*ROLES]),
    required=True,
    help="What its holder may do: read, submit as a user, or everything.",
)
@click.option("--user", metavar="USER", help="The user as whom a submitter submits.")
@click.option(
    "--groups", default=ABSENT, metavar="G1,G2", help="The groups of the user, with commas."
)
@click.option(
    "--tokens",
    "path",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Add it to this file, which is made if it is missing.",
)
@click.pass_context
def new(
    context: click.Context, name: str, role: str, user: str | None, groups: str, path: Path | None
) -> None:
    """Make a token, and print it once; the file has only its digest.

    A running server takes it after SIGHUP, or at once with --watch. Exit status: 0, or 2 if
    something is wrong.
    """
    try:
        who = principal_of(name, role, user, listed_groups(groups))
        secret, token = mint(who)
        if path is None:
            complain(f"add this line to the file of tokens: {token.line()}")
        else:
            append(path, token)
    except (ValueError, TokensError) as error:
        complain(str(error))
        context.exit(UNUSABLE)
    click.echo(secret)
