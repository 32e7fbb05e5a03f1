"""Nodes of a table."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from muster.feeds import FeedError
from muster.importing.tables.cells import rows_of
from muster.importing.tables.mapping import Amount, Mapped, TableOfNodes
from muster.importing.workload.nodes import NodeFields, nodes_of
from muster.importing.workload.reading import opened
from muster.importing.workload.texts import name_of
from muster_core.errors import QuantityError
from muster_core.values.quantities import parse_quantity

_PLACE: Final = re.compile(r"\{([^{}]*)\}")
_COUNT: Final = re.compile("[0-9]{1,6}", re.ASCII)
_TABLES: Final = (".csv", ".csv.gz", ".tsv", ".tsv.gz")


def read_table_of_nodes(text: str, mapped: Mapped) -> list[NodeFields]:
    """Return the nodes of ``--nodes``: of a table, as the mapping file says, or as anywhere else.

    Raises:
        FeedError: If a file cannot be read, or a row in it is wrong.
        ValueError: If the text says no nodes.
    """
    if not text.lower().endswith(_TABLES):
        return nodes_of(text)
    form = mapped.nodes
    if form is None:
        raise FeedError(mapped.file, f"has no `nodes`, which says what the columns of {text} mean")
    needed = [
        *_PLACE.findall(form.name),
        *([form.count] if form.count else []),
        *(amount.column for amount in form.capacity.values()),
        *form.attributes.values(),
    ]
    nodes: list[NodeFields] = []
    with opened(text) as source:
        columns, rows = rows_of(source, mapped.delimiter, needed, mapped.file)
        for line, cells in rows:
            if len(cells) != len(columns):
                msg = f"has {len(cells)} cells, and not {len(columns)} as the first line"
                raise FeedError(text, msg, line)
            row = {name: cell.strip() for name, cell in zip(columns, cells, strict=True)}
            try:
                nodes += _nodes(form, row)
            except ValueError as error:
                raise FeedError(text, str(error), line) from None
    return nodes


def _nodes(form: TableOfNodes, row: Mapping[str, str]) -> list[NodeFields]:
    name = name_of(_PLACE.sub(lambda match: row[match[1]], form.name))
    capacity = {kind: _amount(row, kind, amount) for kind, amount in form.capacity.items()}
    attributes = {kind: row[column] for kind, column in form.attributes.items()}
    if form.count is None:
        return [NodeFields(name, capacity, attributes)]
    count = row[form.count]
    if not _COUNT.fullmatch(count):
        msg = f"{form.count} is {count!r}, not a number of nodes"
        raise ValueError(msg)
    # Equally full nodes are taken in the order of their names, as texts.
    return [NodeFields(f"{name}-{number:04}", capacity, attributes) for number in range(int(count))]


def _amount(row: Mapping[str, str], kind: str, amount: Amount) -> int | str:
    text = row[amount.column]
    written = f"{text}{amount.unit}" if text else amount.default
    try:
        parse_quantity(kind, written)
    except QuantityError as error:
        msg = f"{amount.column}: {error}"
        raise ValueError(msg) from None
    assert written is not None
    return int(written) if written.isdigit() else written
