"""What stands in asyncio for something of trio: the same methods, called across the bridge.

They are not written down again: their signatures, types and docstrings are those of trio. What
differs is where they run, and that the handles they give are those of asyncio.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from functools import partial, update_wrapper
from types import CoroutineType
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar, overload

from typing_extensions import override

from muster.asyncio._bridge import Bridge

I = TypeVar("I")  # noqa: E741 - of the inner one, which is of trio
I_co = TypeVar("I_co", covariant=True)
H = TypeVar("H")
T = TypeVar("T")
P = ParamSpec("P")


class Mirror(Generic[I_co]):
    """Stands for something of trio.

    Args:
        bridge: The way there.
        inner: What it stands for.
    """

    def __init__(self, bridge: Bridge, inner: I_co) -> None:
        self._bridge = bridge
        self._inner = inner

    @override
    def __repr__(self) -> str:
        return repr(self._inner)


@overload
def called(
    method: Callable[Concatenate[I, P], Awaitable[T]],
) -> Callable[Concatenate[Mirror[I], P], CoroutineType[Any, Any, T]]: ...
@overload
def called(
    method: Callable[Concatenate[I, P], Awaitable[T]], handle: Callable[[Bridge, T], H]
) -> Callable[Concatenate[Mirror[I], P], CoroutineType[Any, Any, H]]: ...
def called(
    method: Callable[Concatenate[I, P], Awaitable[T]],
    handle: Callable[[Bridge, T], H] | None = None,
) -> Callable[..., Any]:
    """Make the method that calls one of trio across the bridge.

    Args:
        method: The method of trio.
        handle: Makes a handle of what that gives; without it, that is given as it is.
    """

    async def call(self: Mirror[I], /, *args: P.args, **kwargs: P.kwargs) -> T | H:
        bridge, inner = _parts(self)
        given = await bridge.call(partial(method, inner, *args, **kwargs))
        return given if handle is None else handle(bridge, given)

    return update_wrapper(call, method)


def given(
    method: Callable[Concatenate[I, P], T], handle: Callable[[Bridge, T], H]
) -> Callable[Concatenate[Mirror[I], P], H]:
    """Make the method that has one of trio called here, as it neither waits nor changes anything.

    Args:
        method: The method of trio.
        handle: Makes a handle of what that gives.
    """

    def give(self: Mirror[I], /, *args: P.args, **kwargs: P.kwargs) -> H:
        bridge, inner = _parts(self)
        return handle(bridge, method(inner, *args, **kwargs))

    return update_wrapper(give, method)


def like(
    method: Callable[Concatenate[I, P], object],
) -> Callable[[Callable[..., T]], Callable[Concatenate[Mirror[I], P], T]]:
    """Let a method that does more have the parameters and the docstring of one of trio."""

    def named(function: Callable[..., T]) -> Callable[Concatenate[Mirror[I], P], T]:
        return update_wrapper(function, method)

    return named


def each(handle: Callable[[Bridge, I], H]) -> Callable[[Bridge, Iterable[I]], tuple[H, ...]]:
    """Make handles of several."""
    return lambda bridge, several: tuple(handle(bridge, one) for one in several)


def _parts(self: Mirror[I]) -> tuple[Bridge, I]:
    # What is made here are methods of it, though they stand outside.
    return self._bridge, self._inner  # pyright: ignore[reportPrivateUsage]
