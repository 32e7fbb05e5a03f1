"""``muster explain`` and ``muster why``: why an ask is not running, and what would help.

``explain`` finds the reasons in a feed or a state directory, ``why`` asks a server for them; both
print them with the same functions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, final

import attrs
import click
from rich import box
from rich.table import Table

from muster.cli._inputs import Instant, as_time, exit_on_feed_error, opened_at, print_refused
from muster.cli._options import (
    DIFFERENT,
    FILE,
    Format,
    complain,
    example,
    format_option,
    name_of,
    print_json,
    printable,
)
from muster.cli._output import OutputForm, console_of, form_option, map_of, print_map
from muster.cli._progress import clock, instant
from muster.cli._resources import (
    PLACE_OF_ENDED,
    PLACE_WITHOUT_ASK,
    ask_path,
    dates_of,
    over_since,
    pod_name,
)
from muster.cli._server import NameCompletion, ServerAddress, exit_on_server_error, server_options
from muster.explain import (
    AT_ONCE,
    Answer,
    Fate,
    Hold,
    Overview,
    RefusedSoFar,
    RemedyKind,
    explain,
    explain_all,
    how_it_runs,
    when_it_starts,
    where_it_is,
)
from muster.explain._output import (
    explanation_map,
    in_us,
    outlook_of,
    passed_map,
    passed_of,
    proof_of,
    reason_map,
    reason_of,
    remedy_map,
)
from muster.feeds import FeedItem, date_text
from muster.feeds._encodings import to_yaml_item
from muster.figures.text import counted, dated, instant_of
from muster_core.decisions import MICROSECONDS, seconds
from muster_core.reasons import UNKNOWN_START, Explanation
from muster_core.snapshots import AskPlace
from muster_core.values.reasons import PAST_SHARE_KEY

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

    whereabouts = answer.whereabouts
    click.echo(_headline(answer, origin_us))
    if whereabouts.before is not None:
        click.echo(_before(whereabouts.before, origin_us))
    ends_us, gone_us, is_bound = (
        answer.ends_at_us,
        answer.gone_at_us,
        whereabouts.fate is Fate.BOUND,
    )
    for sentence in how_it_runs(ends_us, gone_us, whereabouts.passed, written, is_bound=is_bound):
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
    whereabouts = answer.whereabouts
    name, at = f"{answer.app}/{answer.ask}", _instant(answer.at_us, origin_us)
    since_us = 0 if whereabouts.since_us is None else whereabouts.since_us
    known = whereabouts.since_us is not None
    start = _instant(since_us, origin_us)
    there = where_it_is(
        name, whereabouts.fate, whereabouts.node, f"{whereabouts.queue}", start if known else None
    )
    place = "" if whereabouts.line is None else f" (line {whereabouts.line})"
    match whereabouts.fate:
        case Fate.PENDING | Fate.PARKED:
            return f"{at}: {there}, for {_clock(answer.at_us - since_us)}"
        case Fate.WAITING | Fate.BOUND:
            return f"{at}: {there}"
        case Fate.REFUSED:
            code = "" if whereabouts.code is None else f"{whereabouts.code}: "
            return f"{at}: {name} was refused at {start}{place}: {code}{whereabouts.message}"
        case Fate.LATER:
            return f"{at}: {name} does not exist yet: it is added at {start}{place}"
        case Fate.UNKNOWN:
            return f"{at}: {name} is unknown"
        case (
            Fate.COMPLETED
            | Fate.FAILED
            | Fate.CANCELLED
            | Fate.REMOVED
            | Fate.RUN_LIMIT
            | Fate.EXPIRED
            | Fate.LOST
        ):
            held = "" if whereabouts.node is None else f"; it held {whereabouts.node}"
            cause = f" {whereabouts.message}" if whereabouts.message else ""
            by = "" if whereabouts.ended_by is None else _line(whereabouts.ended_by)
            fate = whereabouts.fate.replace("_", " ")
            return f"{at}: {name} is over, {fate} at {start}{cause}{by}{held}"


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
            table.add_row(
                "", _named(key["name"]), printable(key["own"]), printable(key["other"]), mark
            )
    return table


_UNITS: Final[Mapping[str, str]] = {
    "share": "of what it deserves",
    PAST_SHARE_KEY: "ticks of all nodes, by weight",
    "pending": "of all nodes",
    "usage": "of what the leaf deserves",
}
"""What the numbers of keys count that are no plain numbers."""


def _named(key: str) -> str:
    unit = _UNITS.get(key)
    return key if unit is None else f"{key} ({unit})"


# OUTLOOK-31, OUTLOOK-32
def _print_remedies(found: Mapping[str, Any], written: Callable[[int], str]) -> None:
    remedies = found["remedies"] or ()
    waits = [one for one in remedies if one["kind"] == RemedyKind.AGE]
    later = [one for one in remedies if one.get("starts", AT_ONCE) != AT_ONCE and one not in waits]
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
    # AGING-11
    for number, remedy in enumerate(waits, len(later) + len(now) + 1):
        click.echo("\nOr it only gets older:")
        _print_remedy(number, remedy, written)
    if found["exhausted"]:
        trials = found["trials"]
        after = "when its time was over" if trials is None else f"after {counted(trials, 'trial')}"
        click.echo(f"\nThe search ended {after}: the state is large.")


def _print_remedy(number: int, remedy: Mapping[str, Any], written: Callable[[int], str]) -> None:
    click.echo(f"\n{number}. {printable(remedy['text'])}")
    click.echo(f"   {printable(_effect(remedy, written))} {proof_of(remedy)}".rstrip())
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
            message = dated(reason.message, at_us, lambda at_us: _instant(at_us, origin_us))
            click.echo(f"- {one.app}/{one.ask}, for {waited}: {message}")
            if one.past_share is not None and one.past_share is not reason:
                click.echo(f"  {one.past_share.message}")


def _print(table: Table) -> None:
    console = console_of()
    # rich exits by itself if a pipe is closed, so it only renders and click prints.
    with console.capture() as capture:
        console.print(table, crop=False)
    text = "\n".join(line.rstrip() for line in capture.get().splitlines())
    click.echo(text.strip("\n"), color=True)


@final
@attrs.frozen
class AskName:
    """The names of an ask and its application, as the user wrote them."""

    app: str
    ask: str


def _parse_ask(
    _context: click.Context, _parameter: click.Parameter, value: str | None
) -> AskName | None:
    """Parse the name of an ask.

    Raises:
        click.BadParameter: If it is not the name of an ask.
    """
    if value is None:
        return None
    app, slash, ask = value.partition("/")
    if not (app and slash and ask) or "/" in ask:
        msg = f"{value!r} is not an ask: write it as application/ask, such as 'job-1/worker-0'"
        raise click.BadParameter(msg)
    return AskName(app, ask)


# COMMAND-4
@click.command("explain", epilog=example("muster explain feed.yaml --at 1h30m --ask job/worker-3"))
@click.argument("feed", type=FILE)
@click.option(
    "--at",
    callback=as_time,
    metavar="TIME",
    help="The instant since the start, in seconds, like 1h30m or 01:30:00; its events are included. "
    "It may be a date such as 2026-01-31T18:30:00Z. [default: the instant of the last event]",
)
@click.option(
    "--ask",
    callback=_parse_ask,
    metavar="APP/ASK",
    help="The ask to explain. `worker-3` belongs to an `add_ask` of `worker` with a `count`.",
)
@click.option(
    "--all",
    "everything",
    is_flag=True,
    help="Explain all asks that are not running, grouped by their dominant reason.",
)
@click.option(
    "--why-only",
    is_flag=True,
    help="Do not search for changes that would help. (Each trial needs a copy of the state.)",
)
@format_option
@click.pass_context
def command(
    context: click.Context,
    *,
    feed: str,
    at: Instant | None,
    ask: AskName | None,
    everything: bool,
    why_only: bool,
    output: Format,
) -> None:
    """Say why an ask is not running at an instant, and what would help.

    Replays FEED in virtual time up to that instant. Prints all reasons, the dominant one first,
    and compares the ask with the one that is tried first, at every level of the queue tree. Then
    prints changes that would help: first what lets the ask start at all, and when it then starts,
    then what gets it bound at once. Each was tried alone. You can copy its events into the feed,
    behind the events of the instant. Amounts are the smallest that are enough. `-` is standard input. A state directory is replayed from the newest checkpoint
    before the instant.

    Prints events that were refused up to that instant on standard error.

    Exit status: 0 if there is an answer, 1 if the feed has no such ask or all its events were
    refused, 2 if the arguments or the feed cannot be used.
    """
    if ask is None and not everything:
        msg = "give --ask APP/ASK, or --all for all asks that are not running"
        raise click.UsageError(msg)
    if ask is not None and everything:
        msg = "--ask and --all exclude each other: give one of them"
        raise click.UsageError(msg)
    with exit_on_feed_error(output), opened_at(feed, at) as source:
        at_us = source.us(at, "--at")
        if ask is None:
            overview = explain_all(source.items, at_us=at_us, kept=source.state_directory)
            _print_refusals(feed, overview.refusals)
            _print_everything(feed, overview, output, source.origin.us)
            context.exit(DIFFERENT if overview.refusals.all else 0)
        answer = explain(
            source.items,
            ask.app,
            ask.ask,
            at_us=at_us,
            search=not why_only,
            kept=source.state_directory,
        )
    _print_refusals(feed, answer.refusals)
    origin_us, found = source.origin.us, _answer_map(answer)
    if output is Format.JSON:
        print_json({**_head(feed, origin_us), **found})
    else:
        print_answer(answer, found, origin_us, searched=not why_only)
    if answer.whereabouts.fate is Fate.UNKNOWN:
        complain(f"{name_of(feed)}: {answer.app}/{answer.ask}: {answer.whereabouts.message}")
        context.exit(DIFFERENT)
    if answer.refusals.all:
        context.exit(DIFFERENT)


def _print_refusals(feed: str, refusals: RefusedSoFar) -> None:
    """Print the refused events of the feed to standard error."""
    print_refused(feed, refusals.first, refusals.count)
    if refusals.all:
        complain(f"{name_of(feed)}: every event was refused: is it a feed?")


def _print_everything(feed: str, overview: Overview, output: Format, origin_us: int | None) -> None:
    if output is Format.JSON:
        print_json({**_head(feed, origin_us), **_overview_map(overview)})
    else:
        print_overview(overview, origin_us)


def _head(feed: str, origin_us: int | None) -> dict[str, object]:
    origin = None if origin_us is None else date_text(origin_us)
    return {"feed": name_of(feed), "origin": origin}


def _at(at_us: int | None) -> int | float | None:
    return None if at_us is None else seconds(at_us)


def _answer_map(answer: Answer) -> dict[str, object]:
    whereabouts, later = answer.whereabouts, answer.held_back_later
    return {
        "at": _at(answer.at_us),
        "app": answer.app,
        "ask": answer.ask,
        "refused": answer.refusals.count,
        "fate": whereabouts.fate.value,
        "since": _at(whereabouts.since_us),
        "node": whereabouts.node,
        "queue": whereabouts.queue,
        "message": whereabouts.message,
        "code": None if whereabouts.code is None else whereabouts.code.value,
        "index": whereabouts.index,
        "line": whereabouts.line,
        "ended_by": None
        if whereabouts.ended_by is None
        else {"index": whereabouts.ended_by.index, "line": whereabouts.ended_by.line},
        "before": None if whereabouts.before is None else _hold_map(whereabouts.before),
        "ends_at": _at(answer.ends_at_us),
        "gone_at": _at(answer.gone_at_us),
        "passed": [passed_map(one) for one in whereabouts.passed],
        **explanation_map(answer.explanation),
        "held_back_later": None if later is None else reason_map(later),
        "remedies": [remedy_map(remedy) for remedy in answer.remedies],
        "trials": answer.trials,
        "exhausted": answer.exhausted,
    }


def _hold_map(hold: Hold) -> dict[str, object]:
    return {
        "node": hold.node,
        "from": seconds(hold.from_us),
        "until": seconds(hold.until_us),
        "waiting": hold.waiting,
        "reason": hold.reason.value,
        "message": hold.message,
    }


def _overview_map(overview: Overview) -> dict[str, object]:
    return {
        "at": _at(overview.at_us),
        "refused": overview.refusals.count,
        "count": overview.count,
        "groups": [
            {
                "code": group.code.value,
                "count": group.count,
                "queues": dict(group.queues),
                "longest": _at(group.longest_us),
                "examples": [
                    {
                        "ask": f"{one.app}/{one.ask}",
                        "queue": one.queue,
                        "since": _at(one.since_us),
                        "message": one.dominant.message,
                        **_past_map(one),
                    }
                    for one in group.examples
                ],
            }
            for group in overview.groups
        ],
    }


def _past_map(explanation: Explanation) -> dict[str, object]:
    past = explanation.past_share
    return {} if past is None else {"past_share": past.message}


_BOUND: Final = AskPlace.BOUND.value


@click.command("why", epilog=example("muster why nightly-1/load-0 --remedies"))
@click.argument("ask", metavar="APP/ASK|NAMESPACE/POD", shell_complete=NameCompletion.asks_or_pods)
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
def why_command(
    address: ServerAddress, /, ask: str, *, remedies: bool, forecast: bool, form: OutputForm
) -> None:
    """Say why an ask is not running, or how it ended.

    If there is no ask of this name, the name is that of a pod of Kubernetes, and the answer is about
    the ask of this pod. If the pod has no ask, the answer says why.

    Exit status: 0, 1 if there is no such ask, 2 if the server cannot be asked.
    """
    with exit_on_server_error(), address.open() as server:

        def answer_for(name: str) -> dict[str, Any]:
            path = f"asks/{ask_path(name)}/why"
            return server.get(path, remedies=remedies or None, forecast=forecast or None)

        answer = answer_for(ask)
        if form in {OutputForm.JSON, OutputForm.YAML}:
            print_map(answer, form)
            return
        _print_why(ask, answer, searched=remedies)
        # POD-7
        for other in answer["item"].get("also", ()):
            click.echo()
            _print_why(other, answer_for(other), searched=remedies)


def _print_why(name: str, answer: dict[str, Any], *, searched: bool) -> None:
    found: dict[str, Any] = answer["item"]
    date = dates_of(answer)
    if found["place"] == PLACE_WITHOUT_ASK:
        click.echo(f"{printable(name)} is a pod that has no ask\n")
        for reason in found["reasons"]:
            click.echo(printable(f"{reason['code']}: {reason['message']}"))
        return
    ask = f"{found['app']}/{found['ask']}"
    if found["place"] == PLACE_OF_ENDED:
        click.echo(over_since(_name_with_pod(ask, found), found, date))
        return
    for sentence in _lines_around_reasons(_name_with_pod(ask, found), found, date):
        click.echo(printable(sentence))
    print_reasons(ask, found, date, searched=searched)


# POD-2
def _name_with_pod(ask: str, found: dict[str, Any]) -> str:
    """Return the name of an ask, with that of its pod."""
    pod = map_of(found.get("pod"))
    if pod is None:
        return ask
    of = f" of {pod['owner']}" if pod["owner"] else ""
    return f"{ask} (pod {pod_name(found)}{of})"


def _lines_around_reasons(
    ask: str, found: dict[str, Any], written: Callable[[int], str]
) -> Iterator[str]:
    """Yield the lines about the state of an ask that come before and after its reasons."""
    node, is_bound = found["node"], found["place"] == _BOUND
    since_us = in_us(found.get("bound") if is_bound else found["since"])
    since = None if since_us is None else written(since_us)
    yield where_it_is(ask, found["place"], node, found["queue"], since)
    # A server that is older says nothing of these.
    passed = [passed_of(one) for one in found.get("passed", [])]
    ends_us, gone_us = in_us(found.get("ends_at")), in_us(found.get("gone_at"))
    yield from how_it_runs(ends_us, gone_us, passed, written, is_bound=is_bound)
