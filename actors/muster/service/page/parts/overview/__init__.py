"""The overview: is it healthy, how full is it, what waits and why, what was decided."""

from __future__ import annotations

from muster.service.page.parts.overview.page import PAGES

__all__ = ["PAGES"]
