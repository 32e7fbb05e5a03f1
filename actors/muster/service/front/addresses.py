"""Where the service listens: addresses as they are written, and the sockets for them."""

from __future__ import annotations

import errno
import os
import re
import socket
import stat
from collections.abc import Generator, Sequence
from contextlib import contextmanager, suppress
from ipaddress import ip_address
from pathlib import Path
from typing import Final, final

import attrs

from muster_core.errors import MusterError

_BACKLOG: Final = 1024
_UNIX: Final = "unix:"
_WRITTEN: Final = re.compile(r"(?:\[([0-9A-Fa-f:.%A-Za-z]+)\]|([^:\[\]]+)):([0-9]{1,5})")
_OWNER_ONLY: Final = 0o600
_EVERYBODY: Final = 0o666
_MAX_PATH: Final = 107
"""How many bytes the path of a Unix socket may have, on Linux; elsewhere a few less."""


@final
class ListenError(MusterError):
    """An address cannot be listened on."""


@final
@attrs.frozen(eq=False)
class Address:
    """Where to listen; the same port 0 twice is two ports.

    Attributes:
        written: As it was written.
        host: The name or IP address; empty for a Unix socket.
        port: The port; 0 for any that is free.
        path: The path of a Unix socket, or None.
    """

    written: str
    host: str = ""
    port: int = 0
    path: Path | None = None

    @classmethod
    def read(cls, written: str) -> Address:
        """Read an address.

        Raises:
            ListenError: If it is none.
        """
        if written.startswith(_UNIX) and len(written) > len(_UNIX):
            return cls(written, path=Path(written.removeprefix(_UNIX)))
        found = _WRITTEN.fullmatch(written)
        if found is None or int(found[3]) > 65_535:
            right = "HOST:PORT such as 127.0.0.1:9080 or [::1]:9080, or unix:PATH"
            msg = f"listen: {written!r}: must be {right}"
            raise ListenError(msg)
        return cls(written, found[1] or found[2], int(found[3]))

    def resolved(self) -> list[tuple[socket.AddressFamily, tuple[str, int]]]:
        """Return the family and the IP address of each place that a name stands for.

        Raises:
            ListenError: If the name is unknown.
        """
        try:
            found = socket.getaddrinfo(
                self.host, self.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
            )
        except (OSError, UnicodeError) as error:
            msg = f"listen: {self.written}: the name {self.host!r} is unknown: {error}"
            raise ListenError(msg) from None
        places = {(family, (str(place[0]), self.port)): None for family, _, _, _, place in found}
        return [*places]

    # ACCESS-6
    def is_private(self) -> bool:
        """Return whether only users of this machine can reach it."""
        if self.path is not None:
            return True
        return all(is_loopback(host) for _, (host, _) in self.resolved())


def is_loopback(host: str) -> bool:
    """Return whether an IP address is one of the loopback interface."""
    with suppress(ValueError):
        address = ip_address(host.partition("%")[0])
        mapped = getattr(address, "ipv4_mapped", None)
        return address.is_loopback or (mapped is not None and mapped.is_loopback)
    return False


@final
@attrs.frozen(eq=False)
class Bound:
    """A socket that is listened on.

    Attributes:
        socket: The socket.
        address: The address that it was opened for.
        inode: The number of the file of a Unix socket; 0 for others.
    """

    socket: socket.socket
    address: Address
    inode: int = 0

    def url(self, scheme: str) -> str:
        """Return where it is reached, with the real port."""
        if self.address.path is not None:
            return f"{_UNIX}{self.address.path.absolute()}"
        host, port = self.socket.getsockname()[:2]
        return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"

    def close(self) -> None:
        """Stop to listen; the file of a Unix socket is removed."""
        self.socket.close()
        path = self.address.path
        if path is not None:
            with suppress(OSError):
                if path.stat().st_ino == self.inode:
                    path.unlink()


def bind_all(addresses: Sequence[Address], *, protected: bool) -> list[Bound]:
    """Listen on addresses.

    Args:
        addresses: The addresses.
        protected: Whether requests need a token, so that any user may connect.

    Raises:
        ListenError: If one of them cannot be listened on; then none is.
    """
    bound: list[Bound] = []
    try:
        for address in addresses:
            bound += _bind(address, protected=protected)
    except BaseException:
        for one in bound:
            one.close()
        raise
    return bound


def _bind(address: Address, *, protected: bool) -> list[Bound]:
    if address.path is not None:
        mode = _EVERYBODY if protected else _OWNER_ONLY
        return [_bind_unix(address, address.path, mode)]
    bound: list[Bound] = []
    failure: OSError | None = None
    for family, place in address.resolved():
        made = socket.socket(family, socket.SOCK_STREAM)
        try:
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            made.bind(place)
            made.listen(_BACKLOG)
        except OSError as error:
            made.close()
            # A name may stand for an address that this machine does not have, such as ::1.
            if failure is None or error.errno != errno.EADDRNOTAVAIL:
                failure = error
            continue
        bound.append(Bound(made, address))
    if failure is not None and (not bound or failure.errno != errno.EADDRNOTAVAIL):
        for one in bound:
            one.close()
        raise _cannot(address, failure)
    return bound


# ACCESS-7
def _bind_unix(address: Address, path: Path, mode: int) -> Bound:
    made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        _make_way(address, path)
        with _umask(~mode & 0o777):
            made.bind(str(path))
        made.listen(_BACKLOG)
        return Bound(made, address, path.stat().st_ino)
    except OSError as error:
        made.close()
        raise _cannot(address, error) from None
    except BaseException:
        made.close()
        raise


def _make_way(address: Address, path: Path) -> None:
    """Remove the socket of a process that has ended.

    Raises:
        ListenError: If a process listens on it, something else has this name, or the name is too
            long for a socket.
    """
    if len(os.fsencode(path)) > _MAX_PATH:
        msg = (
            f"listen: {address.written}: path too long: that of a socket has {_MAX_PATH} bytes at "
            f"most: name a shorter one with --listen unix:PATH"
        )
        raise ListenError(msg)
    try:
        if not stat.S_ISSOCK(path.stat().st_mode):
            msg = f"listen: {address.written}: there is something else with this name"
            raise ListenError(msg)
    except FileNotFoundError:
        return
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(1.0)
        try:
            probe.connect(str(path))
        except ConnectionRefusedError:
            path.unlink()
            return
        except TimeoutError:
            pass  # Its backlog is full, so somebody listens.
    msg = f"listen: {address.written}: another process listens there"
    raise ListenError(msg)


@contextmanager
def _umask(mask: int) -> Generator[None]:
    before = os.umask(mask)
    try:
        yield
    finally:
        os.umask(before)


def _cannot(address: Address, error: OSError) -> ListenError:
    if error.errno == errno.EADDRINUSE:
        return ListenError(f"listen: {address.written}: another process listens there")
    return ListenError(f"listen: {address.written}: {error.strerror or error}")
