"""Orders that do nothing are told when a configuration is loaded."""

from __future__ import annotations

from tests.core.building import configuration, queue

STRICT = {"scheduling.order": "Strict"}
GREEDY = {"scheduling.order": "greedy"}


def test_an_order_below_another_one() -> None:
    # BACKFILL-3
    inner = queue("inner", queue("leaf", properties=STRICT), properties=GREEDY)
    found = configuration(queue("top", inner, properties=STRICT), queue("other", properties=STRICT))

    assert found.warnings == (
        (
            "root.top.inner: scheduling.order greedy has no effect: that of root.top rules all "
            "queues below it"
        ),
        (
            "root.top.inner.leaf: scheduling.order Strict has no effect: that of root.top rules all "
            "queues below it"
        ),
    )


def test_an_order_below_a_greedy_one_counts() -> None:
    # BACKFILL-3
    found = configuration(queue("top", queue("leaf", properties=STRICT), properties=GREEDY))

    assert found.warnings == ()


def test_the_order_of_a_template() -> None:
    # BACKFILL-3
    own = queue("top", parent="true", properties=STRICT, childtemplate={"properties": GREEDY})

    assert configuration(own).warnings == (
        (
            "root.top (childtemplate): scheduling.order greedy has no effect: that of root.top rules "
            "all queues below it"
        ),
    )
