"""The connection of a command to a server: its options, retries, errors, and completion of names.

It hides where the address and the token come from, how long a server that is away is asked again, and
with which status a command exits when the server says no. httpx is imported when a server is asked.
"""

from __future__ import annotations

import functools
import os
import time
from collections.abc import Callable, Collection, Generator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import Timer
from typing import IO, TYPE_CHECKING, Any, Concatenate, Final, ParamSpec, TypeVar, final

import attrs
import click
from typing_extensions import override

from muster.cli._options import DIFFERENT, UNUSABLE, complain
from muster.cli._output import list_of, map_of

if TYPE_CHECKING:
    import click

    from muster.client import Server


P = ParamSpec("P")
R = TypeVar("R")

DEFAULT_SERVER: Final = "http://127.0.0.1:9080"


@final
@attrs.frozen
class ServerAddress:
    """The address of the server of a command.

    Attributes:
        url: Its address.
        token: The token to send, or None.
        authority: The file with the certificates to trust, or None.
    """

    url: str
    token: str | None
    authority: Path | None

    @contextmanager
    def open(self) -> Generator[Server]:
        """Open the connection for the time of a block."""
        from muster.client import open_server  # noqa: PLC0415 - other commands need no httpx

        with open_server(self.url, token=self.token, authority=self.authority) as server:
            yield server


@final
class CommandError(click.ClickException):
    """The arguments or the server cannot be used."""

    exit_code = UNUSABLE

    @override
    def show(self, file: IO[Any] | None = None) -> None:
        """Print the message to standard error."""
        del file
        complain(self.message)


def _address(server: str, token_file: Path | None, cacert: Path | None) -> ServerAddress:
    token = os.environ.get("MUSTER_TOKEN") or None
    if token_file is not None:
        try:
            token = token_file.read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            problem = error.strerror if isinstance(error, OSError) else "is no text"
            msg = f"--token-file: {token_file}: {problem}"
            raise CommandError(msg) from None
    if token is not None and not (token.isascii() and token.isprintable() and " " not in token):
        msg = "the token has characters that no token has: it is one word of ASCII"
        raise CommandError(msg)
    return ServerAddress(server, token, cacert)


# CLIENT-1
def server_options(function: Callable[Concatenate[ServerAddress, P], R]) -> Callable[P, R]:
    """Add the options that say which server is asked; the command gets an :class:`ServerAddress`."""

    @click.option(
        "--server",
        envvar="MUSTER_SERVER",
        default=DEFAULT_SERVER,
        show_default=True,
        metavar="URL",
        help="The server: http://HOST:PORT, https://HOST:PORT or unix:PATH. Also MUSTER_SERVER.",
    )
    @click.option(
        "--token-file",
        type=click.Path(path_type=Path),
        metavar="FILE",
        help="The file that has the token. [default: the variable MUSTER_TOKEN]",
    )
    @click.option(
        "--cacert",
        envvar="MUSTER_CACERT",
        type=click.Path(path_type=Path),
        metavar="FILE",
        help="Certificates to trust when the server shows its own. Also MUSTER_CACERT.",
    )
    @functools.wraps(function)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> R:
        server = kwargs.pop("server")
        token_file, cacert = kwargs.pop("token_file"), kwargs.pop("cacert")
        assert isinstance(server, str)
        assert token_file is None or isinstance(token_file, Path)
        assert cacert is None or isinstance(cacert, Path)
        return function(_address(server, token_file, cacert), *args, **kwargs)

    return wrapped


# CLIENT-2
@contextmanager
def exit_on_server_error(status: int | None = None) -> Generator[None]:
    """End the command with a message when the server refuses or cannot be asked.

    Args:
        status: The exit status then; None: 1 after a refusal, and 2 if the server cannot be used.
    """
    from muster.client import ServerError  # noqa: PLC0415 - see above

    context = click.get_current_context()
    try:
        yield
    except ServerError as error:
        complain(str(error))
        for one in list_of(error.problem.get("problems")) or ():
            complain(_problem(one))
        if status is None:
            status = DIFFERENT if error.is_refusal else UNUSABLE
        context.exit(status)


def _problem(one: object) -> str:
    found = map_of(one)
    if found is None:
        return str(one)
    line = found.get("line")
    parts = (None if line is None else f"line {line}", found.get("path"), found.get("message"))
    return ": ".join(str(part) for part in parts if part)


T = TypeVar("T")

_FIRST_WAIT_S: Final = 0.5
_LONGEST_WAIT_S: Final = 30.0


@final
@attrs.frozen
class RetryPolicy:
    """How long a server may be away.

    Attributes:
        limit_s: How long, in seconds: after that no new try begins.
        silent_s: After how many seconds without an answer to print a notice.
    """

    limit_s: float
    silent_s: float

    # CLIENT-16
    def ask(self, server: Server, ask: Callable[[], T], also: Collection[int] = ()) -> T:
        """Return the answer of a server, which is asked again if it gives none.

        Args:
            server: The server.
            ask: Sends the request; it may be called again.
            also: The statuses of further answers after which it is asked again.

        Raises:
            ServerError: If it refuses the request, or was away too long.
        """
        from muster.client import ServerError  # noqa: PLC0415 - needs httpx

        began = time.monotonic()
        notice = _RetryNotice(server.url, datetime.now(UTC) + timedelta(seconds=self.limit_s))
        timer = Timer(self.silent_s, notice.give)
        timer.daemon = True
        timer.start()
        wait_s = _FIRST_WAIT_S
        try:
            while True:
                try:
                    return ask()
                except ServerError as error:
                    passed_s = time.monotonic() - began
                    if not (error.passes or error.status in also) or passed_s > self.limit_s:
                        raise
                    notice.problem = str(error)
                time.sleep(min(wait_s, max(0.0, self.limit_s - passed_s)))
                wait_s = min(2 * wait_s, _LONGEST_WAIT_S)
        finally:
            timer.cancel()


@final
class _RetryNotice:
    """Prints once that a server does not answer, and until when it is asked again.

    Args:
        url: The address of the server.
        until: Until when it is asked again.
    """

    def __init__(self, url: str, until: datetime) -> None:
        self.problem = f"{url}: there is no answer yet"
        self._until = until

    def give(self) -> None:
        """Print it."""
        complain(f"{self.problem}\nIt is tried again until {self._until:%H:%M:%S} UTC.")


SUBMIT_RETRIES: Final = RetryPolicy(limit_s=16.0, silent_s=1.0)
"""How long a server may be away when something is submitted."""

WAIT_RETRIES: Final = RetryPolicy(limit_s=300.0, silent_s=5.0)
"""How long it may be away while the end of a command is waited for."""


_COMPLETION_S: Final = 2.0
_MOST_NAMES: Final = 200


@final
class NameCompletion:
    """Functions that complete arguments; there are no completions if the server is away."""

    @staticmethod
    def kinds(_context: click.Context, _parameter: click.Parameter, typed: str) -> list[str]:
        """Complete the kind of resource."""
        kinds = ("queues", "apps", "asks", "pods", "gangs", "nodes", "users")
        return [kind for kind in kinds if kind.startswith(typed)]

    @staticmethod
    def names(context: click.Context, _parameter: click.Parameter, typed: str) -> list[str]:
        """Complete the name of a resource of the kind before it."""
        kind = str(context.params.get("kind") or "")
        plural = kind if kind.endswith("s") else f"{kind}s"
        return _names(context, plural, typed)

    @staticmethod
    def of(kind: str) -> Callable[[click.Context, click.Parameter, str], list[str]]:
        """Return the function that completes the names of a kind."""
        return lambda context, _parameter, typed: _names(context, kind, typed)

    @staticmethod
    def asks_or_pods(context: click.Context, _parameter: click.Parameter, typed: str) -> list[str]:
        """Complete an ask as APP/ASK, or else a pod as NAMESPACE/POD."""
        return _names(context, "asks", typed) or _names(context, "pods", typed)

    @staticmethod
    def apps_and_asks(context: click.Context, _parameter: click.Parameter, typed: str) -> list[str]:
        """Complete an application, or an ask as APP/ASK."""
        return _names(context, "asks" if "/" in typed else "apps", typed)


# CLIENT-6
def _names(context: click.Context, kind: str, typed: str) -> list[str]:
    try:
        from muster.client import ServerError, open_server  # noqa: PLC0415 - needs httpx
    except ModuleNotFoundError:  # without the extra there is nothing to complete with
        return []
    url = context.params.get("server") or os.environ.get("MUSTER_SERVER") or DEFAULT_SERVER
    token = os.environ.get("MUSTER_TOKEN") or None
    try:
        with open_server(str(url), token=token, timeout_s=_COMPLETION_S) as server:
            return _matching(server, kind, typed)
    except ServerError:
        return []


def _matching(server: Server, kind: str, typed: str) -> list[str]:
    found: list[str] = []
    filters: dict[str, Any] = {}
    if kind == "asks" and "/" in typed:
        filters["app"] = typed.partition("/")[0]
    if kind == "pods" and "/" in typed:
        filters["namespace"] = typed.partition("/")[0]
    for page in server.pages(kind, **filters):
        found += [one for item in page["items"] if (one := _name(kind, item)).startswith(typed)]
        if len(found) >= _MOST_NAMES:
            break
    return found[:_MOST_NAMES]


def _name(kind: str, item: dict[str, Any]) -> str:
    if kind == "pods":
        return f"{item['pod']['namespace']}/{item['pod']['name']}"
    name = str(item[kind.removesuffix("s")])
    return f"{item['app']}/{name}" if kind == "asks" else name
