"""Properties of a queue, from their texts: own values, inherited values, defaults."""

from __future__ import annotations

import re
from collections.abc import Mapping

import attrs

from muster_core.config.model import (
    DeadlockPolicy,
    PreemptionPolicy,
    SchedulingOrder,
    Settings,
    SortPolicy,
)

INT32_MIN = -(2**31)
INT32_MAX = 2**31 - 1

_UNITS_US = {"us": 1, "ms": 1_000, "s": 1_000_000, "m": 60_000_000, "h": 3_600_000_000}


def parse_offset(text: str) -> int:
    """Read ``priority.offset`` as Go's ``strconv.ParseInt(text, 10, 32)``; what it refuses is 0."""
    if not re.fullmatch(r"[+-]?[0-9]+", text):
        return 0
    value = int(text)
    return value if INT32_MIN <= value <= INT32_MAX else 0


def parse_duration_us(text: str) -> int:
    """Read a duration such as ``30s``, ``1m30s`` or ``0``."""
    parts = re.findall(r"([0-9]+)(us|ms|s|m|h)?", text)
    return sum(int(number) * _UNITS_US[unit or "s"] for number, unit in parts)


def resolve(texts: Mapping[str, str], parent: Settings | None) -> Settings:
    """Give the settings of a queue below one with the settings ``parent`` (None: the root)."""
    above = Settings() if parent is None else inherit(parent)
    own = {name.lower(): text.strip().lower() for name, text in texts.items()}

    def said(name: str) -> bool | None:
        return own[name] in {"enabled", "true"} if name in own else None

    def switch(name: str, otherwise: bool) -> bool:
        answer = said(name)
        return otherwise if answer is None else answer

    def duration(name: str, otherwise: int) -> int:
        return parse_duration_us(own[name]) if name in own else otherwise

    estimate = above.estimate_us
    if "estimate.default" in own:
        estimate = parse_duration_us(own["estimate.default"])
    limit = above.priority_limit
    if "priority.limit" in own:
        limit = int(own["priority.limit"])
    settings = Settings(
        sort_policy=SortPolicy(own.get("application.sort.policy", above.sort_policy)),
        sort_by_priority=switch("application.sort.priority", above.sort_by_priority),
        blocking=switch("application.sort.blocking", above.blocking),
        fence=own.get("priority.policy") == "fence",
        offset=parse_offset(own.get("priority.offset", "")),
        queue_priority=int(own.get("queue.priority", "0")),
        reclaimable=switch("queue.reclaimable", above.reclaimable),
        create=above.create if (own_create := said("queue.create")) is None else own_create,
        preemption_policy=PreemptionPolicy(own.get("preemption.policy", above.preemption_policy)),
        preemption_delay_us=duration("preemption.delay", above.preemption_delay_us),
        required_node=switch("preemption.required.node", above.required_node),
        bind_retry_us=duration("bind.retry.delay", above.bind_retry_us),
        scheduling_order=SchedulingOrder(own.get("scheduling.order", "greedy")),
        backfill_depth=int(own.get("backfill.depth", "1")),
        estimate_us=estimate,
        priority_limit=limit,
    )
    if parent is not None:
        return settings
    return attrs.evolve(
        settings,
        gang_wait_us=duration("gang.wait.time", above.gang_wait_us),
        deadlock_policy=DeadlockPolicy(own.get("gang.deadlock.policy", above.deadlock_policy)),
    )


def inherit(parent: Settings) -> Settings:
    """Give the settings of a queue that says nothing itself."""
    policy = PreemptionPolicy.DEFAULT
    if parent.preemption_policy is PreemptionPolicy.DISABLED:
        policy = PreemptionPolicy.DISABLED
    return Settings(
        sort_policy=parent.sort_policy,
        sort_by_priority=parent.sort_by_priority,
        blocking=parent.blocking,
        reclaimable=parent.reclaimable,
        create=parent.create,
        preemption_policy=policy,
        preemption_delay_us=parent.preemption_delay_us,
        required_node=parent.required_node,
        bind_retry_us=parent.bind_retry_us,
        estimate_us=parent.estimate_us,
        priority_limit=parent.priority_limit,
    )
