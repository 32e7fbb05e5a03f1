"""``muster cancel`` and ``muster drain``: small changes, sent as events."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from muster.cli._clients.completion import Completed
from muster.cli._clients.kinds import ask_path
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

    An ask that is bound is released as completed, so it does not come back; whoever does its work
    ends it.

    Exit status: 0, 1 if it was refused, 2 if the server cannot be asked.
    """
    app, slash, ask = name.partition("/")
    with ending(), address.open() as server:
        if not slash:
            refusal = _sent(server, {"op": "remove_app", "app": app})
        else:
            ask_path(name)  # whether it is written as it should be
            refusal = _cancelled(server, app, ask, message)
    _tell(context, refusal, f"{printable(name)}: cancelled")


def _cancelled(server: Server, app: str, ask: str, message: str) -> str | None:
    """End an ask; return why that is refused, or None."""
    names = {"app": app, "ask": ask}
    found = server.get(f"asks/{ask_path(f'{app}/{ask}')}")["item"]
    release = {"op": "release", **names, "message": message}
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
