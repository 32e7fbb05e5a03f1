"""The kind of the field that says how the work of an ask has ended."""

from __future__ import annotations

from typing import Final

from muster.feeds._fields.kinds import Kind
from muster.feeds._fields.texts import one_of
from muster_core.events import Outcome

_OUTCOME: Final = one_of(*(outcome.value for outcome in Outcome))
# BACKOFF-11
OUTCOME: Final = Kind(_OUTCOME.name, lambda value: Outcome(_OUTCOME.parse(value)), _OUTCOME.normal)
