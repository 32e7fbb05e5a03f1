"""The pod of Kubernetes of an ask, and why a pod has no ask.

An ask of a live cluster runs no command of Muster's. Its ``env`` names its pod, by the variables with
which manifests commonly pass on the fields of the downward API; so it is in the store, in a converted
feed and in every list, and the core knows nothing of it.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from enum import StrEnum
from typing import Final, final

import attrs

from muster_core.events import Work

_VARIABLES: Final = {
    "namespace": "POD_NAMESPACE",
    "name": "POD_NAME",
    "uid": "POD_UID",
    "owner": "POD_OWNER",
}


# POD-1
@final
@attrs.frozen
class PodIdentity:
    """A pod.

    Attributes:
        namespace: Its namespace.
        name: Its name.
        uid: Its uid, which no other object ever has.
        owner: What controls it, such as ``Job/train``; empty if nothing does.
    """

    namespace: str
    name: str
    uid: str
    owner: str = ""

    @property
    def full_name(self) -> str:
        """Its namespace and its name."""
        return f"{self.namespace}/{self.name}"

    def work(self) -> Work:
        """Return the work of its ask."""
        variables = {variable: getattr(self, name) for name, variable in _VARIABLES.items()}
        return Work(env={variable: text for variable, text in variables.items() if text})

    @classmethod
    def of(cls, work: Work | None) -> PodIdentity | None:
        """Return the pod of an ask with this work; None if it is another ask."""
        if work is None:
            return None
        get = work.env.get
        namespace, name, uid, owner = map(get, _VARIABLES.values())
        # A search for one pod asks this of tens of thousands.
        return cls(namespace, name, uid, owner or "") if namespace and name and uid else None


# POD-13
def deletion_of(namespace: str | None, *what: str | None) -> str:
    """Return the command that deletes something of a cluster; empty if a part is not known."""
    words = [one for one in (namespace, *what) if one]
    if len(words) <= len(what):
        return ""
    return shlex.join(("kubectl", "-n", words[0], "delete", *words[1:]))


@final
@attrs.frozen
class PodFilter:
    """Which pods are meant; None for all.

    Attributes:
        namespace: Those of this namespace.
        name: Those of this name.
    """

    namespace: str | None = None
    name: str | None = None

    def admits(self, pod: PodIdentity | None) -> bool:
        """Return whether something is a pod, and is meant."""
        return (
            pod is not None
            and self.namespace in {None, pod.namespace}
            and self.name in {None, pod.name}
        )

    def finds(self, work: Work | None) -> bool:
        """Return whether an ask with this work has a pod that passes the filter."""
        if work is None or self.name not in {None, work.env.get(_VARIABLES["name"])}:
            return False
        return self.admits(PodIdentity.of(work))


@final
class PodCode(StrEnum):
    """Why a pod has no ask; the reasons of asks are those of the core."""

    # POD-11
    NOT_SUPPORTED = "NotSupported"
    # POD-12
    NOT_QUEUED = "NotQueued"
    SCHEDULING_GATED = "SchedulingGated"
    # POD-30
    OTHER_SCHEDULER = "OtherScheduler"


WAITING: Final = tuple(one for one in PodCode if one is not PodCode.OTHER_SCHEDULER)
"""Those of pods that wait for this scheduler."""

PodReasons = Sequence[tuple[str, str]]
"""Why a pod has no ask: codes and sentences."""
