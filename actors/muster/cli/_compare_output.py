"""The text of a comparison: its figures, the refused events, and the first decision that differs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from string import ascii_uppercase
from typing import Final, TypeAlias, TypeVar, final

import attrs
import click
from rich.console import Console, RenderableType

from muster.cli._inputs import place_of
from muster.cli._options import name_of
from muster.cli._output import Column, Unit, console_of, print_parts, tables_of
from muster.cli._progress import instant
from muster.compare import (
    Compared,
    Elsewhere,
    Figures,
    FirstDifference,
    JobChange,
    Movement,
    Refusals,
    Version,
)
from muster.feeds import date_text
from muster.figures.text import (
    cause,
    counted,
    measured,
    percent,
    points,
    resource_time,
    seconds_text,
)
from muster.replay import JobGroup, LostRuns, Reserved, WaitSummary
from muster.replay._measures import titled
from muster_core.decisions import MICROSECONDS, Decision, Kind


def first_difference_words(
    what: str,
    counts: str,
    first: FirstDifference,
    names: tuple[str, str],
    origin_us: int | None,
    letters: tuple[str, str] = ("A", "B"),
) -> Iterator[str]:
    """Yield the lines that describe a first difference.

    Args:
        what: What differs.
        counts: The noun for the equal decisions before it.
        first: The first difference.
        names: The names of the feeds or logs of both sides.
        origin_us: The origin of time, in microseconds since 1970 in UTC, or None.
        letters: The letters of both sides.
    """
    yield f"{what} from {instant(first.at_us, origin_us)} on, after {counted(first.same, counts)}:"
    yield ""
    a, b = letters
    for side, other, version, name in ((a, b, first.a, names[0]), (b, a, first.b, names[1])):
        if version is None:
            yield f"{side}  nothing more at this instant"
            continue
        yield f"{side}  {_decision_text(version.announced.decision)}{_decision_place(version, name)}"
        if version.elsewhere is not None:
            yield from _elsewhere(other, version.elsewhere)


def _decision_place(version: Version, name: str) -> str:
    if version.line is not None:
        return f"  ({name}:{version.line})"
    return "" if version.index is None else f"  ({name}: event {version.index})"


def _decision_text(decision: Decision) -> str:
    """Return a decision as one line of text."""
    if decision.kind is Kind.QUEUE_PRIORITY:
        priority = "none" if decision.priority is None else decision.priority
        return f"{decision.kind} of {decision.queue}: {priority}"
    ask = "" if decision.ask is None else f"/{decision.ask}"
    on = "from" if decision.kind is Kind.RELEASED else "on"
    parts = (
        decision.kind.value,
        None if decision.app is None else f"{decision.app}{ask}",
        decision.state,
        None if decision.node is None else f"{on} {decision.node}",
        None if decision.queue is None else f"in {decision.queue}",
        None if decision.gang is None else f"of {decision.gang}",
    )
    reasons = (decision.reason, decision.message)
    return ": ".join(
        [
            " ".join(part for part in parts if part is not None),
            *(str(one) for one in reasons if one),
        ]
    )


def _elsewhere(side: str, elsewhere: Elsewhere) -> Iterator[str]:
    name = f"   in {side} {elsewhere.app}/{elsewhere.ask}"
    if elsewhere.place is None:
        yield f"{name} does not exist"
        return
    node = "" if elsewhere.node is None else f" on {elsewhere.node}"
    yield f"{name} is {elsewhere.place}{node}"
    if elsewhere.turn is not None:
        yield f"      {elsewhere.turn}"
    yield from (f"      {reason}" for reason in elsewhere.reasons)


def refused_words(
    refusals: Refusals,
    names: tuple[str, str],
    letters: tuple[str, str] = ("A", "B"),
    *,
    listed: bool = True,
) -> Iterator[str]:
    """Yield a paragraph for each side with the events that only this side refuses.

    Args:
        refusals: The refused events.
        names: The names of the feeds or logs of both sides.
        letters: The letters of both sides.
        listed: Whether to list the first events, or only to count them.
    """
    for side, number, ends, first, name in (
        (letters[0], refusals.only_a, refusals.ends_a, refusals.first_a, names[0]),
        (letters[1], refusals.only_b, refusals.ends_b, refusals.first_b, names[1]),
    ):
        if number and not listed:
            yield f"Only {side} refuses {counted(number, 'event')}.\n"
        elif number:
            lines = [f"   {place_of(name, remark)}: {remark.message}" for remark in first]
            more = [f"   … and {number - len(first):,} more"] if len(first) < number else []
            head = f"Only {side} refuses {counted(number, 'event')}:"
            yield "\n".join([head, "", *lines, *more]) + "\n"
        if ends:
            asks = "ends an ask that is" if ends == 1 else "end asks that are"
            yield (
                f"{ends:,} of these {asks} not bound in {side} at that time. What gets a node "
                f"later keeps it.\n"
            )


def print_refused(refusals: Refusals, names: Sequence[str]) -> None:
    """Print the events that both sides refuse to standard error.

    Args:
        refusals: The refused events.
        names: The names of the feeds or logs: one name if both sides have the same feed.
    """
    for number, name in enumerate(names):
        for both in refusals.first_both:
            # With two configurations, an event may be refused for two reasons.
            remarks = both if len(names) == 1 else (both[number],)
            for message in dict.fromkeys(remark.message for remark in remarks):
                click.echo(f"{place_of(name, remarks[0])}: refused: {message}", err=True)
        if len(refusals.first_both) < refusals.both:
            click.echo(f"{name}: refused: … {refusals.both:,} in all on both sides", err=True)


_NONE: Final = "-"
_SAME: Final = "="

Number: TypeAlias = "int | float | None"

_Letters: TypeAlias = tuple[str, str]
"""The letters of two sides."""

_Three: TypeAlias = tuple[str, str, str]
"""A figure of both sides and their difference, as text; or the titles of such columns."""


@final
@attrs.frozen
class _Pair:
    """The first side and another one.

    Attributes:
        compared: The result.
        letters: The letters of the two sides.
        names: The names of their feeds or logs.
        origin_us: The origin of time of both sides, in microseconds since 1970 in UTC; None if it
            is not known, or they have not the same.
    """

    compared: Compared
    letters: _Letters
    names: tuple[str, str]
    origin_us: int | None

    @property
    def titles(self) -> _Three:
        """The letters, and that of the difference."""
        a, b = self.letters
        return a, b, f"{b} - {a}"


def print_compared(
    compared: Sequence[Compared],
    sides: Sequence[str],
    inputs: Sequence[str],
    origin_us: int | None = None,
    *,
    summary: bool = False,
) -> None:
    """Print the result of a comparison.

    Args:
        compared: The first side compared with each of the others.
        sides: The names of all sides.
        inputs: The names of the feeds or logs; one name if all sides have the same feed.
        origin_us: The origin of time of all sides, in microseconds since 1970 in UTC; None if it
            is not known, or they have not the same.
        summary: Whether to leave out what is not about the whole.
    """
    console = console_of()
    names = (name_of(inputs[0]), name_of(inputs[-1]))
    pairs = [
        _Pair(one, ("A", letter), names, origin_us)
        for letter, one in zip(ascii_uppercase[1:], compared, strict=False)
    ]
    print_parts(_parts(console, pairs, sides, summary=summary), console, soft_wrap=True)


def _parts(
    console: Console, pairs: Sequence[_Pair], sides: Sequence[str], *, summary: bool
) -> Iterator[RenderableType]:
    yield "".join(
        f"{letter}  {side}\n" for letter, side in zip(ascii_uppercase, sides, strict=False)
    )
    for pair in pairs:
        if len(pairs) > 1:
            yield f"{pair.letters[1]} against {pair.letters[0]}\n"
        yield from _beginning(pair, listed=not summary)
    yield from _whole(console, pairs)
    for pair in pairs:
        if summary:
            # COMMAND-28
            parts = _jobs(console, pair)
            yield from (part for part in parts if isinstance(part, str))
        elif not pair.compared.same:
            if len(pairs) > 1:
                yield f"{pair.letters[1]} against {pair.letters[0]}\n"
            yield from _details(console, pair)


def _beginning(pair: _Pair, *, listed: bool) -> Iterator[str]:
    """Yield where the two sides begin to differ, and what only one of them refuses."""
    compared, names, origin_us = pair.compared, pair.names, pair.origin_us
    first, priority = compared.first, compared.first_priority
    if compared.same:
        yield f"Both decide the same: {counted(compared.decisions, 'decision')}.\n"
    if first is not None:
        what = "The decisions differ"
        lines = first_difference_words(
            what, "equal decision", first, names, origin_us, pair.letters
        )
        yield "\n".join(lines) + "\n"
    # A later difference is probably a consequence of the first one.
    if priority is not None and (first is None or priority.at_us < first.at_us):
        what = "The priorities of queues differ"
        lines = first_difference_words(
            what, "equal change", priority, names, origin_us, pair.letters
        )
        yield "\n".join(lines) + "\n"
    yield from refused_words(compared.refusals, names, pair.letters, listed=listed)


def _details(console: Console, pair: _Pair) -> Iterator[RenderableType]:
    """Yield the results by queue and by priority, and the jobs that change most."""
    compared = pair.compared
    if compared.queues:
        queues = [(row.queue, row.a, row.b) for row in compared.queues]
        yield from _groups(console, "queue", queues, pair.titles)
        if any(row.a.utilisation or row.b.utilisation for row in compared.queues):
            yield from _utilisation(console, compared, pair.titles)
        if compared.a.lost or compared.b.lost:
            yield from _lost(console, compared, pair.titles)
    if compared.priorities:
        rows = [(_range(row.lowest, row.highest), row.a, row.b) for row in compared.priorities]
        yield from _groups(console, "priority", rows, pair.titles)
    yield from _job_groups(console, pair)
    yield from _jobs(console, pair)


# Figures

_ALWAYS: Final = frozenset({"jobs", "asks bound"})
"""The counts that are always shown."""

_IF_ANY: Final = frozenset({"ended without a node", "over their run limit"})
"""The counts that are shown if one is not zero."""

_Writer: TypeAlias = Callable[[float], str]
T = TypeVar("T")
_Figure: TypeAlias = tuple[str, Callable[[T], Number], _Writer]
"""The name of a figure, how to read it, and how to format it."""


def _count(value: float) -> str:
    return f"{value:,.0f}"


_COUNTS: Final[Sequence[_Figure[Figures]]] = (
    ("jobs", lambda figures: figures.jobs, _count),
    ("asks bound", lambda figures: figures.asks_bound, _count),
    ("ended without a node", lambda figures: figures.asks_unbound, _count),
    ("pending", lambda figures: figures.asks_pending, _count),
    ("preempted", lambda figures: figures.asks_preempted, _count),
    ("reclaimed", lambda figures: figures.asks_reclaimed, _count),
    ("over their run limit", lambda figures: figures.asks_run_limit, _count),
    ("events refused", lambda figures: figures.events_refused, _count),
)

_OF_JOBS: Final[Sequence[_Figure[JobGroup]]] = (
    ("jobs", lambda group: group.wait.count, _count),
    *(
        (title, lambda group, title=title: titled(group.wait)[title], seconds_text)
        for title in titled(WaitSummary(0))
    ),
    ("slowdown", lambda group: group.bounded_slowdown.mean, measured),
)

MOST_GROUPS: Final = 10
"""The most users, or sizes, in a table."""


def _waits(figures: Figures) -> list[_Figure[Figures]]:
    """Return the figures of waits of asks; for a log, of jobs."""
    mean = "mean wait of jobs" if figures.wait is None else "mean wait"
    return [
        (title.replace("mean wait", mean), partial(_wait, title), seconds_text)
        for title in titled(WaitSummary(0))
    ]


def _wait(title: str, figures: Figures) -> Number:
    wait = figures.job_wait if figures.wait is None else figures.wait
    return None if wait is None else titled(wait)[title]


def _three(a: Number, b: Number, write: _Writer) -> _Three:
    """Return a figure of both sides and their difference, as text."""
    texts = [_NONE if value is None else write(value) for value in (a, b)]
    if a is None or b is None:
        more = _SAME if a is b else _NONE
    else:
        more = _SAME if a == b else _more(b - a, write)
    return texts[0], texts[1], more


def _more(by: float, write: _Writer) -> str:
    return f"{'+' if by > 0 else '-'}{write(abs(by))}"


def _unit(titles: _Three, cells: Sequence[_Three]) -> Unit:
    """Return columns that stay in one table."""
    what = titles[0].removesuffix("A")
    return [
        Column(title, column, alone=f"{what}{title.removeprefix(what)}")
        for title, column in zip(titles, zip(*cells, strict=True), strict=True)
    ]


def _whole(console: Console, pairs: Sequence[_Pair]) -> Iterator[RenderableType]:
    """Yield the figures of the whole: those of the first side, and those of the others beside."""
    lists = [dict(_figures_of(pair.compared.a, pair.compared.b)) for pair in pairs]
    rows = list(dict.fromkeys(name for figures in lists for name in figures))
    units: list[Unit] = []
    for pair, figures in zip(pairs, lists, strict=True):
        cells = [figures.get(name, (_NONE, _NONE, _NONE)) for name in rows]
        unit = _unit(pair.titles, cells)
        units.append(unit[1:] if units else unit)
    return tables_of(console, [Column("all", rows, folds=True)], units)


def _figures_of(a: Figures, b: Figures) -> Iterator[tuple[str, _Three]]:
    """Yield the figures of two sides, with their names."""
    for name, read, write in (*_COUNTS, *_waits(a)):
        found = (read(a), read(b))
        if name in _ALWAYS or (any(found) if name in _IF_ANY else found != (None, None)):
            yield name, _three(*found, write)
    if a.wait is not None:
        mean_a, mean_b = (of.job_wait and of.job_wait.mean_s for of in (a, b))
        yield "mean wait of jobs", _three(mean_a, mean_b, seconds_text)
    yield "makespan", _three(a.makespan_s, b.makespan_s, seconds_text)
    for kind in sorted({*a.utilisation, *b.utilisation}):
        yield f"{kind} used", _shares(a.utilisation.get(kind), b.utilisation.get(kind))
    yield from _measured(a, b)
    yield from _losses(a, b)
    if a.fairness is not None and b.fairness is not None:
        for what, one, other in (
            ("queues", a.fairness.queues, b.fairness.queues),
            ("users", a.fairness.users, b.fairness.users),
        ):
            if one is not None or other is not None:
                yield f"fairness of {what}", _three(one, other, measured)
    yield from _distances(a, b)
    yield from _reservations(a.reserved or Reserved(), b.reserved or Reserved())


# COMMAND-36
def _measured(a: Figures, b: Figures) -> Iterator[tuple[str, _Three]]:
    """Yield the measures of jobs, and what was used until the last ask came."""
    if a.measures is None or b.measures is None:
        return
    until_a, until_b = a.utilisation_to_last_arrival, b.utilisation_to_last_arrival
    for kind in sorted({*until_a, *until_b}):
        shares = until_a.get(kind), until_b.get(kind)
        if shares != (None, None):
            yield f"{kind} before the drain", _shares(*shares)
    one, other = a.measures.bounded_slowdown, b.measures.bounded_slowdown
    if one.mean is not None or other.mean is not None:
        yield "bounded slowdown", _three(one.mean, other.mean, measured)
        yield "slowdown: median", _three(one.median, other.median, measured)
        yield "slowdown: 95 %", _three(one.p95, other.p95, measured)
    of_a, of_b = a.measures.weighted_wait_s, b.measures.weighted_wait_s
    for kind in sorted({*of_a, *of_b}):
        figures = _three(of_a.get(kind), of_b.get(kind), seconds_text)
        yield f"wait weighted by {kind}", figures


# COMMAND-34
def _distances(a: Figures, b: Figures) -> Iterator[tuple[str, _Three]]:
    """Yield the largest distance of each queue from its due part."""
    for queue in sorted({*a.parts, *b.parts}):
        found = [side.parts.get(queue) for side in (a, b)]
        one, other = (None if part is None else part.furthest for part in found)
        if one is not None or other is not None:
            yield f"furthest from its part: {queue}", _shares(one, other)


# COMMAND-26
def _reservations(a: Reserved, b: Reserved) -> Iterator[tuple[str, _Three]]:
    """Yield the outcomes of reservations, if there were any."""
    if a.asks or b.asks:
        yield "asks with a reservation", _three(a.asks, b.asks, _count)
        yield "bound by their first known start", _three(a.kept, b.kept, _count)
        yield "bound later", _three(a.late, b.late, _count)
        yield "bound without a known start", _three(a.open_ended, b.open_ended, _count)


# COMMAND-22
def _losses(a: Figures, b: Figures) -> Iterator[tuple[str, _Three]]:
    """Yield the runs that were cut short: how many for each cause, and what was lost by type."""
    lost_a, lost_b = a.lost or {}, b.lost or {}
    for why in sorted({*lost_a, *lost_b}):
        runs = _three(_runs(lost_a.get(why)), _runs(lost_b.get(why)), _count)
        yield f"runs lost: {cause(why)}", runs
    for kind in sorted({*_held_of(a), *_held_of(b)}):
        yield f"{kind} lost", _lost_of(a, b, kind)


def _runs(lost: LostRuns | None) -> int:
    return 0 if lost is None else lost.runs


def _held_of(figures: Figures) -> dict[str, float]:
    """Return what lost runs held, for all causes together, times its time."""
    held: dict[str, float] = {}
    for lost in (figures.lost or {}).values():
        for kind, amount_s in lost.resource_s.items():
            held[kind] = held.get(kind, 0.0) + amount_s
    return held


def _lost_of(a: Figures, b: Figures, kind: str) -> _Three:
    write = partial(resource_time, kind)
    return _three(_held_of(a).get(kind, 0.0), _held_of(b).get(kind, 0.0), write)


def _shares(a: float | None, b: float | None) -> _Three:
    """Return a share of both sides in percent, and the difference in points."""
    of_a, of_b, _ = _three(a, b, percent)
    return of_a, of_b, _three(a, b, points)[2]


def _groups(
    console: Console, what: str, rows: Sequence[tuple[str, Figures, Figures]], titles: _Three
) -> Iterator[RenderableType]:
    """Return a table with a line for each side and one for the difference."""
    sides = [side for _, *both in rows for side in both]
    # Leave out counts that are zero or unknown everywhere.
    counts = [
        (name, read, write)
        for name, read, write in _COUNTS
        if name in _ALWAYS or any(map(read, sides))
    ]
    return _side_by_side(console, what, rows, [*counts, *_waits(sides[0])], titles)


def _side_by_side(
    console: Console,
    what: str,
    rows: Sequence[tuple[str, T | None, T | None]],
    figures: Sequence[_Figure[T]],
    titles: _Three,
) -> Iterator[RenderableType]:
    """Return a table with a line for each side, which may be missing, and one for the difference."""
    lines: list[tuple[str, ...]] = []
    for name, *sides in rows:
        found = [[None if of is None else read(of) for of in sides] for _, read, _ in figures]
        threes = [_three(a, b, write) for (a, b), (*_, write) in zip(found, figures, strict=True)]
        of_a, of_b, more = zip(*threes, strict=True)
        if of_a == of_b:
            lines.append((name, f"{titles[0]} = {titles[1]}", *of_a))
        else:
            named = zip((name, "", ""), titles, (of_a, of_b, more), strict=True)
            lines += [(first, title, *cells) for first, title, cells in named]
    names, labels, *numbers = zip(*lines, strict=True)
    return tables_of(
        console,
        [Column(what, names, folds=True), Column("", labels, folds=True)],
        [[Column(figures[at][0], cells)] for at, cells in enumerate(numbers)],
    )


# COMMAND-36
def _job_groups(console: Console, pair: _Pair) -> Iterator[RenderableType]:
    """Yield tables of the jobs by size and by user, where there are several."""
    a, b = pair.compared.a.measures, pair.compared.b.measures
    if a is None or b is None:
        return
    for what, one, other in (
        (f"jobs by {a.size_resource}", a.by_size, b.by_size),
        ("jobs by user", a.by_user, b.by_user),
    ):
        names = {**one, **other}
        if len(names) > 1:
            most = sorted(names, key=lambda name: -names[name].wait.count)[:MOST_GROUPS]
            shown = [name for name in names if name in most]
            rows = [(name or "(none)", one.get(name), other.get(name)) for name in shown]
            yield from _side_by_side(console, what, rows, _OF_JOBS, pair.titles)
            if len(shown) < len(names):
                yield f"… {len(names):,} in all; `--format json` has them.\n"


def _utilisation(console: Console, compared: Compared, titles: _Three) -> Iterator[RenderableType]:
    """Return a table of the share of the cluster that each queue used."""
    units: list[Unit] = []
    for kind in sorted({*compared.a.utilisation, *compared.b.utilisation}):
        cells = [
            _shares(row.a.utilisation.get(kind), row.b.utilisation.get(kind))
            for row in compared.queues
        ]
        units.append(_unit((f"{kind} used: {titles[0]}", titles[1], titles[2]), cells))
    names = Column("queue", [row.queue for row in compared.queues], folds=True)
    return tables_of(console, [names], units)


# COMMAND-22
def _lost(console: Console, compared: Compared, titles: _Three) -> Iterator[RenderableType]:
    """Return a table of what lost runs had held, for each queue that lost any."""
    rows = [row for row in compared.queues if row.a.lost or row.b.lost]
    units: list[Unit] = []
    for kind in sorted({*_held_of(compared.a), *_held_of(compared.b)}):
        cells = [_lost_of(row.a, row.b, kind) for row in rows]
        units.append(_unit((f"{kind} lost: {titles[0]}", titles[1], titles[2]), cells))
    names = Column("queue", [row.queue for row in rows], folds=True)
    return tables_of(console, [names], units)


def _range(lowest: int, highest: int) -> str:
    return str(lowest) if lowest == highest else f"{lowest} to {highest}"


# Jobs


def _jobs(console: Console, pair: _Pair) -> Iterator[RenderableType]:
    jobs, (a, b) = pair.compared.jobs, pair.letters
    alike = jobs.wait == jobs.end
    movements = (("wait", "less", "longer", jobs.wait), ("end", "earlier", "later", jobs.end))
    for what, less, more, movement in movements[: 1 if alike else 2]:
        if not (movement.gained or movement.lost):
            continue
        also = " Their ends change in the same way." if alike else ""
        gained = counted(movement.gained, f"{what}s", what)
        lost = counted(movement.lost, f"{what}s", what)
        yield (
            f"Of {counted(jobs.compared, 'job')}, {gained} {less} in {b} and {lost} {more}.{also}\n"
        )
        yield from _movement(console, (what, less, more), movement, pair)
    for side, other, number, refused in (
        (a, b, jobs.only_a, jobs.refused_a),
        (b, a, jobs.only_b, jobs.refused_b),
    ):
        if number:
            refusal = "" if not refused else f"; {other} refused {_refused_part(refused, number)}"
            yield f"Only in {side}: {counted(number, 'job')}{refusal}.\n"


def _refused_part(refused: int, number: int) -> str:
    if refused < number:
        return f"{refused:,} of them"
    return "it" if number == 1 else "all of them"


def _movement(
    console: Console, words: tuple[str, str, str], movement: Movement, pair: _Pair
) -> Iterator[RenderableType]:
    what, less, greater = words
    nothing: _Three = ("", "", "")
    rows: list[tuple[str, _Three, _Three]] = []
    for title, changes in (
        (f"{what} {less}", movement.most_gained),
        (f"{what} {greater}", movement.most_lost),
    ):
        if changes:
            rows.append((f"{title}:", nothing, nothing))
            rows += [(f"  {change.app}", *_times(change, pair.origin_us)) for change in changes]
    first, second, more = pair.titles
    waits = _unit((f"wait: {first}", second, more), [wait for _, wait, _ in rows])
    ends = _unit((f"end: {first}", second, more), [end for *_, end in rows])
    names = Column("job", [name for name, *_ in rows], folds=True)
    return tables_of(console, [names], [waits, ends])


def _times(change: JobChange, origin_us: int | None) -> tuple[_Three, _Three]:
    a, b = change.a, change.b
    wait = _three(a.wait_s, b.wait_s, seconds_text)
    end = _three(a.end_s, b.end_s, seconds_text)
    if origin_us is None:
        return wait, end
    dates = [
        _NONE if end_s is None else date_text(origin_us + round(end_s * MICROSECONDS))
        for end_s in (a.end_s, b.end_s)
    ]
    return wait, (dates[0], dates[1], end[2])
