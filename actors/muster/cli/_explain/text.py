"""The text output of ``muster explain``."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Final

import click
from rich import box
from rich.console import Console, RenderableType
from rich.table import Table

from muster.cli._progress import clock, instant
from muster.explain import (
    Answer,
    Fate,
    Hold,
    Overview,
    Remedy,
    RemedyKind,
    how_it_runs,
    when_it_starts,
    where_it_is,
)
from muster.feeds import FeedItem
from muster.feeds._encodings.encode import to_yaml_item
from muster.figures.instants import dated, instant_of
from muster.figures.text import counted
from muster_core.decisions import MICROSECONDS
from muster_core.reasons import Explanation, PendingReason

_WIDE: Final = 250
"""The width in columns of output that is not a terminal, so that nothing is folded."""

_MOST_QUEUES: Final = 3

_MOST_EVICTED: Final = 5


def print_answer(answer: Answer, origin_us: int | None, *, searched: bool) -> None:
    """Print the answer for one ask.

    Args:
        answer: The answer.
        origin_us: The origin of time, in microseconds since 1970 in UTC, or None.
        searched: Whether the search for remedies ran.
    """
    click.echo(_headline(answer, origin_us))
    for sentence in _around(answer, origin_us):
        click.echo(sentence)
    explanation = answer.explanation
    if explanation is None:
        return
    click.echo(f"\n{_said(explanation.dominant, origin_us)}")
    if len(explanation.reasons) > 1:
        click.echo("\nAlso:")
        for reason in explanation.reasons[1:]:
            click.echo(f"- {_said(reason, origin_us)}")
    if explanation.levels:
        click.echo("\nHow it compares with the ask that is tried first:\n")
        _print(_compared(explanation))
    if explanation.outlook is not None:
        click.echo("\nWhen will it start?")
        name, later = f"{answer.app}/{answer.ask}", answer.held_back_later

        def written(at_us: int) -> str:
            return _instant(at_us, origin_us)

        for sentence in when_it_starts(name, explanation.outlook, written, later):
            click.echo(f"- {sentence}")
    if searched:
        _print_remedies(answer)


def _around(answer: Answer, origin_us: int | None) -> Iterator[str]:
    """Yield what was before an ask held its node, or held none, and when it will end."""
    where = answer.whereabouts
    if where.before is not None:
        yield _before(where.before, origin_us)
    yield from how_it_runs(answer.ends_at_us, where.passed, lambda at: _instant(at, origin_us))


def _said(reason: PendingReason, origin_us: int | None) -> str:
    """Return a reason with its code, and with its instant as others are written."""
    at_us = instant_of(reason.facts)
    message = dated(reason.message, at_us, lambda at_us: _instant(at_us, origin_us))
    return f"{reason.code}: {message}"


def _headline(answer: Answer, origin_us: int | None) -> str:
    where = answer.whereabouts
    name, at = f"{answer.app}/{answer.ask}", _instant(answer.at_us, origin_us)
    since_us = 0 if where.since_us is None else where.since_us
    known = where.since_us is not None
    then = _instant(since_us, origin_us)
    there = where_it_is(name, where.fate, where.node, f"{where.queue}", then if known else None)
    place = "" if where.line is None else f" (line {where.line})"
    match where.fate:
        case Fate.PENDING | Fate.PARKED:
            return f"{at}: {there}, for {_clock(answer.at_us - since_us)}"
        case Fate.WAITING | Fate.BOUND:
            return f"{at}: {there}"
        case Fate.COMPLETED | Fate.FAILED | Fate.CANCELLED | Fate.REMOVED:
            held = "" if where.node is None else f"; it held {where.node}"
            how = f" {where.message}" if where.message else ""
            by = "" if where.ended_by is None else _line(where.ended_by)
            return f"{at}: {name} is over, {where.fate} at {then}{how}{by}{held}"
        case Fate.REFUSED:
            code = "" if where.code is None else f"{where.code}: "
            return f"{at}: {name} was refused at {then}{place}: {code}{where.message}"
        case Fate.LATER:
            return f"{at}: {name} does not exist yet: it is added at {then}{place}"
        case Fate.UNKNOWN:
            return f"{at}: {name} is unknown"


def _line(item: FeedItem) -> str:
    return f" (event {item.index})" if item.line is None else f" (line {item.line})"


def _before(hold: Hold, origin_us: int | None) -> str:
    """Return the node that an ask held before, and why it lost the node, as text."""
    did = "It waited" if hold.waiting else "It ran"
    why = hold.reason.value.replace("_", " ")
    more = "" if hold.message is None else f" {hold.message}"
    begin, end = _instant(hold.from_us, origin_us), _instant(hold.until_us, origin_us)
    return f"{did} on {hold.node} from {begin} to {end}: {why}{more}"


def _instant(at_us: int, origin_us: int | None) -> str:
    """Return the exact text of an instant."""
    return _clock(at_us) if origin_us is None else instant(at_us, origin_us)


def _clock(at_us: int) -> str:
    """Return the exact text of a time since the start, or of a duration."""
    whole, rest = divmod(at_us, MICROSECONDS)
    fraction = f".{rest:06}".rstrip("0") if rest else ""
    return f"{whole}{fraction} s" if whole < 60 else f"{clock(whole)}{fraction}"


def _compared(explanation: Explanation) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("at", overflow="fold")
    table.add_column("key")
    table.add_column(f"{explanation.app}/{explanation.ask}", overflow="fold")
    table.add_column(explanation.first or "", overflow="fold")
    table.add_column("")
    for level in explanation.levels:
        table.add_row(level.at, "", level.own, level.other, "")
        for key in level.keys:
            mark = "decides" if key.decides else ""
            table.add_row("", key.name, key.own, key.other, mark)
    return table


def _print_remedies(answer: Answer) -> None:
    if not answer.remedies:
        click.echo("\nNo single change or combination that was tried would get it bound at once.")
    else:
        click.echo("\nEach of these changes alone would get it bound at once:")
    for number, remedy in enumerate(answer.remedies, 1):
        click.echo(f"\n{number}. {remedy.text}")
        evicted = _evicted(remedy)
        click.echo(f"   It is then bound on {remedy.node}{evicted}.{_proof(remedy)}")
        for event in remedy.events:
            click.echo(f"   {to_yaml_item(dict(event)).decode().rstrip()}")
    if answer.exhausted:
        click.echo(
            f"\nThe search ended after {counted(answer.trials, 'trial')}: the state is large."
        )


def _evicted(remedy: Remedy) -> str:
    """Return the asks that a remedy evicts, as text."""
    if not remedy.evicted:
        return ""
    names = list(remedy.evicted[:_MOST_EVICTED])
    if len(remedy.evicted) > _MOST_EVICTED:
        names.append(f"… {len(remedy.evicted):,} in all")
    verb = "loses its node" if len(remedy.evicted) == 1 else "lose their nodes"
    return f", and {', '.join(names)} {verb}"


def _proof(remedy: Remedy) -> str:
    match remedy.kind:
        case _ if not remedy.smallest:
            return ""
        case RemedyKind.MIN_MEMBER | RemedyKind.DEFINE_GANG:
            return " One more is too many."
        case RemedyKind.PRIORITY:
            return " A lower priority is not enough."
        case _:
            return " Less is not enough."


def print_overview(overview: Overview, origin_us: int | None) -> None:
    """Print the overview of all asks that are not running.

    Args:
        overview: The overview.
        origin_us: The origin of time, in microseconds since 1970 in UTC, or None.
    """
    number = counted(overview.count, "ask")
    click.echo(f"{_instant(overview.at_us, origin_us)}: {number} not running")
    if not overview.groups:
        return
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("reason")
    table.add_column("asks", justify="right")
    table.add_column("longest wait", justify="right")
    table.add_column("queues", overflow="fold")
    for group in overview.groups:
        queues = [f"{path} ({count:,})" for path, count in group.queues[:_MOST_QUEUES]]
        if len(group.queues) > _MOST_QUEUES:
            queues.append(f"… {len(group.queues):,} in all")
        wait = _clock(group.longest_us)
        table.add_row(group.code.value, f"{group.count:,}", wait, ", ".join(queues))
    click.echo()
    _print(table)
    for group in overview.groups:
        click.echo(f"\n{group.code}, such as:")
        for one in group.examples:
            waited = _clock(overview.at_us - one.since_us)
            said = _said(one.dominant, origin_us).partition(": ")[2]
            click.echo(f"- {one.app}/{one.ask}, for {waited}: {said}")


def _print(shown: RenderableType) -> None:
    console = Console(highlight=False, markup=False, emoji=False)
    if not console.is_terminal and "COLUMNS" not in os.environ:
        console.width = _WIDE
    # rich exits by itself if a pipe is closed, so it only renders and click prints.
    with console.capture() as capture:
        console.print(shown)
    text = "\n".join(line.rstrip() for line in capture.get().splitlines())
    click.echo(text.strip("\n"), color=True)
