"""``muster config``: read the configuration of a server, compare a file with it, apply one."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

import click

from muster.cli._inputs import read_configuration_text
from muster.cli._options import FILE, complain, example, name_of, printable, warning_line
from muster.cli._output import Column, OutputForm, form_option, print_map, rendered
from muster.cli._progress import clock
from muster.cli._server import CommandError, ServerAddress, exit_on_server_error, server_options
from muster.config_files import replaced_once
from muster.figures.text import counted

_YAML: Final = "application/yaml"


# CLIENT-9
@click.group("config", epilog=example("muster config diff queues.yaml --since 7d"))
def command() -> None:
    """Read the configuration of a server, compare it, or apply another."""


@command.command("get")
@form_option
@server_options
def get(address: ServerAddress, /, *, form: OutputForm) -> None:
    """Print the configuration in force, as a file that can be applied again.

    Exit status: 0, 2 if the server cannot be asked.
    """
    with exit_on_server_error(), address.open() as server:
        if form is OutputForm.JSON:
            print_map(server.get("config"), form)
        else:
            response = server.response("GET", "config", headers={"Accept": _YAML})
            click.echo(response.text, nl=False)


@command.command("diff")
@click.argument("config", type=FILE)
@click.option(
    "--since",
    metavar="TIME",
    help="Also say what it would have changed since then: a duration such as 7d, or a date.",
)
@form_option
@server_options
def diff(address: ServerAddress, /, config: str, *, since: str | None, form: OutputForm) -> None:
    """Say what would change if a file were applied, and change nothing.

    Exit status: 0, 1 if it would be refused, 2 if the file or the server cannot be used.
    """
    _put(address, config, form, dry_run=True, since=since or "0")


@command.command("apply")
@click.argument("config", type=FILE)
@form_option
@server_options
def apply(address: ServerAddress, /, config: str, *, form: OutputForm) -> None:
    """Put a file in force, and say what changed.

    Exit status: 0, 1 if it is refused, 2 if the file or the server cannot be used.
    """
    _put(address, config, form, dry_run=False, since=None)


def _put(
    address: ServerAddress, config: str, form: OutputForm, *, dry_run: bool, since: str | None
) -> None:
    text = _read(config)
    with exit_on_server_error(), address.open() as server:
        answer = server.request(
            "PUT",
            "config",
            parameters={"dry_run": dry_run or None, "since": since},
            content=text,
            headers={"Content-Type": _YAML},
        )
    if form in {OutputForm.JSON, OutputForm.YAML}:
        print_map(answer, form)
        return
    for warning in answer["warnings"]:
        complain(printable(warning_line(name_of(config), **warning)))
    _print_difference(answer["difference"])
    if answer["applied"]:
        click.echo(f"applied, as batch {answer['batch']:,}")
        # ACCESS-42
        origin: Mapping[str, Any] = answer.get("origin") or {}
        if origin.get("differs"):
            complain(
                f"the service was started with {printable(origin['file'])}, which says something "
                f"else: it replaces this configuration once it {replaced_once(origin['file'])}; "
                "change it, too"
            )
    if not answer["applied"]:
        click.echo(
            f"{counted(len(answer.get('decisions') or ()), 'decision')} would follow at once"
        )
    if answer.get("compared") is not None:
        _print_compared(answer["compared"])


def _read(config: str) -> bytes:
    try:
        text = read_configuration_text(config)
    except OSError as error:
        msg = f"{name_of(config)}: {error.strerror or error}"
        raise CommandError(msg) from None
    if text is None:
        msg = f"{name_of(config)}: is closed"
        raise CommandError(msg)
    return text


def _print_difference(difference: Mapping[str, Any]) -> None:
    if not difference["partition"] and not difference["queues"]:
        click.echo("nothing differs from the configuration in force")
    _print_fields(difference["partition"], "")
    for queue in difference["queues"]:
        click.echo(f"{printable(queue['queue'])}: {queue['change']}")
        _print_fields(queue["fields"], "  ")


def _print_fields(fields: Sequence[Mapping[str, Any]], indent: str) -> None:
    for field in fields:
        before, after = field["before"], field["after"]
        if before is None:
            change = _value(after)
        else:
            change = f"{_value(before)} " + ("is gone" if after is None else f"→ {_value(after)}")
        click.echo(f"{indent}{printable(field['field'])}: {change}")


def _value(value: object) -> str:
    return printable(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))


_FIGURES: Final = (
    ("asks bound", ("asks_bound",)),
    ("asks ended without a node", ("asks_unbound",)),
    ("asks pending at the end", ("asks_pending",)),
    ("asks preempted", ("asks_preempted",)),
    ("asks reclaimed", ("asks_reclaimed",)),
    ("mean wait", ("wait", "mean_s")),
    ("wait of 95 %", ("wait", "p95_s")),
    ("longest wait", ("wait", "longest_s")),
)
"""The figures to print of a comparison, each with its path there; times end in ``_s``."""


def _print_compared(compared: Mapping[str, Any]) -> None:
    """Print the figures of both sides beside each other; ``-o json`` has all of them."""
    click.echo(f"\nWith what came in since {compared['since']}:\n")
    sides = compared["all"]
    columns = [
        Column("", [title for title, _ in _FIGURES], folds=True),
        Column("as it was", [_figure(sides["a"], path) for _, path in _FIGURES]),
        Column("with the new one", [_figure(sides["b"], path) for _, path in _FIGURES]),
    ]
    click.echo(rendered(columns), nl=False)
    if compared["same"]:
        click.echo("\nAll decisions would have been the same.")


def _figure(side: Mapping[str, Any], path: tuple[str, ...]) -> str:
    found: Any = side
    for step in path:
        found = None if found is None else found.get(step)
    if found is None:
        return "-"
    return clock(found) if path[-1].endswith("_s") else f"{found:,}"
