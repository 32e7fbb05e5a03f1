"""Explain feeds, and check remedies in a replay."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, final

import attrs
import trio

from muster.explain import AT_ONCE, Answer, Remedy, explain
from muster.explain._answer import replay_until
from muster.explain._remedies.trials import node_of
from muster.feeds import FeedItem, Raw, RawEvent, Settle, parse, read_feed
from muster.replay import replay
from muster.replay._driver import submit_item_directly
from muster_core.coordinator.plain_scheduler import PlainScheduler, forecast
from muster_core.decisions import Announced, Kind
from muster_core.events import Release, RemoveAsk
from muster_core.snapshots import AskPlace
from muster_core.values.resources import format_quantity, parse_quantity
from tests.naive.harness import Marker, Step


@final
class Log:
    """A journal that keeps all decisions."""

    def __init__(self) -> None:
        self.announced: list[Announced] = []

    def write(self, batch: Sequence[Announced], /) -> None:
        self.announced.extend(batch)


def items_of(steps: Iterable[Step]) -> list[FeedItem]:
    """Return the feed that steps are."""
    items: list[FeedItem] = []
    for index, step in enumerate(steps):
        match step.what:
            case Marker():
                items.append(FeedItem(index, None, step.at_us, Settle()))
            case str(message):
                items += refused(index, step.at_us, message)
            case event:
                items.append(FeedItem(index, None, step.at_us, event))
    return items


def refused(index: int, at_us: int, message: str) -> list[FeedItem]:
    raw = RawEvent(index, None, {"op": message, "at": f"{at_us}us"})
    return list(parse([raw]))


def read(path: Path) -> list[FeedItem]:
    return list(read_feed(str(path)))


def with_events(
    items: Iterable[FeedItem], at_us: int, events: Sequence[Mapping[str, Raw]]
) -> list[FeedItem]:
    """Put events into a feed behind those of an instant; what would follow is left out."""
    kept = [item for item in items if item.at_us <= at_us]
    first = len(kept)
    added = parse(RawEvent(first + number, None, dict(one)) for number, one in enumerate(events))
    return [*kept, *added]


def is_bound(items: Iterable[FeedItem], at_us: int, app: str, ask: str) -> bool:
    """Replay a feed up to an instant; return whether the ask is bound then, and only since then."""
    log = Log()

    async def run() -> None:
        await replay(items, journals=[log], until_us=at_us)

    trio.run(run)
    last: Announced | None = None
    for announced in log.announced:
        decision = announced.decision
        if (decision.app, decision.ask) == (app, ask) and decision.kind in {
            Kind.BOUND,
            Kind.RELEASED,
        }:
            last = announced
    return last is not None and last.decision.kind is Kind.BOUND and last.at_us == at_us


# OUTLOOK-31, OUTLOOK-32
def helps(items: Sequence[FeedItem], answer: Answer, remedy: Remedy) -> bool:
    """Return whether a remedy works in a replay by the tasks.

    If it does not help at once, it helps when the others have ended, and nothing does without it.
    """
    changed = with_events(items, answer.at_us, remedy.events)
    if remedy.starts == AT_ONCE:
        return is_bound(changed, answer.at_us, answer.app, answer.ask)
    after = replay_until(changed, answer.at_us).scheduler
    if isinstance(remedy.starts, int):
        made = forecast(after.facts(), answer.app, answer.ask, answer.at_us)
        assert made is not None
        assert made.starts_at_us == remedy.starts
    before = replay_until(items, answer.at_us).scheduler
    return not starts_alone(before, answer) and starts_alone(after, answer)


# OUTLOOK-30
def still_helps(
    items: Sequence[FeedItem], answer: Answer, remedy: Remedy, events: Sequence[dict[str, Any]]
) -> bool:
    """Return whether less than a remedy works too, where the remedy should be the least.

    For an ask that does not start alone that is where the others have ended already: so the change
    comes after that. Beside the others, less may do by chance, as the order of members differs.
    """
    at_once = remedy.starts == AT_ONCE
    if at_once and not helps(items, answer, attrs.evolve(remedy, events=tuple(events))):
        return False
    if at_once and starts_alone(replay_until(items, answer.at_us).scheduler, answer):
        return True
    scheduler = replay_until(items, answer.at_us).scheduler
    starts_alone(scheduler, answer)
    for item in parse(RawEvent(number, None, one) for number, one in enumerate(events)):
        submit_item_directly(scheduler, item)
    scheduler.settle()
    return node_of(scheduler, answer.app, answer.ask) is not None


def starts_alone(scheduler: PlainScheduler, answer: Answer) -> bool:
    """Return whether an ask is bound when all others have gone but those that it starts with."""
    machine, snapshot = scheduler.machine, scheduler.snapshot()
    ask = next(one for one in snapshot.apps[answer.app].asks if one.name == answer.ask)
    gangs = () if ask.gang is None else machine.view.group_of(ask.gang)
    names = {gang.name for gang in gangs if not gang.satisfied}
    for app in snapshot.apps.values():
        for one in app.asks:
            if one.gang in names or (app.name, one.name) == (answer.app, answer.ask):
                continue
            is_bound = one.place is AskPlace.BOUND
            scheduler.submit((Release if is_bound else RemoveAsk)(app.name, one.name))
    scheduler.settle()
    return node_of(scheduler, answer.app, answer.ask) is not None


def explained(items: Iterable[FeedItem], name: str, at_us: int | None = None) -> Answer:
    app, _, ask = name.partition("/")
    return explain(items, app, ask, at_us=at_us)


def one_less(remedy: Remedy) -> list[list[dict[str, Any]]]:
    """Return the events of a remedy, each time with another one of its amounts one less.

    The remedy concerns a priority or a node, and its last event has the amounts.
    """
    found: list[list[dict[str, Any]]] = []
    for name in remedy.smallest or ():
        events: list[dict[str, Any]] = json.loads(json.dumps([*remedy.events]))
        if name == "priority":
            events[-1]["priority"] -= 1
        elif name == "nodes":
            events.pop()
        else:
            take_one(events[-1]["capacity"], name)
        found.append(events)
    return found


def take_one(amounts: dict[str, Any], name: str) -> None:
    """Lower an amount as it stands in a feed by one base unit."""
    amounts[name] = format_quantity(name, parse_quantity(name, amounts[name]) - 1)
