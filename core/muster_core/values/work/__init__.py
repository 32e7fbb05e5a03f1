"""What is to run for an ask: values that are kept and shown, on which no decision depends."""

from __future__ import annotations

from muster_core.values.work.command import Work, text_problem

__all__ = ["Work", "text_problem"]
