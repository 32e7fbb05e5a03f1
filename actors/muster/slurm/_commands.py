"""Runs the commands of Slurm, and tells a refusal from a silence."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from typing import Final, final

import trio

from muster.slurm._errors import SilentError, SlurmError

NEEDED: Final = ("sbatch", "squeue", "scancel", "sinfo", "scontrol")
"""The commands that are used."""

_PATIENCE_S: Final = 120.0
"""How long a command may take, in seconds; sbatch itself tries for a minute and more."""

_AT_ONCE: Final = 8
"""How many commands may run at once: each of them is a connection to slurmctld."""

# What the commands print when slurmctld is away, is starting, or has not answered in time. With
# all of these it is unknown whether a request was carried out.
_SILENT: Final = re.compile(
    r"unable to contact slurm controller"
    r"|unable to establish controller machine"
    r"|connect failure"
    r"|communication connection failure"
    r"|message (send|receive) failure"
    r"|socket timed out"
    r"|timed out"
    r"|connection (refused|reset|timed out)"
    r"|zero bytes were transmitted"
    r"|transport endpoint"
    r"|controller in standby"
    r"|standby mode"
    r"|temporarily unable"
    r"|resource temporarily unavailable"
    r"|unexpected message received"
    r"|authentication (error|failure)"
    r"|auth.*credential",
    re.IGNORECASE,
)

# Filters and questions that the environment could ask for: the answers would be incomplete.
_DROPPED: Final = re.compile(r"(SQUEUE|SCANCEL|SINFO)_.*|SBATCH_(WAIT|ARRAY_INX|TEST_ONLY)")


@final
class Commands:
    """Runs Slurm's commands, with the environment of this program."""

    def __init__(self) -> None:
        self._limiter = trio.CapacityLimiter(_AT_ONCE)

    def check(self) -> None:
        """Check that the commands are there.

        Raises:
            SlurmError: If one is missing.
        """
        missing = [name for name in NEEDED if shutil.which(name) is None]
        if missing:
            msg = (
                f"{', '.join(missing)}: not in PATH; install the client commands of Slurm on this "
                "machine (in Debian: slurm-client), and see that slurm.conf is found"
            )
            raise SlurmError(msg)

    async def run(self, command: Sequence[str], given: str = "") -> str:
        """Run a command.

        Args:
            command: Its name and arguments.
            given: Its standard input.

        Returns:
            What it has printed.

        Raises:
            SilentError: If slurmctld does not answer; it may have carried out the request.
            SlurmError: If the command has failed otherwise, and so has done nothing.
        """
        async with self._limiter:
            try:
                with trio.fail_after(_PATIENCE_S):
                    done = await trio.run_process(
                        list(command),
                        # As the names of files are encoded, which may be no text.
                        stdin=given.encode(errors="surrogateescape"),
                        capture_stdout=True,
                        capture_stderr=True,
                        check=False,
                        env=_environment(os.environ),
                    )
            except OSError as error:
                msg = f"{command[0]}: {error.strerror or error}"
                raise SlurmError(msg) from None
            except ValueError as error:  # a character that nobody can be told
                msg = f"{command[0]}: {error}"
                raise SlurmError(msg) from None
            except trio.TooSlowError:
                msg = f"{command[0]}: not done after {_PATIENCE_S:g} s"
                raise SilentError(msg) from None
        return _judge(command[0], done)


def _environment(of_program: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of a command: English messages, no filters."""
    kept = {name: value for name, value in of_program.items() if not _DROPPED.fullmatch(name)}
    return {**kept, "LC_ALL": "C.UTF-8"}


def _judge(name: str, done: subprocess.CompletedProcess[bytes]) -> str:
    """Return what a command has printed.

    Raises:
        SilentError: If slurmctld did not answer.
        SlurmError: If it has failed otherwise.
    """
    trouble = done.stderr.decode(errors="replace").strip()
    if done.returncode == 0:
        return done.stdout.decode(errors="replace")
    text = f"{name}: {trouble or f'exit status {done.returncode}'}"
    if _SILENT.search(trouble) or done.returncode < 0:
        raise SilentError(text)
    raise SlurmError(text)
