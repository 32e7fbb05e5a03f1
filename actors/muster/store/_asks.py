"""Asks in checkpoints, of which there may be a hundred thousand.

STORE-13. An ask is an array of its fields in their order, without those at its end that have their
default. A shape that says no more than the resources of the ask is not written. Asks that are read
share their resources and shapes, as those that came in one event do.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Final

from muster.store._msgpack import as_array
from muster_core.events import Work
from muster_core.owners.messages.asks import Ask
from muster_core.resources import Resources
from muster_core.structures.shapes import Shape

_FIELDS: Final = Ask._fields
_RESOURCES: Final = _FIELDS.index("resources")
_SHAPE: Final = _FIELDS.index("shape")
_WORK: Final = _FIELDS.index("work")
_FEWEST: Final = len(_FIELDS) - len(Ask._field_defaults)
_LAST: Final = tuple(Ask._field_defaults[name] for name in _FIELDS[_FEWEST:])
_TYPES: Final[tuple[tuple[type, ...], ...]] = tuple(
    {
        "group": (str,),
        "name": (str,),
        "gang": (str, type(None)),
        "run_for_us": (int, type(None)),
        "preempts": (bool,),
        "resources": (dict,),
        "shape": (list, type(None)),
        "work": (list, type(None)),
        "estimate_us": (int, type(None)),
    }.get(name, (int,))
    for name in _FIELDS
)
"""The types of the plain values of each field."""


def ask_apart(ask: Ask) -> list[object]:
    """Return an ask as a plain value."""
    values: list[object] = list(ask)
    values[_RESOURCES] = ask.resources.amounts
    shape = ask.shape
    plain = not shape.is_choosy and shape.resources == ask.resources
    values[_SHAPE] = None if plain else _shape_apart(shape)
    if ask.work is not None:
        values[_WORK] = _work_apart(ask.work)
    end = len(values)
    while end > _FEWEST and values[end - 1] == _LAST[end - 1 - _FEWEST]:
        end -= 1
    del values[end:]
    return values


def ask_together(value: object, _: object) -> Ask:
    """Return the ask that a plain value is.

    Raises:
        ValueError: If it is none.
    """
    values: list[Any] = [*as_array(value, "ask")]
    if not _FEWEST <= len(values) <= len(_FIELDS):
        msg = f"an ask of {len(values)} fields, not of {_FEWEST} to {len(_FIELDS)}"
        raise ValueError(msg)
    for one, allowed, name in zip(values, _TYPES, _FIELDS):  # noqa: B905 - may be shorter
        if type(one) not in allowed:
            msg = f"{name}: {ascii(one)[:80]} is {type(one).__name__}"
            raise ValueError(msg)
    resources, shape = _shared(tuple(values[_RESOURCES].items()))
    values[_RESOURCES] = resources
    written = values[_SHAPE]
    values[_SHAPE] = shape if written is None else _shape_together(written)
    if len(values) > _WORK and values[_WORK] is not None:
        values[_WORK] = _work_together(values[_WORK])
    return Ask(*values)


def _shape_apart(shape: Shape) -> list[object]:
    return [shape.resources.amounts, shape.selector, shape.node, shape.members]


def _shape_together(written: list[Any]) -> Shape:
    amounts, selector, node, members = written
    if type(members) is not int or not (node is None or type(node) is str):
        msg = f"shape: {ascii(written)[:80]} is none"
        raise ValueError(msg)
    pairs = tuple((str(name), str(text)) for name, text in selector)
    resources, _ = _shared(tuple(amounts.items()))
    return _shared_shape(resources, pairs, node, members)


@lru_cache(maxsize=4096)
def _shared(amounts: tuple[tuple[str, int], ...]) -> tuple[Resources, Shape]:
    resources = Resources(dict(amounts))
    return resources, Shape(resources)


@lru_cache(maxsize=4096)
def _shared_shape(
    resources: Resources, selector: tuple[tuple[str, str], ...], node: str | None, members: int
) -> Shape:
    return Shape(resources, selector, node, members)


def _work_apart(work: Work) -> list[object]:
    """Return what an ask runs as a plain value."""
    return [list(work.argv), work.shell, dict(work.env), work.workdir]


def _work_together(written: list[Any]) -> Work:
    """Return what a plain value says that an ask runs; asks that run the same share one object.

    Raises:
        ValueError: If it is no such value.
    """
    argv, shell, env, workdir = written
    if (type(argv), type(env)) != (list, dict):
        msg = f"work: {ascii(written)[:80]} is none"
        raise ValueError(msg)
    return _shared_work(tuple(argv), shell, tuple(env.items()), workdir)


@lru_cache(maxsize=4096)
def _shared_work(
    argv: tuple[str, ...],
    shell: str | None,
    env: tuple[tuple[str, str], ...],
    workdir: str | None,
) -> Work:
    return Work(argv, shell, dict(env), workdir)
