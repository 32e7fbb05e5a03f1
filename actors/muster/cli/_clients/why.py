"""``muster why``: why an ask of a server is not running, and what would help."""

from __future__ import annotations

from typing import Any

import click
from rich import box
from rich.table import Table

from muster.cli._clients.completion import Completed
from muster.cli._clients.kinds import ask_path
from muster.cli._clients.options import Address, ending, server_options
from muster.cli._clients.output import Form, form_option, print_map, printable
from muster.cli._options import example
from muster.cli._tables import console_of
from muster.feeds._encodings.encode import to_yaml_item


@click.command("why", epilog=example("muster why nightly-1/load-0 --remedies"))
@click.argument("ask", metavar="APP/ASK", shell_complete=Completed.asks)
@click.option("--remedies", is_flag=True, help="Also search for changes that would help.")
@form_option
@server_options
def command(address: Address, /, ask: str, *, remedies: bool, form: Form) -> None:
    """Say why an ask is not running.

    Exit status: 0, 1 if there is no such ask, 2 if the server cannot be asked.
    """
    path = f"asks/{ask_path(ask)}/why"
    with ending(), address.open() as server:
        answer = server.get(path, remedies=remedies or None)
    if form in {Form.JSON, Form.YAML}:
        print_map(answer, form)
    else:
        _print(ask, answer.get("item", answer), searched=remedies)


def _print(ask: str, found: dict[str, Any], *, searched: bool) -> None:
    reasons = found["reasons"]
    if not reasons:
        node = found.get("node")
        where = f" on {printable(node)}" if node else ""
        click.echo(f"{printable(ask)} is bound{where}")
        return
    click.echo(_sentence(reasons[0]))
    if len(reasons) > 1:
        click.echo("\nAlso:")
        for reason in reasons[1:]:
            click.echo(f"- {_sentence(reason)}")
    if found.get("levels"):
        click.echo("\nHow it compares with the ask that is tried first:\n")
        _print_table(_compared(ask, found))
    if searched:
        _print_remedies(found.get("remedies") or [])


def _sentence(reason: dict[str, Any]) -> str:
    return f"{reason['code']}: {printable(reason['message'])}"


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
