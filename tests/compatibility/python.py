"""Facts about the names that a program imports: those of the reference of Python."""

from __future__ import annotations

import importlib
import inspect
import re
import sys
from collections.abc import Mapping, Set
from enum import Enum
from typing import Any, Final, ForwardRef, get_origin, is_typeddict

import attrs

import muster
from tests.compatibility.facts import Facts
from tests.same.interface import entries, exported, members

_LISTED: Final = re.compile(r"   :members:(.*(?:\n {6}.*)*)")
_ATTRIBUTES: Final = re.compile(r"^Attributes:\n((?: +.*\n?|\n)*)", re.MULTILINE)
_ATTRIBUTE: Final = re.compile(r"^    (\w+):", re.MULTILINE)
_OF_ERRORS: Final = frozenset({"MusterError", "ValueError", "OSError"})
"""Bases that programs may name in ``except``, beside those that are public themselves."""

_OURS: Final = frozenset({"muster", "muster_core"})


def names() -> dict[str, Facts]:
    """Return the facts about public names, by module: signatures and members, as the reference has them."""
    found = dict[str, Facts]()
    for entry in entries():
        own = entry["name"] if entry["what"] == "module" else entry["name"].rpartition(".")[0]
        facts, module = found.setdefault(own, Facts()), importlib.import_module(own)
        members_ = _LISTED.search(entry["options"])
        listed = {one.strip() for one in members_[1].split(",")} - {""} if members_ else None
        if entry["what"] != "module":
            only = None if members_ and not listed else listed or set[str]()
            name = entry["name"].rpartition(".")[2]
            add_name(facts, name, getattr(module, name), only, is_made=not entry["hides"])
        elif listed is not None:
            for one in exported(module):
                value = getattr(module, one)
                is_ours = getattr(value, "__module__", own).partition(".")[0] in _OURS
                if is_ours and (not listed or one in listed):
                    add_name(facts, one, value, None)
    known = {one for facts in found.values() for one in facts.promises if one.isidentifier()}
    for own, facts in found.items():
        module = importlib.import_module(own)
        # What the reference has elsewhere can be imported from here as well.
        for one in (known & {*getattr(module, "__all__", ())}) - facts.promises.keys():
            facts.promise(one, kind(getattr(module, one)))
    return found


def kind(value: object) -> str:
    """Return the kind of an object."""
    if isinstance(value, type):
        return "class"
    if callable(value) and get_origin(value) is None and not isinstance(value, Enum):
        return "async def" if inspect.iscoroutinefunction(value) else "def"
    return "data"


def add_name(
    facts: Facts,
    name: str,
    value: Any,  # noqa: ANN401 - of any module
    only: Set[str] | None,
    *,
    is_made: bool = True,
) -> None:
    """Add facts about a name.

    Args:
        facts: Get them.
        name: The name, with that of its module.
        value: What it is.
        only: Which of the methods of a class are public; None for all.
        is_made: Whether programs make objects of that class.
    """
    if not isinstance(value, type):
        add_call(facts, name, value)
        return
    facts.promise(name, "class")
    add_class(facts, name, value, only, is_made=is_made)


def add_class(
    facts: Facts,
    name: str,
    value: Any,  # noqa: ANN401 - any class
    only: Set[str] | None,
    *,
    is_made: bool,
) -> None:
    """Add facts about what a class is, how it is made, and its members."""
    for base in value.__mro__[1:]:
        if issubclass(value, Exception) and base.__name__ in {*_OF_ERRORS, *muster.__all__}:
            facts.promise(f"{name} is a {base.__name__}")
    if is_typeddict(value):
        for key, form in value.__annotations__.items():
            facts.promise(f"{name}[{key}]", written(form))
        return
    if is_made and not issubclass(value, Enum) and not getattr(value, "_is_protocol", False):
        add_arguments(facts, name, value, 0)
    add_members(facts, name, value, only)


def add_members(facts: Facts, name: str, value: Any, only: Set[str] | None) -> None:  # noqa: ANN401
    """Add facts about the fields, methods and properties of a class."""
    data = data_of(value)
    for one in sorted({*members(value), *data}):
        if one in data:
            if f"{name}({one})" not in facts.promises:  # an argument is an attribute as well
                facts.promise(f"{name}.{one}", data[one])
        elif only is None or one in only:
            add_member(facts, f"{name}.{one}", inspect.getattr_static(value, one))
            if getattr(value, "_is_protocol", False):  # a program's class has to have it
                facts.demand(name, f".{one}")


def data_of(value: Any) -> Mapping[str, str]:  # noqa: ANN401 - any class
    """Return the fields of a class with their types, or the members of an enumeration."""
    if issubclass(value, Enum):
        return {one.name: repr(one.value) for one in value}
    if attrs.has(value):
        return {one.name: written(one.type) for one in attrs.fields(value)}
    fields: Mapping[str, object] = getattr(value, "__annotations__", {})
    section = _ATTRIBUTES.search(inspect.cleandoc(value.__doc__ or ""))
    documented = _ATTRIBUTE.findall(section[1]) if section else []
    return {one: written(fields.get(one, "data")) for one in getattr(value, "_fields", documented)}


def add_member(facts: Facts, name: str, member: Any) -> None:  # noqa: ANN401 - of any class
    """Add facts about a member of a class that is no field."""
    if (getter := getattr(member, "fget", None)) is not None:
        facts.promise(name, written(inspect.signature(getter).return_annotation))
    elif (function := getattr(member, "__func__", None)) is not None:
        add_call(facts, name, function, skips=isinstance(member, classmethod))
        facts.promises[name] = f"{type(member).__name__} {facts.promises[name]}"
    else:
        add_call(facts, name, member, skips=1)


def add_call(facts: Facts, name: str, value: Any, *, skips: int = 0) -> None:  # noqa: ANN401
    """Add facts about a function; of anything else only that it exists."""
    what = kind(value)
    if what == "data":
        facts.promise(name, what)
        return
    returns = inspect.signature(value).return_annotation
    facts.promise(name, f"{what} -> {written(returns)}")
    add_arguments(facts, name, value, skips)


def add_arguments(facts: Facts, name: str, value: Any, skips: int) -> None:  # noqa: ANN401
    """Add facts about each argument but the first ones that are skipped."""
    try:
        arguments = [*inspect.signature(value).parameters.values()][skips:]
    except (TypeError, ValueError):  # an exception that has no arguments of its own
        return
    for place, one in enumerate(arguments):
        where = {
            one.POSITIONAL_ONLY: f"{place} without name",
            one.POSITIONAL_OR_KEYWORD: f"{place}",
            one.VAR_POSITIONAL: "others",
            one.KEYWORD_ONLY: "by name",
            one.VAR_KEYWORD: "others by name",
        }[one.kind]
        default = "" if one.default is one.empty else f", else {shown(one.default)}"
        facts.promise(f"{name}({one.name})", f"{where}: {written(one.annotation)}{default}")
        if not default and not where.startswith("others"):
            facts.demand(name, one.name)


def shown(default: object) -> str:
    """Return a default as a text; of an object with many fields only its class."""
    if attrs.has(type(default)) or callable(default):
        return f"a {type(default).__name__}"
    if default == sys.executable:
        return "this Python"
    return f"{default}" if isinstance(default, Enum) else repr(default)


def written(form: object) -> str:
    """Return an annotation as the source has it."""
    if form is inspect.Signature.empty:
        return "?"
    if isinstance(form, ForwardRef):
        return form.__forward_arg__
    return form if isinstance(form, str) else inspect.formatannotation(form)
