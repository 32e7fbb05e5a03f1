"""Kinds of the fields that say what is to run for an ask."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, cast

from muster.feeds._encodings.raw import Raw
from muster.feeds._fields.collections import listed, mapped
from muster.feeds._fields.kinds import Kind, as_written, refused
from muster.feeds._fields.texts import NAME, TEXT, WORD
from muster_core.events import Work
from muster_core.values.work import text_problem

WORK_FIELDS: Final = ("command", "env", "workdir")
"""The fields of ``add_ask`` that become its :class:`Work`."""


def _given(kind: Kind[str]) -> Kind[str]:
    """Return the kind of those texts of a kind that a process can be given."""

    def parse(value: Raw) -> str:
        text = kind.parse(value)
        problem = text_problem(text)
        if problem is not None:
            raise refused(value, problem)
        return text

    return Kind(kind.name, parse, kind.normal)


def _parse_variable(value: Raw) -> str:
    name = _given(NAME).parse(value)
    if "=" in name:
        raise refused(value, "has a '=', which the name of a variable must not have")
    return name


_ARGUMENTS: Final = listed(_given(TEXT), "list of texts")
_SCRIPT: Final = _given(TEXT)


# FEED-83
def _parse_command(value: Raw) -> tuple[str, ...] | str:
    if isinstance(value, list):
        arguments = _ARGUMENTS.parse(value)
        if not arguments or not arguments[0]:
            raise refused(value, "names no program: the first text of a command is its program")
        return arguments
    script = _SCRIPT.parse(value)
    if not script:
        raise refused(value, "is empty: a command has at least one character")
    return script


def _command_normal(value: Raw) -> Raw:
    if isinstance(value, list):
        return _ARGUMENTS.normal(value)
    if isinstance(value, bool | float):
        # Not a command, and in a list YAML would write it like a text: two lists are refused.
        return [[as_written(value)]]
    return _SCRIPT.normal(value)


COMMAND: Final = Kind("text, or list of texts", _parse_command, _command_normal)
ENV: Final = mapped(
    Kind("name without `=`", _parse_variable, NAME.normal), _given(WORD), "map of texts"
)
WORKDIR: Final = _given(NAME)


def work_of(values: Mapping[str, object]) -> Work | None:
    """Return what the fields of an event say is to run, or None if they are all empty."""
    command = cast("tuple[str, ...] | str | None", values.get("command"))
    env = cast("Mapping[str, str]", values.get("env", {}))
    workdir = cast("str | None", values.get("workdir"))
    if command is None and not env and workdir is None:
        return None
    if isinstance(command, str):
        return Work(shell=command, env=env, workdir=workdir)
    return Work(command or (), env=env, workdir=workdir)
