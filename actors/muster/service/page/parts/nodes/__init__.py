"""Nodes: a heat map and a list of them, and a node with what stands on it."""

from __future__ import annotations

from typing import Final

from muster.service.page.parts.nodes import every, one

PAGES: Final = (*every.PAGES, *one.PAGES)
"""The nodes."""
