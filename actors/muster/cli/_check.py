"""``muster check``: is what happens what the feeds expect?"""

from __future__ import annotations

import json
from collections.abc import Mapping

import click
import trio

from muster.cli._options import (
    DIFFERENT,
    FILE,
    UNUSABLE,
    Format,
    complain,
    error_map,
    format_option,
    print_json,
)
from muster.feeds import FeedError, read_feed
from muster.replay import Check, Difference

_MOST_SHOWN = 20
"""How many items of a list are shown."""


@click.command("check")
@click.argument("feeds", nargs=-1, required=True, type=FILE, metavar="FEED...")
@format_option
@click.pass_context
def command(context: click.Context, feeds: tuple[str, ...], output: Format) -> None:
    """Replay feeds and compare what happens with their `expect` events.

    Prints each difference with the line of the `expect`, or of an event that was refused
    although no `expect` says so. `-` is standard input.

    Exit status: 0 if there is no difference, 1 if there is, 2 if a feed cannot be read.

    \b
    Example:
        muster check tests/feeds/*.yaml
    """
    reports: list[dict[str, object]] = []
    status = 0
    for feed in feeds:
        check = Check()
        error: FeedError | None = None
        try:
            trio.run(check.run, read_feed(feed))
        except FeedError as unreadable:
            error = unreadable
        status = max(status, UNUSABLE if error else DIFFERENT if check.differences else 0)
        name = "standard input" if feed == "-" else feed
        if output is Format.TEXT:
            _print(name, check, error)
        reports.append(_as_map(name, check, error))
    if output is Format.JSON:
        print_json({"ok": status == 0, "feeds": reports})
    context.exit(status)


def _print(name: str, check: Check, error: FeedError | None) -> None:
    for difference in check.differences:
        click.echo(f"{_place(name, difference)}: {told(difference)}")
    if error is not None:
        complain(error)
        return
    found = len(check.differences)
    verdict = f"{found} difference{'s' if found > 1 else ''}" if found else "ok"
    click.echo(f"{name}: {verdict} ({check.events} events, {check.expects} expects)")


def _place(name: str, difference: Difference) -> str:
    if difference.line is None:
        return f"{name}: event {difference.index}"
    return f"{name}:{difference.line}"


def told(difference: Difference) -> str:
    """Say a difference in one line."""
    expected, found = _shown(difference.expected), _shown(difference.found)
    return f"{difference.field}: expected {expected}, found {found}"


def _shown(value: object) -> str:
    match value:
        case str() if value.isprintable() and value:
            return value
        case list():
            shown = [str(part) for part in value[:_MOST_SHOWN]]
            if len(value) > _MOST_SHOWN:
                shown.append(f"… {len(value)} in all")
            return f"[{', '.join(shown)}]"
        case dict():
            return f"{{{', '.join(f'{key}: {part}' for key, part in value.items())}}}"
        case _:
            return json.dumps(value)


def _as_map(name: str, check: Check, error: FeedError | None) -> Mapping[str, object]:
    return {
        "feed": name,
        "events": check.events,
        "expects": check.expects,
        "differences": [
            {
                "index": difference.index,
                "line": difference.line,
                "field": difference.field,
                "expected": difference.expected,
                "found": difference.found,
            }
            for difference in check.differences
        ],
        "error": None if error is None else error_map(error),
    }
