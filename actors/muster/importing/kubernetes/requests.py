"""What a pod needs: the sum of what its containers ask for, by the rule of Kubernetes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, cast

from muster.feeds._fields.kinds import FieldError
from muster.importing.kubernetes.kinds import Amounts
from muster_core.values.resources import MAX_QUANTITY

_ALWAYS: Final = "Always"
_NOTHING: Final[Amounts] = {}

Values = Mapping[str, object]


# KUBERNETES-9
def requests_of(values: Values) -> dict[str, int]:
    """Return what a pod needs, in base units, without types of which it needs none.

    Containers are added up. Init containers run one after the other before them, so that only the
    largest counts; but one that is restarted always stays, and counts beside all that start after
    it. What is said of the pod as a whole replaces the sum, and the overhead comes on top.

    Raises:
        FieldError: If it needs more than an amount can be.
    """
    stays: dict[str, int] = {}
    most: dict[str, int] = {}
    for container in _containers(values, "init_containers"):
        wanted = _wanted(container, "requests", "limits")
        if container.get("restart") == _ALWAYS:
            _add(stays, wanted)
            _raise(most, stays)
        else:
            _raise(most, _sum(stays, wanted))
    for container in _containers(values, "containers"):
        _add(stays, _wanted(container, "requests", "limits"))
    _raise(stays, most)
    stays |= _wanted(values, "pod_requests", "pod_limits")
    _add(stays, cast("Amounts", values.get("overhead", _NOTHING)))
    for name, amount in stays.items():
        if amount > MAX_QUANTITY:
            msg = f"the sum of {name} is too large: {amount}"
            raise FieldError(msg, "spec.containers")
    return {name: amount for name, amount in stays.items() if amount}


def _containers(values: Values, name: str) -> Iterable[Values]:
    return cast("Iterable[Values]", values.get(name, ()))


def _wanted(values: Values, requests: str, limits: str) -> Amounts:
    """Return requests; a type that has only a limit is requested as much."""
    return {
        **cast("Amounts", values.get(limits, _NOTHING)),
        **cast("Amounts", values.get(requests, _NOTHING)),
    }


def _add(amounts: dict[str, int], more: Amounts) -> None:
    for name, amount in more.items():
        amounts[name] = amounts.get(name, 0) + amount


def _raise(amounts: dict[str, int], least: Amounts) -> None:
    for name, amount in least.items():
        if amounts.get(name, 0) < amount:
            amounts[name] = amount


def _sum(first: Amounts, second: Amounts) -> dict[str, int]:
    total = dict(first)
    _add(total, second)
    return total
