"""Programs with a store: where it is, who writes to it and when, and whether it is ahead of others.

No seed determines when a thread is done. So the store's calls run in its task here, with a seeded
number of checkpoints before and after each, in which others run as they do beside a thread.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import asynccontextmanager, contextmanager
from importlib import import_module
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Final, TypeVar, TypeVarTuple, final

import trio

if TYPE_CHECKING:
    from muster._runtime.storing.thread import Threaded
    from muster.store import StateReader

R = TypeVar("R")
A = TypeVarTuple("A")

_STORAGE: Final = "muster._runtime.storing.storage"
_THREAD: Final = "_thread"
_MEMORY: Final = Path("/dev/shm")
_LONGEST: Final = 6
"""The largest number of checkpoints before a call of the store, and after it."""


@final
class Stored:
    """The store of one program. Use it as a context manager: it is removed afterwards.

    Args:
        chance: The seed for how long its calls take.
    """

    def __init__(self, chance: int) -> None:
        self._random = Random(chance)
        self._reader: StateReader | None = None
        self.directory = Path()

    @contextmanager
    def there(self) -> Generator[None]:
        """Make the folder of the store, and run its calls in tasks."""
        storage = import_module(_STORAGE).__dict__
        folder = tempfile.mkdtemp(prefix="muster-fuzz-", dir=_MEMORY if _MEMORY.is_dir() else None)
        self.directory = Path(folder) / "state"
        before = storage[_THREAD]
        storage[_THREAD] = self._thread
        try:
            yield
        finally:
            storage[_THREAD] = before
            if self._reader is not None:
                self._reader.close()
            shutil.rmtree(folder)

    @asynccontextmanager
    async def _thread(self) -> AsyncGenerator[Threaded]:
        """Offer what runs calls one by one, as the thread of a store does."""
        one_by_one = trio.Lock()

        async def run(call: Callable[[*A], R], /, *args: *A) -> R:
            # As in a thread, it is cancelled before it begins, or not at all.
            await trio.lowlevel.checkpoint_if_cancelled()
            async with one_by_one:
                await self._let_others_run()
                try:
                    return call(*args)
                finally:
                    await self._let_others_run()

        yield run

    async def _let_others_run(self) -> None:
        for _ in range(self._random.randint(0, _LONGEST)):
            await trio.lowlevel.cancel_shielded_checkpoint()

    def kept(self) -> int:
        """Return how many batches are on disk."""
        if self._reader is None:
            from muster.store import StateReader  # noqa: PLC0415 - few programs have a store

            self._reader = StateReader(self.directory)
        return self._reader.last().batch
