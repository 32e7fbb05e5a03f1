"""Amounts of Muster as amounts of Slurm, and back; always exact, or refused.

Slurm counts CPUs, memory in mebibytes, and other things of a node (*gres*) in units.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, final

import attrs

from muster_core.errors import EventError
from muster_core.resources import Resources

DEFAULT_RESOURCES: Final[Mapping[str, str]] = MappingProxyType(
    {"cpu": "vcore", "mem": "memory", "gpu": "nvidia.com/gpu"}
)
"""What Slurm's resources are called in Muster; all others have the same name in both.

A type of a gres, such as ``gpu:a100``, is counted under the name of the gres, or, if it is named
here, under a name of its own.
"""

_MILLI: Final = "vcore"
_MIB: Final = 2**20


@final
@attrs.frozen
class Share:
    """What a job, or one member of a gang, takes of a node.

    Attributes:
        cpus: CPUs.
        memory_mib: Memory, in mebibytes; None to take what the partition gives by default.
        gres: How many of each gres, in the order of the names.
    """

    cpus: int
    memory_mib: int | None
    gres: tuple[tuple[str, int], ...] = ()

    def __add__(self, other: Share) -> Share:
        """Add, for two members on one node."""
        memory = None
        if self.memory_mib is not None or other.memory_mib is not None:
            memory = (self.memory_mib or 0) + (other.memory_mib or 0)
        gres = dict(self.gres)
        for name, count in other.gres:
            gres[name] = gres.get(name, 0) + count
        return Share(self.cpus + other.cpus, memory, tuple(sorted(gres.items())))

    @property
    def options(self) -> tuple[str, ...]:
        """The options of sbatch and srun that ask for it."""
        found = [f"--cpus-per-task={self.cpus}"]
        if self.memory_mib is not None:
            found.append(f"--mem={self.memory_mib}M")
        if self.gres:
            found.append("--gres=" + ",".join(f"{name}:{count}" for name, count in self.gres))
        return tuple(found)


@final
class Amounts:
    """Translates between Slurm and Muster.

    Args:
        names: What the resources of Slurm are called in Muster.
        counts_memory: Whether Slurm counts memory, so that jobs share a node only if they say how
            much they need.

    Raises:
        EventError: If two have the same name.
    """

    def __init__(self, names: Mapping[str, str], *, counts_memory: bool) -> None:
        self._to_muster = dict(names)
        self._to_slurm = {muster: slurm for slurm, muster in names.items()}
        self._counts_memory = counts_memory
        if len(self._to_slurm) < len(self._to_muster):
            msg = f"resources: {dict(names)!r}: two resources of Slurm have one name in Muster"
            raise EventError(msg)

    def capacity(self, cpus: int, memory_mib: int, gres: Mapping[str, int]) -> Resources:
        """Return the resources of a node.

        Args:
            cpus: Its CPUs.
            memory_mib: Its memory, in mebibytes.
            gres: Its other resources, by ``name`` or ``name:type``.
        """
        cpu = self._muster("cpu")
        found = {cpu: cpus * _unit(cpu), self._muster("mem"): memory_mib * _MIB}
        for name, count in gres.items():
            known = name if name in self._to_muster else name.partition(":")[0]
            muster = self._muster(known)
            found[muster] = found.get(muster, 0) + count
        return Resources(found)

    def share(self, resources: Resources) -> Share:
        """Return what a job with these resources asks Slurm for.

        Raises:
            EventError: If Slurm cannot count an amount; the message names the resource.
        """
        cpus, memory = 0, None
        gres: dict[str, int] = {}
        for name, amount in resources.items():
            slurm = self._to_slurm.get(name, name)
            if slurm == "cpu":
                cpus = _whole(name, amount, _unit(name), "whole CPUs")
            elif slurm == "mem":
                memory = _whole(name, amount, _MIB, "whole mebibytes")
            elif name not in self._to_slurm and name in self._to_muster:
                msg = f"{name}: Slurm's {name} is called {self._to_muster[name]!r} here"
                raise EventError(msg)
            else:
                gres[slurm] = amount
        if cpus == 0:
            msg = f"{self._muster('cpu')}: 0: Slurm gives each job at least one CPU: ask for it"
            raise EventError(msg)
        if memory is None and self._counts_memory:
            msg = (
                f"{self._muster('mem')}: 0: Slurm gives a job all memory of its node if it does "
                "not say how much it needs: ask for some"
            )
            raise EventError(msg)
        return Share(cpus, memory, tuple(sorted(gres.items())))

    def _muster(self, slurm: str) -> str:
        return self._to_muster.get(slurm, slurm)


def _unit(name: str) -> int:
    """Return how many base units of Muster one CPU is."""
    return 1000 if name == _MILLI else 1


def _whole(name: str, amount: int, unit: int, what: str) -> int:
    if amount % unit:
        msg = f"{name}: {amount / unit:g}: Slurm gives {what} only"
        raise EventError(msg)
    return amount // unit
