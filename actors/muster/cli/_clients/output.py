"""How the commands that ask a server print: tables for people, JSON and YAML for programs."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Any, Final, TypeVar, cast, final

import attrs
import click
import yaml

from muster.cli._options import printable
from muster.cli._tables import Column, console_of, tables_of
from muster_core.values.quantities import has_parts

Function = TypeVar("Function", bound=Callable[..., Any])

Item = Mapping[str, Any]
"""One thing, as the server gives it."""


@final
class Form(StrEnum):
    """In which form a command prints."""

    TABLE = "table"
    WIDE = "wide"
    JSON = "json"
    YAML = "yaml"


def map_of(value: object) -> Mapping[str, Any] | None:
    """Return a value if it is a map, or None."""
    return cast("Mapping[str, Any]", value) if isinstance(value, Mapping) else None


def list_of(value: object) -> Sequence[Any] | None:
    """Return a value if it is a list, or None."""
    return cast("Sequence[Any]", value) if isinstance(value, list) else None


def _as_form(_context: click.Context, _parameter: click.Parameter, value: str) -> Form:
    return Form(value)


def form_option(function: Function) -> Function:
    """Add ``-o`` to a command, as the argument ``form``."""
    return click.option(
        "-o",
        "--output",
        "form",
        type=click.Choice([form.value for form in Form]),
        callback=_as_form,
        default=Form.TABLE.value,
        show_default=True,
        help="A table, one with more columns, or the whole answer as JSON or YAML.",
    )(function)


@final
@attrs.frozen
class Field:
    """A column of a table of things.

    Attributes:
        title: Its title.
        text: Returns the cell of a thing.
        wide: Whether only wide tables have it.
        folds: Whether it has names, which may be folded, not numbers, which may not.
        if_any: Whether it is left out if it is empty in each row.
    """

    title: str
    text: Callable[[Item], str]
    wide: bool = False
    folds: bool = False
    if_any: bool = False


def name(title: str, field: str, *, wide: bool = False) -> Field:
    """Return a column of names."""
    return Field(title, lambda item: shown(item.get(field)), wide, folds=True)


def number(title: str, field: str, *, wide: bool = False) -> Field:
    """Return a column of numbers."""
    return Field(title, lambda item: shown(item.get(field)), wide)


def amounts(title: str, field: str, *, wide: bool = False) -> Field:
    """Return a column of amounts of resources."""
    return Field(title, lambda item: amounts_text(item.get(field)), wide, folds=True)


def shown(value: object) -> str:
    """Return the text of a value in a cell."""
    listed = list_of(value)
    if listed is not None:
        return ", ".join(map(shown, listed))
    match value:
        case None:
            return ""
        case bool():
            return "yes" if value else ""
        case int():
            return f"{value:,}"
        case float():
            return f"{value:,.6g}"
        case _:
            return printable(str(value))


_UNITS: Final = (("Ti", 1 << 40), ("Gi", 1 << 30), ("Mi", 1 << 20), ("Ki", 1 << 10))


def amounts_text(found: Mapping[str, int] | None) -> str:
    """Return amounts in base units as a person writes them: ``vcore 1.5, memory 4Gi``."""
    if not found:
        return ""
    return ", ".join(f"{printable(kind)} {_amount(kind, one)}" for kind, one in found.items())


def _amount(kind: str, amount: int) -> str:
    if has_parts(kind):
        return _exact(amount / 1000, 2) if amount % 10 == 0 else f"{amount}m"
    if kind == "memory":
        for unit, size in _UNITS:
            if amount >= size and amount * 10 % size == 0:
                return f"{_exact(amount / size, 1)}{unit}"
    return f"{amount:,}"


def _exact(amount: float, places: int) -> str:
    """Return a number that has at most so many decimal places, without an exponent."""
    return f"{amount:.{places}f}".rstrip("0").rstrip(".")


def print_items(items: Sequence[Item], fields: Sequence[Field], form: Form) -> None:
    """Print things as a table."""
    click.echo(table_text(items, fields, form), nl=False)


def table_text(items: Sequence[Item], fields: Sequence[Field], form: Form) -> str:
    """Return things as a table."""
    used = [field for field in fields if form is Form.WIDE or not field.wide]
    columns = [
        Column(field.title, [field.text(item) for item in items], folds=field.folds)
        for field in used
        if not field.if_any or any(map(field.text, items))
    ]
    return rendered(columns)


def rendered(columns: Sequence[Column]) -> str:
    """Return a table, whose first column has the names of the rows."""
    console = console_of()
    with console.capture() as capture:
        for table in tables_of(console, columns[:1], [[column] for column in columns[1:]]):
            console.print(table, crop=False)
    lines = [line.rstrip() for line in capture.get().splitlines()]
    return "".join(f"{line}\n" for line in lines if line)


def print_map(value: object, form: Form) -> None:
    """Print a whole answer as JSON or YAML."""
    if form is Form.YAML:
        text = yaml.safe_dump(value, allow_unicode=True, sort_keys=False, width=100)
        click.echo(text, nl=False)
    else:
        click.echo(json.dumps(value, ensure_ascii=False, indent=2))


def print_fields(pairs: Iterable[tuple[str, str]]) -> None:
    """Print a thing as lines of a name and a text."""
    found = [(title, text) for title, text in pairs if text]
    width = max((len(title) for title, _ in found), default=0)
    for title, text in found:
        first, *more = text.splitlines() or [""]
        click.echo(f"{title:<{width}}  {first}")
        for line in more:
            click.echo(f"{'':<{width}}  {line}")
