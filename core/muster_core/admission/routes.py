"""Routes: what the admission of an event leads to, and who is told of it."""

from __future__ import annotations

from typing import final

from muster_core.owners.messages.asks import AppIdentity
from muster_core.owners.messages.gangs import ToGang
from muster_core.owners.messages.queues import Retire, SetQueue
from muster_core.owners.messages.to_applications import AppRequest
from muster_core.values.configuration import QueueConfig
from muster_core.values.records import record


@final
@record
class StartQueue:
    """A queue begins to exist."""

    key: int
    parent: int | None
    config: QueueConfig


@final
@record
class TellQueue:
    """A queue is to be told something."""

    key: int
    message: SetQueue | Retire


@final
@record
class StartApp:
    """An application begins to exist."""

    identity: AppIdentity


@final
@record
class TellApp:
    """An application is to be told something."""

    key: int
    message: AppRequest


Route = StartQueue | TellQueue | StartApp | TellApp
"""What the admission of a request leads to, in this order."""


@final
@record
class StartGang:
    """A gang begins to exist."""

    key: int
    name: str


@final
@record
class TellGang:
    """A gang is to be told something."""

    key: int
    message: ToGang


GangRoute = StartGang | TellGang

AnyRoute = Route | GangRoute
"""Everything that the admission of an event leads to, in this order."""
