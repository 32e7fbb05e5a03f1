"""``muster decisions``: the decisions of a server, and those that follow."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import click

from muster.cli._clients.options import Address, ending, server_options
from muster.cli._options import example

if TYPE_CHECKING:
    from muster.client import Server


# CLIENT-5
@click.command("decisions", epilog=example("muster decisions --follow --queue root.prod"))
@click.option("--follow", is_flag=True, help="Go on with those that follow, until Ctrl-C.")
@click.option(
    "--after",
    type=click.IntRange(0),
    metavar="SEQ",
    help="Those after this one. [default: all that are kept; with --follow, those from now on]",
)
@click.option("--kinds", metavar="KIND,…", help="Only of these kinds.")
@click.option("--queue", help="Only about this queue and the queues below it.")
@click.option("--app", help="Only about this application.")
@click.option("--gang", help="Only about this gang and its members.")
@server_options
def command(address: Address, /, *, follow: bool, after: int | None, **filters: str | None) -> None:
    """Print decisions as lines of JSON, as a decision log has them.

    With --follow a connection that breaks is opened again, and nothing is missed.

    Exit status: 0, 2 if the server cannot be asked, 130 after Ctrl-C.
    """
    with ending(), address.open() as server:
        for decision in _found(server, after, filters, follow=follow):
            click.echo(json.dumps(decision, ensure_ascii=False))


def _found(
    server: Server, after: int | None, filters: dict[str, str | None], *, follow: bool
) -> Iterator[dict[str, Any]]:
    from muster.client import follow as following  # noqa: PLC0415 - needs httpx

    if follow:
        yield from following(server, after=after, parameters=filters)
        return
    for _, decision in kept(server, after, filters):
        if decision is not None:
            yield decision


def kept(
    server: Server, after: int | None, filters: Mapping[str, str | None]
) -> Iterator[tuple[int, dict[str, Any] | None]]:
    """Yield the decisions that are kept, each with its number, page by page.

    Behind the decisions of a page stands the number of the last one that was looked at, with None:
    those that the filters leave out count, too.

    Args:
        server: The server.
        after: The number of the decision before the first one, or None.
        filters: Which decisions are wanted.

    Raises:
        ServerError: If the server refuses the request, or does not answer.
    """
    last = after
    while True:
        with server.stream("decisions", parameters={**filters, "after": last}) as response:
            for line in response.iter_lines():
                decision: dict[str, Any] = json.loads(line)
                yield decision["seq"], decision
            last = int(response.headers["Muster-Last-Seq"])
            yield last, None
            if "next" not in response.links:
                return
