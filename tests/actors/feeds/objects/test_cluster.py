from __future__ import annotations

import pytest

from muster.feeds import Plain, Raw
from muster.feeds._kinds import NAME, FieldError, Kind
from muster.feeds._schema import (
    AMOUNTS,
    GROUP_NAME,
    LIMITS,
    NAMESPACE,
    QUEUE_NAME,
    QUEUE_PATH,
    unless_empty,
)
from muster_core.resources import Resources

GIB = 2**30


def test_cpu_is_vcore() -> None:
    written: Raw = {"cpu": "500m", "memory": "1Gi", "pods": 110, "nvidia.com/gpu": Plain("2")}
    amounts = {"vcore": 500, "memory": GIB, "pods": 110, "nvidia.com/gpu": 2}

    assert AMOUNTS.parse(written) == Resources(amounts)
    assert dict(LIMITS.parse(written).amounts) == amounts


def test_a_limit_may_be_zero() -> None:
    assert LIMITS.parse({"cpu": 0, "memory": "1"}).amounts == (("memory", 1), ("vcore", 0))
    assert AMOUNTS.parse({"cpu": 0, "memory": "1"}) == Resources({"memory": 1})


@pytest.mark.parametrize("kind", [AMOUNTS, LIMITS])
@pytest.mark.parametrize(
    ("written", "message"),
    [
        ([], "a list is not a map of resource types and quantities"),
        (Plain("5"), "'5' is not a map"),
        ({"cpu": "1x"}, ".cpu: '1x' is not a quantity"),
        ({"cpu": "0.1m"}, ".cpu: '0.1m' is not a whole number of millicores"),
        ({"cpu": -1}, ".cpu: '-1' is negative"),
        ({"memory": "100m"}, ".memory: '100m' is not a quantity"),
        ({"memory": None}, ".memory: null is not a quantity"),
        ({"memory": True}, ".memory: true is not a quantity"),
        ({"": 1}, "a resource type has an empty name"),
        ({"cpu": 1, "vcore": 2}, ".vcore: 2 stands beside cpu or vcore, which is the same type"),
        ({"vcore": 1, "cpu": 1}, ".cpu: 1 stands beside cpu or vcore, which is the same type"),
    ],
)
def test_what_are_no_amounts(kind: Kind[object], written: Raw, message: str) -> None:
    with pytest.raises(FieldError) as caught:
        kind.parse(written)

    assert str(caught.value).startswith(message)


@pytest.mark.parametrize(
    ("kind", "value", "wanted"),
    [
        (NAMESPACE, "a-1", "a-1"),
        (NAMESPACE, Plain("1"), "1"),
        (NAMESPACE, "", None),
        (GROUP_NAME, "a.b-1", "a.b-1"),
        (QUEUE_NAME, "Q_1", "Q_1"),
        (QUEUE_PATH, "Root.a.B", "Root.a.B"),
        (unless_empty(NAME), "", None),
        (unless_empty(NAME), "a", "a"),
    ],
)
def test_names(kind: Kind[object], value: Raw, wanted: str | None) -> None:
    assert kind.parse(value) == wanted


@pytest.mark.parametrize(
    ("kind", "value", "message"),
    [
        (NAMESPACE, "A", "'A' is not an RFC 1123 label, which a namespace is"),
        (NAMESPACE, "a.b", "'a.b' is not an RFC 1123 label"),
        (NAMESPACE, "a/b", "'a/b' is not an RFC 1123 label"),
        (NAMESPACE, [], "a list is not a text"),
        (GROUP_NAME, "a/b", "'a/b' is not an RFC 1123 subdomain, which a name is"),
        (GROUP_NAME, "A", "'A' is not an RFC 1123 subdomain"),
        (GROUP_NAME, "", "'' is empty"),
        (QUEUE_NAME, "a.b", "'a.b' is not a name of a queue"),
        (QUEUE_PATH, "a..b", "'' is not a name of a queue"),
    ],
)
def test_what_are_no_names(kind: Kind[object], value: Raw, message: str) -> None:
    with pytest.raises(FieldError) as caught:
        kind.parse(value)

    assert str(caught.value).startswith(message)
