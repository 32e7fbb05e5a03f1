"""What users and groups have, queue by queue."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from muster.service.yunikorn.objects.forms import Made, Seen, bounded
from muster_core.config.names import ROOT
from muster_core.structures.steps import in_pieces
from muster_core.structures.totals import add_to

if TYPE_CHECKING:
    from muster_core.snapshots import LimitSnapshot
    from muster_core.structures.steps import Steps
    from muster_core.view.tree.application import ViewApp

_Limits = dict[tuple[str, str], "LimitSnapshot"]
_SEPARATOR: Final = "."


# REST-21
def users(seen: Seen) -> Steps[list[Made]]:
    """Return the users of live applications, by name."""
    limits: _Limits = {
        (limit.user, limit.queue): limit for limit in seen.view.limits() if limit.user is not None
    }
    by_user: dict[str, list[ViewApp]] = {}
    for piece in in_pieces(seen.view.apps.values()):
        yield
        for app in piece:
            user = app.identity.user[0]
            if user is not None:
                by_user.setdefault(user, []).append(app)
    made: list[Made] = []
    for user, apps in sorted(by_user.items()):
        yield
        groups = {app.identity.name: app.group for app in apps if app.group is not None}
        made.append({"userName": user, "groups": groups, "queues": _usage(user, apps, limits)})
    return made


# REST-21
def groups(seen: Seen) -> Steps[list[Made]]:
    """Return the groups for which applications count under a limit, by name."""
    limits: _Limits = {
        (limit.group, limit.queue): limit for limit in seen.view.limits() if limit.group is not None
    }
    limited = {name for name, _ in limits}
    by_group: dict[str, list[ViewApp]] = {}
    for piece in in_pieces(seen.view.apps.values()):
        yield
        for app in piece:
            if app.group in limited:
                by_group.setdefault(app.group, []).append(app)
    made: list[Made] = []
    for group, apps in sorted(by_group.items()):
        yield
        names = [app.identity.name for app in apps]
        usage = _usage(group, apps, limits)
        made.append({"groupName": group, "applications": names, "queues": usage})
    return made


def _usage(who: str, apps: Iterable[ViewApp], limits: _Limits) -> Made:
    """Return what applications have in each queue on their paths, from the root down."""
    made: dict[str, Made] = {}
    for app in apps:
        names = app.identity.path.split(_SEPARATOR)
        for depth in range(len(names)):
            path = _SEPARATOR.join(names[: depth + 1])
            one = made.get(path)
            if one is None:
                one = made[path] = _begun(path, limits.get((who, path)))
                if depth:
                    made[_SEPARATOR.join(names[:depth])]["children"].append(one)
            usage = one["resourceUsage"]
            add_to(usage, {name: amount for name, amount in app.allocated.items() if amount})
            usage.update(bounded(usage))
            if app.running:
                one["runningApplications"].append(app.identity.name)
    return made[ROOT]


def _begun(path: str, limit: LimitSnapshot | None) -> Made:
    made: Made = {
        "queuePath": path,
        "resourceUsage": {},
        "runningApplications": [],
        "children": [],
    }
    if limit is not None:
        if limit.max:
            made["maxResources"] = dict(limit.max)
        if limit.max_applications:
            made["maxApplications"] = limit.max_applications
    return made
