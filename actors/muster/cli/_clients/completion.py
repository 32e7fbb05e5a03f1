"""Completion of names in a shell; the server knows them."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Final, final

from muster.cli._clients.options import DEFAULT_SERVER

if TYPE_CHECKING:
    import click

    from muster.client import Server

_PATIENCE_S: Final = 2.0
_MOST: Final = 200


@final
class Completed:
    """Functions that complete what is being typed; nothing is said if the server is away."""

    @staticmethod
    def kinds(_context: click.Context, _parameter: click.Parameter, typed: str) -> list[str]:
        """Complete the kind of thing."""
        kinds = ("queues", "apps", "asks", "gangs", "nodes", "users")
        return [kind for kind in kinds if kind.startswith(typed)]

    @staticmethod
    def names(context: click.Context, _parameter: click.Parameter, typed: str) -> list[str]:
        """Complete the name of a thing of the kind that stands before it."""
        kind = str(context.params.get("kind") or "")
        plural = kind if kind.endswith("s") else f"{kind}s"
        return _names(context, plural, typed)

    @staticmethod
    def nodes(context: click.Context, _parameter: click.Parameter, typed: str) -> list[str]:
        """Complete the name of a node."""
        return _names(context, "nodes", typed)

    @staticmethod
    def queues(context: click.Context, _parameter: click.Parameter, typed: str) -> list[str]:
        """Complete the path of a queue."""
        return _names(context, "queues", typed)

    @staticmethod
    def asks(context: click.Context, _parameter: click.Parameter, typed: str) -> list[str]:
        """Complete an ask, as APP/ASK."""
        return _names(context, "asks", typed)

    @staticmethod
    def apps_and_asks(context: click.Context, _parameter: click.Parameter, typed: str) -> list[str]:
        """Complete an application, or an ask as APP/ASK."""
        return _names(context, "asks" if "/" in typed else "apps", typed)


# CLIENT-6
def _names(context: click.Context, kind: str, typed: str) -> list[str]:
    from muster.client import ServerError, open_server  # noqa: PLC0415 - needs httpx

    url = context.params.get("server") or os.environ.get("MUSTER_SERVER") or DEFAULT_SERVER
    token = os.environ.get("MUSTER_TOKEN") or None
    try:
        with open_server(str(url), token=token, timeout_s=_PATIENCE_S) as server:
            return _matching(server, kind, typed)
    except ServerError:
        return []


def _matching(server: Server, kind: str, typed: str) -> list[str]:
    found: list[str] = []
    filters: dict[str, Any] = {}
    if kind == "asks" and "/" in typed:
        filters["app"] = typed.partition("/")[0]
    for page in server.pages(kind, **filters):
        found += [one for item in page["items"] if (one := _name(kind, item)).startswith(typed)]
        if len(found) >= _MOST:
            break
    return found[:_MOST]


def _name(kind: str, item: dict[str, Any]) -> str:
    name = str(item[kind.removesuffix("s")])
    return f"{item['app']}/{name}" if kind == "asks" else name
