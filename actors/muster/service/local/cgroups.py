"""Cgroups (version 2): each command runs in one of its own, with limits where the service may.

The service works in the cgroup in which it was started, its *base*, and in what is below::

    BASE                          the limits of what is below are switched on here
        muster-service            the service itself and its keepers, if BASE must be empty
        muster-HASH-NUMBER        the command of one allocation; HASH stands for the state directory

The kernel lets a cgroup that is not the root of all either have processes, or switch on limits
for what is below it. So the service moves out of BASE, unless it was started in ``muster-service``
already, as systemd does with ``DelegateSubgroup``: then BASE is the cgroup above.
"""

from __future__ import annotations

import hashlib
import logging
import os
import re
from collections.abc import Collection, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final, final

from muster import _keeper as keeper

_LOG: Final = logging.getLogger("muster.service")

LEAF: Final = "muster-service"
"""The cgroup of the service itself, below its base."""

_PROC: Final = Path("/proc/self")

_CONTROLLERS: Final = ("cpu", "memory")
"""What can limit a command, in the order in which the log names them."""

_ENABLED: Final = "cgroup.subtree_control"
_PROCESSES: Final = "cgroup.procs"

_UNITS: Final = (".service", ".scope", ".slice")
"""How the cgroups of systemd's units end."""

_PERIOD_US: Final = 100_000
"""The time over which the use of processors is limited, in microseconds: that of the kernel."""

_LEAST_US: Final = 1_000
"""The least time on processors in such a period, in microseconds: the kernel takes no less."""

_ESCAPED: Final = re.compile(r"\\([0-7]{3})")
"""A character of a path that mountinfo writes as its number."""


class NoCgroupsError(Exception):
    """The service may not put commands into cgroups; the message says why."""


# LOCAL-15
def own_cgroup(proc: Path = _PROC) -> Path:
    """Return the folder of the cgroup in which this process is.

    Args:
        proc: The folder of the process in ``/proc``.

    Raises:
        NoCgroupsError: If there is none that can be reached.
    """
    try:
        lines = (proc / "cgroup").read_text(encoding="utf-8", errors="replace").splitlines()
        mounts = (proc / "mountinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError as error:
        msg = f"{error.filename}: {error.strerror}"
        raise NoCgroupsError(msg) from None
    own = next((line[3:] for line in lines if line.startswith("0::")), None)
    if own is None:
        msg = "this system has no cgroups of version 2"
        raise NoCgroupsError(msg)
    for line in mounts:
        about, _, kind = line.partition(" - ")
        if kind.startswith("cgroup2 "):
            root, point = (_unescaped(part) for part in about.split(" ")[3:5])
            is_below = own == root or own.startswith(f"{root.rstrip('/')}/")
            if is_below and ".." not in own.split("/"):
                return Path(point) / own[len(root) :].lstrip("/")
    msg = (
        f"the cgroup {own} of the service is in no file system of the kind cgroup2 that is mounted"
    )
    raise NoCgroupsError(msg)


def _unescaped(path: str) -> str:
    return _ESCAPED.sub(lambda found: chr(int(found[1], 8)), path)


@final
class Cgroups:
    """The cgroups of the commands of one service.

    Args:
        state: The folder of its state, which distinguishes its cgroups from those of others.
        own: The cgroup in which the service is.

    Attributes:
        base: The cgroup below which all are.
        limits: The controllers that limit commands.
        unlimited: Why each of the other controllers limits nothing.

    Raises:
        NoCgroupsError: If the service may not; then everything is as it was.
    """

    def __init__(self, state: Path, own: Path) -> None:
        name = hashlib.sha256(os.fsencode(state)).hexdigest()[:12]
        self.base: Final = own.parent if own.name == LEAF else own
        self._prefix = f"muster-{name}-"
        self._has_moved = False
        self.limits: list[str] = []
        self.unlimited: dict[str, str] = {}
        try:
            if not os.access(self.base / _PROCESSES, os.W_OK):
                msg = f"{self.base} does not belong to the service"
                raise NoCgroupsError(msg)
            if not _is_delegated(self.base):
                msg = f"systemd has not delegated {self.base} to the service"
                raise NoCgroupsError(msg)
            trial = self.base / f"{self._prefix}trial"
            keeper.clear_cgroup(trial)
            trial.mkdir()
            trial.rmdir()
        except OSError as error:
            msg = f"{self.base} does not belong to the service: {error.strerror}"
            raise NoCgroupsError(msg) from None
        try:
            self._enable(is_inside=own == self.base)
        except NoCgroupsError:
            self._move_back()
            raise

    # LOCAL-16
    def _enable(self, *, is_inside: bool) -> None:
        """Switch on what limits commands, as far as it can be had here."""
        available = _words(self.base / "cgroup.controllers")
        missing = set(available) - set(_words(self.base / _ENABLED))
        # The root of all has no type, and may have processes besides.
        if is_inside and (self.base / "cgroup.type").exists() and missing & set(_CONTROLLERS):
            self._move_out()
        for one in _CONTROLLERS:
            try:
                if one in missing:
                    (self.base / _ENABLED).write_text(f"+{one}", encoding="ascii")
            except OSError as error:
                self.unlimited[one] = str(error.strerror)
            else:
                if one in available:
                    self.limits.append(one)
                else:
                    self.unlimited[one] = "not available there"

    def _move_out(self) -> None:
        """Move the service into a cgroup of its own below the base."""
        others = set(_words(self.base / _PROCESSES)) - {str(os.getpid())}
        if others:
            msg = f"other processes are in {self.base}, too: {', '.join(sorted(others)[:3])}"
            raise NoCgroupsError(msg)
        leaf = self.base / LEAF
        try:
            leaf.mkdir(exist_ok=True)
            self._has_moved = True
            (leaf / _PROCESSES).write_text(str(os.getpid()), encoding="ascii")
        except OSError as error:
            msg = f"the service cannot move to {leaf}: {error.strerror}"
            raise NoCgroupsError(msg) from None

    def _move_back(self) -> None:
        """Move the service back to where it was started, if nothing else needs what is below."""
        if self._has_moved:
            with suppress(OSError):
                for one in self.limits:
                    (self.base / _ENABLED).write_text(f"-{one}", encoding="ascii")
                (self.base / _PROCESSES).write_text(str(os.getpid()), encoding="ascii")
            keeper.clear_cgroup(self.base / LEAF, is_ended=False)

    def make(self, number: int, resources: Mapping[str, int]) -> Path:
        """Make the cgroup for the command of an allocation.

        Args:
            number: The number of the allocation.
            resources: What its ask asks for; without ``vcore`` or ``memory`` there is no such limit.

        Raises:
            OSError: If it cannot be made.
        """
        made = self.base / f"{self._prefix}{number}"
        keeper.clear_cgroup(made)
        made.mkdir()
        try:
            self._limit(made, resources)
        except OSError:
            keeper.clear_cgroup(made)
            raise
        return made

    # LOCAL-16
    def _limit(self, made: Path, resources: Mapping[str, int]) -> None:
        vcore, memory = resources.get("vcore", 0), resources.get("memory", 0)
        if vcore and "cpu" in self.limits:
            quota_us = max(_LEAST_US, vcore * _PERIOD_US // 1000)
            (made / "cpu.max").write_text(f"{quota_us} {_PERIOD_US}", encoding="ascii")
        if memory and "memory" in self.limits:
            (made / "memory.max").write_text(str(memory), encoding="ascii")
            with suppress(OSError):  # a kernel without swap has no such file
                (made / "memory.swap.max").write_text("0", encoding="ascii")

    # LOCAL-18
    def clean(self, known: Collection[int]) -> None:
        """Remove the cgroups of this service that are left of unknown allocations.

        Args:
            known: The numbers of the allocations that have a record.
        """
        for one in self._all():
            number = one.name.removeprefix(self._prefix)
            if not number.isdecimal() or int(number) not in known:
                keeper.clear_cgroup(one)

    def close(self) -> None:
        """Leave nothing behind, unless commands go on without the service."""
        if not self._all():
            self._move_back()

    def _all(self) -> list[Path]:
        return [*self.base.glob(f"{self._prefix}*")]


# LOCAL-15
def _is_delegated(base: Path) -> bool:
    """Return whether systemd leaves a cgroup to the service, if it is one of its units.

    Root may write to each, but only in these systemd tolerates others: it could not start the
    service again in one that was divided while its commands go on.
    """
    if os.geteuid() != 0 or base.suffix not in _UNITS:
        return True
    for mark in ("trusted.delegate", "user.delegate"):
        with suppress(OSError):
            if os.getxattr(base, mark) == b"1":
                return True
    return False


def _words(path: Path) -> list[str]:
    try:
        return path.read_text(encoding="ascii").split()
    except OSError:
        return []


_REMEDY: Final = (
    "start the service in a cgroup that it may divide (Delegate= in its systemd unit), or say "
    "--no-cgroups"
)


# LOCAL-15, LOCAL-16
def open_cgroups(state: Path) -> Cgroups | None:
    """Return the cgroups of a service; None, and a line in the log, if it may not have any.

    Args:
        state: The folder of its state.
    """
    try:
        found = Cgroups(state, own_cgroup())
    except NoCgroupsError as error:
        _LOG.warning("commands run without limits: %s; %s", error, _REMEDY)
        return None
    if found.unlimited:
        message = "commands run in cgroups below %s without some limits: %s; %s"
        lacks = ", ".join(f"{one}: {why}" for one, why in found.unlimited.items())
        _LOG.warning(message, found.base, lacks, _REMEDY)
    else:
        _LOG.info("commands run in cgroups below %s, with the limits of their asks", found.base)
    return found
