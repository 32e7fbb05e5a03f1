"""Tables of jobs, such as CSV files, with a mapping file that says what their columns mean."""

from __future__ import annotations

from muster.importing.tables.mapping import Mapped, Wide, read_mapping
from muster.importing.tables.nodes import read_table_of_nodes
from muster.importing.tables.rows import Choice, read_table

__all__ = [
    "Choice",
    "Mapped",
    "Wide",
    "read_mapping",
    "read_table",
    "read_table_of_nodes",
]
