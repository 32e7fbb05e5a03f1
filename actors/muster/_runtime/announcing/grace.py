"""Waiting for something that should end although its caller is cancelled, but not for ever."""

from __future__ import annotations

from collections.abc import Awaitable

import trio


async def finished(awaitable: Awaitable[None], grace_s: float) -> None:
    """Wait for something, and for some time also when the caller is cancelled.

    If it ends in that time, this returns, and the cancellation comes at the next checkpoint.

    Args:
        awaitable: What to wait for.
        grace_s: When to cancel it, in seconds of trio's clock after the caller was cancelled.

    Raises:
        BaseException: What the awaitable raises, unchanged.
        Cancelled: If the caller was cancelled and the time is over.
    """
    scope = trio.CancelScope(shield=True)
    error: BaseException | None = None
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_limit, scope, grace_s)
        try:
            with scope:
                await awaitable
        except BaseException as raised:  # noqa: BLE001 - raised below, and not in a group
            error = raised
        nursery.cancel_scope.cancel()
    if error is not None:
        try:
            raise error
        finally:
            del error  # avoids a reference cycle through the traceback
    if scope.cancelled_caught:
        await trio.lowlevel.checkpoint_if_cancelled()


async def _limit(scope: trio.CancelScope, grace_s: float) -> None:
    """Limit a scope when this task is cancelled."""
    try:
        await trio.sleep_forever()
    except trio.Cancelled:
        # It is not raised: a child that is cancelled from outside would end its nursery so.
        scope.deadline = trio.current_time() + grace_s
