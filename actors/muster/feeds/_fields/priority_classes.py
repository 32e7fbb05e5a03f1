"""Kinds of the fields of a priority class, in events and in manifests."""

from __future__ import annotations

from typing import Final

from muster.feeds._encodings.raw import Raw
from muster.feeds._fields.kinds import FieldError, Kind, told
from muster.feeds._fields.numbers import integer
from muster.feeds._fields.texts import NAME, one_of
from muster_core.values.event_fields import SYSTEM_PREFIX, USERS_PRIORITIES, is_users_class

_NEVER: Final = "Never"
_PREEMPTS: Final = "PreemptLowerPriority"


def _parse_class_name(value: Raw) -> str:
    name = NAME.parse(value)
    if not is_users_class(name):
        msg = f"{told(value)} starts with '{SYSTEM_PREFIX}', which is for the built-in classes"
        raise FieldError(msg)
    return name


CLASS_NAME: Final = Kind("name, not starting with `system-`", _parse_class_name, NAME.normal)
CLASS_VALUE: Final = integer(*USERS_PRIORITIES, f"int32, at most {USERS_PRIORITIES[1]}")
_POLICY: Final = one_of(_NEVER, _PREEMPTS)
# PRIORITY-8
CLASS_PREEMPTS: Final = Kind(
    _POLICY.name, lambda value: _POLICY.parse(value) == _PREEMPTS, _POLICY.normal
)
