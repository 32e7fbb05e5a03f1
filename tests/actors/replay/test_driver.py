"""The driver of a replay, those who watch it, and what a feed expects."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import final

import pytest
import trio

from muster import Simulation
from muster.feeds import FeedError, FeedItem, Settle
from muster.replay import Beginning, Check, Difference, Tally, replay
from muster.testing import Recording
from muster_core.decisions import Announced, Kind
from muster_core.errors import RefusedError
from tests.actors.program import Steps, shuffled
from tests.actors.samples import items

NODE = "- {op: add_node, node: n1, capacity: {vcore: 2}}\n"
SETUP = NODE + "- {op: add_app, app: a, queue: root.q}\n"
ASK = "- {op: add_ask, app: a, ask: x, resources: {vcore: 1}, run_for: 10}\n"


async def log_of(text: str, *, until_us: int | None = None, strict: bool = False) -> list[str]:
    """Replay, and return the decisions in short."""
    recording = Recording()
    await replay(items(text), journals=[recording], until_us=until_us, strict=strict)
    return [
        f"{announced.at_us // 1_000_000} {announced.decision.kind.value}"
        for announced in recording.decisions
        if announced.decision.kind in {Kind.BOUND, Kind.RELEASED, Kind.REJECTED}
    ]


async def test_time_goes_on_until_no_timer_is_left() -> None:
    assert await log_of(SETUP + ASK) == ["0 bound", "10 released"]


async def test_until_is_included() -> None:
    assert await log_of(SETUP + ASK, until_us=9_999_999) == ["0 bound"]
    assert await log_of(SETUP + ASK, until_us=10_000_000) == ["0 bound", "10 released"]


async def test_an_event_at_the_end_still_comes() -> None:
    later = "- {op: release, at: 5, app: a, ask: x}\n"

    assert await log_of(SETUP + ASK + later, until_us=5_000_000) == ["0 bound", "5 released"]
    assert await log_of(SETUP + ASK + later, until_us=4_999_999) == ["0 bound"]


async def test_events_after_the_end_are_not_read() -> None:
    def feed() -> Iterator[FeedItem]:
        yield FeedItem(0, None, 1_000_000, Settle())
        yield FeedItem(1, None, 3_000_000, Settle())
        pytest.fail("read on")

    tally = Tally()
    assert await replay(feed(), tally=tally, until_us=2_000_000)
    assert (tally.events, tally.at_us) == (1, 2_000_000)


async def test_settle_and_expect_close_a_batch() -> None:
    asks = "- {op: add_ask, app: a, ask: y, resources: {vcore: 1}, priority: 5}\n"
    recording = Recording()
    for between in ("", "- op: settle\n", "- {op: expect, bound: [b/other]}\n"):
        await replay(items(SETUP + ASK.replace("1}", "2}") + between + asks), journals=[recording])
    bound = [
        announced.decision.ask
        for announced in recording.decisions
        if announced.decision.kind is Kind.BOUND
    ]

    assert bound == ["y", "x", "y", "x", "y"]


REFUSED = "- {op: add_app, app: a, queue: root.q}\n"
UNREADABLE = "- {op: add_app, app: b, queue: root.q, colour: red}\n"


@pytest.mark.parametrize("bad", [REFUSED, UNREADABLE])
async def test_a_replay_goes_on_after_a_refusal(bad: str) -> None:
    assert await replay(items(SETUP + bad + ASK))
    assert await log_of(SETUP + bad + ASK) == ["0 rejected", "0 bound", "10 released"]


@pytest.mark.parametrize("bad", [REFUSED, UNREADABLE])
async def test_a_strict_one_does_not(bad: str) -> None:
    assert not await replay(items(SETUP + bad + ASK), strict=True)
    # The batch of the refused event is ended, but what comes after it is not there.
    assert await log_of(SETUP + bad + ASK, strict=True) == ["0 rejected"]
    assert await log_of(SETUP + ASK + bad, strict=True) == ["0 rejected", "0 bound"]


async def test_a_strict_replay_decides_the_same() -> None:
    feed = SETUP + ASK + "- {op: settle}\n- {op: expect, at: 3, bound: []}\n"
    strict, other = Recording(), Recording()
    assert await replay(items(feed), journals=[strict], strict=True)
    await replay(items(feed), journals=[other])

    assert strict.decisions == other.decisions


@pytest.mark.parametrize("error", [FeedError("f", "broken", 3), KeyboardInterrupt()])
async def test_what_was_read_before_an_error_is_carried_out(error: BaseException) -> None:
    def feed() -> Iterator[FeedItem]:
        yield from items(SETUP + ASK)
        raise error

    recording, tally = Recording(), Tally()
    with pytest.raises(type(error)):
        await replay(feed(), journals=[recording], tally=tally)

    assert recording.decisions[-1].decision.state == "Starting"
    assert (tally.asks_bound, tally.decisions) == (1, len(recording.decisions))


async def test_a_cancelled_replay_leaves_what_was_announced() -> None:
    recording, tally = Recording(), Tally()
    with trio.CancelScope() as scope:

        def feed() -> Iterator[FeedItem]:
            yield from items(SETUP + ASK + "- op: settle\n")
            scope.cancel()
            yield from items("- {op: settle, at: 100}")

        await replay(feed(), journals=[recording], tally=tally)

    assert scope.cancelled_caught
    assert recording.decisions[-1].decision.state == "Starting"
    assert tally.summary().asks_running == 1


async def interrupted(at: int) -> tuple[int, bool]:
    """Cancel a replay before a step of any task; return its steps, and whether it was cancelled.

    The feed raises KeyboardInterrupt, as it does after Ctrl-C: the replay then closes the batch.
    """

    def feed() -> Iterator[FeedItem]:
        yield from items(SETUP + ASK)
        raise KeyboardInterrupt

    scope = trio.CancelScope()
    steps = Steps(scope, at)
    trio.lowlevel.add_instrument(steps)
    try:
        with scope, suppress(KeyboardInterrupt):
            await replay(feed())
    finally:
        trio.lowlevel.remove_instrument(steps)
    return steps.count, scope.cancelled_caught


@pytest.mark.parametrize("seed", range(16))
def test_a_replay_cancelled_at_any_step_says_only_that(seed: int) -> None:
    with shuffled(seed):
        steps, cancelled = trio.run(interrupted, 0)
        assert steps > 0
        assert not cancelled
        # A caller that is cancelled with its scheduler must not see the scheduler's error.
        ends = [trio.run(interrupted, at)[1] for at in range(1, steps)]
    assert any(ends)


async def test_a_journal_that_fails_ends_the_replay() -> None:
    class FullJournal:
        def write(self, _batch: object, /) -> None:
            raise FeedError("log", "no space left")

    with pytest.raises(FeedError, match="no space left"):
        await replay(items(SETUP + ASK), journals=[FullJournal()])


async def test_instants_that_go_back_are_the_callers_fault() -> None:
    late, early = FeedItem(0, None, 5, Settle()), FeedItem(1, None, 4, Settle())
    with pytest.raises(RefusedError, match="earlier"):
        await replay([late, early])


SECOND = 1_000_000

#: At 10 s an ask ends, and one of high priority comes: that is one batch.
FEED = """\
- {op: add_node, node: n, capacity: {vcore: 1}}
- {op: add_app, app: a, queue: root.q}
- {op: add_ask, app: a, ask: first, resources: {vcore: 1}, run_for: 10}
- {op: add_ask, app: a, ask: patient, resources: {vcore: 1}, run_for: 10, at: 5}
- {op: add_ask, app: a, ask: urgent, resources: {vcore: 1}, run_for: 10, priority: 9, at: 10}
"""


@final
class SecondsWatcher:
    """Looks every second.

    Attributes:
        looks: When it looked, in seconds, and how many asks held a node.
        ends: The same for the last look.
    """

    def __init__(self) -> None:
        self.looks: list[tuple[int, int]] = []
        self.ends: list[tuple[int, int]] = []
        self._due_us = 0

    def begin(self, beginning: Beginning, /) -> None:
        """Nothing to begin with."""

    def saw(self, item: FeedItem, /) -> None:
        """Nothing to take note of."""

    def write(self, batch: Sequence[Announced], /) -> None:
        """Nothing to take note of."""

    def due_us(self) -> int:
        """Return the next second."""
        return self._due_us

    async def look(self, scheduler: Simulation, at_us: int, /) -> None:
        """Count what holds a node."""
        self._due_us = at_us + SECOND
        self.looks.append((at_us // SECOND, await self._held(scheduler)))

    async def look_at_end(self, scheduler: Simulation, at_us: int, /) -> None:
        """Count it for the last time."""
        self.ends.append((at_us // SECOND, await self._held(scheduler)))

    async def _held(self, scheduler: Simulation) -> int:
        snapshot = await scheduler.snapshot()
        assert (scheduler.next_timer_us() is None) == (not snapshot.apps)
        assert set(scheduler.queues()) == set(snapshot.queues)
        return sum(ask.node is not None for app in snapshot.apps.values() for ask in app.asks)


async def test_looking_does_not_part_a_batch() -> None:
    log, watcher = Recording(), SecondsWatcher()
    await replay(items(FEED), journals=[log], watchers=[watcher])
    bound = [
        (announced.at_us // SECOND, announced.decision.ask)
        for announced in log.decisions
        if announced.decision.kind is Kind.BOUND
    ]

    assert bound == [(0, "first"), (10, "urgent"), (20, "patient")]
    # The application completes 30 s after its last ask; then no timer is left to wait for.
    assert watcher.looks == [(second, int(second < 30)) for second in range(61)]
    assert watcher.ends == [(60, 0)]


@pytest.mark.parametrize(("until", "last"), [(7, 7), (60, 60), (100, 100)])
async def test_it_looks_for_the_last_time_when_the_replay_ends(until: int, last: int) -> None:
    watcher = SecondsWatcher()
    await replay(items(FEED), watchers=[watcher], until_us=until * SECOND)

    assert watcher.ends[0][0] == last
    assert all(second <= until for second, _ in watcher.looks)


async def test_with_a_refusal_that_ends_the_replay() -> None:
    watcher = SecondsWatcher()
    await replay(
        items(FEED + "- {op: add_app, app: a, queue: q}\n"), watchers=[watcher], strict=True
    )

    assert watcher.ends == [(10, 1)]


EXPECT_SETUP = """
- op: configure
  config: {partitions: [{name: default, queues: [{name: root, queues: [
    {name: p, parent: true, properties: {queue.create: enabled}},
    {name: q, resources: {guaranteed: {vcore: 3}}}]}]}]}
- {op: add_node, node: n1, capacity: {vcore: 2, memory: 1Gi}}
- {op: add_app, app: a, queue: root.q}
- {op: add_ask, app: a, ask: x, resources: {vcore: 1, memory: 512Mi}}
- {op: add_ask, app: a, ask: y, resources: {vcore: 1.5}, priority: 4}
- {op: add_app, app: done, queue: root.p.new}
- {op: add_ask, app: done, ask: x, resources: {gpu: 1}}
- {op: settle}
- {op: remove_ask, app: done, ask: x}
- {op: add_app, at: 30, app: b, queue: root.q}
"""


async def differences(expect: str, setup: str = EXPECT_SETUP) -> list[str]:
    """Compare one ``expect``; return the differences as ``field: expected / found``."""
    check = Check()
    await check.run(items(f"{setup}- {{op: expect, {expect}}}\n"))
    return [f"{found.field}: {found.expected} / {found.found}" for found in check.differences]


GOOD = [
    "order: [a/y]",
    "bound: [a/y]",
    "pending: [a/x]",
    "waiting: [], parked: []",
    "placed: {a/y: n1}",
    "apps: {a: {state: Starting, priority: 0}, b: {state: New, priority: null}}",
    "apps: {done: {state: Completed, priority: null}, a: {}}",
    "queues: {root.q: {priority: 0, allocated: {vcore: 1500m}, share: 0.5, state: active}}",
    "queues: {root.q: {pending: {memory: 0.5Gi, vcore: 1, gpu: 0}, exists: true}}",
    "queues: {Q: {priority: 0}, ROOT: {priority: 0}, root.p: {allocated: {}, priority: null}}",
    "queues: {root.p.new: {exists: false}, 'no such. name': {exists: false}}",
    "preempted: [], reclaimed: [], rejected: [], warnings: []",
    "reasons: {a/x: NoNodeFits}",
    "reasons: {a/x: too little}",
    "reasons: {a/x: ''}",
    "reservations: {a/x: null}",
]


@pytest.mark.parametrize("expect", GOOD)
async def test_as_it_is(expect: str) -> None:
    assert await differences(expect) == []


WRONG = [
    ("reservations: {a/x: {node: n1}}", "reservations.a/x: a reservation / None"),
    ("reservations: {a/none: null}", "reservations.a/none: an ask / unknown"),
    ("order: []", "order: [] / ['a/y']"),
    ("order: [a/y, a/x]", "order: ['a/y', 'a/x'] / ['a/y']"),
    ("bound: []", "bound: [] / ['a/y']"),
    ("bound: [a/y, a/nobody]", "bound: ['a/nobody', 'a/y'] / ['a/y']"),
    ("pending: []", "pending: [] / ['a/x']"),
    ("waiting: [a/x]", "waiting: ['a/x'] / []"),
    ("parked: [a/x]", "parked: ['a/x'] / []"),
    ("placed: {a/y: n2}", "placed.a/y: n2 / n1"),
    ("placed: {a/x: n1}", "placed.a/x: n1 / pending"),
    ("placed: {a/x: pending}", "placed.a/x: pending / pending"),
    ("placed: {a/z: n1}", "placed.a/z: n1 / unknown"),
    ("apps: {a: {state: Running}}", "apps.a.state: Running / Starting"),
    ("apps: {a: {priority: 4}}", "apps.a.priority: 4 / 0"),
    ("apps: {a: {priority: null}}", "apps.a.priority: None / 0"),
    ("apps: {done: {state: Completing}}", "apps.done.state: Completing / Completed"),
    ("apps: {done: {priority: 0}}", "apps.done.priority: 0 / None"),
    ("apps: {c: {}}", "apps.c: an application / unknown"),
    ("queues: {root.q: {priority: null}}", "queues.root.q.priority: None / 0"),
    ("queues: {q: {allocated: {}}}", "queues.q.allocated: {} / {'vcore': '1500m'}"),
    (
        "queues: {q: {pending: {vcore: 1}}}",
        "queues.q.pending: {'vcore': '1'} / {'memory': '512Mi', 'vcore': '1'}",
    ),
    ("queues: {q: {share: 0.25}}", "queues.q.share: 0.25 / 0.5"),
    ("queues: {q: {share: inf}}", "queues.q.share: inf / 0.5"),
    ("queues: {q: {state: draining}}", "queues.q.state: draining / active"),
    ("queues: {q: {exists: false}}", "queues.q.exists: False / True"),
    ("queues: {r: {exists: true}}", "queues.r.exists: True / False"),
    ("queues: {r: {}}", "queues.r: a queue / unknown"),
    ("queues: {r: {state: active}}", "queues.r: a queue / unknown"),
    ("queues: {r: {state: active, exists: false}}", "queues.r: a queue / unknown"),
    ("gangs: {default/g: {}}", "gangs.default/g: a gang / unknown"),
    ("preempted: [a/x]", "preempted: ['a/x'] / []"),
    ("reclaimed: [a/x]", "reclaimed: ['a/x'] / []"),
    ("rejected: [vcore]", "rejected[0]: vcore / nothing"),
    ("warnings: [root]", "warnings[0]: root / nothing"),
    ("reasons: {a/y: fits}", "reasons.a/y: fits / bound"),
    ("reasons: {a/z: fits}", "reasons.a/z: fits / unknown"),
]


@pytest.mark.parametrize(("expect", "difference"), WRONG)
async def test_not_as_it_is(expect: str, difference: str) -> None:
    assert await differences(expect) == [difference]


DEVICES = """
- {op: add_node, node: n, capacity: {vcore: 1}, devices: {gpu: 3, nic: 1}}
- {op: add_app, app: a, queue: root.default}
- {op: add_ask, app: a, ask: x, devices: {gpu: 2, nic: {milli: 5}}}
- {op: add_ask, app: a, ask: y, resources: {vcore: 1}}
- {op: add_ask, app: a, ask: z, devices: {gpu: 2}}
"""


# DEVICE-13
@pytest.mark.parametrize(
    ("expect", "found"),
    [
        ("devices: {a/x: {nic: [0], gpu: [0, 1]}, a/y: {}}", []),
        ("devices: {a/x: {gpu: [0, 1]}}", "{'gpu': [0, 1]} / {'gpu': [0, 1], 'nic': [0]}"),
        ("devices: {a/x: {gpu: [1, 0], nic: [0]}}", "{'gpu': [1, 0], 'nic': [0]} / "),
        ("devices: {a/y: {gpu: [2]}}", "{'gpu': [2]} / {}"),
        ("devices: {a/z: {gpu: [2]}}", "{'gpu': [2]} / pending"),
        ("devices: {a/w: {}}", "{} / unknown"),
    ],
)
async def test_devices(expect: str, found: str | list[str]) -> None:
    differing = await differences(expect, DEVICES)
    assert differing == [] if found == [] else str(found) in differing[0]


async def test_any_reason_that_holds_will_do() -> None:
    for part in ("NoNodeFits: of 1 node", "ReclaimInsufficient: ", "what root.q is guaranteed"):
        assert await differences(f"reasons: {{a/x: '{part}'}}") == []


async def test_a_reason_that_is_another() -> None:
    """All that hold are shown, the dominant one first."""
    (difference,) = await differences("reasons: {a/x: QueueMax}")

    assert difference.startswith("reasons.a/x: QueueMax / ['NoNodeFits: of 1 node ")
    assert "vcore', 'ReclaimInsufficient: it may reclaim what " in difference


async def test_the_only_reason_is_shown_as_a_text() -> None:
    setup = EXPECT_SETUP + "- {op: add_ask, app: b, ask: x, gang: g, resources: {vcore: 0.5}}\n"
    (difference,) = await differences("reasons: {b/x: QueueMax}", setup)

    assert difference == (
        "reasons.b/x: QueueMax / GangUndefined: gang default/g is not defined: "
        "nothing says how many members it needs"
    )


async def test_an_infinite_share() -> None:
    setup = """
- {op: add_node, node: n1, capacity: {vcore: 2}}
- {op: add_app, app: a, queue: root.q}
- {op: add_ask, app: a, ask: x, resources: {vcore: 1}}
- op: configure
  at: 1
  config: {partitions: [{name: default, queues: [{name: root, queues: [
    {name: q, resources: {max: {vcore: 0}}}]}]}]}
"""
    assert await differences("queues: {q: {share: inf}}", setup) == []
    assert await differences("queues: {q: {share: 5}}", setup) == ["queues.q.share: 5.0 / inf"]


async def test_every_difference_is_found() -> None:
    found = await differences("order: [], placed: {a/y: n2}, queues: {q: {share: 1, priority: 9}}")

    assert [difference.partition(":")[0] for difference in found] == [
        "order",
        "placed.a/y",
        "queues.q.priority",
        "queues.q.share",
    ]


RESERVED = """
- op: configure
  config: {partitions: [{name: default, queues: [{name: root, queues: [
    {name: q, properties: {scheduling.order: backfill}}]}]}]}
- {op: add_node, node: n1, capacity: {vcore: 2}}
- {op: add_app, app: a, queue: root.q}
- {op: add_ask, app: a, ask: x, resources: {vcore: 1}, run_for: 90}
- {op: settle}
- {op: add_ask, app: a, ask: y, resources: {vcore: 2}}
"""


@pytest.mark.parametrize(
    ("expect", "found"),
    [
        ("{start: 90, node: n1}", []),
        ("{start: 1m30s}", []),
        ("{}", []),
        ("{start: 91}", ["reservations.a/y.start: 91 / 90"]),
        ("{start: unknown}", ["reservations.a/y.start: unknown / 90"]),
        ("{node: n2}", ["reservations.a/y.node: n2 / n1"]),
        ("null", ["reservations.a/y: None / {'start': '90', 'node': 'n1'}"]),
    ],
)
async def test_what_is_reserved(expect: str, found: list[str]) -> None:
    # EXPECT-15
    assert await differences(f"reservations: {{a/y: {expect}}}", RESERVED) == found


@pytest.mark.parametrize(
    ("expect", "why"),
    [
        ("7", "reservations.a/y: '7' is not a map"),
        ("{start: soon}", "reservations.a/y.start: 'soon'"),
        ("{since: 7}", "reservations.a/y.since: unknown field"),
    ],
)
async def test_what_cannot_be_reserved(expect: str, why: str) -> None:
    check = Check()
    await check.run(items(f"{RESERVED}- {{op: expect, reservations: {{a/y: {expect}}}}}\n"))

    [found] = check.differences
    assert why in str(found.found)


CHECK_SETUP = """\
- {op: add_node, node: n1, capacity: {vcore: 1}}
- {op: add_app, app: a, queue: root.q}
"""
BAD = "- {op: add_app, app: a, queue: root.q}\n"


async def check_differences(text: str) -> list[Difference]:
    check = Check()
    await check.run(items(text))
    return check.differences


async def test_counts() -> None:
    check = Check()
    await check.run(items(CHECK_SETUP + "- {op: expect}\n- {op: settle}\n- {op: expect}\n"))

    assert (check.events, check.expects, check.differences) == (5, 2, [])


async def test_a_difference_has_the_place_of_the_expect() -> None:
    found = await check_differences(CHECK_SETUP + ASK + "- {op: expect, bound: []}\n")

    assert found == [Difference(3, 4, "bound", [], ["a/x"])]


async def test_an_expect_is_at_its_instant() -> None:
    feed = (
        CHECK_SETUP
        + ASK
        + """
- {op: expect, at: 9.999999, bound: [a/x]}
- {op: expect, at: 10, bound: []}
"""
    )
    assert await check_differences(feed) == []


@pytest.mark.parametrize("between", ["- {op: expect}\n", "- {op: expect, order: [a/x]}\n"])
async def test_every_expect_starts_anew(between: str) -> None:
    more = "- {op: add_ask, at: 20, app: a, ask: y, resources: {vcore: 1}}\n"

    assert (
        await check_differences(CHECK_SETUP + ASK + between + "- {op: expect, order: []}\n") == []
    )
    assert (
        await check_differences(
            CHECK_SETUP + ASK + between + more + "- {op: expect, order: [a/y]}\n"
        )
        == []
    )
    assert (
        await check_differences(CHECK_SETUP + ASK + more + "- {op: expect, order: [a/x, a/y]}\n")
        == []
    )


async def test_a_refusal_that_is_expected() -> None:
    feed = CHECK_SETUP + BAD + "- {op: what}\n" + "- {op: expect, rejected: [\"'a'\", what]}\n"

    assert await check_differences(feed) == []


@pytest.mark.parametrize("expect", ["- {op: expect}\n", "- {op: expect, bound: []}\n", ""])
async def test_a_refusal_that_nothing_covers(expect: str) -> None:
    (found,) = await check_differences(CHECK_SETUP + BAD + expect)

    assert (found.index, found.line, found.field, found.expected) == (2, 3, "rejected", "nothing")
    assert "'a'" in str(found.found)


async def test_one_refusal_more_than_expected() -> None:
    (found,) = await check_differences(
        CHECK_SETUP + BAD + BAD + "- {op: expect, rejected: [app]}\n"
    )

    assert (found.line, found.field) == (4, "rejected[1]")


async def test_refusals_are_expected_in_order() -> None:
    feed = CHECK_SETUP + BAD + "- {op: what}\n" + "- {op: expect, rejected: [what, \"'a'\"]}\n"

    assert [(found.line, found.field) for found in await check_differences(feed)] == [
        (5, "rejected[0]"),
        (5, "rejected[1]"),
    ]


async def test_an_expect_that_is_refused_starts_nothing_anew() -> None:
    refused = "- {op: expect, bund: []}\n"
    feed = CHECK_SETUP + ASK + refused + "- {op: expect, order: [a/x], rejected: [bund]}\n"
    check = Check()
    await check.run(items(feed))

    assert (check.differences, check.expects) == ([], 1)


async def test_warnings() -> None:
    feed = """\
- op: configure
  config: {partitions: [{name: default, queues: [{name: root, queues: [
    {name: q, properties: {mine: 1, yours: 2}}]}]}]}
- {op: expect, warnings: [%s]}
- {op: expect, warnings: []}
"""
    assert await check_differences(feed % "mine, yours") == []
    fields = [found.field for found in await check_differences(feed % "yours, mine")]
    assert fields == ["warnings[0]", "warnings[1]"]
    assert [found.expected for found in await check_differences(feed % "mine")] == ["nothing"]


async def test_reasons_are_those_of_the_expect() -> None:
    feed = (
        CHECK_SETUP
        + ASK
        + """
- {op: add_ask, app: a, ask: y, resources: {vcore: 1}}
- {op: expect, reasons: {a/y: NoNodeFits}, order: [a/x]}
- {op: expect, order: []}
"""
    )
    assert await check_differences(feed) == []


async def test_what_was_found_before_the_feed_broke() -> None:
    def broken() -> Iterator[FeedItem]:
        yield from items(CHECK_SETUP + ASK + "- {op: expect, bound: []}\n")
        raise FeedError("f", "broken", 5)

    check = Check()
    with pytest.raises(FeedError):
        await check.run(broken())

    assert (check.events, check.expects, len(check.differences)) == (4, 1, 1)
