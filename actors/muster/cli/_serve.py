"""``muster serve``: run Muster as a service."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from getpass import getuser
from pathlib import Path
from typing import Any, Final, TypeVar

import attrs
import click
import trio

from muster.cli._engines.ray import ray_options, take_ray
from muster.cli._extras import needing
from muster.cli._local.flags import local_options, take_local
from muster.cli._options import UNUSABLE, complain, example
from muster.service.logs.writing import LogWriter
from muster.service.options import Limits, ServeOptions
from muster_core.errors import MusterError, QuantityError
from muster_core.values.quantities import parse_duration

_LOG: Final = logging.getLogger("muster.service")

Function = TypeVar("Function", bound=Callable[..., Any])

_FILE: Final = click.Path(path_type=Path)
_SECOND_US: Final = 1_000_000

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
    with needing("serve"):
        from muster.service.running.combinations import problems_of  # noqa: PLC0415 - of the extra
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
    with needing("serve"):
        from muster.service.running.signals import Signals  # noqa: PLC0415 - of the extra
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
