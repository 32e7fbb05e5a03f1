"""A client of ``muster serve``: what the commands that ask a server stand on."""

from __future__ import annotations

from muster.client._decisions import follow
from muster.client._server import DEFAULT_SERVER, Posted, Server, ServerError, at, open_server

__all__ = ["DEFAULT_SERVER", "Posted", "Server", "ServerError", "at", "follow", "open_server"]
