"""The shortcut for plain events makes what the parser of feeds makes, or nothing."""

from __future__ import annotations

from hypothesis import example, given, strategies as st

from muster.feeds import Raw, RawEvent, Refused, parse
from muster.service.input.events import PlainEvents

NAMES = st.sampled_from(["a", "b", "", "a/b", "ä", 7, None, True])
AMOUNTS = st.sampled_from([0, 1, 1.0, True, 2.5, -1, "1", "1Gi", "500m", "much", "", None, 2**70])
RESOURCES: st.SearchStrategy[object] = st.one_of(
    st.dictionaries(st.sampled_from(["vcore", "memory", "gpu", ""]), AMOUNTS, max_size=3),
    st.sampled_from([None, [], "1"]),
)
FIELDS: dict[str, st.SearchStrategy[object]] = {
    "op": st.sampled_from(["add_ask", "release", "remove_ask", "remove_app", "nonsense", None, []]),
    "app": NAMES,
    "ask": NAMES,
    "resources": RESOURCES,
    "priority": st.sampled_from([0, 5, -1, 2**31 - 1, 2**31, -(2**31), True, 1.0, "1", None]),
    "count": st.sampled_from([1, 3, None]),
    "outcome": st.sampled_from(["failed", None]),
}
PLAIN = PlainEvents()
ASK: dict[str, Raw] = {"op": "add_ask", "app": "a", "ask": "b"}


@given(
    st.fixed_dictionaries(
        {"op": FIELDS["op"]}, optional={name: FIELDS[name] for name in FIELDS if name != "op"}
    )
)
@example({**ASK, "resources": {"vcore": 1}})
@example({**ASK, "resources": {"vcore": True}})
@example({**ASK, "resources": {"vcore": 1.0}})
@example({**ASK, "resources": {"vcore": 0}})
@example({**ASK, "resources": {}, "priority": 1})
def test_it_makes_what_the_parser_makes(written: dict[str, Raw]) -> None:
    # INPUT-3
    made = PLAIN.made(written)

    (item,) = parse([RawEvent(0, None, written)])
    assert made is None or made == item.content
    assert made is None or not isinstance(item.content, Refused)


def test_plain_events_take_the_shortcut() -> None:
    # INPUT-3
    some: dict[str, Raw] = {"vcore": 1, "memory": "1Gi"}

    for written in (
        {**ASK, "resources": some},
        {**ASK, "resources": some, "priority": -3},
        {"op": "release", "app": "a", "ask": "b"},
        {"op": "remove_ask", "app": "a", "ask": "b"},
    ):
        assert PlainEvents().made(written) is not None
