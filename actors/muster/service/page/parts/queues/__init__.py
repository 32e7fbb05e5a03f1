"""Queues: the tree, and a queue with its settings and its applications."""

from __future__ import annotations

from typing import Final

from muster.service.page.parts.queues import one, tree

PAGES: Final = (*tree.PAGES, *one.PAGES)
"""The queues."""
