from __future__ import annotations

import pytest

from muster.feeds import Raw
from muster.feeds._fields import CLASS_NAME, CLASS_PREEMPTS, CLASS_VALUE
from muster.feeds._kinds import FieldError, Kind


@pytest.mark.parametrize(
    ("kind", "value", "wanted"),
    [
        (CLASS_NAME, "systematic", "systematic"),
        (CLASS_VALUE, 10**9, 10**9),
        (CLASS_VALUE, -(2**31), -(2**31)),
        (CLASS_PREEMPTS, "Never", False),
        (CLASS_PREEMPTS, "PreemptLowerPriority", True),
    ],
)
def test_what_a_class_may_have(kind: Kind[object], value: Raw, wanted: object) -> None:
    assert kind.parse(value) == wanted


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (CLASS_NAME, "system-node-critical"),
        (CLASS_NAME, ""),
        (CLASS_VALUE, 10**9 + 1),
        (CLASS_VALUE, -(2**31) - 1),
        (CLASS_PREEMPTS, "never"),
        (CLASS_PREEMPTS, True),
    ],
)
def test_what_no_class_has(kind: Kind[object], value: Raw) -> None:
    with pytest.raises(FieldError):
        kind.parse(value)
