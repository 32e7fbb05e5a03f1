"""Under which names the service answers, so that no web site reaches it by a browser.

A browser sends the name that it was told in the header ``Host``. A web site can make its name
stand for 127.0.0.1, and would then read what it wants, if any name were answered. The header
``Origin`` says which site sends a request; a site may not send one here, even without reading.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any, Final, final

from muster.service.front.addresses import is_loopback
from muster.service.problems import Problem

if TYPE_CHECKING:
    from collections.abc import MutableMapping

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
            told = f"Host: {written[:_MAX_SHOWN]!r}: the service does not have this name"
            return Problem(421, f"{told}; its owner may name it with --host")
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
        told = f"Origin: {written[:_MAX_SHOWN]!r}: other web sites may not send requests here"
        return Problem(403, told)

    def _is_same(self, origin: str, scope: MutableMapping[str, Any]) -> bool:
        found = _ORIGIN.fullmatch(origin)
        sender = None if found is None else host_of(found[2])
        if found is None or sender is None:
            return False
        if sender[0] in self._names:
            return True
        usual = _PORTS[found[1].lower()]
        hosts = [value for name, value in scope["headers"] if name == b"host"]
        here = host_of(hosts[0].decode("latin-1")) if hosts else None
        return here is not None and (sender[0], sender[1] or usual) == (here[0], here[1] or usual)

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
