"""Schemas of the objects of a cluster: what they have beside the fields that `apply` reads as well.

Amounts may have parts of a base unit here.
"""

from __future__ import annotations

import re
from fractions import Fraction
from typing import Final

from muster.feeds import parse_date
from muster.feeds._affinity import NODE_TERMS
from muster.feeds._kinds import (
    BOOLEAN,
    NAME,
    TEXT,
    WORD,
    WORDS,
    FieldError,
    Kind,
    as_written,
    integer,
    refused,
)
from muster.feeds._kubernetes import Amounts, node_schema, pod_schema, room_fields
from muster.feeds._raw import Raw
from muster.feeds._schema import ObjectSchema, list_of, schema_field, unless_empty
from muster_core.config.tree import is_null
from muster_core.errors import QuantityError
from muster_core.values.resources import MAX_INT32, MAX_QUANTITY, VCORE, parse_quantity

_CPU: Final = "cpu"
_FINE: Final = re.compile(r"([0-9]{1,40}(?:\.[0-9]{0,40})?)(n|u|m|)", re.ASCII)
_PARTS: Final = {"n": 10**9, "u": 10**6, "m": 10**3, "": 1}


def _parse_amounts(value: Raw) -> Amounts:
    if not isinstance(value, dict):
        raise refused(value, "is not a map of resource types and quantities")
    amounts: dict[str, int] = {}
    for name, written in value.items():
        # QUANTITY-12
        key = VCORE if name == _CPU else str(name)
        if not key:
            msg = "a resource type has an empty name"
            raise FieldError(msg)
        try:
            amounts[key] = max(_amount(key, written), amounts.get(key, 0))
        except QuantityError as error:
            raise FieldError(str(error), f".{name}") from None
    return amounts


# KUBERNETES-9
def _amount(key: str, written: Raw) -> int:
    """Return a quantity in base units; parts of one are rounded up, as Kubernetes does."""
    try:
        return parse_quantity(key, None if is_null(written) else written)
    except QuantityError:
        match = _FINE.fullmatch(text := str(written))
        if match is None:
            raise
    units = Fraction(match[1]) * (1000 if key == VCORE else 1) / _PARTS[match[2]]
    amount = -(-units.numerator // units.denominator)
    if amount > MAX_QUANTITY:
        msg = f"{text[:80]!r} is more than {MAX_QUANTITY}"
        raise QuantityError(msg)
    return amount


def _parse_instant(value: Raw) -> int:
    text = TEXT.parse(value)
    try:
        at_us = parse_date(text)
    except (ValueError, OverflowError):
        at_us = -1
    if at_us < 0:
        raise refused(value, "is no date and time such as 2026-01-31T18:30:00Z")
    return at_us


def _parse_presence(value: Raw) -> bool:
    return not is_null(value) and value not in ({}, [], "")


QUANTITIES: Final[Kind[Amounts]] = Kind("map of quantities", _parse_amounts, as_written)
INSTANT: Final = Kind("date and time", _parse_instant, as_written)
PRESENCE: Final = Kind("anything", _parse_presence, as_written)
"""Whether there is something, whatever it is."""


_OWNER: Final = ObjectSchema({
    "kind": schema_field("kind", TEXT),
    "name": schema_field("name", TEXT),
    "controller": schema_field("controller", BOOLEAN),
})  # fmt: skip

_PORT: Final = ObjectSchema({
    "hostPort": schema_field("host_port", integer(0, MAX_INT32, f"0 … {MAX_INT32}")),
    "protocol": schema_field("protocol", unless_empty(TEXT)),
})  # fmt: skip

_STATE: Final = {
    "running": ObjectSchema({"startedAt": schema_field("running_since", INSTANT)}),
    "terminated": ObjectSchema({
        "startedAt": schema_field("started", INSTANT),
        "finishedAt": schema_field("finished", INSTANT),
    }),
}  # fmt: skip

_STATUSES: Final = list_of(ObjectSchema({"state": ObjectSchema(_STATE)}))

_CONDITION: Final = ObjectSchema({
    "type": schema_field("type", TEXT),
    "status": schema_field("status", WORD),
    "lastTransitionTime": schema_field("since", INSTANT),
    "reason": schema_field("reason", TEXT),
    "message": schema_field("message", TEXT),
})  # fmt: skip

_ROOM: Final = room_fields(
    QUANTITIES, limits=True, of_container={"ports": schema_field("ports", list_of(_PORT))}
)

ROOM: Final = ObjectSchema({"spec": ObjectSchema(_ROOM)})
"""The fields of a Pod that decide the amounts that it takes on its node."""

_SPREAD: Final = ObjectSchema({"whenUnsatisfiable": schema_field("otherwise", TEXT)})

_VOLUME: Final = ObjectSchema({
    "name": schema_field("name", TEXT),
    "persistentVolumeClaim": ObjectSchema({"claimName": schema_field("claim", TEXT)}),
    "ephemeral": schema_field("ephemeral", PRESENCE),
})  # fmt: skip

_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"

# KUBERNETES-4
POD: Final = pod_schema(_ROOM).with_fields(ObjectSchema({
    "metadata": ObjectSchema({
        "uid": schema_field("uid", TEXT),
        "creationTimestamp": schema_field("created", INSTANT, required=True),
        "deletionTimestamp": schema_field("deleted", INSTANT),
        "ownerReferences": schema_field("owners", list_of(_OWNER)),
    }),
    "spec": ObjectSchema({
        "affinity": ObjectSchema({
            "nodeAffinity": ObjectSchema({_PREFERRED: schema_field("preferred", PRESENCE)}),
            "podAffinity": ObjectSchema({
                _REQUIRED: schema_field("pod_affinity", PRESENCE),
                _PREFERRED: schema_field("preferred_pods", PRESENCE),
            }),
            "podAntiAffinity": ObjectSchema({
                _REQUIRED: schema_field("pod_anti_affinity", PRESENCE),
                _PREFERRED: schema_field("averse_pods", PRESENCE),
            }),
        }),
        "schedulingGates": schema_field("gates", PRESENCE),
        "topologySpreadConstraints": schema_field("spread", list_of(_SPREAD)),
        "resourceClaims": schema_field("resource_claims", PRESENCE),
        "runtimeClassName": schema_field("runtime_class", PRESENCE),
        "volumes": schema_field("volumes", list_of(_VOLUME)),
    }),
    "status": ObjectSchema({
        "startTime": schema_field("accepted", INSTANT),
        "conditions": schema_field("conditions", list_of(_CONDITION)),
        "containerStatuses": schema_field("statuses", _STATUSES),
        "initContainerStatuses": schema_field("init_statuses", _STATUSES),
    }),
}))  # fmt: skip
"""A Pod."""

_NODE: Final = node_schema(QUANTITIES)

NODE: Final = _NODE.with_fields(
    ObjectSchema(
        {"metadata": ObjectSchema({"creationTimestamp": schema_field("created", INSTANT)})}
    )
)
"""A Node."""

PRESENT_NODE: Final = _NODE.with_fields(ObjectSchema({
    "status": ObjectSchema({
        "conditions": schema_field("conditions", list_of(ObjectSchema({
            "type": schema_field("type", TEXT),
            "status": schema_field("status", WORD),
        }))),
    }),
}))  # fmt: skip
"""A Node that is there: one that is not ready takes no pods."""

CLAIM: Final = ObjectSchema({
    "spec": ObjectSchema({"volumeName": schema_field("volume", unless_empty(TEXT))}),
    "status": ObjectSchema({"phase": schema_field("phase", TEXT)}),
})  # fmt: skip
"""A PersistentVolumeClaim."""

VOLUME: Final = ObjectSchema({
    "spec": ObjectSchema({"nodeAffinity": ObjectSchema({"required": NODE_TERMS})}),
})  # fmt: skip
"""A PersistentVolume."""

ELASTIC_QUOTA: Final = ObjectSchema({
    "metadata": ObjectSchema({"name": schema_field("name", NAME, required=True), "labels": schema_field("labels", WORDS)}),
    "spec": ObjectSchema({"min": schema_field("min", QUANTITIES), "max": schema_field("max", QUANTITIES)}),
})  # fmt: skip
"""An ElasticQuota of Koordinator."""

VOLCANO_GROUP: Final = ObjectSchema(
    {"spec": ObjectSchema({"queue": schema_field("queue", unless_empty(NAME))})}
)
"""The fields of a PodGroup of Volcano beside those of others."""
