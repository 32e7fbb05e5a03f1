"""Time: steps from moment to moment, and what happened in a span of the kept history."""

from typing import Final

from muster.service.page.parts.time import going, page

PAGES: Final = (*page.PAGES, *going.PAGES)
"""Time."""
