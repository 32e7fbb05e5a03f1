"""Annotations that say something about a gang."""

from __future__ import annotations

import json

from muster.feeds._objects.gang_marks import KOORDINATOR
from muster.feeds._written.amounts import Written
from muster_core.events import AddAsk
from muster_core.gangs.definition import GangFields

NAME = f"{KOORDINATOR}/name"
TIMEOUT = f"{KOORDINATOR}/timeout"


def member_marks(event: AddAsk) -> Written:
    """Return the annotations on a member, without the one that names the gang."""
    marks = object_marks(event.says)
    if event.says.min_member is not None:
        marks[f"{KOORDINATOR}/min-available"] = str(event.says.min_member)
    if event.says.wait_us is not None:
        marks[f"{KOORDINATOR}/waiting-time"] = f"{event.says.wait_us}us"
    if event.timed_out:
        marks[TIMEOUT] = "true"
    return marks


def object_marks(says: GangFields) -> Written:
    """Return the annotations that members and PodGroups have in common."""
    marks: Written = {}
    if says.total is not None:
        marks[f"{KOORDINATOR}/total-number"] = str(says.total)
    if says.mode is not None:
        marks[f"{KOORDINATOR}/mode"] = says.mode.value
    if says.groups is not None:
        marks[f"{KOORDINATOR}/groups"] = json.dumps(says.groups)
    return marks
