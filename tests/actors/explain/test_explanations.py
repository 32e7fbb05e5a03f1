"""Explaining whole feeds: those of the documentation, a trace, random ones.

How trials, searches and changed settings work.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, cast

import attrs
import pytest
from hypothesis import assume, event, given, settings, strategies as st

from muster.explain import RemedyKind, explain, explain_all
from muster.explain._answer import replay_until
from muster.explain._remedies.case import NumberRange, Smallest, least_above, smallest
from muster.explain._remedies.trials import QueueChange, Trials, configure
from muster.feeds import Expect, FeedItem, Raw, RawEvent, parse, read_feed
from muster.feeds._kinds import EventFields
from muster.replay._driver import submit_item_directly
from muster_core.config.model import Configuration, QueueConfig
from muster_core.coordinator.plain_scheduler import PlainScheduler
from muster_core.events import AddApp, Configure
from muster_core.reasons import Code
from tests.actors.cli.helpers import run
from tests.actors.explain.helpers import (
    helps,
    is_bound,
    items_of,
    one_less,
    read,
    still_helps,
    with_events,
)
from tests.core.config.test_queue_settings import EVERY_OTHER_VALUE
from tests.naive.eviction_strategies import evictions
from tests.naive.gang_strategies import gang_scenarios
from tests.naive.harness import Step
from tests.naive.strategies import configurations, scenarios
from tests.naive.theme import drawn, themed

PROJECT = Path(__file__).parents[3]
FEEDS = sorted(
    [
        *(PROJECT / "tests" / "feeds" / "reasons").glob("*.yaml"),
        *(PROJECT / "docs" / "feeds").iterdir(),
    ]
)
NOT_FEEDS = {"queues.yaml"}


def is_long(path: Path) -> bool:
    """Whether a feed takes long: the documentation shows it, or many of its asks are pending."""
    return path.parent.name == "feeds" or path.name == "gang_cycle_invalid.yaml"


@pytest.mark.parametrize(
    "path",
    [
        pytest.param(path, marks=pytest.mark.takes_long) if is_long(path) else path
        for path in FEEDS
        if path.name not in NOT_FEEDS
    ],
    ids=lambda path: f"{path.parent.name}/{path.name}",
)
def test_every_remedy_of_all_asks_that_do_not_run(path: Path) -> None:
    items = read(path)
    instants = {item.at_us for item in items if isinstance(item.content, Expect)}
    for at_us in sorted(instants):
        for app, ask in replay_until(items, at_us).scheduler.pending():
            answer = explain(items, app, ask, at_us=at_us)

            assert answer.explanation is not None
            for remedy in answer.remedies:
                assert helps(items, answer, remedy), f"{app}/{ask} at {at_us}: {remedy.text}"


PHILLY = Path(__file__).parents[3] / "examples" / "philly"
AT_US = 6_000_000 * 1_000_000


@pytest.fixture(scope="module")
def items(tmp_path_factory: pytest.TempPathFactory) -> list[FeedItem]:
    feed = tmp_path_factory.mktemp("philly") / "feed.jsonl"
    result = run(
        *("import", "csv", PHILLY / "jobs-0e4a51.csv", "--mapping", PHILLY / "philly.yaml"),
        *("--nodes", "32x nvidia.com/gpu=8", "--config", PHILLY / "fifo.yaml", "-o", feed),
    )
    assert result.exit_code == 0, result.output
    return read(feed)


def test_all_jobs_that_wait(items: list[FeedItem]) -> None:
    groups = explain_all(items, at_us=AT_US).groups

    assert [(group.code, group.count) for group in groups] == [
        (Code.BLOCKED, 4),
        (Code.FRAGMENTED, 1),
    ]


# OUTLOOK-33
@pytest.mark.parametrize(
    ("job", "count", "text"),
    [
        ("54535", 1, "another node like node-00, with 8 nvidia.com/gpu"),
        pytest.param(
            *("54538", 2, "2 more nodes like node-00, each with 8 nvidia.com/gpu"),
            marks=pytest.mark.takes_long,
        ),
    ],
)
def test_another_node_for_a_job(items: list[FeedItem], job: str, count: int, text: str) -> None:
    answer = explain(items, job, "task", at_us=AT_US)
    node = next(one for one in answer.remedies if one.kind is RemedyKind.NODE)

    assert (node.text, node.smallest) == (text, {"nodes": count})
    assert not node.is_applicable
    assert helps(items, answer, node)
    assert answer.trials < 100


_ANY = scenarios(lists=2) | gang_scenarios(lists=2) | evictions()
_FEW = settings.get_current_profile_name() == "modest"

#: Of these each amount was found by search, and stands in the last event.
_MEASURED = {RemedyKind.PRIORITY, RemedyKind.CAPACITY, RemedyKind.NODE}


@settings(max_examples=8 if _FEW else 2_000)
@given(_ANY, st.data())
def test_every_remedy_gets_the_ask_bound_at_once(scenario: list[Step], data: st.DataObject) -> None:
    items, at_us, app, ask = _some_pending(scenario, data)
    answer = explain(items, app, ask, at_us=at_us)

    assert answer.trials
    assert not is_bound(with_events(items, at_us, []), at_us, app, ask)
    for remedy in answer.remedies:
        event(remedy.kind.value)
        assert helps(items, answer, remedy), remedy
        if remedy.kind in _MEASURED and remedy.smallest is not None:
            for events in one_less(remedy):
                assert not still_helps(items, answer, remedy, events), remedy


@settings(max_examples=15 if _FEW else 2_000)
@given(_ANY)
def test_all_that_do_not_run_are_in_one_group(scenario: list[Step]) -> None:
    items = items_of(scenario)
    overview = explain_all(items, examples=1_000)

    pending = list(replay_until(items, None).scheduler.pending())
    explained = [(one.app, one.ask) for group in overview.groups for one in group.examples]
    assert sorted(explained) == sorted(pending)
    assert overview.count == len(pending)
    for group in overview.groups:
        assert {one.dominant.code for one in group.examples} == {group.code}
        assert group.count == sum(count for _, count in group.queues)


def _some_pending(
    scenario: list[Step], data: st.DataObject
) -> tuple[list[FeedItem], int, str, str]:
    """Draw an instant of a feed, and an ask that does not run at its end."""
    items = items_of(scenario)
    assume(items)
    at_us = data.draw(st.sampled_from(sorted({item.at_us for item in items})), label="at")
    pending = list(replay_until(items, at_us).scheduler.pending())
    assume(pending)
    app, ask = data.draw(st.sampled_from(pending), label="ask")
    return items, at_us, app, ask


_ANY_SCENARIO = scenarios() | gang_scenarios() | evictions()
_MODEST = settings.get_current_profile_name() == "modest"

NODE: Final[EventFields] = {"op": "add_node", "node": "n", "capacity": {"vcore": 1}}
FEED = """\
- {op: add_app, app: a, queue: q}
- {op: add_ask, app: a, ask: x, resources: {vcore: 1}}
"""


def after(items: list[FeedItem]) -> PlainScheduler:
    scheduler = PlainScheduler()
    for item in items:
        submit_item_directly(scheduler, item)
    scheduler.settle()
    return scheduler


@settings(max_examples=20 if _MODEST else 2_000)
@given(_ANY_SCENARIO, st.data())
def test_a_copy_goes_on_as_the_original_does(scenario: list[Step], data: st.DataObject) -> None:
    items = items_of(scenario)
    cut = data.draw(st.integers(0, len(items)), label="cut")
    original = after(items[:cut])
    copied = Trials(original, 0, "a", "x").copy()
    for scheduler in (copied, original):
        for item in items[cut:]:
            submit_item_directly(scheduler, item)
        scheduler.finish()
        scheduler.machine.check()

    assert copied.announced == original.announced
    assert _snapshot_of(copied) == _snapshot_of(original)


def _snapshot_of(scheduler: PlainScheduler) -> object:
    return attrs.asdict(scheduler.snapshot())


def test_what_is_tried_leaves_the_original_alone() -> None:
    scheduler = after(_read(FEED))
    before = _snapshot_of(scheduler)
    trials = Trials(scheduler, 0, "a", "x")

    assert trials.node_after([]) is None
    assert trials.node_after([NODE]) == "n"
    assert trials.node_after([]) is None
    assert trials.made == 3
    assert _snapshot_of(scheduler) == before


def test_a_refused_event_helps_nobody() -> None:
    trials = Trials(after(_read(FEED)), 0, "a", "x")

    assert trials.node_after([NODE, {"op": "remove_node", "node": "m"}]) is None
    assert trials.node_after([NODE, {"op": "add_node", "node": "m", "capacity": "all"}]) is None


def test_no_more_trials_are_made_than_there_is_time_for() -> None:
    trials = Trials(after(_read(FEED)), 0, "a", "x", most=3)
    while not trials.exhausted:
        assert trials.node_after([NODE]) == "n"

    assert trials.node_after([NODE]) is None
    assert trials.made == 3


def _read(text: str) -> list[FeedItem]:
    return list(read_feed(io.BytesIO(text.encode())))


_AMOUNT = st.integers(0, 10_000)


@given(_AMOUNT, _AMOUNT, _AMOUNT, st.integers(1, 50))
def test_the_smallest_of_what_works_from_there_on(
    least: int, guess: int, above: int, step: int
) -> None:
    value = max(least, guess) + above

    found = smallest(lambda values: values[0] >= least, [NumberRange(value, guess, step)])

    assert found == Smallest((least,), (least > 0,), proved=True)


@given(st.lists(st.tuples(_AMOUNT, _AMOUNT, _AMOUNT), min_size=1, max_size=3))
def test_several_at_once(wanted: list[tuple[int, int, int]]) -> None:
    least = tuple(one for one, _, _ in wanted)
    knobs = [NumberRange(max(one, guess) + above, guess) for one, guess, above in wanted]

    found = smallest(lambda values: all(a >= b for a, b in zip(values, least, strict=True)), knobs)

    assert found == Smallest(least, tuple(one > 0 for one in least), proved=True)


def test_what_never_works() -> None:
    assert smallest(lambda _: False, [NumberRange(9, 3)]) is None


@given(st.sets(_AMOUNT, min_size=1), st.integers(1, 50))
def test_what_works_here_and_there_ends_where_one_less_does_not(
    working: set[int], step: int
) -> None:
    found = smallest(lambda values: values[0] in working, [NumberRange(max(working), 0, step)])

    assert found is not None
    (value,) = found.values
    assert value in working
    assert value - 1 not in working


@given(_AMOUNT, _AMOUNT, _AMOUNT, _AMOUNT)
def test_nothing_goes_below_its_floor(least: int, floor: int, guess: int, above: int) -> None:
    knob = NumberRange(max(floor + guess, least) + above, floor + guess, floor=floor)

    found = smallest(lambda values: values[0] >= least, [knob])

    assert found == Smallest((max(least, floor),), (least > floor,), proved=True)


def test_a_good_guess_costs_two_trials() -> None:
    tried: list[tuple[int, ...]] = []

    def works(values: tuple[int, ...]) -> bool:
        tried.append(values)
        return values[0] >= 700

    smallest(works, [NumberRange(10**12, 700)])

    assert tried == [(700,), (699,)]


def test_sizes_that_are_multiples_are_found_sooner() -> None:
    tried: list[tuple[int, ...]] = []

    def works(values: tuple[int, ...]) -> bool:
        tried.append(values)
        return values[0] >= 5 * 2**30

    found = smallest(works, [NumberRange(64 * 2**30, 2**30, 2**30)])

    assert found == Smallest((5 * 2**30,), (True,), proved=True)
    assert len(tried) < 16


@given(st.integers(-50, 10_000), st.integers(1, 10_000))
def test_the_least_above(low: int, more: int) -> None:
    assert least_above(lambda number: number >= low + more, low, 2**31 - 1) == low + more


def test_nothing_above() -> None:
    assert least_above(lambda _: False, 0, 100) is None
    assert least_above(lambda _: True, 100, 100) is None


def test_what_is_not_needed_stays_as_it_is_though_a_little_more_of_it_does_harm() -> None:
    def works(values: tuple[int, ...]) -> bool:
        return values[0] >= 5 and values[1] in {2, 9}

    found = smallest(works, [NumberRange(9, 9), NumberRange(9, 9, floor=2)])

    assert found == Smallest((5, 2), (True, False), proved=True)


@st.composite
def _configuration(draw: st.DrawFn) -> Configuration:
    return draw(configurations(themed(draw(drawn(24)))))[0]


def _loaded(written: EventFields) -> Configuration:
    (item,) = parse([RawEvent(0, None, written)])
    assert isinstance(item.content, Configure), item.content
    return attrs.evolve(item.content.config, warnings=())


def _scheduler(configuration: Configuration, *queues: str) -> PlainScheduler:
    scheduler = PlainScheduler(configuration)
    for queue in queues:
        scheduler.submit(AddApp(queue, queue))
    scheduler.settle()
    return scheduler


@given(_configuration())
def test_without_a_change_it_is_the_one_in_force(configuration: Configuration) -> None:
    written = configure(_scheduler(configuration).machine, {})

    assert _loaded(written) == attrs.evolve(configuration, warnings=())


@given(_configuration(), st.booleans())
def test_preemption_of_the_partition(configuration: Configuration, enabled: bool) -> None:
    written = configure(_scheduler(configuration).machine, {}, preemption=enabled)

    expected = attrs.evolve(configuration, preemption_enabled=enabled, warnings=())
    assert _loaded(written) == expected


BASE: EventFields = {
    "op": "configure",
    "config": {
        "partitions": [
            {
                "name": "default",
                "queues": [
                    {
                        "name": "root",
                        "properties": {"queue.create": "enabled"},
                        "queues": [
                            {"name": "a", "resources": {"max": {"vcore": 2, "gpu": 1}}},
                            {"name": "gone"},
                        ],
                    }
                ],
            }
        ]
    },
}


@pytest.mark.parametrize(
    ("feed", "message", "code"),
    [
        (  # The application was let in, and has completed.
            """\
- {op: add_app, app: a, queue: a}
- {op: add_app, app: a, queue: a}
- {op: remove_app, app: a}
- {op: add_ask, app: a, ask: x, resources: {vcore: 1}}
""",
            "app: 'a' is unknown",
            None,
        ),
        (  # A name like a reason is no reason.
            """\
- {op: configure, config: {partitions: [{queues: [{name: root, submitacl: '*', queues: [{name: b}]}]}]}}
- {op: add_app, app: a, queue: "b.x does not admit y"}
- {op: add_ask, app: a, ask: x, resources: {vcore: 1}}
""",
            "app: 'a' is unknown, since it was refused: queue: 'b.x does not admit y': ",
            None,
        ),
        (
            """\
- {op: configure, config: {partitions: [{queues: [{name: root, submitacl: sue, queues: [{name: b}]}]}]}}
- {op: add_app, app: a, queue: b, user: bob}
- {op: add_ask, app: a, ask: x, resources: {vcore: 1}}
""",
            "app: 'a' is unknown, since it was refused: user: 'b' does not admit 'bob'; ",
            Code.USER_NOT_ALLOWED,
        ),
    ],
)
def test_why_an_ask_was_refused(feed: str, message: str, code: Code | None) -> None:
    where = explain(_read(feed), "a", "x").whereabouts

    assert (where.message or "").startswith(message)
    assert ("since it was refused" in message) is ("since it was refused" in (where.message or ""))
    assert where.code is code


OTHER_VALUES: EventFields = {name: text for name, (text, _, _) in EVERY_OTHER_VALUE.items()}
EVERY: Raw = {
    "name": "another",
    "nodesortpolicy": {
        "type": "fgd",
        "resourceweights": {"vcore": "0.5"},
        "typical": [
            {"devices": {"gpu": {"count": 2, "models": ["T4"]}}, "weight": 3},
            {"devices": {"gpu": {"milli": 250}}, "resources": {"vcore": 2}, "weight": 1},
        ],
    },
    "preemption": {"enabled": False, "quotapreemptionenabled": True},
    "placementrules": [
        {
            "name": "tag",
            "value": "namespace",
            "create": True,
            "filter": {"type": "deny", "users": ["sue", "bob"], "groups": ["^d+"]},
            "parent": {"name": "fixed", "value": "root.root"},
        },
        {"name": "user", "filter": {"type": "allow"}},
        {"name": "provided"},
    ],
    "limits": [
        {"users": ["sue"], "maxresources": {"vcore": 9}, "maxapplications": 9},
        {"groups": ["dev"], "maxapplications": 10},
    ],
    "queues": [
        {
            "name": "root",
            "submitacl": "*",
            "adminacl": "sue,bob dev",
            "maxapplications": 100,
            "properties": OTHER_VALUES,
            "childtemplate": {
                "maxapplications": 5,
                "properties": {"application.sort.policy": "fair"},
                "resources": {"guaranteed": {"vcore": 1}, "max": {"vcore": 10}},
            },
            "queues": [
                {
                    "name": "a",
                    "maxapplications": 20,
                    "properties": OTHER_VALUES,
                    "submitacl": " *",
                    "resources": {"guaranteed": {"vcore": 1}, "max": {"vcore": 2, "gpu": 0}},
                    "limits": [{"users": ["bob"], "maxapplications": 2}],
                },
                {"name": "root", "parent": True, "maxapplications": 1},
            ],
        }
    ],
}


def _compared(record: object) -> list[attrs.Attribute[object]]:
    """Return the fields of a record, without those about the text that it comes from."""
    kind = cast("type[attrs.AttrsInstance]", type(record))
    return [field for field in attrs.fields(kind) if field.eq]


def _parts(value: object) -> Iterator[object]:
    """Yield all records that a value consists of, the empty ones of a type among them."""
    if isinstance(value, tuple | list):
        for part in cast("Sequence[object]", value):
            yield from _parts(part)
    elif attrs.has(type(value)):
        yield value
        for field in _compared(value):
            yield from _parts(getattr(value, field.name))


def test_every_field_of_a_partition_stays() -> None:
    configuration = _loaded({"op": "configure", "config": {"partitions": [EVERY]}})
    fields = [(one, field) for one in _parts(configuration) for field in _compared(one)]
    named = {
        (type(one), field.name)
        for one, field in fields
        if getattr(one, field.name) != field.default
    }
    unnamed = {(type(one), field.name) for one, field in fields} - named
    assert unnamed == {(Configuration, "warnings")}

    written = configure(_scheduler(configuration).machine, {})
    assert _loaded(written) == configuration


def _all_queues(configuration: Configuration) -> list[str]:
    def below(queue: QueueConfig) -> list[str]:
        return [queue.path, *(path for child in queue.children for path in below(child))]

    return below(configuration.root)


def test_a_queue_that_is_changed() -> None:
    scheduler = _scheduler(_loaded(BASE))
    change = QueueChange(
        guaranteed={"vcore": 1000},
        max={"vcore": 3000},
        max_applications=4,
        properties={"application.sort.policy": "fair"},
    )
    root = _loaded(configure(scheduler.machine, {"root.a": change})).root
    queue = root.children[0]

    assert queue.max.amounts == (("gpu", 1), ("vcore", 3000))
    assert dict(queue.guaranteed) == {"vcore": 1000}
    assert queue.max_applications == 4
    assert queue.settings.sort_policy.value == "fair"
    assert [child.name for child in root.children] == ["a", "gone"]


def test_queues_made_on_the_fly_and_those_that_drain_are_left_alone() -> None:
    scheduler = _scheduler(_loaded(BASE), "gone", "made.x")
    kept = attrs.evolve(_loaded(BASE).root, children=_loaded(BASE).root.children[:1])
    scheduler.submit(Configure(attrs.evolve(_loaded(BASE), root=kept)))
    scheduler.settle()
    change = {"root.made.x": QueueChange(max_applications=2)}

    assert _all_queues(_loaded(configure(scheduler.machine, {}))) == ["root", "root.a"]
    assert _all_queues(_loaded(configure(scheduler.machine, change))) == [
        "root",
        "root.a",
        "root.made",
        "root.made.x",
    ]
