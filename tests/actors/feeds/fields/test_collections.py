"""Lists and maps in events, resources included."""

from __future__ import annotations

import pytest

from muster.feeds._kinds import ASKED_RESOURCES, SOME_RESOURCES, WRITTEN_RESOURCES, FieldError, Kind
from muster.feeds._raw import Plain, Raw
from muster_core.resources import Resources

WHOLE = (
    "is not a whole number of base units: only vcore has parts of a unit, so write a whole number"
)


def refusal(kind: Kind[Resources], name: str, value: Raw) -> str:
    with pytest.raises(FieldError) as caught:
        kind.parse({"vcore": 1, name: value})
    assert caught.value.place == f".{name}"
    return caught.value.message


# QUANTITY-14, DEVICE-2
@pytest.mark.parametrize("kind", [ASKED_RESOURCES, SOME_RESOURCES])
@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        (
            "nvidia.com/gpu",
            Plain("0.5"),
            (
                f"'0.5' {WHOLE}; of devices that nodes name, this share is "
                "devices: {gpu: {milli: 500}}"
            ),
        ),
        ("shard", 0.25, "devices: {shard: {milli: 250}}"),
        ("gpu", "500m", "devices: {gpu: {milli: 500}}"),
        ("nvidia.com/GPU_x", "0.5", "devices: {gpu: {milli: 500}}"),
        ("cpu", "0.5", "; the type 'cpu' is not vcore, but one of its own: write vcore"),
    ],
)
def test_a_share_in_resources_is_refused_with_what_would_be_right(
    kind: Kind[Resources], name: str, value: Raw, message: str
) -> None:
    assert refusal(kind, name, value).endswith(message)


@pytest.mark.parametrize(
    ("name", "value"),
    [("gpu", "1.5"), ("memory", "0.5"), ("vcore", "0.0001"), ("gpu", "half"), ("gpu", -0.5)],
)
def test_what_is_no_share_is_refused_as_a_quantity(name: str, value: Raw) -> None:
    assert "devices" not in refusal(ASKED_RESOURCES, name, value)


def test_a_node_has_no_shares() -> None:
    assert refusal(WRITTEN_RESOURCES, "gpu", "0.5") == f"'0.5' {WHOLE}"
