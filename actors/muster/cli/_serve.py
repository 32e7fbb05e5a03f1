"""``muster serve`` and ``muster token``: the service, and the tokens of its users.

The options of backends come from their declarations.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, MutableMapping, Sequence
from getpass import getuser
from pathlib import Path
from typing import Any, Final, TypeAlias, TypeVar, assert_never

import attrs
import click
import trio

from muster.cli._options import UNUSABLE, complain, example
from muster.service.access import (
    ABSENT,
    ROLES,
    TokensError,
    append,
    listed_groups,
    mint,
    principal_of,
)
from muster.service.backends.registry import BACKENDS, any_of
from muster.service.logs import LogWriter
from muster.service.options import GRACE_S, NAMES, BackendOptions, Limits, OptionForm, ServeOptions
from muster_core.errors import MusterError, QuantityError
from muster_core.values.resources import parse_duration

Function = TypeVar("Function", bound=Callable[..., Any])
Decorator: TypeAlias = Callable[[Any], Any]


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


_SECOND_US: Final = 1_000_000


def _seconds(_context: click.Context, parameter: click.Parameter, value: str) -> float:
    """Read a time: seconds, or a duration such as ``30s``; that of a limit is above 0.

    Raises:
        click.BadParameter: If it is none.
    """
    try:
        seconds = parse_duration(value) / _SECOND_US
    except QuantityError as error:
        raise click.BadParameter(str(error)) from None
    if not seconds > 0 and parameter.name in NAMES:
        msg = f"{value!r}: must be above 0"
        raise click.BadParameter(msg)
    return seconds


_PATH: Final = click.Path(path_type=Path)


def _option_of(run: str, field: str, form: OptionForm, default: object) -> Decorator:
    """Return the option for a field of a backend's options."""
    options: dict[str, Any] = {
        "default": default,
        "metavar": form.metavar,
        "help": f"With --run {run}: {form.about}",
    }
    flag = form.flag
    match form.takes:
        case "text":
            pass
        case "path":
            options |= {"type": _PATH}
        case "labels":
            options |= {"multiple": True, "callback": _labels}
        case "count":
            options |= {"type": click.IntRange(0, form.most), "show_default": default is not None}
        case "time":
            options |= {"default": f"{default:g}s", "callback": _seconds, "show_default": True}
        case "on":
            options |= {"is_flag": True}
        case "off":
            options |= {"is_flag": True, "flag_value": False}
        case "either":
            flag = f"{flag}/--no-{flag.removeprefix('--')}"
        case _:
            assert_never(form.takes)
    return click.option(flag, f"{run}_{field}", **options)


def _backend_options(function: Function) -> Function:
    """Add the options of all backends."""
    for run, backend in reversed([*BACKENDS.items()]):
        fields = attrs.fields_dict(backend)
        for field, form in reversed([*backend.forms().items()]):
            function = _option_of(run, field, form, fields[field].default)(function)
    return function


def _take_backends(values: MutableMapping[str, Any]) -> dict[str, BackendOptions]:
    """Take the options of all backends out of those of a command.

    Raises:
        click.UsageError: If they contradict each other.
    """
    grace_s = values.pop("grace_s")
    made = {
        run: backend(
            grace_s=grace_s, **{field: values.pop(f"{run}_{field}") for field in backend.forms()}
        )
        for run, backend in BACKENDS.items()
    }
    for one in made.values():
        contradiction = one.contradiction()
        if contradiction is not None:
            raise click.UsageError(contradiction)
    return made


_LOG: Final = logging.getLogger("muster.service")

_WORKERS: Final = ("whoever reads the decisions", *(one.place for one in BACKENDS.values()))

_AS_SERVICE: Final = any_of(one for one in BACKENDS.values() if one.runs_as_service)

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


def _limit_options(function: Function) -> Function:
    """Add an option for each limit."""
    default = Limits()
    for field, takes, about in reversed(_LIMITS):
        flag = f"--max-{field.removesuffix('_s').replace('_', '-')}"
        value = getattr(default, field)
        settings: dict[str, Any] = {"default": value, "type": click.IntRange(min=1)}
        if takes == "TIME":
            flag, settings = f"{flag}-time", {"default": f"{value:g}s", "callback": _seconds}
        option = click.option(flag, field, **settings, metavar=takes, show_default=True, help=about)
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
    help="The configuration. If another one was applied since the file was read, that one stays in "
    "force until the file changes.",
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
    help="After how many events a checkpoint is taken; later if the last one holds more objects.",
)
@click.option(
    "--listen",
    multiple=True,
    metavar="ADDRESS",
    help=f"HOST:PORT or unix:PATH; may be given several times. Default: 127.0.0.1:9080; with --run "
    f"{_AS_SERVICE} and no --tokens a socket in the folder of --state, for the user of the service.",
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
    help="The name of the cluster in YuniKorn's end points.",
)
@click.option("--cors", is_flag=True, help="Let other web sites read YuniKorn's end points.")
@click.option(
    "--run",
    type=click.Choice(["none", *BACKENDS]),
    default="none",
    show_default=True,
    help=f"Who does the work of asks: {', '.join(_WORKERS[:-1])}, or {_WORKERS[-1]}.",
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
    help=f"With --run {_AS_SERVICE} and no --tokens: listen on a loopback address, where every user "
    "of this machine can run commands as the user of the service.",
)
@click.option(
    "--log",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="The form of the log on standard error.",
)
@click.option("--watch", is_flag=True, help="Read files again when they have changed.")
@click.option(
    "--follow",
    metavar="URL",
    help="Follow the server at this address: decide what it decides again, answer who reads, and be "
    "ready to take over (muster promote).",
)
@click.option(
    "--token-file",
    type=_FILE,
    metavar="FILE",
    help="With --follow: the file with a token of that server, whose role is replica or admin.",
)
@click.option(
    "--lease",
    metavar="LEASE",
    help="Lead only while holding this lease: file:PATH, a file that both servers share, or "
    "kubernetes:NAMESPACE/NAME (with --run kubernetes also NAMESPACE/NAME). With --follow: take over "
    "when the other server loses it.",
)
@click.option(
    "--sync",
    type=click.Choice(["strict", "available"]),
    help="Answer a call only when a follower, too, has its batch on disk. If no follower acknowledges in "
    "time, strict holds calls back, and available goes on alone.",
)
@click.option(
    "--sync-timeout",
    "sync_timeout_s",
    default=f"{ServeOptions().sync_timeout_s:g}s",
    show_default=True,
    callback=_seconds,
    metavar="TIME",
    help="With --sync: how long to wait for an acknowledgement.",
)
@click.option(
    "--grace",
    "grace_s",
    default=f"{GRACE_S:g}s",
    show_default=True,
    callback=_seconds,
    metavar="TIME",
    help=f"With --run {any_of(one for one in BACKENDS.values() if one.runs_commands)}: how long a command may take to end before it is "
    "killed.",
)
@_backend_options
@_limit_options
@click.pass_context
def command(context: click.Context, /, **values: object) -> None:
    """Run Muster as a service, until Ctrl-C or SIGTERM.

    At SIGHUP it reads its files again: the configuration, the tokens and the certificate.

    Exit status: 0 if it was ended by a signal, 2 if it could not start or go on, 128 and the number of a
    second signal that ended it at once.
    """
    options = _options(values)
    from muster.service.startup_checks import problems_of  # noqa: PLC0415 - of the extra

    with LogWriter(options.log):
        problems = problems_of(options)
        for problem in problems:
            if options.log == "text":
                complain(problem)
            else:  # collectors of the log expect no other lines
                _LOG.error("%s", problem)
        if problems:
            context.exit(UNUSABLE)
        if options.state is None:
            _LOG.warning("nothing is kept: name a directory with --state to keep the state")
        if options.trust_local:
            _LOG.warning(
                "every user of this machine can run commands as %s: --trust-local", getuser()
            )
        if not _run(options):
            context.exit(UNUSABLE)


def _options(values: Mapping[str, Any]) -> ServeOptions:
    others = {name: value for name, value in values.items() if name not in NAMES}
    backends = _take_backends(others)
    chosen = backends.pop(others.pop("run"), None)
    if chosen is not None:
        chosen, others["config"] = chosen.take_config(others["config"])
        if others["follow"] is None:
            chosen, others["lease"] = chosen.take_lease(others["lease"])
    return ServeOptions(
        **others,
        backend=chosen,
        unused=tuple(backends.values()),
        limits=Limits(**{name: values[name] for name in NAMES}),
    )


def _run(options: ServeOptions) -> bool:
    """Run the service; return whether it ended on a signal."""
    from muster.service.process import Signals  # noqa: PLC0415 - of the extra
    from muster.service.serve import serve  # noqa: PLC0415 - of the extra

    with Signals() as signals:

        async def main() -> None:
            signals.start()
            await serve(
                options, ends=signals.ends, rereads=signals.rereads, listening=_print_addresses
            )

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


def _print_addresses(addresses: Sequence[str]) -> None:
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
    help="What its holder may do: read, submit as a user, follow this server, or everything.",
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
        principal = principal_of(name, role, user, listed_groups(groups))
        secret, token = mint(principal)
        if path is None:
            complain(f"add this line to the file of tokens: {token.line()}")
        else:
            append(path, token)
    except (ValueError, TokensError) as error:
        complain(str(error))
        context.exit(UNUSABLE)
    click.echo(secret)
