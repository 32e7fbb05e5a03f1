"""Limits of users and groups: which apply to an application, and which stand against an ask."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import attrs

from muster_core.reasons import Code
from muster_core.values.configuration import EVERY_NAME, LimitEntry
from tests.naive.picture import Picture, runs, within
from tests.naive.state import App, Ask, World, lineage, total_of


@attrs.frozen
class Standing:
    """A limit that applies to an application in one queue.

    Attributes:
        code: Whether it is that of its user or that of its group.
        name: The name of the user or of the group; None of the nameless user.
        path: The queue.
        entry: What it allows.
        shares: Says of an application whether it counts for the same sum.
    """

    code: Code
    name: str | None
    path: str
    entry: LimitEntry
    shares: Callable[[App], bool]


def user_of(app: App) -> str | None:
    """Give the name of an application's user, or None of the nameless one."""
    return app.user or None


def group_for(world: World, app: App) -> str | None:
    """Find the group for which an application counts: the first limited from the leaf up."""
    for path in lineage(app.queue):
        limited = [name for entry in world.queues[path].entries for name in entry.groups]
        found = [name for name in limited if name in app.groups and name != EVERY_NAME]
        if found:
            return found[0]
        if EVERY_NAME in limited:
            return EVERY_NAME
    return None


def look_up_anew(world: World) -> None:
    """Let applications count for another group, where no queue limits their present one."""
    for app in world.in_queues():
        limited = {
            name
            for path in lineage(app.queue)
            for entry in world.queues[path].entries
            for name in entry.groups
        }
        if app.counts_for not in limited:
            app.counts_for = group_for(world, app)


def applying(world: World, app: App) -> Iterator[Standing]:
    """Give the limits that apply to an application, from the leaf up."""
    user, group = user_of(app), app.counts_for
    for path in lineage(app.queue):
        entries = world.queues[path].entries
        own = [entry for entry in entries if user is not None and user in entry.users]
        every = [entry for entry in entries if EVERY_NAME in entry.users]
        for entry in (own or every)[:1]:
            yield Standing(Code.USER_LIMIT, user, path, entry, lambda other: user_of(other) == user)
        for entry in entries:
            if group is not None and group in entry.groups:
                yield Standing(
                    Code.GROUP_LIMIT, group, path, entry, lambda other: other.counts_for == group
                )


def over(picture: Picture, ask: Ask) -> list[Standing]:
    """Give the ``maxresources`` above which an ask would bring its user or its group."""
    return [one for one in applying(picture.world, ask.app) if not _has_room(picture, one, ask)]


def _has_room(picture: Picture, limit: Standing, ask: Ask) -> bool:
    counted = [
        held
        for held in picture.held
        if limit.path in lineage(held.app.queue) and limit.shares(held.app)
    ]
    return within(ask.wants, total_of(counted), dict(limit.entry.max.amounts))


def full(picture: Picture, app: App) -> list[Standing]:
    """Give the ``maxapplications`` that keep an application which does not run waiting."""
    if runs(app):
        return []
    return [one for one in applying(picture.world, app) if _is_full(picture, one)]


def _is_full(picture: Picture, limit: Standing) -> bool:
    there = [app for app in picture.world.below(limit.path) if limit.shares(app)]
    most = limit.entry.max_applications
    return most > 0 and sum(map(runs, there)) >= most


def against(picture: Picture, ask: Ask, code: Code) -> list[Standing]:
    """Give the limits of users, or those of groups, that keep an ask from running."""
    both = over(picture, ask) + full(picture, ask.app)
    found = [one for one in both if one.code is code]
    return sorted(found, key=lambda one: -len(lineage(one.path)))
