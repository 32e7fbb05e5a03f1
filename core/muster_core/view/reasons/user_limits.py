"""The reasons that follow from the limits of users and groups (LIMIT-9, LIMIT-13)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, final

from muster_core.values.configuration.user_limits import EVERY_NAME
from muster_core.values.reasons import Code, PendingReason
from muster_core.view.reasons.words import amount, counted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from muster_core.owners.messages.asks import Ask
    from muster_core.values.reasons import Fact
    from muster_core.view.tree.application import ViewApp
    from muster_core.view.tree.user_limit import ViewLimit

# Looking up a member of an enum takes ten times as long, and this is done for each ask.
_USER_LIMIT: Final = Code.USER_LIMIT
_GROUP_LIMIT: Final = Code.GROUP_LIMIT


@final
class _Found:
    """What the limits of one kind, of users or of groups, have against an ask."""

    def __init__(self) -> None:
        self.parts: list[str] = []
        self.name: str | None = None
        self.queue: str | None = None
        self.left: dict[str, int] = {}
        self.applications: dict[str, int] = {}

    def reason(self, code: Code, field: str) -> PendingReason:
        """Return the reason."""
        facts: dict[str, Fact] = {field: self.name, "queue": self.queue}
        if self.left:
            facts["left"] = self.left
        if self.applications:
            facts["maxapplications"] = self.applications
        return PendingReason(code, "; ".join(self.parts), facts)


def limit_reasons(app: ViewApp, ask: Ask) -> Iterator[PendingReason]:
    """Yield which limits an ask would exceed: those of its user, then those of its group."""
    for of_group, code, field in (
        (False, _USER_LIMIT, "user"),
        (True, _GROUP_LIMIT, "group"),
    ):
        found = _Found()
        for limit in app.limits:
            if limit.key.of_group is of_group:
                _add_amounts(found, limit, ask)
                _add_applications(found, limit, app)
                if found.parts and found.queue is None:
                    found.name, found.queue = limit.key.name, limit.path
        if found.parts:
            yield found.reason(code, field)


def named_limit(limit: ViewLimit[ViewApp]) -> str:
    """Name a limit: whose it is, and where."""
    return f"the limit of {_whom(limit)} in {limit.path}"


def _whom(limit: ViewLimit[ViewApp]) -> str:
    of_group, name = limit.key.of_group, limit.key.name
    if name == EVERY_NAME and of_group:
        return "all other groups"
    if name is None:
        return "applications without a user"
    return f"{'group' if of_group else 'user'} {name}"


def _add_amounts(found: _Found, limit: ViewLimit[ViewApp], ask: Ask) -> None:
    for kind, most in limit.entry.max.amounts:
        wanted, used = ask.resources[kind], limit.used.get(kind, 0)
        if wanted and used + wanted > most:
            found.left[f"{limit.path} {kind}"] = room = max(most - used, 0)
            found.parts.append(
                f"it asks for {amount(kind, wanted)}, and {named_limit(limit)} leaves "
                f"{amount(kind, room)} of {amount(kind, most)}"
            )


def _add_applications(found: _Found, limit: ViewLimit[ViewApp], app: ViewApp) -> None:
    if limit.is_full and not app.running:
        most = limit.entry.max_applications
        found.applications[limit.path] = most
        others = counted(limit.running, "other runs", "others run")
        found.parts.append(
            f"application {app.identity.name} is not tried: {named_limit(limit)} is "
            f"{counted(most, 'application', 'applications')}, and {others}"
        )
