"""``muster logs``: what the command of an ask has written."""

from __future__ import annotations

import sys
import time
from contextlib import ExitStack
from typing import IO, TYPE_CHECKING, Final, final

import click

from muster.cli._clients.completion import Completed
from muster.cli._clients.options import Address, ending, server_options
from muster.cli._clients.patience import WAITING
from muster.cli._options import complain, example, printable

if TYPE_CHECKING:
    import httpx

    from muster.client import Server

_LOOKS_S: Final = 0.5
"""How long to wait before it is looked again whether the command has started, in seconds."""

_SILENCE_S: Final = 60.0
"""After how many seconds without output the connection is opened again: it may be dead."""


# LOCAL-10
@click.command("logs", epilog=example("muster logs nightly-1/load-0 --follow"))
@click.argument("ask", metavar="APP/ASK", shell_complete=Completed.asks)
@click.option("--follow", "-f", is_flag=True, help="Go on until the command has ended.")
@click.option(
    "--attempt",
    type=click.IntRange(1),
    metavar="N",
    help="Of which start of an ask of this name, counted from 1. [default: the latest of the ask "
    "that is there]",
)
@server_options
def command(address: Address, /, ask: str, *, follow: bool, attempt: int | None) -> None:
    """Print the output of the command of an ask, which may be over.

    Standard output and standard error come together, as the command wrote them. The server must
    run commands: `muster serve --run local`. With `--run ray` the output is on the node where the
    command ran: this prints it if the server has the file, too, else it says where it is.
    With --follow, a command that has not started is waited for.

    Exit status: 0, 1 if there is no output, 2 if the server cannot be asked.
    """
    from muster.cli._clients.kinds import ask_path  # noqa: PLC0415 - `muster run` needs none of it
    from muster.client import ServerError  # noqa: PLC0415 - needs httpx

    is_told = False
    with ending(), address.open() as server:
        output = Output(server, ask_path(ask), attempt, follows=follow, stays=True)
        while True:
            try:
                output.copy(sys.stdout.buffer)  # the output may be no text
            except ServerError as error:
                if not follow or not error.problem.get("may_start"):
                    raise
            else:
                return
            if not is_told:
                complain(f"{printable(ask)} has not started; its output is waited for")
                is_told = True
            time.sleep(_LOOKS_S)


# LOCAL-10
@final
class Output:
    """The output of the command of an ask, which goes on where it was after a break.

    Args:
        server: The server.
        ask: The ask, as a part of a path: ``APP/ASK``.
        attempt: Of which start, from 1; None for the latest.
        follows: Whether to go on until the command has ended.
        stays: Whether to stay with the start that was the latest first.

    Attributes:
        attempt: Which start was shown last; None before the first one.
    """

    def __init__(
        self, server: Server, ask: str, attempt: int | None = None, *, follows: bool, stays: bool
    ) -> None:
        self._server = server
        self._path = f"asks/{ask}/logs"
        self._wanted = attempt
        self._follows = follows
        self._stays = stays
        #: How many bytes of this start were shown.
        self._done = 0
        self.attempt: int | None = None

    def copy(self, out: IO[bytes]) -> None:
        """Write to a stream what was not shown yet, until the server says that this is all.

        Raises:
            ServerError: If there is no output, or the server was away too long.
        """
        from muster.client import ServerError  # noqa: PLC0415 - needs httpx

        while True:
            response: httpx.Response | None = None
            try:
                with ExitStack() as stack:
                    response = WAITING.ask(self._server, lambda: self._opened(stack))
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
            "attempt": self._wanted,
            "after": self._done or None,
        }
        silence_s = _SILENCE_S if self._follows else None
        stream = self._server.stream(self._path, parameters=parameters, silence_s=silence_s)
        response = stack.enter_context(stream)
        number = int(response.headers["Muster-Attempt"])
        if self._stays:
            self._wanted = number
        if number != self.attempt:
            self.attempt = number
            if "Muster-Earlier-Ask" in response.headers:
                complain(f"start {number} is of an earlier ask of this name")
            if self._done:  # Another start has begun, which is shown from its beginning.
                self._done = 0
                stack.close()
                return self._opened(stack)
        return response
