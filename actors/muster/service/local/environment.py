"""Who runs a command, and the environment in which it runs."""

from __future__ import annotations

import os
import pwd
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final, final

import attrs

from muster.service.local.gpus import variables
from muster.service.local.jobs import Identity
from muster_core.errors import MusterError

if TYPE_CHECKING:
    from muster._surface.allocation import Allocation
    from muster_core.values.devices import DeviceStock

EVERYBODY: Final = "*"
"""The submitter that stands for all that are not named."""

_SECRETS: Final = frozenset({"MUSTER_TOKEN"})
"""What the service may have in its environment, and no command gets."""

_FOR_OTHERS: Final = ("PATH", "LANG", "LANGUAGE", "TZ", "TMPDIR")
"""What the command of another user gets from the environment of the service."""


@final
@attrs.frozen
class Surroundings:
    """What a command depends on besides its allocation.

    Attributes:
        submitter: The user of the application; None if it is gone.
        devices: The devices of the node by type; none if it is gone.
    """

    submitter: str | None
    devices: Mapping[str, DeviceStock]


class RunAsError(MusterError):
    """Commands cannot run as the users that were named."""


# LOCAL-12
def identities(run_as: tuple[tuple[str, str], ...]) -> dict[str, Identity]:
    """Return the users as whom commands run, by the submitter; ``*`` for all others.

    Raises:
        RunAsError: If a user is unknown, or only root may run commands as this user.
    """
    found = {submitter: _identity(user) for submitter, user in run_as}
    for identity in found.values():
        if not identity.is_own and os.geteuid() != 0:
            own = pwd.getpwuid(os.geteuid()).pw_name
            msg = (
                f"--run-as {identity.name}: only root can run commands as another user, and the "
                f"service runs as {own!r}: start it as root, or use --trust-submitters"
            )
            raise RunAsError(msg)
    return found


def _identity(user: str) -> Identity:
    try:
        known = pwd.getpwnam(user)
    except KeyError:
        msg = f"--run-as {user}: there is no such user on this machine"
        raise RunAsError(msg) from None
    return Identity(
        known.pw_name,
        known.pw_uid,
        known.pw_gid,
        tuple(os.getgrouplist(known.pw_name, known.pw_gid)),
        known.pw_dir,
        known.pw_shell,
        known.pw_uid == os.geteuid(),
    )


def identity_for(known: Mapping[str, Identity], submitter: str | None) -> Identity | None:
    """Return the user as whom the commands of a submitter run; None for that of the service.

    Raises:
        PermissionError: If none is named for this submitter.
    """
    if not known:
        return None
    found = known.get(submitter or "") or known.get(EVERYBODY)
    if found is None:
        msg = f"--run-as names no user for the submitter {submitter!r}"
        raise PermissionError(msg)
    return found


def home_of(identity: Identity) -> Path:
    """Return the folder where the commands of a user begin."""
    home = Path(identity.home)
    return home if home.is_dir() else Path("/")


# LOCAL-4
def environment(
    allocation: Allocation,
    asked: Mapping[str, str],
    identity: Identity | None,
    devices: Mapping[str, DeviceStock],
    more: Mapping[str, str],
) -> dict[str, str]:
    """Return the environment of a command.

    Args:
        allocation: Its allocation.
        asked: The variables that the ask names.
        identity: The user as whom it runs, or None for that of the service.
        devices: The devices of its node, by type.
        more: The variables that the service adds.
    """
    if identity is None or identity.is_own:
        base = {name: text for name, text in os.environ.items() if name not in _SECRETS}
    else:
        base = {
            name: text
            for name, text in os.environ.items()
            if name in _FOR_OTHERS or name.startswith("LC_")
        }
        base |= {
            "HOME": identity.home,
            "SHELL": identity.shell,
            "USER": identity.name,
            "LOGNAME": identity.name,
        }
    own = {
        "MUSTER_APP": allocation.app,
        "MUSTER_ASK": allocation.ask,
        "MUSTER_NODE": allocation.node,
        "MUSTER_QUEUE": allocation.queue,
    }
    return {**base, **asked, **own, **variables(allocation.devices, devices), **more}
