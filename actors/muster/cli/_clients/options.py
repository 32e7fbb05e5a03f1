"""Options of all commands that ask a server, and how they end when it says no."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Concatenate, Final, ParamSpec, TypeVar, final

import attrs
import click
from typing_extensions import override

from muster.cli._clients.output import list_of, map_of
from muster.cli._extras import needing
from muster.cli._options import DIFFERENT, UNUSABLE, complain

if TYPE_CHECKING:
    from muster.client import Server

P = ParamSpec("P")
R = TypeVar("R")

DEFAULT_SERVER: Final = "http://127.0.0.1:9080"


@final
@attrs.frozen
class Address:
    """Which server a command asks.

    Attributes:
        url: Its address.
        token: The token to send, or None.
        authority: The file with the certificates of those who may vouch for it, or None.
    """

    url: str
    token: str | None
    authority: Path | None

    @contextmanager
    def open(self) -> Generator[Server]:
        """Open the connection for the time of a block."""
        with needing("client"):
            from muster.client import open_server  # noqa: PLC0415 - other commands need no httpx
        with open_server(self.url, token=self.token, authority=self.authority) as server:
            yield server


@final
class Unusable(click.ClickException):
    """The arguments or the server cannot be used."""

    exit_code = UNUSABLE

    @override
    def show(self, file: IO[Any] | None = None) -> None:
        """Print the message to standard error."""
        del file
        complain(self.message)


def _address(server: str, token_file: Path | None, cacert: Path | None) -> Address:
    token = os.environ.get("MUSTER_TOKEN") or None
    if token_file is not None:
        try:
            token = token_file.read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            told = error.strerror if isinstance(error, OSError) else "is no text"
            msg = f"--token-file: {token_file}: {told}"
            raise Unusable(msg) from None
    if token is not None and not (token.isascii() and token.isprintable() and " " not in token):
        msg = "the token has characters that no token has: it is one word of ASCII"
        raise Unusable(msg)
    return Address(server, token, cacert)


# CLIENT-1
def server_options(function: Callable[Concatenate[Address, P], R]) -> Callable[P, R]:
    """Add the options that say which server is asked; the command gets an :class:`Address`."""

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
        help="Certificates of those who may vouch for the server. Also MUSTER_CACERT.",
    )
    @functools.wraps(function)
    def wrapped(
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> R:
        server = kwargs.pop("server")
        token_file, cacert = kwargs.pop("token_file"), kwargs.pop("cacert")
        assert isinstance(server, str)
        assert token_file is None or isinstance(token_file, Path)
        assert cacert is None or isinstance(cacert, Path)
        return function(_address(server, token_file, cacert), *args, **kwargs)

    return wrapped


# CLIENT-2
@contextmanager
def ending(status: int | None = None) -> Generator[None]:
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
