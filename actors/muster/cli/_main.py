"""The command ``muster``: its options, and the way out of it."""

from __future__ import annotations

import gc
import importlib
import io
import os
import sys
from collections.abc import Sequence
from typing import Final, NoReturn, final

import click
from typing_extensions import override

from muster._version import __version__
from muster.cli._options import INTERRUPTED, UNUSABLE, complain, example

PIPE_CLOSED: Final = 141
"""The exit status when nobody reads what is written, as of a program that a signal ends."""

# A module is imported when its command is used, or all commands are listed.
_COMMANDS: Final = ("replay", "check", "explain", "compare", "validate", "convert")


@final
class Commands(click.Group):
    """The commands, each in a module of its own."""

    @override
    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    @override
    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        command = importlib.import_module(f"muster.cli._{cmd_name}").command
        assert isinstance(command, click.Command)
        return command

    @override
    def invoke(self, ctx: click.Context) -> object:
        # Here and not around `main`, as click has an end of its own for both of them.
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            ctx.exit(INTERRUPTED)
        except BrokenPipeError:
            ctx.exit(PIPE_CLOSED)


_EPILOG: Final = f"""\
{example("muster replay feed.yaml --decisions decisions.jsonl")}

Completion: put `eval "$(_MUSTER_COMPLETE=bash_source muster)"` into ~/.bashrc; for zsh and
fish it is zsh_source and fish_source.
"""


@click.command(
    cls=Commands,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog=_EPILOG,
)
@click.version_option(__version__, prog_name="muster", message="%(prog)s %(version)s")
def muster() -> None:
    """Run recorded or scripted events through the scheduler, in virtual time."""


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the command and leave the process.

    The exit status is 0 if all is fine, 1 if a difference or a refusal was found, 2 if the
    arguments or a file cannot be used, 130 after Ctrl-C.

    Args:
        arguments: The words after ``muster``; None for those of the process.

    Raises:
        SystemExit: Always, with the exit status.
    """
    _mend_streams()
    # A process of its own may keep what it makes: a burst of asks is not garbage, and looking
    # at it again and again for cycles takes a quarter of the time of a large replay.
    gc.set_threshold(100_000, 50, 100)
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
    except OSError as error:  # such as a full disk; files that are opened fail elsewhere
        unwritable = error
    sys.exit(_flushed(status if isinstance(status, int) else 0, unwritable))


def _mend_streams() -> None:
    """Make sure that writing a text can fail only if nobody reads it."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            # It stays open until the program ends.
            nowhere = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115 - see above
            setattr(sys, name, nowhere)
        elif isinstance(stream, io.TextIOWrapper):
            # The name of a file need not be Unicode, nor a terminal UTF-8.
            stream.reconfigure(errors="backslashreplace")


def _flushed(status: int, unwritable: OSError | None) -> int:
    """Write what is left, so that the interpreter has nothing to complain of when it ends.

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
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return status
