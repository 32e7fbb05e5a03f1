"""When an ask will start, in words."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from muster_core.reasons import UNKNOWN_START, Forecast, Outlook, Start


def when_it_starts(outlook: Outlook, written: Callable[[int], str]) -> Iterator[str]:
    """Yield sentences that say when a pending ask will start.

    Args:
        outlook: What is known of it.
        written: Writes an instant, given in microseconds since the origin.
    """
    yield f"It is number {outlook.position:,} of all pending asks in order."
    if outlook.forecast is not None:
        yield _fits(outlook.forecast.fits_at, written)
        yield _starts(outlook.forecast, written)


def _fits(fits_at: Start, written: Callable[[int], str]) -> str:
    if fits_at is None:
        return "It would not fit alone, whatever ends."
    if fits_at == UNKNOWN_START:
        return "Alone it would fit, but only after an end that is not known."
    return f"Alone it would fit at {written(fits_at)}."


def _starts(forecast: Forecast, written: Callable[[int], str]) -> str:
    if forecast.starts_at_us is not None:
        return (
            f"It starts at {written(forecast.starts_at_us)} if nothing more comes, and every ask "
            "takes as long as expected."
        )
    if forecast.stopped_us is not None:
        return (
            f"If nothing more comes, it does not start up to {written(forecast.stopped_us)}; "
            "what follows was not looked at."
        )
    return "If nothing more comes, no end that is known lets it start."
