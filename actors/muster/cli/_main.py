"""The command ``muster``: its subcommands and exit statuses."""

from __future__ import annotations

import importlib
import io
import os
import sys
from collections.abc import Sequence
from typing import Final, NoReturn, TextIO, final

import click
from typing_extensions import override

from muster._collector import collect_seldom
from muster._pure import is_compiled
from muster._version import __version__
from muster.cli._options import INTERRUPTED, UNUSABLE, complain, example
from muster_core.values.names import did_you_mean

# COMMAND-8
PIPE_CLOSED: Final = 141
"""The exit status after the reader of a pipe has closed it, as if SIGPIPE had ended the program."""

# A module is imported only when its command is used or all commands are listed.
_OFFLINE: Final = (
    "replay",
    "check",
    "explain",
    "compare",
    "validate",
    "convert",
    "import",
    "store",
    "serve",
    "token",
)
_COMMANDS: Final = {
    **{name: (f"muster.cli._{name}", "command") for name in _OFFLINE},
    "validate": ("muster.cli._check", "validate_command"),
    "token": ("muster.cli._serve", "token_command"),
    "run": ("muster.cli._submission", "run_command"),
    "get": ("muster.cli._resource_commands", "command"),
    "submit": ("muster.cli._submission", "submit_command"),
    "why": ("muster.cli._explain", "why_command"),
    "logs": ("muster.cli._streams", "logs_command"),
    "cancel": ("muster.cli._resource_commands", "cancel"),
    "drain": ("muster.cli._resource_commands", "drain"),
    "promote": ("muster.cli._resource_commands", "promote"),
    "config": ("muster.cli._config", "command"),
    "decisions": ("muster.cli._streams", "decisions_command"),
}
"""For each command its module, and its name there."""

_ASKING: Final = (
    "run",
    "get",
    "submit",
    "why",
    "logs",
    "cancel",
    "drain",
    "promote",
    "config",
    "decisions",
)
_EXTRAS: Final = {"serve": "serve", **dict.fromkeys(_ASKING, "client")}
"""For each command that needs an extra its name in pyproject.toml."""


# ACCESS-22
@final
class MissingExtraError(click.ClickException):
    """A package is missing that an extra brings.

    Args:
        command: The command that needs it.
        package: The name of the package.
        extra: The name of the extra.
    """

    exit_code = UNUSABLE

    def __init__(self, command: str, package: str, extra: str) -> None:
        super().__init__(
            f'muster {command} needs the extra "{extra}", since {package} is missing: '
            f"pip install 'muster-scheduler[{extra}]'"
        )


def _with_missing_extra(command: str | None, error: ModuleNotFoundError) -> Exception:
    """Return the error to raise for a missing module: it names the extra that has the module."""
    package = (error.name or "").partition(".")[0]
    if command is None or command not in _EXTRAS or package in {"", "muster", "muster_core"}:
        return error
    return MissingExtraError(command, package, _EXTRAS[command])


@final
class CommandGroup(click.Group):
    """The subcommands, each in a module of its own."""

    @override
    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    @override
    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        module, name = _COMMANDS[cmd_name]
        command = getattr(importlib.import_module(module), name)
        assert isinstance(command, click.Command)
        return command

    @override
    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        if not ctx.resilient_parsing and not name.startswith("-") and name not in _COMMANDS:
            ctx.fail(f"No such command {name!r}{did_you_mean(name, _COMMANDS)}.".replace("?.", "?"))
        return super().resolve_command(ctx, args)

    @override
    def invoke(self, ctx: click.Context) -> object:
        # Catch these here, not around `main`: click would handle both in its own way.
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            ctx.exit(INTERRUPTED)
        except BrokenPipeError:
            ctx.exit(PIPE_CLOSED)
        except ModuleNotFoundError as error:
            raise _with_missing_extra(ctx.invoked_subcommand, error) from error


_EPILOG: Final = f"""\
{example("muster replay feed.yaml --decisions decisions.jsonl")}

Completion: put `eval "$(_MUSTER_COMPLETE=bash_source muster)"` into ~/.bashrc; for zsh and
fish it is zsh_source and fish_source.
"""


def _print_version(ctx: click.Context, _: click.Parameter, is_given: bool) -> None:
    if is_given:
        click.echo(f"muster {__version__} ({'compiled' if is_compiled() else 'pure Python'})")
        ctx.exit()


# COMMAND-10
@click.command(
    cls=CommandGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog=_EPILOG,
)
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_print_version,
    help="Show the version and exit.",
)
def muster() -> None:
    """Schedule asks on nodes: try configurations on feeds, run a service, and ask it."""


# COMMAND-8
def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the command and exit the process.

    The exit status is 0 without problems, 1 if a difference or a refusal was found, 2 if the
    arguments or a file cannot be used, 130 after Ctrl-C.

    Args:
        arguments: The command line after ``muster``; None for that of the process.

    Raises:
        SystemExit: Always, with the exit status.
    """
    _prepare_streams()
    collect_seldom()
    status: object = UNUSABLE
    unwritable: OSError | None = None
    try:
        status = muster.main(
            None if arguments is None else list(arguments),
            prog_name="muster",
            standalone_mode=False,
        )
    except click.Abort:
        status = INTERRUPTED
    except click.ClickException as error:
        error.show()
        status = error.exit_code
    except OSError as error:  # standard output, such as a full disk; others raise FeedError
        unwritable = error
    sys.exit(_flush_streams(status if isinstance(status, int) else 0, unwritable))


def _prepare_streams() -> None:
    """Make sure that missing streams and unencodable characters are no errors."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            # It stays open until the program ends.
            nowhere = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115 - see above
            setattr(sys, name, nowhere)
        elif isinstance(stream, io.TextIOWrapper):
            # A file name may not be Unicode, and a terminal may not be UTF-8.
            stream.reconfigure(errors="backslashreplace")


def _flush_streams(status: int, unwritable: OSError | None) -> int:
    """Flush the standard streams, so that the interpreter reports no error when it exits.

    Args:
        status: The exit status so far.
        unwritable: Why standard output could not be written, or None.

    Returns:
        The exit status.
    """
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        status = PIPE_CLOSED
    except OSError as error:
        unwritable = error
    if unwritable is not None:
        complain(f"standard output: {unwritable.strerror or unwritable}")
        status = UNUSABLE
    if status == PIPE_CLOSED or unwritable is not None:
        _discard_output(sys.stdout)
    try:
        sys.stderr.flush()
    except OSError:  # its reader has gone; Python 3.14 would exit with 120
        _discard_output(sys.stderr)
    return status


def _discard_output(stream: TextIO) -> None:
    """Discard what a stream still holds when the interpreter flushes it."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
