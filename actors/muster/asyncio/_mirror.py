"""Mirrors: asyncio objects whose methods call those of a trio object across the bridge.

The methods take their signatures, types and docstrings from trio. They differ in where they run,
and return handles of asyncio.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from functools import partial, update_wrapper
from types import CoroutineType
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar, overload

from typing_extensions import override

from muster.asyncio._bridge import Bridge

I = TypeVar("I")  # noqa: E741 - the inner object, of trio
I_co = TypeVar("I_co", covariant=True)
H = TypeVar("H")
T = TypeVar("T")
P = ParamSpec("P")


class Mirror(Generic[I_co]):
    """An asyncio object that represents an object of trio.

    Args:
        bridge: The bridge to the trio side.
        inner: The object of trio.
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
    """Create a method that calls a method of trio across the bridge.

    Args:
        method: The method of trio.
        handle: Creates the asyncio handle of the result; None returns the result as it is.
    """

    async def call(self: Mirror[I], /, *args: P.args, **kwargs: P.kwargs) -> T | H:
        bridge, inner = _parts(self)
        given = await bridge.call(partial(method, inner, *args, **kwargs))
        return given if handle is None else handle(bridge, given)

    return update_wrapper(call, method)


def given(
    method: Callable[Concatenate[I, P], T], handle: Callable[[Bridge, T], H]
) -> Callable[Concatenate[Mirror[I], P], H]:
    """Create a method that calls a method of trio directly, as it neither waits nor changes state.

    Args:
        method: The method of trio.
        handle: Creates the asyncio handle of the result.
    """

    def give(self: Mirror[I], /, *args: P.args, **kwargs: P.kwargs) -> H:
        bridge, inner = _parts(self)
        return handle(bridge, method(inner, *args, **kwargs))

    return update_wrapper(give, method)


def like(
    method: Callable[Concatenate[I, P], object],
) -> Callable[[Callable[..., T]], Callable[Concatenate[Mirror[I], P], T]]:
    """Decorate a method with the parameters and the docstring of a method of trio."""

    def named(function: Callable[..., T]) -> Callable[Concatenate[Mirror[I], P], T]:
        return update_wrapper(function, method)

    return named


def each(handle: Callable[[Bridge, I], H]) -> Callable[[Bridge, Iterable[I]], tuple[H, ...]]:
    """Return a function that creates the handles of several results."""
    return lambda bridge, several: tuple(handle(bridge, one) for one in several)


def _parts(self: Mirror[I]) -> tuple[Bridge, I]:
    # The functions above become methods of Mirror's subclasses, so they may use its attributes.
    return self._bridge, self._inner  # pyright: ignore[reportPrivateUsage] - see above
