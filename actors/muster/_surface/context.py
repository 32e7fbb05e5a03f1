"""Async contexts, and the errors if a program opens one in another way."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import wraps
from types import TracebackType
from typing import Generic, Literal, NoReturn, ParamSpec, TypeVar, final

import trio
from typing_extensions import override

T = TypeVar("T")
P = ParamSpec("P")

Library = Literal["trio", "asyncio"]
"""A library that runs async functions."""


@final
class Opening(AbstractAsyncContextManager[T], Generic[T]):
    """A block that is not entered yet; ``async with`` enters it and gives what is opened.

    Args:
        manager: Enters and leaves the block.
        name: The function that a program has called for it.
        library: The library in which the block runs.
        elsewhere: The function for programs of the other library.
    """

    def __init__(
        self, manager: AbstractAsyncContextManager[T], name: str, library: Library, elsewhere: str
    ) -> None:
        self._manager = manager
        self._name = name
        self._library = library
        self._elsewhere = elsewhere

    @override
    async def __aenter__(self) -> T:
        """Enter the block.

        Raises:
            RuntimeError: If the program runs in the other library.
        """
        if _running_in() != self._library:
            msg = (
                f"{self._name} is for programs that run in {self._library}, and this one runs in "
                f"{_running_in()}: use {self._elsewhere}"
            )
            raise RuntimeError(msg)
        return await self._manager.__aenter__()

    @override
    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool | None:
        """Leave the block."""
        return await self._manager.__aexit__(kind, error, trace)

    def __getattr__(self, name: str) -> NoReturn:
        msg = f"{self._name} has no {name!r} before it is opened: {self._right()}"
        raise AttributeError(msg, name=name, obj=self)

    def __await__(self) -> NoReturn:
        msg = f"{self._name} cannot be awaited: {self._right()}"
        raise TypeError(msg)

    def _right(self) -> str:
        return f"write `async with {self._name}(…) as opened:`, and use `opened` inside"


def _running_in() -> Library:
    """Return the library that runs this async function."""
    try:
        trio.lowlevel.current_task()
    except RuntimeError:
        return "asyncio"
    return "trio"


def opens_in(
    library: Library, name: str, *, elsewhere: str
) -> Callable[[Callable[P, AsyncGenerator[T, None]]], Callable[P, Opening[T]]]:
    """Make a block of an async generator function, as ``asynccontextmanager`` does.

    Args:
        library: The library in which the block runs.
        name: The function, as a program calls it.
        elsewhere: The function for programs of the other library.
    """

    def decorate(function: Callable[P, AsyncGenerator[T, None]]) -> Callable[P, Opening[T]]:
        manager = asynccontextmanager(function)

        @wraps(function)
        def opening(*args: P.args, **kwargs: P.kwargs) -> Opening[T]:
            return Opening(manager(*args, **kwargs), name, library, elsewhere)

        return opening

    return decorate
