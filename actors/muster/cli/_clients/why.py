"""``muster why``: why an ask of a server is not running, and what would help."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

import click

from muster.cli._clients.completion import Completed
from muster.cli._clients.dates import dates_of
from muster.cli._clients.kinds import PLACE_OF_ENDED, ask_path, over_since
from muster.cli._clients.options import Address, ending, server_options
from muster.cli._clients.output import Form, form_option, print_map
from muster.cli._explain.text import print_reasons
from muster.cli._options import example, printable
from muster.explain import how_it_runs, where_it_is
from muster.explain._maps import in_us, passed_of
from muster_core.snapshots import AskPlace

_BOUND: Final = AskPlace.BOUND.value


@click.command("why", epilog=example("muster why nightly-1/load-0 --remedies"))
@click.argument("ask", metavar="APP/ASK", shell_complete=Completed.asks)
@click.option(
    "--remedies",
    is_flag=True,
    help="Also search for changes that would help, and say when it then starts.",
)
@click.option(
    "--forecast", is_flag=True, help="Also find out when it starts, on a copy of the state."
)
@form_option
@server_options
def command(address: Address, /, ask: str, *, remedies: bool, forecast: bool, form: Form) -> None:
    """Say why an ask is not running; of one that has ended, how it ended.

    Exit status: 0, 1 if there is no such ask, 2 if the server cannot be asked.
    """
    path = f"asks/{ask_path(ask)}/why"
    with ending(), address.open() as server:
        answer = server.get(path, remedies=remedies or None, forecast=forecast or None)
    if form in {Form.JSON, Form.YAML}:
        print_map(answer, form)
    else:
        _print(ask, answer, searched=remedies)


def _print(ask: str, answer: dict[str, Any], *, searched: bool) -> None:
    found: dict[str, Any] = answer["item"]
    date = dates_of(answer)
    if found["place"] == PLACE_OF_ENDED:
        click.echo(over_since(ask, found, date))
        return
    for sentence in _around(ask, found, date):
        click.echo(printable(sentence))
    print_reasons(ask, found, date, searched=searched)


def _around(ask: str, found: dict[str, Any], written: Callable[[int], str]) -> Iterator[str]:
    """Yield where an ask is, since when, and how it runs, as far as an answer has it."""
    node, is_bound = found["node"], found["place"] == _BOUND
    since_us = in_us(found.get("bound") if is_bound else found["since"])
    since = None if since_us is None else written(since_us)
    yield where_it_is(ask, found["place"], node, found["queue"], since)
    # A server that is older says neither.
    passed = [passed_of(one) for one in found.get("passed", [])]
    yield from how_it_runs(in_us(found.get("ends_at")), passed, written)
