from __future__ import annotations

from muster.replay import QueueSummary, Remark, WaitSummary
from tests.actors.replay.helpers import tally_of

NODE = "- {op: add_node, node: n1, capacity: {vcore: 2}}\n"
APP = "- {op: add_app, app: a, queue: root.q}\n"
SETUP = NODE + APP


async def test_nothing() -> None:
    summary = (await tally_of("")).summary()

    assert (summary.events, summary.decisions, summary.asks_bound, summary.refused) == (0, 0, 0, 0)
    assert summary.virtual_s == 0
    assert (summary.queues, dict(summary.utilisation)) == ((), {})
    assert summary.wait == WaitSummary(0)
    assert summary.real_s > 0


async def test_an_ask_waits_from_when_it_came() -> None:
    summary = (
        await tally_of(
            APP
            + """
- {op: add_ask, at: 10, app: a, ask: x, resources: {vcore: 1}, run_for: 5}
- {op: add_node, at: 12.5, node: n1, capacity: {vcore: 2}}
"""
        )
    ).summary()

    assert summary.wait == WaitSummary(1, 2.5, 2.5, 2.5, 2.5)
    assert summary.queues == (QueueSummary("root.q", 1, 1, 0, summary.wait),)
    assert (summary.asks_bound, summary.asks_running, summary.asks_pending) == (1, 0, 0)
    assert summary.virtual_s == 12.5 + 5 + 30  # until the application has completed


async def test_members_of_a_count_are_asks_of_their_own() -> None:
    summary = (
        await tally_of(
            SETUP + "- {op: add_ask, app: a, ask: x, resources: {vcore: 1}, count: 3, run_for: 4}"
        )
    ).summary()

    assert summary.asks_bound == 3
    assert (summary.wait.mean_s, summary.wait.longest_s) == (4 / 3, 4)


async def test_what_is_bound_and_pending_at_the_end() -> None:
    summary = (
        await tally_of(SETUP + "- {op: add_ask, app: a, ask: x, resources: {vcore: 1}, count: 5}")
    ).summary()

    assert (summary.asks_bound, summary.asks_running, summary.asks_pending) == (2, 2, 3)


async def test_only_the_first_bind_counts() -> None:
    summary = (
        await tally_of(
            SETUP
            + """
- {op: add_ask, app: a, ask: x, resources: {vcore: 1}}
- {op: remove_node, at: 10, node: n1}
- {op: add_node, at: 100, node: n2, capacity: {vcore: 2}}
"""
        )
    ).summary()

    assert summary.wait == WaitSummary(1, 0, 0, 0, 0)
    assert (summary.asks_bound, summary.asks_running, summary.asks_pending) == (1, 1, 0)


async def test_an_ask_that_lost_its_node_is_pending() -> None:
    summary = (
        await tally_of(
            SETUP
            + """
- {op: add_ask, app: a, ask: x, resources: {vcore: 1}}
- {op: remove_node, at: 10, node: n1}
"""
        )
    ).summary()

    assert (summary.asks_bound, summary.asks_running, summary.asks_pending) == (1, 0, 1)


async def test_a_failed_bind_is_none() -> None:
    summary = (
        await tally_of(
            SETUP
            + """
- {op: fail_bind, app: a, ask: x}
- {op: add_ask, app: a, ask: x, resources: {vcore: 1}}
- {op: fail_bind, app: a, ask: x, times: 2}
"""
        )
    ).summary()

    assert (summary.asks_bound, summary.asks_running, summary.asks_pending) == (1, 1, 0)


async def test_what_was_not_started_is_pending_and_has_waited_once() -> None:
    feed = (
        SETUP
        + """
- {op: add_ask, app: a, ask: x, resources: {vcore: 1}}
- {op: update_node, at: 10, node: n1, schedulable: false}
- {op: bind_failed, app: a, ask: x}
"""
    )
    summary = (await tally_of(feed)).summary()
    assert (summary.asks_bound, summary.asks_running, summary.asks_pending) == (1, 0, 1)

    feed += "- {op: update_node, at: 30, node: n1, schedulable: true}"
    summary = (await tally_of(feed)).summary()
    assert (summary.asks_bound, summary.asks_running, summary.asks_pending) == (1, 1, 0)
    assert (summary.wait.count, summary.wait.longest_s) == (1, 0)


async def test_a_refused_ask_is_none() -> None:
    tally = await tally_of(
        SETUP
        + """
- {op: add_ask, app: a, ask: x, resources: {vcore: 3}}
- {op: add_ask, at: 5, app: a, ask: x, resources: {vcore: 1}}
- {op: add_ask, app: b, ask: x, resources: {vcore: 1}}
- {op: add_ask, app: a, ask: y, resources: {vcore: lots}}
"""
    )
    summary = tally.summary()

    assert (summary.asks_pending, summary.refused, summary.events) == (1, 3, 6)
    first = summary.first_refusals
    assert [(refusal.index, refusal.line) for refusal in first] == [(3, 5), (4, 6), (5, 7)]
    assert first[2] == Remark(5, 7, first[2].message)
    assert "lots" in first[2].message


async def test_warnings_are_named() -> None:
    config = "{partitions: [{name: default, usergroupresolver: os}]}"
    summary = (await tally_of(f"- {{op: configure, config: {config}}}\n")).summary()

    assert summary.warnings == 1
    assert (summary.first_warnings[0].index, summary.first_warnings[0].line) == (0, 1)
    assert "usergroupresolver" in summary.first_warnings[0].message


async def test_a_warning_is_counted_once() -> None:
    """The one of a configuration is announced as well; that of a deadlock only is."""
    deadlock = "\n".join(
        f"- {{op: add_gang, gang: {gang}, min_member: 2, mode: NonStrict}}\n"
        f"- {{op: add_app, app: {gang}, queue: root.q}}\n"
        f"- {{op: add_ask, app: {gang}, ask: k, count: 2, gang: {gang}, resources: {{vcore: 1}}}}"
        for gang in ("g", "h")
    )
    config = "{partitions: [{name: default, usergroupresolver: os, queues: [{name: q}]}]}"
    tally = await tally_of(
        f"- {{op: configure, config: {config}}}\n"
        f"- {{op: add_node, node: n, capacity: {{vcore: 1, cpu: 3}}}}\n{deadlock}\n"
    )
    kinds = [warning.message.partition(" ")[0] for warning in tally.summary().first_warnings]

    assert kinds == ["usergroupresolver:", "the"]
    assert tally.warnings == 2


async def test_only_the_first_refusals_are_named() -> None:
    summary = (await tally_of("- {op: x}\n" * 12)).summary()

    assert summary.refused == 12
    assert [refusal.index for refusal in summary.first_refusals] == list(range(10))


async def test_a_name_that_comes_again_in_the_batch_in_which_it_goes() -> None:
    tally = await tally_of(
        SETUP
        + """
- {op: add_ask, app: a, ask: x, resources: {vcore: 1}}
- {op: release, at: 10, app: a, ask: x}
- {op: add_ask, app: a, ask: x, resources: {vcore: 2}}
- {op: remove_ask, app: a, ask: x}
- {op: add_ask, app: a, ask: x, resources: {vcore: 3}}
- {op: remove_app, app: a}
- {op: add_app, app: a, queue: root.q}
- {op: add_ask, app: a, ask: x, resources: {vcore: 2}}
- {op: release, at: 30, app: a, ask: x}
"""
    )
    summary = tally.summary()

    assert (summary.asks_bound, summary.asks_running, summary.asks_pending) == (2, 0, 0)
    assert summary.virtual_s == 60
    assert summary.utilisation == {"vcore": (1 * 10 + 2 * 20) / (2 * 60)}


async def test_what_is_removed_is_forgotten() -> None:
    tally = await tally_of(
        APP
        + """
- {op: add_ask, app: a, ask: x, resources: {vcore: 1}}
- {op: remove_ask, at: 1, app: a, ask: x}
- {op: add_ask, at: 2, app: a, ask: y, resources: {vcore: 1}, count: 100}
- {op: remove_app, at: 3, app: a}
"""
    )

    summary = tally.summary()

    assert (summary.asks_bound, summary.asks_running, summary.asks_pending) == (0, 0, 0)


async def test_utilisation_is_over_what_there_was() -> None:
    summary = (
        await tally_of(
            """
- {op: add_app, app: a, queue: root.q}
- {op: add_ask, app: a, ask: x, resources: {vcore: 2, memory: 1Gi}, run_for: 30}
- {op: add_node, at: 10, node: n1, capacity: {vcore: 4, memory: 4Gi, gpu: 1}}
- {op: update_node, at: 20, node: n1, capacity: {vcore: 2, memory: 4Gi}}
- {op: update_node, at: 20, node: n1, attributes: {zone: a}}
- {op: add_node, at: 30, node: n2, capacity: {vcore: 2, disk: 1}}
- {op: remove_node, at: 30, node: n2}
- {op: expect, at: 70}
"""
        )
    ).summary()

    assert summary.virtual_s == 70
    assert summary.utilisation == {
        "disk": None,
        "gpu": 0.0,
        "memory": 30 / (4 * 60),
        "vcore": 2 * 30 / (4 * 10 + 2 * 50),
    }


async def test_events_without_decisions_count_at_the_end_too() -> None:
    summary = (await tally_of("- {op: add_node, node: n, capacity: {vcore: 1}}")).summary()

    assert summary.decisions == 0
    assert summary.utilisation == {"vcore": None}


async def test_jobs_of_a_queue_without_asks() -> None:
    summary = (await tally_of(SETUP + "- {op: add_app, app: b, queue: root.r}")).summary()

    assert summary.queues == (
        QueueSummary("root.q", 1, 0, 0, WaitSummary(0)),
        QueueSummary("root.r", 1, 0, 0, WaitSummary(0)),
    )


async def test_time_passes_until_the_end_that_was_asked_for() -> None:
    tally = await tally_of(
        SETUP + "- {op: add_ask, app: a, ask: x, resources: {vcore: 1}}", until_us=100_000_000
    )

    assert tally.summary().virtual_s == 100
    assert tally.summary().utilisation == {"vcore": 0.5}


async def test_decisions_for_each_second() -> None:
    summary = (await tally_of(SETUP)).summary()

    assert summary.decisions == 1
    assert summary.decisions_per_s == 1 / summary.real_s
