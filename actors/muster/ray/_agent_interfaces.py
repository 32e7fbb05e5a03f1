"""The two interfaces of the agent: to Ray, and to the program.

:class:`Engine` is what the agent needs of Ray; ``agent.py`` has it from the package ``ray``. The two
pipes to the program are on the loop of asyncio.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, BinaryIO, Final, Protocol

import msgpack

if TYPE_CHECKING:
    from muster.ray._messages import FromAgent, NodeMap


Handle = Any
"""An actor of Ray, or the items of a task."""

Group = Any
"""A placement group of Ray."""

RunMap = dict[str, Any]
"""A message ``Run`` of the program."""


class Engine(Protocol):
    """Ray. Call functions that may block in a thread, unless their docstring says otherwise."""

    def connect(self, address: str, namespace: str, *, log_to_driver: bool) -> tuple[str, str]:
        """Connect; return the versions of Ray and Python."""
        ...

    def disconnect(self) -> None:
        """End the connection, and with it all that is not detached."""
        ...

    def highest_term(self, scheduler: str, term: int) -> int:
        """Record a term of a scheduler in Ray's head; return the highest one there."""
        ...

    def nodes(self) -> list[NodeMap]:
        """Return the nodes that are alive."""
        ...

    def submit(self, run: RunMap, gate: Handle, group: tuple[Group, int] | None) -> Handle:
        """Submit the task of a run; return its items, to be read by ``async for``.

        It blocks only where :meth:`submits_slowly` says so.
        """
        ...

    def submits_slowly(self, run: RunMap) -> bool:
        """Return whether submitting a task waits for Ray's head; this itself does not."""
        ...

    def cancel(self, items: Handle, *, force: bool) -> None:
        """Cancel a task."""
        ...

    def small(self, node: str, name: str, *arguments: object) -> Handle:
        """Call a function of the runner on a node, without resources; await its result."""
        ...

    def warm(self, node: str, within_s: float) -> Handle:
        """Hold a worker on a node for some seconds, or until it is cancelled; return its items."""
        ...

    def gates(self) -> Handle:
        """Start the actor at which the members of gangs wait."""
        ...

    def reserve(self, runs: Sequence[RunMap], name: str | None) -> Group:
        """Begin to reserve room for several runs, each on its node.

        With a name it stays when the agent has gone.
        """
        ...

    def is_reserved(self, group: Group, within_s: float) -> bool:
        """Return whether Ray reserves the room within some seconds."""
        ...

    def remove_group(self, group: Group) -> None:
        """Release the reservation."""
        ...

    def names_of_groups(self) -> list[str]:
        """Return the names of the reservations for detached runs."""
        ...

    def remove_group_named(self, name: str) -> None:
        """Release the reservation with a name."""
        ...

    def start_detached(self, run: RunMap, group: tuple[Group, int] | None) -> Handle:
        """Start the actor of a detached run; it does not begin yet.

        Raises:
            ValueError: If the name is taken.
        """
        ...

    def detached(self, name: str) -> Handle | None:
        """Return the actor of a detached run, if it lives or is on its way."""
        ...

    def names_of_detached(self) -> list[str]:
        """Return the names of all detached runs."""
        ...

    def is_pending(self, actor: Handle) -> bool:
        """Return whether an actor has not been started yet."""
        ...

    def node_of(self, actor: Handle) -> str:
        """Return the id of the node of an actor."""
        ...

    def kill(self, actor: Handle) -> None:
        """Kill an actor."""
        ...

    def is_away(self, error: BaseException) -> bool:
        """Return whether an actor does not answer, but may live."""
        ...

    def classify(self, error: BaseException) -> tuple[str, str, str]:
        """Classify the error of a run: return ``how``, the error, and a text."""
        ...


_CHUNK: Final = 262_144
_POLL_S: Final = 0.01


class MessageWriter:
    """Writes messages to the program, several at a time if they come together."""

    def __init__(self, loop: asyncio.AbstractEventLoop, out: asyncio.WriteTransport) -> None:
        self._loop = loop
        self._out = out
        self._waiting: list[bytes] = []
        # A text of a program may have surrogates, as the names of files have.
        self._pack = msgpack.Packer(unicode_errors="backslashreplace").pack

    def say(self, message: FromAgent) -> None:
        """Send a message to the program. It never waits."""
        if not self._waiting:
            self._loop.call_soon(self.flush)
        self._waiting.append(self._packed(message))

    def _packed(self, message: Mapping[str, object]) -> bytes:
        return self._pack(message)

    def flush(self) -> None:
        """Write the waiting messages."""
        self._out.write(b"".join(self._waiting))
        self._waiting.clear()

    async def drain(self, within_s: float) -> None:
        """Wait until the program has read everything, but no longer than this."""
        self.flush()
        until = self._loop.time() + within_s
        while self._out.get_write_buffer_size() and self._loop.time() < until:  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(_POLL_S)


def own_output() -> BinaryIO:
    """Keep the standard output for messages: printed text goes to the standard error."""
    out = os.dup(1)
    os.dup2(2, 1)
    return os.fdopen(out, "wb", buffering=0)


async def open_output(out: BinaryIO) -> MessageWriter:
    """Open the pipe to the program."""
    loop = asyncio.get_running_loop()
    transport, _ = await loop.connect_write_pipe(asyncio.BaseProtocol, out)
    return MessageWriter(loop, transport)


async def listen(source: BinaryIO, on_message: Callable[[dict[str, Any]], None]) -> None:
    """Read the messages of the program until it has gone.

    Args:
        source: The pipe from the program.
        on_message: Called with each.
    """
    reader = asyncio.StreamReader()
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), source)
    unpacker = msgpack.Unpacker(max_buffer_size=0)
    while data := await reader.read(_CHUNK):
        unpacker.feed(data)
        for message in unpacker:
            on_message(message)


def one_line(error: BaseException) -> str:
    """Return an error as a line: Ray puts whole remote tracebacks into the texts of errors."""
    first = next((line for line in str(error).splitlines() if line.strip()), "").strip()
    return f"{type(error).__name__}: {first}" if first else type(error).__name__
