"""The columns of lists: one table gives the rows, what ``fields`` may name, and the schema."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Generic, TypeVar, final

import attrs

from muster.service.endpoints.kinds import Schema

R = TypeVar("R")


@final
@attrs.frozen
class Column(Generic[R]):
    """A field of the items of a list.

    Attributes:
        name: Its name.
        schema: The JSON schema of its values.
        about: What it means, with its unit.
        read: Reads it from what an item is made of.
        single: Whether only a single item has it, as it may be long.
    """

    name: str
    schema: Schema
    about: str
    read: Callable[[R], object]
    single: bool = False


@final
@attrs.frozen
class Table(Generic[R]):
    """The fields of the items of a list, in their order.

    Attributes:
        columns: The fields.
    """

    columns: tuple[Column[R], ...]

    # LISTS-12
    def names(self, *, single: bool) -> Sequence[str]:
        """Return the names that the parameter ``fields`` may have.

        Args:
            single: Whether it is for a single item.
        """
        return [one.name for one in self._of(single=single)]

    def picked(self, names: Sequence[str] | None, *, single: bool) -> Sequence[Column[R]]:
        """Return the columns of these names in the order of the table; all for None."""
        columns = self._of(single=single)
        return columns if names is None else [one for one in columns if one.name in names]

    def schema(self, *, single: bool) -> dict[str, Any]:
        """Return the JSON schema of an item; with ``fields`` it has only those."""
        properties = {
            one.name: {**one.schema, "description": one.about} for one in self._of(single=single)
        }
        return {"type": "object", "properties": properties, "additionalProperties": False}

    def _of(self, *, single: bool) -> Sequence[Column[R]]:
        return [one for one in self.columns if single or not one.single]


def row_of(columns: Iterable[Column[R]], item: R) -> Mapping[str, object]:
    """Return the fields of an item."""
    return {one.name: one.read(item) for one in columns}
