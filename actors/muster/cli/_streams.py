"""``muster decisions`` and ``muster logs``: what a server streams.

The decisions that are stored and those that follow; the output of the command of an ask.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from typing import IO, TYPE_CHECKING, Any, Final, final

import click

from muster.cli._options import complain, example, printable
from muster.cli._server import (
    WAIT_RETRIES,
    NameCompletion,
    ServerAddress,
    exit_on_server_error,
    server_options,
)

if TYPE_CHECKING:
    import httpx

    from muster.client import Server


# CLIENT-5
@click.command("decisions", epilog=example("muster decisions --follow --queue root.prod"))
@click.option("--follow", is_flag=True, help="Go on with those that follow, until Ctrl-C.")
@click.option(
    "--after",
    type=click.IntRange(0),
    metavar="SEQ",
    help="Only those after this one. [default: all that are kept; with --follow, those from now on]",
)
@click.option("--kinds", metavar="KIND,…", help="Only of these kinds.")
@click.option("--queue", help="Only about this queue and the queues below it.")
@click.option("--app", help="Only about this application.")
@click.option("--gang", help="Only about this gang and its members.")
@server_options
def decisions_command(
    address: ServerAddress, /, *, follow: bool, after: int | None, **filters: str | None
) -> None:
    """Print decisions as lines of JSON, as a decision log has them.

    With --follow a connection that breaks is opened again, and nothing is missed.

    Exit status: 0, 2 if the server cannot be asked, 130 after Ctrl-C.
    """
    with exit_on_server_error(), address.open() as server:
        for decision in _matching_decisions(server, after, filters, follow=follow):
            click.echo(json.dumps(decision, ensure_ascii=False))


def _matching_decisions(
    server: Server, after: int | None, filters: dict[str, str | None], *, follow: bool
) -> Iterator[dict[str, Any]]:
    from muster.client import follow as following  # noqa: PLC0415 - needs httpx

    if follow:
        yield from following(server, after=after, parameters=filters)
        return
    for _, decision in stored_decisions(server, after, filters):
        if decision is not None:
            yield decision


def stored_decisions(
    server: Server, after: int | None, filters: Mapping[str, str | None]
) -> Iterator[tuple[int, dict[str, Any] | None]]:
    """Yield the stored decisions, each with its number, page by page.

    After the decisions of a page comes the number of the last one that was searched, with None:
    those that the filters leave out count, too.

    Args:
        server: The server.
        after: The number of the decision before the first one, or None.
        filters: The filters for decisions.

    Raises:
        ServerError: If the server refuses the request, or does not answer.
    """
    last = after
    while True:
        with server.stream("decisions", parameters={**filters, "after": last}) as response:
            for line in response.iter_lines():
                decision: dict[str, Any] = json.loads(line)
                yield decision["seq"], decision
            last = int(response.headers["Muster-Last-Seq"])
            yield last, None
            if "next" not in response.links:
                return


_LOOKS_S: Final = 0.5
"""The period for asking whether the command has started, in seconds."""

_SILENCE_S: Final = 60.0
"""After how many seconds without output the connection is opened again: it may be dead."""


# LOCAL-10
@click.command("logs", epilog=example("muster logs nightly-1/load-0 --follow"))
@click.argument("ask", metavar="APP/ASK", shell_complete=NameCompletion.of("asks"))
@click.option("--follow", "-f", is_flag=True, help="Go on until the command has ended.")
@click.option(
    "--attempt",
    type=click.IntRange(1),
    metavar="N",
    help="Which start to show: those of all asks of this name are counted from 1. [default: the latest "
    "start of the latest ask]",
)
@server_options
def logs_command(address: ServerAddress, /, ask: str, *, follow: bool, attempt: int | None) -> None:
    """Print the output of the command of an ask, during its run or after it.

    Standard output and standard error come together, as the command wrote them. The server must
    run commands: `muster serve --run local`. With `--run ray` or `slurm` the output is on the node where
    the command ran: `muster logs` prints it if the machine of the server has this file, too, and
    otherwise says where it is. With --follow it waits for a command that has not started.

    Exit status: 0, 1 if there is no output, 2 if the server cannot be asked.
    """
    from muster.cli._resources import ask_path  # noqa: PLC0415 - `muster run` needs none of it
    from muster.client import ServerError  # noqa: PLC0415 - needs httpx

    is_announced = False
    with exit_on_server_error(), address.open() as server:
        output = LogOutput(server, ask_path(ask), attempt, follows=follow, stays=True)
        while True:
            try:
                output.copy(sys.stdout.buffer)  # the output may be no text
            except ServerError as error:
                if not follow or not error.problem.get("may_start"):
                    raise
            else:
                return
            if not is_announced:
                complain(f"{printable(ask)} has not started; its output is waited for")
                is_announced = True
            time.sleep(_LOOKS_S)


# LOCAL-10
@final
class LogOutput:
    """The output of the command of an ask; after a break it is resumed.

    Args:
        server: The server.
        ask: The ask, as a part of a path: ``APP/ASK``.
        attempt: The number of the start, from 1; None for the latest.
        follows: Whether to go on until the command has ended.
        stays: Whether to stay with the start that is the latest at first.

    Attributes:
        attempt: Which start was shown last; None before the first one.
    """

    def __init__(
        self, server: Server, ask: str, attempt: int | None = None, *, follows: bool, stays: bool
    ) -> None:
        self._server = server
        self._path = f"asks/{ask}/logs"
        self._requested = attempt
        self._follows = follows
        self._stays = stays
        #: How many bytes of this start were shown.
        self._done = 0
        self.attempt: int | None = None

    def copy(self, out: IO[bytes]) -> None:
        """Write the rest of the output to a stream, until the server says that it is complete.

        Raises:
            ServerError: If there is no output, or the server was away too long.
        """
        from muster.client import ServerError  # noqa: PLC0415 - needs httpx

        while True:
            response: httpx.Response | None = None
            try:
                with ExitStack() as stack:
                    response = WAIT_RETRIES.ask(self._server, lambda: self._opened(stack))
                    for part in response.iter_bytes():
                        self._done += len(part)
                        out.write(part)
                        out.flush()
                return
            except ServerError as error:
                if response is None or not self._follows or not error.passes:
                    raise
            time.sleep(_LOOKS_S)

    def _opened(self, stack: ExitStack) -> httpx.Response:
        """Open the output after what was shown."""
        parameters = {
            "follow": self._follows or None,
            "attempt": self._requested,
            "after": self._done or None,
        }
        silence_s = _SILENCE_S if self._follows else None
        stream = self._server.stream(self._path, parameters=parameters, silence_s=silence_s)
        response = stack.enter_context(stream)
        number = int(response.headers["Muster-Attempt"])
        if self._stays:
            self._requested = number
        if number != self.attempt:
            self.attempt = number
            if "Muster-Earlier-Ask" in response.headers:
                complain(f"start {number} is of an earlier ask of this name")
            if self._done:  # Another start has begun, which is shown from its beginning.
                self._done = 0
                stack.close()
                return self._opened(stack)
        return response
