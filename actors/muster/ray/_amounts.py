"""Amounts of Ray as amounts of Muster, and back; always exact, or refused.

Ray counts ``CPU`` in cores, ``memory`` in bytes and all others in units, in steps of 0.0001. Muster
counts ``vcore`` in millicores, and all others in bytes or units.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from fractions import Fraction
from types import MappingProxyType
from typing import Final, cast, final

import attrs

from muster_core.errors import EventError
from muster_core.resources import Resources

DEFAULT_RESOURCES: Final[Mapping[str, str]] = MappingProxyType(
    {"CPU": "vcore", "memory": "memory", "GPU": "nvidia.com/gpu"}
)
"""Which resources of Ray are called what in Muster; all others have the same name in both."""

_MILLI: Final = "vcore"
_OWN: Final = frozenset({"CPU", "GPU", "memory", "object_store_memory"})
"""What Ray declares with arguments of their own."""

# Ray says these of a node, but nobody asks for them; the last ones are of placement groups.
_LEFT_OUT: Final = re.compile(
    r"node:.*|accelerator_type:.*|object_store_memory|bundle_group_.*|.+_group_[0-9a-f_]{32,}",
    re.DOTALL,
)
_HEAD: Final = "node:__internal_head__"

_MUSTERS: Final = frozenset({"vcore", "nvidia.com/gpu"})
"""What Muster calls resources, and Ray does not."""

_STEPS: Final = 10_000
"""How many steps Ray counts to one."""

_MOST_STEPS: Final = 2**63 - 1
_MOST: Final = 2**63 - 1


@final
@attrs.frozen
class Declared:
    """What a run declares to Ray."""

    cpus: float = 0.0
    gpus: float = 0.0
    memory: int = 0
    resources: Mapping[str, float] = attrs.field(factory=dict[str, float])


@final
class Amounts:
    """Translates between Ray and Muster.

    Args:
        names: What the resources of Ray are called in Muster; the others keep their names.

    Raises:
        EventError: If it is no map of names, or a name is not one of Ray, two have the same name,
            one has none, or one is not given out.
    """

    def __init__(self, names: Mapping[str, str]) -> None:
        _check_names(names)
        self._to_muster = dict(names)
        self._to_ray = {muster: ray for ray, muster in names.items()}
        if len(self._to_ray) < len(self._to_muster):
            msg = f"resources: {dict(names)!r}: two resources of Ray have the same name in Muster"
            raise EventError(msg)
        for ray, muster in names.items():
            if not muster or _LEFT_OUT.fullmatch(ray):
                msg = f"resources: {ray!r}: {muster!r}: cannot be given out under this name"
                raise EventError(msg)

    def unknown(self, nodes: Iterable[Mapping[str, float]]) -> list[str]:
        """Return for which resources names were given, and no node has any; Ray's own ones apart."""
        there = {name for amounts in nodes for name in amounts}
        return sorted(self._to_muster.keys() - DEFAULT_RESOURCES.keys() - there)

    def capacity(self, amounts: Mapping[str, float]) -> Resources | None:
        """Return the resources of a node that is made of these amounts; what is less than a unit is lost.

        Returns:
            None if there is nothing to schedule: a head has memory only.
        """
        found: dict[str, int] = {}
        for ray, amount in amounts.items():
            muster = self._to_muster.get(ray)
            if muster is None:
                if _LEFT_OUT.fullmatch(ray) or ray in _OWN or ray in self._to_ray:
                    continue
                muster = ray
            steps = round(Fraction(amount) * _STEPS)
            found[muster] = min(steps * _factor(muster) // _STEPS, _MOST)
        capacity = Resources(found)
        memory = self._to_muster.get("memory")
        if not capacity or (_HEAD in amounts and set(capacity) <= {memory}):
            return None
        return capacity

    def resources(self, declared: Declared) -> Resources:
        """Return what a run has declared to Ray."""
        amounts = {
            "CPU": declared.cpus,
            "GPU": declared.gpus,
            "memory": declared.memory,
            **declared.resources,
        }
        return self.capacity(amounts) or Resources()

    def declared(self, resources: Resources) -> Declared:
        """Return what a run with these resources declares to Ray.

        Raises:
            EventError: If Ray cannot count an amount; the message names the resource.
        """
        amounts = {self._ray(name): self._exact(name, amount) for name, amount in resources.items()}
        return Declared(
            cpus=float(amounts.pop("CPU", 0)),
            gpus=float(amounts.pop("GPU", 0)),
            memory=int(amounts.pop("memory", 0)),
            resources={name: float(amount) for name, amount in amounts.items()},
        )

    def _ray(self, name: str) -> str:
        """Return what a resource of Muster is called in Ray.

        Raises:
            EventError: If Ray has another one of this name, or does not give it out.
        """
        ray = self._to_ray.get(name)
        if ray is not None:
            return ray
        if name in self._to_muster:
            msg = f"{name}: Ray's {name} is called {self._to_muster[name]!r} here"
            raise EventError(msg)
        if name in _OWN or _LEFT_OUT.fullmatch(name):
            msg = f"{name}: is not given out: it is no reservation in Ray"
            raise EventError(msg)
        return name

    def _exact(self, name: str, amount: int) -> Fraction:
        """Return an amount as Ray counts it.

        Raises:
            EventError: If Ray cannot count it.
        """
        ray = self._ray(name)
        exact = Fraction(amount, _factor(name))
        if exact * _STEPS > _MOST_STEPS:
            msg = f"{name}: {amount}: Ray counts to {_MOST_STEPS // _STEPS}"
            raise EventError(msg)
        if (exact * _STEPS).denominator != 1 or (ray == "memory" and exact.denominator != 1):
            msg = f"{name}: {float(exact)}: Ray's {ray} has no such fraction"
            raise EventError(msg)
        if ray == "GPU" and exact > 1 and exact.denominator != 1:
            msg = f"{name}: {float(exact)}: Ray gives more than one GPU only as a whole number"
            raise EventError(msg)
        return exact


def _check_names(names: object) -> None:
    """Check what the resources of Ray are to be called.

    Raises:
        EventError: If it is no map of names, or a name is not one of Ray.
    """
    right = f"must be a map of Ray's names and Muster's, such as {dict(DEFAULT_RESOURCES)!r}"
    if not isinstance(names, Mapping):
        msg = f"resources: {names!r:.100}: {right}"
        raise EventError(msg)
    rays = {name.lower(): name for name in _OWN}
    for ray, muster in cast("Mapping[object, object]", names).items():
        if not isinstance(ray, str) or not isinstance(muster, str):
            msg = f"resources: {ray!r:.100}: {muster!r:.100}: {right}"
            raise EventError(msg)
        meant = rays.get(ray.lower(), ray)
        if meant != ray:
            msg = f"resources: {ray!r}: Ray calls it {meant!r}"
            raise EventError(msg)
        if ray in _MUSTERS:
            msg = f"resources: {ray!r}: {muster!r}: Ray has no {ray!r}; {right}"
            raise EventError(msg)


def _factor(name: str) -> int:
    """Return how many base units of a resource of Muster are one of Ray."""
    return 1000 if name == _MILLI else 1
