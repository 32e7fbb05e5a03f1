"""Addresses: where the service listens, and under which names it answers.

A browser sends the name from the address in the header ``Host``. A web site can make its name
stand for 127.0.0.1, and would then read what it wants, if any name were answered. The header
``Origin`` says which site sends a request; a site may not send one here, even without reading.
"""

from __future__ import annotations

import errno
import os
import re
import socket
import stat
from collections.abc import Generator, Iterable, MutableMapping, Sequence
from contextlib import contextmanager, suppress
from functools import lru_cache
from ipaddress import ip_address
from pathlib import Path
from typing import Any, Final, final

import attrs

from muster.service.payloads import Problem
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


@lru_cache(maxsize=256)
def is_loopback(host: str) -> bool:
    """Return whether an IP address is one of the loopback interface."""
    with suppress(ValueError):
        address = ip_address(host.partition("%")[0])
        mapped = getattr(address, "ipv4_mapped", None)
        return address.is_loopback or (mapped is not None and mapped.is_loopback)
    return False


@final
@attrs.frozen(eq=False)
class BoundSocket:
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


def bind_all(addresses: Sequence[Address], *, protected: bool) -> list[BoundSocket]:
    """Listen on addresses.

    Args:
        addresses: The addresses.
        protected: Whether requests need a token, so that any user may connect.

    Raises:
        ListenError: If one of them cannot be listened on; then none is.
    """
    bound: list[BoundSocket] = []
    try:
        for address in addresses:
            bound += _bind(address, protected=protected)
    except BaseException:
        for one in bound:
            one.close()
        raise
    return bound


def _bind(address: Address, *, protected: bool) -> list[BoundSocket]:
    if address.path is not None:
        mode = _EVERYBODY if protected else _OWNER_ONLY
        return [_bind_unix(address, address.path, mode)]
    bound: list[BoundSocket] = []
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
        bound.append(BoundSocket(made, address))
    if failure is not None and (not bound or failure.errno != errno.EADDRNOTAVAIL):
        for one in bound:
            one.close()
        raise _listen_error(address, failure)
    return bound


# ACCESS-7
def _bind_unix(address: Address, path: Path, mode: int) -> BoundSocket:
    made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        _remove_stale_socket(address, path)
        with _umask(~mode & 0o777):
            made.bind(str(path))
        made.listen(_BACKLOG)
        return BoundSocket(made, address, path.stat().st_ino)
    except OSError as error:
        made.close()
        raise _listen_error(address, error) from None
    except BaseException:
        made.close()
        raise


def _remove_stale_socket(address: Address, path: Path) -> None:
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
            pass  # Its backlog is full, so a process listens.
    msg = f"listen: {address.written}: another process listens there"
    raise ListenError(msg)


@contextmanager
def _umask(mask: int) -> Generator[None]:
    before = os.umask(mask)
    try:
        yield
    finally:
        os.umask(before)


def _listen_error(address: Address, error: OSError) -> ListenError:
    if error.errno == errno.EADDRINUSE:
        return ListenError(f"listen: {address.written}: another process listens there")
    return ListenError(f"listen: {address.written}: {error.strerror or error}")


_AUTHORITY: Final = re.compile(r"(?:\[([0-9A-Fa-f:.]+)\]|([^:\[\]@/?#\s]+))(?::([0-9]{0,5}))?")
_ORIGIN: Final = re.compile(r"(https?)://([^/]+)", re.IGNORECASE)
_PORTS: Final = {"http": "80", "https": "443"}
_MAX_SHOWN: Final = 100


def host_of(authority: str) -> tuple[str, str] | None:
    """Return the host and the port of ``host:port``, or None if it is none."""
    found = _AUTHORITY.fullmatch(authority)
    if found is None:
        return None
    return (found[1] or found[2]).lower().rstrip("."), found[3] or ""


@final
class Hosts:
    """The names under which the service answers.

    Args:
        names: Names besides the addresses that it listens on.
    """

    def __init__(self, names: Iterable[str]) -> None:
        self._names = {name.lower().rstrip(".") for name in names}

    # ACCESS-8
    def check(self, scope: MutableMapping[str, Any]) -> Problem | None:
        """Return what is wrong with the names in the head of a request, or None."""
        server: tuple[str, int] | None = scope["server"]
        if server is None:
            return None  # A Unix socket, which no browser reaches.
        hosts = [value for name, value in scope["headers"] if name == b"host"]
        if len(hosts) != 1:
            return Problem(400, "Host: there must be one such header")
        written = hosts[0].decode("latin-1")
        host = host_of(written)
        if host is None or not self._is_ours(host[0], server[0]):
            message = f"Host: {written[:_MAX_SHOWN]!r}: the service does not have this name"
            return Problem(421, f"{message}; its owner may name it with --host")
        return None

    # ACCESS-9
    def check_origin(self, scope: MutableMapping[str, Any]) -> Problem | None:
        """Return what is wrong if another web site sends a request, or None."""
        origins = [value for name, value in scope["headers"] if name == b"origin"]
        if not origins:
            return None  # No browser, or one that only reads its own site.
        written = origins[0].decode("latin-1")
        if len(origins) == 1 and self._is_same(written, scope):
            return None
        message = f"Origin: {written[:_MAX_SHOWN]!r}: other web sites may not send requests here"
        return Problem(403, message)

    def _is_same(self, origin: str, scope: MutableMapping[str, Any]) -> bool:
        found = _ORIGIN.fullmatch(origin)
        sender = None if found is None else host_of(found[2])
        if found is None or sender is None:
            return False
        if sender[0] in self._names:
            return True
        usual = _PORTS[found[1].lower()]
        hosts = [value for name, value in scope["headers"] if name == b"host"]
        own_host = host_of(hosts[0].decode("latin-1")) if hosts else None
        return own_host is not None and (sender[0], sender[1] or usual) == (
            own_host[0],
            own_host[1] or usual,
        )

    def _is_ours(self, host: str, local: str) -> bool:
        """Return whether the service has a name.

        Args:
            host: The name.
            local: The IP address on which the request came.
        """
        if host in self._names:
            return True
        if is_loopback(local):
            return host == "localhost" or is_loopback(host)
        try:
            return ip_address(host) == ip_address(local.partition("%")[0])
        except ValueError:
            return False
