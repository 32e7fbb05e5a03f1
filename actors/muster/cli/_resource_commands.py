"""``muster get``, ``muster cancel`` and ``muster drain``: the resources of a server, listed and changed.

A change is sent as one event.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final, final
from urllib.parse import quote

import attrs
import click
from rich.console import Console
from rich.live import Live
from rich.text import Text

from muster._pod_identity import deletion_of
from muster.cli._options import DIFFERENT, complain, example, printable
from muster.cli._output import Item, OutputForm, form_option, print_map, table_text
from muster.cli._resources import (
    ASKS,
    ENDED,
    KINDS,
    PLACE_OF_ENDED,
    PLACE_WITHOUT_ASK,
    PODS,
    WITHOUT_ASK,
    ResourceKind,
    ask_path,
    dates_of,
    kind_of,
    over_since,
    with_dates,
)
from muster.cli._server import (
    CommandError,
    NameCompletion,
    ServerAddress,
    exit_on_server_error,
    server_options,
)
from muster.figures.text import counted

if TYPE_CHECKING:
    from muster.client import Server


_FILTERS: Final[Mapping[str, frozenset[str]]] = {
    "namespace": frozenset({"pods"}),
    "state": frozenset({"asks", "pods", "apps"}),
    "queue": frozenset({"asks", "pods", "apps"}),
    "app": frozenset({"asks", "pods"}),
    "reason": frozenset({"asks", "pods"}),
    "user": frozenset({"asks", "pods", "apps"}),
    "since": frozenset({"asks", "pods", "users"}),
}
"""For each filter, what can be filtered by it."""


# CLIENT-3
@click.command("get", epilog=example("muster get asks --state pending --watch"))
@click.argument("kind", metavar="KIND", shell_complete=NameCompletion.kinds)
@click.argument("name", required=False, shell_complete=NameCompletion.names)
@click.option("--namespace", "-n", help="Only pods of this namespace.")
@click.option(
    "--state",
    help="Only asks in this place, or applications in this state; `ended`: the asks that have ended; "
    "of pods also `none`: those that have no ask.",
)
@click.option("--queue", help="Only of this queue and the queues below it.")
@click.option("--app", help="Only asks of this application.")
@click.option("--reason", help="Only asks that are not running for this dominant reason.")
@click.option("--user", help="Only of this user.")
@click.option(
    "--since",
    help="Of asks that have ended: only those that ended since then. Of users: what they have used "
    "since then. A duration such as 1d or 12h, or a date such as 2026-01-31. [default for users: 7d]",
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
    address: ServerAddress,
    /,
    kind: str,
    name: str | None,
    *,
    limit: int | None,
    watch: bool,
    every: float,
    form: OutputForm,
    **filters: str | None,
) -> None:
    """Show queues, apps, asks, pods, gangs, nodes or users of a server.

    With NAME, shows one of them. The name of an ask is APP/ASK. Pods are the asks that stand
    for pods of Kubernetes; their names are NAMESPACE/POD, or POD with -n NAMESPACE. Asks that
    have ended are listed with --state ended, the latest first; users by what they have used,
    most first.

    Exit status: 0, 1 if there is no such thing, 2 if the server cannot be asked.
    """
    found = kind_of(kind)
    if found is None:
        msg = f"{kind!r} is none of {', '.join(KINDS)}"
        raise click.BadParameter(msg, param_hint="KIND")
    given = {name: value for name, value in filters.items() if value is not None}
    if found is PODS and name is not None and "namespace" in given:
        name = f"{given.pop('namespace')}/{name}"
    _check(found, name, given)
    if found is PODS and given.get("state") == PLACE_WITHOUT_ASK:
        found = WITHOUT_ASK
        del given["state"]
    if found in {ASKS, PODS} and given.get("state") == PLACE_OF_ENDED:
        found = attrs.evolve(ENDED, plural=found.plural)
    wanted = ResourceQuery(found, name, given, limit, form)
    with exit_on_server_error(), address.open() as server:
        if watch:
            _watch(wanted, server, every)
        else:
            wanted.show(server)


def _check(kind: ResourceKind, name: str | None, filters: Mapping[str, str]) -> None:
    for option in filters:
        if name is not None:
            raise CommandError(f"--{option}: a name and a filter exclude each other")
        if kind.plural not in _FILTERS[option]:
            raise CommandError(f"--{option} is not for {kind.plural}")


@final
@attrs.frozen
class ResourceQuery:
    """The resources to show, and how to show them.

    Attributes:
        kind: The kind of resource.
        name: The name of one, or None for a list.
        filters: The filters of a list.
        limit: The most items of a list, or None.
        form: The form in which it is printed.
    """

    kind: ResourceKind
    name: str | None
    filters: Mapping[str, str]
    limit: int | None
    form: OutputForm

    def show(self, server: Server) -> None:
        """Print it once."""
        if self.form in {OutputForm.JSON, OutputForm.YAML}:
            print_map(self.fetch_all(server), self.form)
        elif self.name is not None:
            kind, item = self._dated_item(self.fetch_item(server))
            kind.describe(item)
        else:
            items = [*self._items(server, dated=True)]
            if items:
                click.echo(self._table(self.kind, items), nl=False)
            else:
                click.echo(f"no {self.kind.plural.replace('-', ' ')}", err=True)

    def text(self, server: Server) -> str:
        """Return it as a table."""
        kind = self.kind
        if self.name is None:
            items = [*self._items(server, dated=True)]
        else:
            kind, item = self._dated_item(self.fetch_item(server))
            items = [item]
        if not items:
            return f"no {self.kind.plural.replace('-', ' ')}\n"
        return self._table(kind, items)

    def _table(self, kind: ResourceKind, items: Sequence[Item]) -> str:
        return table_text(items, kind.fields, self.form, kind.heads)

    def fetch_item(self, server: Server) -> dict[str, Any]:
        """Fetch one item; return the whole answer."""
        assert self.name is not None, "an item without a name"
        return server.get(self.kind.path_of(self.name))

    def fetch_all(self, server: Server) -> object:
        """Fetch the whole answer, all pages of a list as one."""
        if self.name is not None:
            return self.fetch_item(server)
        return {"items": [*self._items(server, dated=False)]}

    def _dated_item(self, answer: Item) -> tuple[ResourceKind, Item]:
        """Return the item of an answer with dates for its instants, and its kind."""
        item = answer["item"]
        kind = ENDED if item.get("place") == PLACE_OF_ENDED else self.kind
        return kind, with_dates(item, kind.instants, dates_of(answer))

    def _items(self, server: Server, *, dated: bool) -> Iterator[Item]:
        """Yield the items of a list, with dates for their instants or as the server gave them."""
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


def _watch(wanted: ResourceQuery, server: Server, every_s: float) -> None:
    """Print it again whenever it has changed: in place on a terminal, or else below."""
    console = Console(highlight=False, markup=False, emoji=False)
    plain = wanted.form in {OutputForm.JSON, OutputForm.YAML}
    if console.is_terminal and not plain:
        with Live(console=console, auto_refresh=False, vertical_overflow="crop") as live:
            _repeat(
                lambda: wanted.text(server),
                lambda text: live.update(Text(text), refresh=True),
                every_s,
            )
    elif plain:
        _repeat(
            lambda: wanted.fetch_all(server), lambda value: print_map(value, wanted.form), every_s
        )
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


# CLIENT-7
@click.command("cancel", epilog=example("muster cancel nightly-1/load-0"))
@click.argument("name", metavar="APP[/ASK]", shell_complete=NameCompletion.apps_and_asks)
@click.option("--message", default="cancelled", help="What the decision log says about the end.")
@server_options
@click.pass_context
def cancel(context: click.Context, address: ServerAddress, /, name: str, *, message: str) -> None:
    """End an application with all its asks, or one ask, wherever it is.

    An ask that is bound is released as cancelled, so it does not come back and no retry is used;
    whoever does its work ends it. If it is over already, the message says how it ended.

    Exit status: 0, 1 if it was refused or is over already, 2 if the server cannot be asked.
    """
    app, slash, ask = name.partition("/")
    with exit_on_server_error(), address.open() as server:
        if not slash:
            refusal = _refusal_to_end(server, app) or _send(
                server, {"op": "remove_app", "app": app}
            )
        else:
            ask_path(name)  # whether it is written as it should be
            refusal = _cancelled(server, app, ask, message)
    _finish(context, refusal, f"{printable(name)}: cancelled")


def _refusal_to_end(server: Server, app: str) -> str | None:
    """Return the message that an application has completed, or has pods; or None."""
    from muster.client import ServerError  # noqa: PLC0415 - needs httpx

    try:
        answer = server.get(f"apps/{quote(app, safe='')}", fields="app,pods")
    except ServerError as error:
        if error.problem.get("completed"):
            return f"{printable(app)} is over: it has completed"
        if not error.is_refusal:
            raise
        return None
    # POD-13
    if (pods := answer["item"].get("pods")) is None:
        return None
    command = deletion_of(pods["namespace"], pods["owner"])
    message = f"the asks of {app} are pods; their cluster ends them"
    return printable(f"{message}: {command}" if command else message)


def _cancelled(server: Server, app: str, ask: str, message: str) -> str | None:
    """End an ask; return why that is refused, or None."""
    from muster.client import ServerError  # noqa: PLC0415 - needs httpx

    names = {"app": app, "ask": ask}
    try:
        answer = server.get(f"asks/{ask_path(f'{app}/{ask}')}")
    except ServerError as error:
        pod = _pod_refusal(server, app, ask) if error.status == HTTPStatus.NOT_FOUND else None
        if pod is None:
            raise
        return pod
    found = answer["item"]
    if found["place"] == PLACE_OF_ENDED:
        return over_since(f"{app}/{ask}", found, dates_of(answer))
    if (pod := found.get("pod")) is not None:
        return _left_to_cluster(found, pod["namespace"], pod["name"])
    release = {"op": "release", **names, "outcome": "cancelled", "message": message}
    remove = {"op": "remove_ask", **names}
    first, second = (release, remove) if found["place"] == "bound" else (remove, release)
    # It may be bound, or lose its node, between the two requests.
    refusal = _send(server, first)
    return None if refusal is None or _send(server, second) is None else refusal


# POD-13
def _pod_refusal(server: Server, namespace: str, name: str) -> str | None:
    """Return the message that the cluster ends an ask, if it is a pod; else None."""
    from muster.client import ServerError  # noqa: PLC0415 - needs httpx

    path = PODS.path_of(f"{namespace}/{name}")
    try:
        found = server.get(path, fields="app,ask,place")["item"]
    except ServerError:
        return None
    if found["place"] == PLACE_OF_ENDED:
        return None
    return _left_to_cluster(found, namespace, name)


def _left_to_cluster(found: Item, namespace: str, name: str) -> str:
    ask, command = f"{found['app']}/{found['ask']}", deletion_of(namespace, "pod", name)
    return printable(f"this is a pod, whose ask is {ask}; its cluster ends it: {command}")


# CLIENT-8
@click.command("drain", epilog=example("muster drain node-7 --wait"))
@click.argument("node", metavar="NODE", shell_complete=NameCompletion.of("nodes"))
@click.option("--wait", is_flag=True, help="Wait until nothing stands on it any more.")
@click.option("--undo", is_flag=True, help="Let asks be placed on it again.")
@server_options
@click.pass_context
def drain(
    context: click.Context, address: ServerAddress, /, node: str, *, wait: bool, undo: bool
) -> None:
    """Place no more asks on a node. What stands on it stays until it ends.

    Exit status: 0, 1 if there is no such node, 2 if the server cannot be asked.
    """
    if wait and undo:
        msg = "--wait and --undo exclude each other"
        raise click.UsageError(msg)
    with exit_on_server_error(), address.open() as server:
        refusal = _send(server, {"op": "update_node", "node": node, "schedulable": undo})
        left = 0 if refusal is not None or undo else _running_on(server, node)
        while wait and left:
            time.sleep(1)
            left = _running_on(server, node)
    state = "asks may be placed on it again" if undo else "no more asks are placed on it"
    stays = f"; {counted(left, 'ask')} still on it" if left else ""
    _finish(context, refusal, f"{printable(node)}: {state}{stays}")


def _running_on(server: Server, node: str) -> int:
    from muster.client import at  # noqa: PLC0415 - needs httpx

    found = server.get(f"nodes/{at(node)}")["item"]
    asks: list[Any] = found["asks"]
    return len(asks)


def _send(server: Server, event: Mapping[str, object]) -> str | None:
    """Send an event; return why it is refused, or None."""
    (answer,) = server.submit(json.dumps([event]).encode())
    return None if answer["ok"] else str(answer["error"])


def _finish(context: click.Context, refusal: str | None, done: str) -> None:
    if refusal is None:
        click.echo(done)
    else:
        complain(f"refused: {refusal}")
        context.exit(DIFFERENT)


# REPLICA-12
@click.command("promote", epilog=example("muster promote --server https://standby:9080"))
@server_options
def promote(address: ServerAddress) -> None:
    """Make a follower the leader, and say what it lacks.

    It may lack the last batches of the old leader. If the old leader answers, it is told, and ends.

    Exit status: 0 if the server leads now, 1 if it led already, 2 if it cannot be asked.
    """
    with exit_on_server_error(), address.open() as server:
        click.echo(server.request("POST", "replica/promote")["detail"])
