"""``muster why``: why an ask of a server is not running, and what would help."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

import click
from rich import box
from rich.table import Table

from muster.cli._clients.completion import Completed
from muster.cli._clients.dates import dates_of, in_us, reason_text
from muster.cli._clients.kinds import ask_path
from muster.cli._clients.options import Address, ending, server_options
from muster.cli._clients.output import Form, form_option, print_map, printable
from muster.cli._options import example
from muster.cli._tables import console_of
from muster.explain import how_it_runs, when_it_starts, where_it_is
from muster.explain._maps import passed_of, reason_of, reserved_of
from muster.feeds._encodings.encode import to_yaml_item
from muster_core.reasons import UNKNOWN_START, Forecast, Outlook
from muster_core.snapshots import AskPlace

_BOUND: Final = AskPlace.BOUND.value


@click.command("why", epilog=example("muster why nightly-1/load-0 --remedies"))
@click.argument("ask", metavar="APP/ASK", shell_complete=Completed.asks)
@click.option("--remedies", is_flag=True, help="Also search for changes that would help.")
@click.option(
    "--forecast", is_flag=True, help="Also find out when it starts, on a copy of the state."
)
@form_option
@server_options
def command(address: Address, /, ask: str, *, remedies: bool, forecast: bool, form: Form) -> None:
    """Say why an ask is not running.

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
    reasons = found["reasons"]
    date = dates_of(answer)
    for sentence in _around(ask, found, date):
        click.echo(printable(sentence))
    if not reasons:
        return
    click.echo(f"\n{reason_text(reasons[0], date)}")
    if len(reasons) > 1:
        click.echo("\nAlso:")
        for reason in reasons[1:]:
            click.echo(f"- {reason_text(reason, date)}")
    if found.get("levels"):
        click.echo("\nHow it compares with the ask that is tried first:\n")
        _print_table(_compared(ask, found))
    outlook = _outlook(found)
    if outlook is not None:
        click.echo("\nWhen will it start?")
        later = reason_of(found.get("held_back_later"))
        for sentence in when_it_starts(ask, outlook, date, later):
            click.echo(f"- {printable(sentence)}")
    if searched:
        _print_remedies(found.get("remedies") or [])


def _around(ask: str, found: dict[str, Any], written: Callable[[int], str]) -> Iterator[str]:
    """Yield where an ask is, since when, and how it runs, as far as an answer has it."""
    node, is_bound = found["node"], found["place"] == _BOUND
    since_us = _in_us(found.get("bound") if is_bound else found["since"])
    since = None if since_us is None else written(since_us)
    yield where_it_is(ask, found["place"], node, found["queue"], since)
    # A server that is older says neither.
    passed = [passed_of(one) for one in found.get("passed", [])]
    yield from how_it_runs(_in_us(found.get("ends_at")), passed, written)


def _outlook(found: dict[str, Any]) -> Outlook | None:
    """Return when an ask starts, as far as an answer has it."""
    if found.get("position") is None:
        return None
    forecast = None
    if found["foretold"] is not None:
        fits_at = found["fits_at"]
        forecast = Forecast(
            fits_at if fits_at == UNKNOWN_START else _in_us(fits_at),
            _in_us(found["starts_at"]),
            _in_us(found["stopped_at"]),
            bool(found.get("fits_now")),
        )
    # A server that is older says neither.
    return Outlook(found["position"], forecast, reserved_of(found.get("reserved")))


def _in_us(at: float | None) -> int | None:
    return None if at is None else in_us(at)


def _compared(ask: str, found: dict[str, Any]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("at", overflow="fold")
    table.add_column("key")
    table.add_column(printable(ask), overflow="fold")
    table.add_column(printable(found.get("first") or ""), overflow="fold")
    table.add_column("")
    for level in found["levels"]:
        table.add_row(*map(printable, (level["at"], "", level["own"], level["other"], "")))
        for key in level["keys"]:
            mark = "decides" if key["decides"] else ""
            table.add_row("", key["name"], printable(key["own"]), printable(key["other"]), mark)
    return table


def _print_table(table: Table) -> None:
    console = console_of()
    with console.capture() as capture:
        console.print(table, crop=False)
    for line in capture.get().splitlines():
        if line.strip():
            click.echo(line.rstrip())


def _print_remedies(remedies: list[dict[str, Any]]) -> None:
    if not remedies:
        click.echo("\nNo change that was tried would get it bound at once.")
        return
    click.echo("\nEach of these alone would get it bound at once:")
    for remedy in remedies:
        click.echo(f"- {printable(remedy['text'])}")
        for event in remedy["events"]:
            click.echo(f"    {to_yaml_item(event).decode().rstrip()}")
