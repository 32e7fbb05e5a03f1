"""How long an open page rests after it was rendered, so that it leaves most of the service to others."""

from __future__ import annotations

from typing import Final

PAUSE: Final = "X-Muster-Pause"
"""The header that says after how many milliseconds an open page may fetch itself again."""

_SHARE: Final = 10
"""A page rests for so many times as long as it took: it never takes more than one part in eleven."""

MOST_S: Final = 5.0
"""How long it rests at most, in seconds."""


# PAGE-67
def pause_ms(took_s: float) -> int:
    """Return how long a page rests after it was rendered, in milliseconds.

    Args:
        took_s: How long the service was busy with it, in seconds.
    """
    return round(min(took_s * _SHARE, MOST_S) * 1_000)
