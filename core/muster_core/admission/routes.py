"""Routes: the messages to owners that the admission of an event leads to."""

from __future__ import annotations

from typing import final

from muster_core.owners.messages.asks import AppIdentity
from muster_core.owners.messages.gangs import ToGang
from muster_core.owners.messages.queues import LoadQueue, Retire, SetQueue
from muster_core.owners.messages.to_applications import AppRequest, LoadApp
from muster_core.values.configuration.partition import QueueConfig
from muster_core.values.records import record


@final
@record
class StartQueue:
    """Start a queue."""

    key: int
    parent: int | None
    config: QueueConfig


@final
@record
class TellQueue:
    """Send a message to a queue."""

    key: int
    message: SetQueue | Retire | LoadQueue


@final
@record
class StartApp:
    """Start an application."""

    identity: AppIdentity


@final
@record
class TellApp:
    """Send a message to an application."""

    key: int
    message: AppRequest | LoadApp


Route = StartQueue | TellQueue | StartApp | TellApp
"""A message to a queue or an application, or the start of one."""


@final
@record
class StartGang:
    """Start a gang."""

    key: int
    name: str


@final
@record
class TellGang:
    """Send a message to a gang."""

    key: int
    message: ToGang


GangRoute = StartGang | TellGang

AnyRoute = Route | GangRoute
"""A message to any owner, or the start of one."""
