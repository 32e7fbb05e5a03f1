"""``muster get``: queues, applications, asks, gangs and nodes of a server."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final, final

import attrs
import click
from rich.console import Console
from rich.live import Live
from rich.text import Text

from muster.cli._clients.completion import Completed
from muster.cli._clients.dates import dates_of, with_dates
from muster.cli._clients.kinds import ASKS, ENDED, KINDS, PLACE_OF_ENDED, Kind, kind_of
from muster.cli._clients.options import Address, Unusable, ending, server_options
from muster.cli._clients.output import (
    Form,
    Item,
    form_option,
    print_items,
    print_map,
    table_text,
)
from muster.cli._options import example

if TYPE_CHECKING:
    from muster.client import Server

_FILTERS: Final[Mapping[str, frozenset[str]]] = {
    "state": frozenset({"asks", "apps"}),
    "queue": frozenset({"asks", "apps"}),
    "app": frozenset({"asks"}),
    "reason": frozenset({"asks"}),
    "user": frozenset({"asks", "apps"}),
    "since": frozenset({"asks", "users"}),
}
"""For each filter, what can be filtered by it."""


# CLIENT-3
@click.command("get", epilog=example("muster get asks --state pending --watch"))
@click.argument("kind", metavar="KIND", shell_complete=Completed.kinds)
@click.argument("name", required=False, shell_complete=Completed.names)
@click.option(
    "--state",
    help="Only asks in this place, or applications in this state; asks that have `ended`.",
)
@click.option("--queue", help="Only of this queue and the queues below it.")
@click.option("--app", help="Only asks of this application.")
@click.option("--reason", help="Only asks that are pending for this reason above all.")
@click.option("--user", help="Only of this user.")
@click.option(
    "--since",
    help="Only asks that ended so long ago at most, or since a date; of users what was used since "
    "then: 1d, 12h, 2026-01-31. [default for users: 7d]",
)
@click.option("--limit", type=click.IntRange(1), help="At most so many. [default: all]")
@click.option("--watch", is_flag=True, help="Show it again whenever it has changed, until Ctrl-C.")
@click.option(
    "--every",
    type=click.FloatRange(0.1),
    default=1.0,
    show_default=True,
    help="How often --watch looks, in seconds.",
)
@form_option
@server_options
def command(
    address: Address,
    /,
    kind: str,
    name: str | None,
    *,
    limit: int | None,
    watch: bool,
    every: float,
    form: Form,
    **filters: str | None,
) -> None:
    """Show queues, apps, asks, gangs, nodes or users of a server; with NAME, one of them.

    The name of an ask is APP/ASK. Asks that have ended are listed with --state ended, the latest
    first; users by what they have used, most first.

    Exit status: 0, 1 if there is no such thing, 2 if the server cannot be asked.
    """
    found = kind_of(kind)
    if found is None:
        msg = f"{kind!r} is none of {', '.join(KINDS)}"
        raise click.BadParameter(msg, param_hint="KIND")
    given = {name: value for name, value in filters.items() if value is not None}
    _check(found, name, given)
    found = ENDED if found is ASKS and given.get("state") == PLACE_OF_ENDED else found
    wanted = Wanted(found, name, given, limit, form)
    with ending(), address.open() as server:
        if watch:
            _watch(wanted, server, every)
        else:
            wanted.show(server)


def _check(kind: Kind, name: str | None, filters: Mapping[str, str]) -> None:
    for option in filters:
        if name is not None:
            raise Unusable(f"--{option}: a name and a filter exclude each other")
        if kind.plural not in _FILTERS[option]:
            raise Unusable(f"--{option} is not for {kind.plural}")


@final
@attrs.frozen
class Wanted:
    """What is to be shown.

    Attributes:
        kind: The kind of thing.
        name: The name of one, or None for a list.
        filters: The filters of a list.
        limit: The most items of a list, or None.
        form: The form in which it is printed.
    """

    kind: Kind
    name: str | None
    filters: Mapping[str, str]
    limit: int | None
    form: Form

    def show(self, server: Server) -> None:
        """Print it once."""
        if self.form in {Form.JSON, Form.YAML}:
            print_map(self.whole(server), self.form)
        elif self.name is not None:
            kind, item = self._for_people(self.one(server))
            kind.describe(item)
        else:
            items = [*self._each(server, dated=True)]
            if items:
                print_items(items, self.kind.fields, self.form)
            else:
                click.echo(f"no {self.kind.plural}", err=True)

    def text(self, server: Server) -> str:
        """Return it as a table."""
        kind = self.kind
        if self.name is None:
            items = [*self._each(server, dated=True)]
        else:
            kind, item = self._for_people(self.one(server))
            items = [item]
        if not items:
            return f"no {self.kind.plural}\n"
        return table_text(items, kind.fields, self.form)

    def one(self, server: Server) -> dict[str, Any]:
        """Return the answer with one thing."""
        assert self.name is not None, "a thing without a name"
        return server.get(self.kind.path_of(self.name))

    def whole(self, server: Server) -> object:
        """Return the whole answer; of a list all pages as one."""
        if self.name is not None:
            return self.one(server)
        return {"items": [*self._each(server, dated=False)]}

    def _for_people(self, answer: Item) -> tuple[Kind, Item]:
        """Return the thing of an answer with dates for its instants, and its kind."""
        item = answer["item"]
        kind = ENDED if item.get("place") == PLACE_OF_ENDED else self.kind
        return kind, with_dates(item, kind.instants, dates_of(answer))

    def _each(self, server: Server, *, dated: bool) -> Iterator[Item]:
        """Yield the things of a list, with dates for their instants or as the server gave them."""
        left = self.limit
        page = None if left is None else min(left, 1_000)
        for one in server.pages(self.kind.plural, limit=page, **self.filters):
            date, instants = dates_of(one), self.kind.instants if dated else ()
            for item in one["items"]:
                if left == 0:
                    return
                yield with_dates(item, instants, date)
                left = None if left is None else left - 1
            if left == 0:
                return


def _watch(wanted: Wanted, server: Server, every_s: float) -> None:
    """Show it again whenever it has changed: in place on a terminal, or else below."""
    console = Console(highlight=False, markup=False, emoji=False)
    plain = wanted.form in {Form.JSON, Form.YAML}
    if console.is_terminal and not plain:
        with Live(console=console, auto_refresh=False, vertical_overflow="crop") as live:
            _repeat(
                lambda: wanted.text(server),
                lambda text: live.update(Text(text), refresh=True),
                every_s,
            )
    elif plain:
        _repeat(lambda: wanted.whole(server), lambda value: print_map(value, wanted.form), every_s)
    else:
        _repeat(lambda: wanted.text(server), click.echo, every_s)


def _repeat(ask: Callable[[], object], show: Callable[[Any], object], every_s: float) -> None:
    last: object = None
    while True:
        now = ask()
        if now != last:
            show(now)
            last = now
        time.sleep(every_s)
