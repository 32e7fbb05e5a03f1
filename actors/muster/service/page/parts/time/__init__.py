"""Time: steps from moment to moment, and what happened in a span of the kept history."""

from __future__ import annotations

from typing import Final

from muster.service.page.parts.time import going as _going, page as _page

PAGES: Final = (*_page.PAGES, *_going.PAGES)
"""Time."""

__all__ = ["PAGES"]
