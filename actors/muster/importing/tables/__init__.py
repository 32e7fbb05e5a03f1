"""Tables of jobs, such as CSV files, with a mapping file for the meaning of their columns."""

from __future__ import annotations

from muster.importing.tables.mapping import JobMapping, Wide, read_mapping
from muster.importing.tables.rows import ImportOptions, read_table, read_table_of_nodes

__all__ = [
    "ImportOptions",
    "JobMapping",
    "Wide",
    "read_mapping",
    "read_table",
    "read_table_of_nodes",
]
