"""A client of ``muster serve``: what the commands that ask a server stand on."""

from __future__ import annotations

from muster.client._decisions import follow
from muster.client._server import DEFAULT_SERVER, Server, ServerError, open_server

__all__ = ["DEFAULT_SERVER", "Server", "ServerError", "follow", "open_server"]
