from __future__ import annotations

from collections.abc import Iterator

import pytest

from muster.feeds import FeedError, FeedItem
from muster.replay import Check, Difference
from tests.actors.replay.helpers import items

SETUP = """\
- {op: add_node, node: n1, capacity: {vcore: 1}}
- {op: add_app, app: a, queue: root.q}
"""
ASK = "- {op: add_ask, app: a, ask: x, resources: {vcore: 1}, run_for: 10}\n"
BAD = "- {op: add_app, app: a, queue: root.q}\n"


async def differences(text: str) -> list[Difference]:
    check = Check()
    await check.run(items(text))
    return check.differences


async def test_counts() -> None:
    check = Check()
    await check.run(items(SETUP + "- {op: expect}\n- {op: settle}\n- {op: expect}\n"))

    assert (check.events, check.expects, check.differences) == (5, 2, [])


async def test_a_difference_has_the_place_of_the_expect() -> None:
    found = await differences(SETUP + ASK + "- {op: expect, bound: []}\n")

    assert found == [Difference(3, 4, "bound", [], ["a/x"])]


async def test_an_expect_is_at_its_instant() -> None:
    feed = (
        SETUP
        + ASK
        + """
- {op: expect, at: 9.999999, bound: [a/x]}
- {op: expect, at: 10, bound: []}
"""
    )
    assert await differences(feed) == []


@pytest.mark.parametrize("between", ["- {op: expect}\n", "- {op: expect, order: [a/x]}\n"])
async def test_every_expect_starts_anew(between: str) -> None:
    more = "- {op: add_ask, at: 20, app: a, ask: y, resources: {vcore: 1}}\n"

    assert await differences(SETUP + ASK + between + "- {op: expect, order: []}\n") == []
    assert await differences(SETUP + ASK + between + more + "- {op: expect, order: [a/y]}\n") == []
    assert await differences(SETUP + ASK + more + "- {op: expect, order: [a/x, a/y]}\n") == []


async def test_a_refusal_that_is_expected() -> None:
    feed = SETUP + BAD + "- {op: what}\n" + "- {op: expect, rejected: [\"'a'\", what]}\n"

    assert await differences(feed) == []


@pytest.mark.parametrize("expect", ["- {op: expect}\n", "- {op: expect, bound: []}\n", ""])
async def test_a_refusal_that_nothing_covers(expect: str) -> None:
    (found,) = await differences(SETUP + BAD + expect)

    assert (found.index, found.line, found.field, found.expected) == (2, 3, "rejected", "nothing")
    assert "'a'" in str(found.found)


async def test_one_refusal_more_than_expected() -> None:
    (found,) = await differences(SETUP + BAD + BAD + "- {op: expect, rejected: [app]}\n")

    assert (found.line, found.field) == (4, "rejected[1]")


async def test_refusals_are_expected_in_order() -> None:
    feed = SETUP + BAD + "- {op: what}\n" + "- {op: expect, rejected: [what, \"'a'\"]}\n"

    assert [(found.line, found.field) for found in await differences(feed)] == [
        (5, "rejected[0]"),
        (5, "rejected[1]"),
    ]


async def test_an_expect_that_is_refused_starts_nothing_anew() -> None:
    refused = "- {op: expect, bund: []}\n"
    feed = SETUP + ASK + refused + "- {op: expect, order: [a/x], rejected: [bund]}\n"
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
    assert await differences(feed % "mine, yours") == []
    fields = [found.field for found in await differences(feed % "yours, mine")]
    assert fields == ["warnings[0]", "warnings[1]"]
    assert [found.expected for found in await differences(feed % "mine")] == ["nothing"]


async def test_reasons_are_those_of_the_expect() -> None:
    feed = (
        SETUP
        + ASK
        + """
- {op: add_ask, app: a, ask: y, resources: {vcore: 1}}
- {op: expect, reasons: {a/y: NoNodeFits}, order: [a/x]}
- {op: expect, order: []}
"""
    )
    assert await differences(feed) == []


async def test_what_was_found_before_the_feed_broke() -> None:
    def broken() -> Iterator[FeedItem]:
        yield from items(SETUP + ASK + "- {op: expect, bound: []}\n")
        raise FeedError("f", "broken", 5)

    check = Check()
    with pytest.raises(FeedError):
        await check.run(broken())

    assert (check.events, check.expects, len(check.differences)) == (4, 1, 1)
