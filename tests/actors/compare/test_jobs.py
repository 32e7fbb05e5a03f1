"""Who gains and who loses."""

from __future__ import annotations

from collections.abc import Sequence

from muster.compare import MOST_JOBS, Compared, JobChange
from tests.actors.compare.helpers import compare_configurations, compare_feeds, configuration

NODE = "- {op: add_node, node: n1, capacity: {vcore: 1}}\n"
FIFO = "{name: q, properties: {application.sort.priority: disabled}}"
BY_PRIORITY = "{name: q}"


def job(number: int, priority: int, run_for: float = 10) -> str:
    return f"""\
- {{op: add_app, app: j{number}, queue: root.q}}
- op: add_ask
  app: j{number}
  ask: x
  resources: {{vcore: 1}}
  priority: {priority}
  run_for: {run_for}
"""


def names(changes: Sequence[JobChange]) -> list[str]:
    return [change.app for change in changes]


def compared_by_order(feed: str) -> Compared:
    """Compare first in, first out with the highest priority first."""
    return compare_configurations(
        feed, configuration(f"[{FIFO}]"), configuration(f"[{BY_PRIORITY}]")
    )


def test_who_goes_first_gains_and_who_goes_last_loses() -> None:
    jobs = compared_by_order(NODE + "".join(job(number, number) for number in range(4))).jobs

    assert (jobs.compared, jobs.wait.gained, jobs.wait.lost) == (4, 2, 2)
    assert names(jobs.wait.most_gained) == names(jobs.end.most_gained) == ["j3", "j2"]
    assert names(jobs.wait.most_lost) == names(jobs.end.most_lost) == ["j0", "j1"]
    (best, _) = jobs.wait.most_gained
    assert (best.a.wait_s, best.b.wait_s, best.a.end_s, best.b.end_s) == (30, 0, 40, 10)
    assert best.a.queue == "root.q"


def test_only_the_first_are_listed_in_order() -> None:
    feed = NODE + "".join(job(number, number) for number in range(300))
    jobs = compared_by_order(feed).jobs

    assert (jobs.wait.gained, jobs.wait.lost) == (150, 150)
    assert names(jobs.wait.most_gained) == [f"j{number}" for number in range(299, 289, -1)]
    assert names(jobs.wait.most_lost) == [f"j{number}" for number in range(MOST_JOBS)]


def test_who_gains_the_same_stands_in_the_order_of_coming() -> None:
    late = "- {op: add_node, node: n1, capacity: {vcore: 9}, at: 60}\n"
    feed = "".join(job(number, 0) for number in (2, 1))
    jobs = compare_feeds(feed + late, NODE.replace("1}", "9}") + feed + late).jobs

    assert names(jobs.wait.most_gained) == ["j1", "j2"]  # equal in all, so by name
    assert {change.a.wait_s for change in jobs.wait.most_gained} == {60}


def test_who_is_never_bound_waits_without_end() -> None:
    feed = NODE + job(0, 1, 100_000) + job(1, 9).replace("vcore: 1}", "vcore: 2}") + job(2, 0)
    more = feed.replace(NODE, NODE.replace("vcore: 1}", "vcore: 2}"))
    jobs = compare_feeds(feed, more).jobs

    first = jobs.wait.most_gained[0]
    assert (first.app, first.a.wait_s, first.a.end_s, first.b.wait_s) == ("j1", None, None, 0)
    assert compare_feeds(more, feed).jobs.wait.most_lost[0].app == "j1"


def test_who_is_bound_on_neither_side_gains_nothing() -> None:
    feed = NODE + job(0, 0).replace("vcore: 1}", "vcore: 2}")
    jobs = compare_feeds(feed, feed + "- {op: settle, at: 5}\n").jobs

    assert (jobs.compared, jobs.wait.gained, jobs.wait.lost) == (1, 0, 0)
    assert (jobs.end.gained, jobs.end.lost) == (0, 0)


def test_the_end_counts_for_itself() -> None:
    short, long = NODE + job(0, 0, 10), NODE + job(0, 0, 25)
    jobs = compare_feeds(short, long).jobs
    (change,) = jobs.end.most_lost

    assert (jobs.wait.gained, jobs.wait.lost) == (0, 0)
    assert (change.a.end_s, change.b.end_s) == (10, 25)


def test_an_application_that_goes_on_after_its_last_ask_ends_later() -> None:
    again = """\
- {op: add_ask, app: j0, ask: y, resources: {vcore: 1}, run_for: 10, at: 20}
"""
    (change,) = compare_feeds(NODE + job(0, 0), NODE + job(0, 0) + again).jobs.end.most_lost

    assert (change.a.end_s, change.b.end_s) == (10, 30)


def test_one_that_holds_something_at_the_end_has_not_ended() -> None:
    endless = job(0, 0).replace("  run_for: 10\n", "")
    (change,) = compare_feeds(NODE + job(0, 0), NODE + endless).jobs.end.most_lost

    assert (change.a.end_s, change.b.end_s) == (10, None)


def test_one_that_was_removed_ended_then() -> None:
    removed = "- {op: remove_app, app: j0, at: 4}\n"
    jobs = compare_feeds(NODE + job(0, 0), NODE + job(0, 0) + removed).jobs
    (change,) = jobs.end.most_gained

    assert (jobs.only_a, jobs.only_b) == (0, 0)
    assert (change.a.end_s, change.b.end_s) == (10, 4)


def test_applications_of_one_name_are_compared_in_order() -> None:
    again = "- {op: settle, at: 50}\n" + job(0, 0, 5)
    later = "- {op: settle, at: 50}\n" + job(0, 0, 6)
    jobs = compare_feeds(NODE + job(0, 0, 1) + again, NODE + job(0, 0, 2) + later).jobs

    assert jobs.compared == 2
    assert [(change.a.end_s, change.b.end_s) for change in jobs.end.most_lost] == [
        (1, 2),
        (55, 56),
    ]


def test_one_that_is_removed_and_comes_again_is_another() -> None:
    again = "- {op: remove_app, app: j0, at: 4}\n" + job(0, 0)
    jobs = compare_feeds(NODE + job(0, 0), NODE + job(0, 0) + again).jobs
    (change,) = jobs.end.most_gained

    assert (jobs.compared, jobs.only_a, jobs.only_b) == (1, 0, 1)
    assert (change.a.end_s, change.b.end_s) == (10, 4)


def test_one_of_which_an_ask_was_removed_and_another_is_pending_has_not_ended() -> None:
    asks = """\
- {op: add_ask, app: j0, ask: large, resources: {vcore: 5}}
- {op: add_ask, app: j0, ask: larger, resources: {vcore: 6}}
- {op: remove_ask, app: j0, ask: larger, at: 500}
"""
    feed = NODE + job(0, 0)
    (change,) = compare_feeds(feed, feed + asks).jobs.end.most_lost

    assert (change.a.end_s, change.b.end_s) == (10, None)


def test_one_that_goes_on_without_end_has_not_ended() -> None:
    endless = "- {op: add_ask, app: j0, ask: y, resources: {vcore: 1}, at: 20}\n"
    (change,) = compare_feeds(NODE + job(0, 0), NODE + job(0, 0) + endless).jobs.end.most_lost

    assert (change.a.end_s, change.b.end_s) == (10, None)


def test_one_side_may_be_ahead_of_the_other_by_several_of_one_name() -> None:
    ahead = "".join(f"- {{op: settle, at: {at}}}\n{job(0, 0, 1)}" for at in (0, 50, 100))
    late = "- {op: remove_app, app: j0, at: 200}\n" + job(0, 0, 2)
    jobs = compare_feeds(NODE + ahead, NODE + job(0, 0, 1000) + late).jobs

    assert (jobs.compared, jobs.only_a, jobs.only_b) == (2, 1, 0)
    assert [(change.a.end_s, change.b.end_s) for change in jobs.end.most_lost] == [
        (1, 200),
        (51, 202),
    ]
