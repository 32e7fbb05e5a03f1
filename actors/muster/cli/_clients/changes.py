"""``muster cancel`` and ``muster drain``: small changes, sent as events."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import click

from muster.cli._clients.completion import Completed
from muster.cli._clients.dates import dates_of
from muster.cli._clients.kinds import PLACE_OF_ENDED, ask_path, over_since
from muster.cli._clients.options import Address, ending, server_options
from muster.cli._options import DIFFERENT, complain, example, printable
from muster.figures.text import counted

if TYPE_CHECKING:
    from muster.client import Server


# CLIENT-7
@click.command("cancel", epilog=example("muster cancel nightly-1/load-0"))
@click.argument("name", metavar="APP[/ASK]", shell_complete=Completed.apps_and_asks)
@click.option("--message", default="cancelled", help="What the decision log says about the end.")
@server_options
@click.pass_context
def cancel(context: click.Context, address: Address, /, name: str, *, message: str) -> None:
    """End an application with all its asks, or one ask, wherever it is.

    An ask that is bound is released as cancelled, so it does not come back and no retry is used;
    whoever does its work ends it. Of what is over already it says how it ended.

    Exit status: 0, 1 if it was refused or is over already, 2 if the server cannot be asked.
    """
    app, slash, ask = name.partition("/")
    with ending(), address.open() as server:
        if not slash:
            refusal = _completed(server, app) or _sent(server, {"op": "remove_app", "app": app})
        else:
            ask_path(name)  # whether it is written as it should be
            refusal = _cancelled(server, app, ask, message)
    _tell(context, refusal, f"{printable(name)}: cancelled")


def _completed(server: Server, app: str) -> str | None:
    """Return that an application has completed, or None."""
    from muster.client import ServerError  # noqa: PLC0415 - needs httpx

    try:
        server.get(f"apps/{quote(app, safe='')}", fields="app")
    except ServerError as error:
        if error.problem.get("completed"):
            return f"{printable(app)} is over: it has completed"
        if not error.is_refusal:
            raise
    return None


def _cancelled(server: Server, app: str, ask: str, message: str) -> str | None:
    """End an ask; return why that is refused, or None."""
    names = {"app": app, "ask": ask}
    answer = server.get(f"asks/{ask_path(f'{app}/{ask}')}")
    found = answer["item"]
    if found["place"] == PLACE_OF_ENDED:
        return over_since(f"{app}/{ask}", found, dates_of(answer))
    release = {"op": "release", **names, "outcome": "cancelled", "message": message}
    remove = {"op": "remove_ask", **names}
    first, second = (release, remove) if found["place"] == "bound" else (remove, release)
    # It may be bound, or lose its node, between the two requests.
    refusal = _sent(server, first)
    return None if refusal is None or _sent(server, second) is None else refusal


# CLIENT-8
@click.command("drain", epilog=example("muster drain node-7 --wait"))
@click.argument("node", metavar="NODE", shell_complete=Completed.nodes)
@click.option("--wait", is_flag=True, help="Wait until nothing stands on it any more.")
@click.option("--undo", is_flag=True, help="Let asks be placed on it again.")
@server_options
@click.pass_context
def drain(
    context: click.Context, address: Address, /, node: str, *, wait: bool, undo: bool
) -> None:
    """Place no more asks on a node. What stands on it stays until it ends.

    Exit status: 0, 1 if there is no such node, 2 if the server cannot be asked.
    """
    if wait and undo:
        msg = "--wait and --undo exclude each other"
        raise click.UsageError(msg)
    with ending(), address.open() as server:
        refusal = _sent(server, {"op": "update_node", "node": node, "schedulable": undo})
        left = 0 if refusal is not None or undo else _standing(server, node)
        while wait and left:
            time.sleep(1)
            left = _standing(server, node)
    told = "asks may be placed on it again" if undo else "no more asks are placed on it"
    stays = f"; {counted(left, 'ask')} still on it" if left else ""
    _tell(context, refusal, f"{printable(node)}: {told}{stays}")


def _standing(server: Server, node: str) -> int:
    from muster.client._server import at  # noqa: PLC0415 - needs httpx

    found = server.get(f"nodes/{at(node)}")["item"]
    asks: list[Any] = found["asks"]
    return len(asks)


def _sent(server: Server, event: Mapping[str, object]) -> str | None:
    """Send an event; return why it is refused, or None."""
    (answer,) = server.submit(json.dumps([event]).encode())
    return None if answer["ok"] else str(answer["error"])


def _tell(context: click.Context, refusal: str | None, done: str) -> None:
    if refusal is None:
        click.echo(done)
    else:
        complain(f"refused: {refusal}")
        context.exit(DIFFERENT)
