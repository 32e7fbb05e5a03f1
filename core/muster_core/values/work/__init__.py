"""What is to run for an ask, and how it has ended: values that are kept and shown, on which no decision depends."""

from __future__ import annotations

from muster_core.values.work.command import Work, text_problem
from muster_core.values.work.exit import Exit

__all__ = ["Exit", "Work", "text_problem"]
