"""Reasons that all pending asks of an application have, although they do not prevent placement."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from muster_core.admission.placement import RECOVERY
from muster_core.config.acl import admits, has_acl
from muster_core.config.names import ROOT
from muster_core.values.reasons import Code, PendingReason

if TYPE_CHECKING:
    from collections.abc import Iterator

    from muster_core.admission.registry import Registry
    from muster_core.owners.messages.asks import AppIdentity


# Looking up a member of an enum takes ten times as long.
_DRAINING: Final = Code.DRAINING
_USER_NOT_ALLOWED: Final = Code.USER_NOT_ALLOWED


# REASON-3
def application_reasons(registry: Registry, identity: AppIdentity) -> Iterator[PendingReason]:
    """Yield the reasons why the application could not be submitted to its queue now.

    Args:
        registry: The registry.
        identity: The application.
    """
    path = list(registry.leaf_of(identity.key).upward())
    draining = [entry.config.path for entry in path if entry.draining]
    if draining:
        message = (
            f"{draining[-1]} is draining: it takes no new application; what is there is served"
        )
        yield PendingReason(_DRAINING, message, {"queue": draining[-1]})
    # PLACEMENT-15
    if identity.path == f"{ROOT}.{RECOVERY}":  # Nobody has to be admitted there.
        return
    user, groups = identity.user
    any_acl = has_acl(registry.configuration)
    if not admits([entry.config for entry in path], user, groups, any_acl=any_acl):
        who = "nobody in particular" if user is None else f"user {user}"
        message = f"{identity.path} does not admit {who} any more; what is there is served"
        yield PendingReason(_USER_NOT_ALLOWED, message, {"queue": identity.path, "user": user})
