"""A checked configuration: its queues, limits and placement rules."""

from __future__ import annotations
