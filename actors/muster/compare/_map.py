"""The result of a comparison as JSON."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from string import ascii_lowercase
from typing import TypeAlias, final

import attrs

from muster.compare._result import (
    Compared,
    Elsewhere,
    Figures,
    FirstDifference,
    JobChange,
    Movement,
    Refusals,
    Version,
)
from muster.compare._sides import LeftOut
from muster_core.decisions import seconds

Number: TypeAlias = "int | float | None"
Tree: TypeAlias = "Mapping[str, Tree] | Number"
"""Numbers in nested maps."""


@final
@attrs.frozen
class Warned:
    """A warning about a configuration.

    Attributes:
        file: The name of its file.
        line: The line, from 1, or None if it is not known.
        path: The path of the field.
        message: The text of the warning.
    """

    file: str
    line: int | None
    path: str
    message: str


def as_map(
    compared: Sequence[Compared],
    sides: Sequence[str],
    left_out: Mapping[str, Iterable[LeftOut]],
    warnings: Iterable[Warned],
    origin: str | None = None,
) -> dict[str, object]:
    """Return the whole result of a comparison.

    Args:
        compared: The first side compared with each of the others. If there are several others,
            the map has what is said of each in ``comparisons``.
        sides: The names of all sides.
        left_out: The ``configure`` events that are left out, by feed.
        warnings: The warnings about the configurations.
        origin: The date from which instants count, or None.
    """
    events = [
        {**attrs.asdict(event), **({"feed": feed} if len(left_out) > 1 else {})}
        for feed, found in left_out.items()
        for event in found
    ]
    about = {
        "same": all(one.same for one in compared),
        "sides": dict(zip(ascii_lowercase, sides, strict=False)),
        "origin": origin,
        "warnings": [attrs.asdict(warned) for warned in warnings],
        "left_out": events,
    }
    if len(compared) == 1:
        return {**about, **_pair_map(compared[0])}
    pairs = zip(ascii_lowercase[1:], compared, strict=False)
    return {
        **about,
        "comparisons": [
            {"side": letter, "same": one.same, **_pair_map(one)} for letter, one in pairs
        ],
    }


def _pair_map(compared: Compared) -> dict[str, object]:
    return {
        "decisions": compared.decisions,
        "first": _difference(compared.first),
        "first_priority": _difference(compared.first_priority),
        "refused": _refused(compared.refusals),
        "all": both(compared.a, compared.b),
        "queues": [{"queue": row.queue, **both(row.a, row.b)} for row in compared.queues],
        "priorities": [
            {"lowest": row.lowest, "highest": row.highest, **both(row.a, row.b)}
            for row in compared.priorities
        ],
        "jobs": {
            "compared": compared.jobs.compared,
            "only_a": compared.jobs.only_a,
            "only_b": compared.jobs.only_b,
            "refused_a": compared.jobs.refused_a,
            "refused_b": compared.jobs.refused_b,
            "wait": _movement(compared.jobs.wait),
            "end": _movement(compared.jobs.end),
        },
    }


def _refused(refusals: Refusals) -> dict[str, object]:
    return {
        "both": refusals.both,
        "only_a": refusals.only_a,
        "only_b": refusals.only_b,
        "ends_a": refusals.ends_a,
        "ends_b": refusals.ends_b,
        "first_both": [
            {"a": attrs.asdict(a), "b": attrs.asdict(b)} for a, b in refusals.first_both
        ],
        "first_a": [attrs.asdict(remark) for remark in refusals.first_a],
        "first_b": [attrs.asdict(remark) for remark in refusals.first_b],
    }


def both(a: Figures, b: Figures) -> dict[str, object]:
    """Return the figures of both sides, and the second minus the first."""
    of_a: dict[str, Tree] = attrs.asdict(a)
    of_b: dict[str, Tree] = attrs.asdict(b)
    of_a["lost"], of_b["lost"] = _alike(of_a["lost"], of_b["lost"])
    return {"a": of_a, "b": of_b, "difference": difference(of_a, of_b)}


def _alike(a: Tree, b: Tree) -> tuple[Tree, Tree]:
    """Return two maps of sums with the same keys: what one side does not name is zero."""
    if not (isinstance(a, Mapping) and isinstance(b, Mapping)):
        return a, b
    keys = {**a, **b}
    pairs = {key: _alike(a.get(key, _none(b, key)), b.get(key, _none(a, key))) for key in keys}
    return {key: pair[0] for key, pair in pairs.items()}, {
        key: pair[1] for key, pair in pairs.items()
    }


def _none(there: Mapping[str, Tree], key: str) -> Tree:
    return {} if isinstance(there.get(key), Mapping) else 0


def difference(a: Tree, b: Tree) -> Tree:
    """Return the second value minus the first, part by part; None if one is unknown."""
    if isinstance(a, Mapping) and isinstance(b, Mapping):
        return {name: difference(a.get(name), b.get(name)) for name in {**a, **b}}
    if a is None or b is None or isinstance(a, Mapping) or isinstance(b, Mapping):
        return None
    return b - a


def _difference(first: FirstDifference | None) -> dict[str, object] | None:
    if first is None:
        return None
    return {
        "at": seconds(first.at_us),
        "same": first.same,
        "a": _version(first.a),
        "b": _version(first.b),
    }


def _version(version: Version | None) -> dict[str, object] | None:
    if version is None:
        return None
    return {
        "decision": version.announced.as_map(),
        "index": version.index,
        "line": version.line,
        "elsewhere": _elsewhere(version.elsewhere),
    }


def _elsewhere(elsewhere: Elsewhere | None) -> dict[str, object] | None:
    return None if elsewhere is None else attrs.asdict(elsewhere)


def _movement(movement: Movement) -> dict[str, object]:
    return {
        "gained": movement.gained,
        "lost": movement.lost,
        "most_gained": [_change(change) for change in movement.most_gained],
        "most_lost": [_change(change) for change in movement.most_lost],
    }


def _change(change: JobChange) -> dict[str, object]:
    a, b = change.a, change.b
    return {
        "app": change.app,
        "a": attrs.asdict(a),
        "b": attrs.asdict(b),
        "difference": {
            "wait_s": difference(a.wait_s, b.wait_s),
            "end_s": difference(a.end_s, b.end_s),
        },
    }
