"""The text output of ``muster explain`` and of ``muster why``."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import click
from rich import box
from rich.table import Table

from muster.cli._options import printable
from muster.cli._progress import clock, instant
from muster.cli._tables import console_of
from muster.explain import (
    AT_ONCE,
    Answer,
    Fate,
    Hold,
    Overview,
    RemedyKind,
    how_it_runs,
    when_it_starts,
    where_it_is,
)
from muster.explain._maps import outlook_of, reason_of
from muster.feeds import FeedItem
from muster.feeds._encodings.encode import to_yaml_item
from muster.figures.instants import dated, instant_of
from muster.figures.text import counted
from muster_core.decisions import MICROSECONDS
from muster_core.reasons import UNKNOWN_START

_MOST_QUEUES: Final = 3

_MOST_EVICTED: Final = 5


def print_answer(
    answer: Answer, found: Mapping[str, Any], origin_us: int | None, *, searched: bool
) -> None:
    """Print the answer for one ask.

    Args:
        answer: The answer.
        found: The same as a map.
        origin_us: The origin of time, in microseconds since 1970 in UTC, or None.
        searched: Whether the search for remedies ran.
    """

    def written(at_us: int) -> str:
        return _instant(at_us, origin_us)

    where = answer.whereabouts
    click.echo(_headline(answer, origin_us))
    if where.before is not None:
        click.echo(_before(where.before, origin_us))
    for sentence in how_it_runs(answer.ends_at_us, where.passed, written):
        click.echo(sentence)
    print_reasons(f"{answer.app}/{answer.ask}", found, written, searched=searched)


def print_reasons(
    ask: str, found: Mapping[str, Any], written: Callable[[int], str], *, searched: bool
) -> None:
    """Print why an ask is not running, when it will start, and what would help.

    Args:
        ask: The ask, as ``app/ask``.
        found: The answer as a map, of this process or of a server.
        written: Writes an instant, given in microseconds since the origin.
        searched: Whether remedies were searched for.
    """
    reasons = found["reasons"]
    if not reasons:
        return
    # A server that is older says nothing of shortfalls.
    if found.get("shortfalls"):
        click.echo()
    for one in found.get("shortfalls", ()):
        click.echo(printable(one["message"]))
    click.echo(f"\n{_sentence(reasons[0], written)}")
    if len(reasons) > 1:
        click.echo("\nAlso:")
        for reason in reasons[1:]:
            click.echo(f"- {_sentence(reason, written)}")
    if found["levels"]:
        click.echo("\nHow it compares with the ask that is tried first:\n")
        _print(_compared(ask, found))
    outlook = outlook_of(found)
    if outlook is not None:
        click.echo("\nWhen will it start?")
        later = reason_of(found.get("held_back_later"))
        for sentence in when_it_starts(ask, outlook, written, later):
            click.echo(f"- {printable(sentence)}")
    if searched:
        _print_remedies(found, written)


def _sentence(reason: Mapping[str, Any], written: Callable[[int], str]) -> str:
    """Return a reason with its code, and with its instant as others are written."""
    message = dated(reason["message"], instant_of(reason["facts"]), written)
    return f"{reason['code']}: {printable(message)}"


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


def _compared(ask: str, found: Mapping[str, Any]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("at", overflow="fold")
    table.add_column("key")
    table.add_column(printable(ask), overflow="fold")
    table.add_column(printable(found["first"] or ""), overflow="fold")
    table.add_column("")
    for level in found["levels"]:
        table.add_row(*map(printable, (level["at"], "", level["own"], level["other"], "")))
        for key in level["keys"]:
            mark = "decides" if key["decides"] else ""
            table.add_row("", key["name"], printable(key["own"]), printable(key["other"]), mark)
    return table


# OUTLOOK-31, OUTLOOK-32
def _print_remedies(found: Mapping[str, Any], written: Callable[[int], str]) -> None:
    remedies = found["remedies"] or ()
    later = [one for one in remedies if one.get("starts", AT_ONCE) != AT_ONCE]
    now = [one for one in remedies if one.get("starts", AT_ONCE) == AT_ONCE]
    if later:
        click.echo("\nIt cannot start as things are. Each of these changes alone lets it start:")
    for number, remedy in enumerate(later, 1):
        _print_remedy(number, remedy, written)
    if now:
        click.echo("\nEach of these changes alone would get it bound at once:")
    else:
        click.echo("\nNo single change or combination that was tried would get it bound at once.")
    for number, remedy in enumerate(now, len(later) + 1):
        _print_remedy(number, remedy, written)
    if found["exhausted"]:
        trials = found["trials"]
        after = "when its time was over" if trials is None else f"after {counted(trials, 'trial')}"
        click.echo(f"\nThe search ended {after}: the state is large.")


def _print_remedy(number: int, remedy: Mapping[str, Any], written: Callable[[int], str]) -> None:
    click.echo(f"\n{number}. {printable(remedy['text'])}")
    click.echo(f"   {printable(_effect(remedy, written))}{_proof(remedy)}")
    if not (remedy["events"] or remedy.get("applicable", True)):
        click.echo("   This is advice: it needs a machine, and no event makes one.")
    for event in remedy["events"]:
        click.echo(f"   {to_yaml_item(dict(event)).decode().rstrip()}")


def _effect(remedy: Mapping[str, Any], written: Callable[[int], str]) -> str:
    """Say when and where an ask starts after a change, and who loses a node."""
    starts = remedy.get("starts", AT_ONCE)
    if starts == AT_ONCE:
        return f"It is then bound on {remedy['node']}{_evicted(remedy['evicted'])}."
    if starts == UNKNOWN_START:
        return "It then starts when others end; nobody knows when."
    return f"It then starts at {written(round(starts * MICROSECONDS))} if nothing more comes."


def _evicted(evicted: Sequence[str]) -> str:
    """Return the asks that a remedy evicts, as text."""
    if not evicted:
        return ""
    names = list(evicted[:_MOST_EVICTED])
    if len(evicted) > _MOST_EVICTED:
        names.append(f"… {len(evicted):,} in all")
    verb = "loses its node" if len(evicted) == 1 else "lose their nodes"
    return f", and {', '.join(names)} {verb}"


def _proof(remedy: Mapping[str, Any]) -> str:
    match remedy["kind"]:
        case _ if not remedy["smallest"]:
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
            reason = one.dominant
            at_us = instant_of(reason.facts)
            said = dated(reason.message, at_us, lambda at_us: _instant(at_us, origin_us))
            click.echo(f"- {one.app}/{one.ask}, for {waited}: {said}")


def _print(table: Table) -> None:
    console = console_of()
    # rich exits by itself if a pipe is closed, so it only renders and click prints.
    with console.capture() as capture:
        console.print(table, crop=False)
    text = "\n".join(line.rstrip() for line in capture.get().splitlines())
    click.echo(text.strip("\n"), color=True)
