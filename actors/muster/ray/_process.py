"""The process of the agent, as the program sees it: its runs, its messages, its end.

It hides the two pipes. It packs messages, and checks those of the agent before it uses them.
"""

from __future__ import annotations

import logging
import os
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from math import inf, isfinite
from types import UnionType
from typing import Any, Final, Literal, cast, final, get_args, get_origin, get_type_hints

import attrs
import msgpack
import trio

from muster.ray import _messages
from muster.ray._messages import (
    LARGEST_BYTES,
    NEVER_S,
    SILENCE_S,
    Cancelled,
    Connected,
    Ended,
    Failed,
    FromAgent,
    NodeMap,
    Notice,
    Refused,
    Started,
    SurvivorMap,
    ToAgent,
)
from muster.ray._work import RayLostError, RunFailedError
from muster.subprocesses import end_group

_Check = Callable[[object], bool]

_SHOWN: Final = 200
"""How much of a message an error shows, in characters."""


class WireError(Exception):
    """The agent has sent something that is no message."""


def packed(message: ToAgent) -> bytes:
    """Return a message for the agent as bytes."""
    return msgpack.packb(message)


@final
class MessageDecoder:
    """Decodes the messages in the bytes from the agent."""

    def __init__(self) -> None:
        # Twice the largest: the bytes of the next messages may come together with its end.
        self._unpacker = msgpack.Unpacker(max_buffer_size=2 * LARGEST_BYTES)

    def feed(self, data: bytes | bytearray) -> Iterator[FromAgent]:
        """Return the messages that are complete with these bytes.

        Raises:
            WireError: If something is not a message; what follows cannot be read any more.
        """
        try:
            self._unpacker.feed(data)
        except msgpack.BufferFull:
            msg = f"a message of more than {LARGEST_BYTES} bytes"
            raise WireError(msg) from None
        while True:
            try:
                message: object = self._unpacker.unpack()
            except msgpack.OutOfData:
                return
            except (ValueError, msgpack.UnpackException, RecursionError) as error:
                msg = f"bytes that are not msgpack: {error}"
                raise WireError(msg) from None
            yield _checked(message)


def _checked(message: object) -> FromAgent:
    """Return a message whose form is right.

    Raises:
        WireError: If it is not.
    """
    say = _map_of(message).get("say")
    check = _CHECKS.get(say) if isinstance(say, str) else None
    if check is not None and check(message):
        return cast("FromAgent", message)
    shown = _shown(message)
    raise WireError(shown)


def _map_of(message: object) -> dict[object, object]:
    return cast("dict[object, object]", message) if isinstance(message, dict) else {}


def _shown(message: object) -> str:
    shown = repr(message)
    return shown if len(shown) <= _SHOWN else f"{shown[:_SHOWN]}…"


def _check_of(hint: object) -> _Check:
    """Return a function that checks whether a value has a type."""
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Literal:
        return lambda value: isinstance(value, str) and value in arguments
    if origin is UnionType:
        parts = [_check_of(part) for part in arguments]
        return lambda value: any(part(value) for part in parts)
    if origin is list:
        one = _check_of(arguments[0])
        return lambda value: isinstance(value, list) and all(map(one, cast("list[object]", value)))
    if origin is dict:
        key, one = map(_check_of, arguments)
        return lambda value: (
            isinstance(value, dict)
            and all(
                key(name) and one(part)
                for name, part in cast("dict[object, object]", value).items()
            )
        )
    if hint is float:  # an amount
        return lambda value: isinstance(value, int | float) and isfinite(value) and value >= 0
    if isinstance(hint, type) and hint.__module__ == "builtins":
        return lambda value: type(value) is hint
    return _fields_of(cast("type[Any]", hint))


def _fields_of(message: type[Any]) -> _Check:
    """Return a function that checks whether a map has the fields of a message; it may have more."""
    hints = get_type_hints(message, dict(vars(_messages)))
    needed = {name: _check_of(hints.pop(name)) for name in sorted(message.__required_keys__)}
    optional = {name: _check_of(hint) for name, hint in hints.items()}

    def check(value: object) -> bool:
        if not isinstance(value, dict):
            return False
        fields = cast("dict[object, object]", value)
        return all(name in fields and has(fields[name]) for name, has in needed.items()) and all(
            name not in fields or has(fields[name]) for name, has in optional.items()
        )

    return check


def _named(message: type[Any]) -> str:
    """Return the name of a message, in its field ``say``."""
    (name,) = get_args(get_type_hints(message, dict(vars(_messages)))["say"])
    return cast("str", name)


_CHECKS: Final[dict[str, _Check]] = {
    _named(message): _fields_of(message) for message in get_args(FromAgent)
}


_LOG: Final = logging.getLogger("muster.ray")

_CONNECTING_S: Final = 120.0
"""How long the agent may take until it is connected, in seconds: Ray itself tries for a minute."""

_LEAVING_S: Final = 10.0
"""How long the agent may take to end when its input has ended, in seconds; then it is killed."""

_LAST_WORDS_S: Final = 0.5
"""How long the last output of the agent may take to come when it has ended, in seconds."""

_WRITING_S: Final = 30.0
"""How long the agent may take to read a message, in seconds."""

_ANSWER_S: Final = 30.0
"""How long after the grace period the end of a cancelled run is waited for, in seconds."""

_AT_ONCE: Final = 65_536
"""How much is read at once, in bytes."""

_LINE: Final = 2000
"""How much of a line of the agent's error output is logged, in bytes."""

AboutRun = Started | Ended | Failed | Cancelled
End = Ended | Failed | Cancelled


@final
class RunHandle:
    """A run, as the agent reports it.

    Attributes:
        id: Its number.
        is_sent: Whether the agent may know of it.
        has_started: Whether its work has begun.
        end: How it has ended, if that was reported.
    """

    def __init__(self, number: int) -> None:
        self.id = number
        self.is_sent = False
        self.end: End | None = None
        self.has_started = False
        # At most one start and one end are put in.
        self._put, self._take = trio.open_memory_channel[AboutRun](2)

    def receive(self, message: AboutRun) -> None:
        """Take a message of the agent; repeated ones are dropped."""
        if message["say"] != "started":
            self.end = message
        elif self.has_started:
            return
        else:
            self.has_started = True
        self._put.send_nowait(message)

    def lose(self) -> None:
        """Record that no more messages will come."""
        self._put.close()

    async def next(self) -> AboutRun | None:
        """Wait for the next message of the agent; None if the agent was lost."""
        try:
            return self._take.receive_nowait()
        except trio.EndOfChannel:
            return self.end
        except trio.WouldBlock:
            if self.end is not None:
                return self.end  # again, for another waiting task
        try:
            return await self._take.receive()
        except trio.EndOfChannel:
            return None

    @property
    def has_ended(self) -> bool:
        """Whether its end was reported."""
        return self.end is not None

    async def over(self) -> None:
        """Wait until it has ended or the agent was lost."""
        while self.end is None and await self.next() is not None:
            pass


@final
@attrs.frozen
class AgentListeners:
    """The functions to call with messages that are not about runs.

    Attributes:
        nodes: Called with each list of nodes.
        connected: Called when it is connected.
        warning: Called with a warning for the operator.
        outdone: Called with the term of another program that leads.
    """

    nodes: Callable[[list[NodeMap]], None]
    connected: Callable[[Connected], None]
    warning: Callable[[Notice], None]
    outdone: Callable[[int], None]


@final
class Agent:
    """The process of the agent, from its start to its end.

    Args:
        process: Its process.
        listeners: Called with its messages.

    Attributes:
        is_connected: Whether it has been connected to Ray.
        refused: Why it could not be connected, if it has reported that.
        lost: Why it counts as lost; None while it lives.
        ended_at: When its process had ended, by trio's clock; infinity before.
        last_lines: The end of its error output.
    """

    def __init__(self, process: trio.Process, listeners: AgentListeners) -> None:
        self._process = process
        self._listeners = listeners
        self._writing = trio.Lock()
        self._listening = trio.CancelScope()
        self._runs: dict[int, RunHandle] = {}
        self._asking: list[trio.MemorySendChannel[list[SurvivorMap]]] = []
        self.is_connected = False
        self.refused: Refused | None = None
        self.lost: str | None = None
        self.ended_at = inf
        self.last_lines: deque[str] = deque(maxlen=20)

    # Messages to it

    async def send(self, message: ToAgent, run: RunHandle | None = None) -> None:
        """Send a message to the agent.

        A message that has begun is written to its end, even if the caller is cancelled. That ends
        at the latest when the agent counts as lost.

        Args:
            message: The message.
            run: The run that it begins, if it begins one.

        Raises:
            RayLostError: If the agent was lost.
            RunFailedError: If the message cannot be sent.
        """
        data = _packed(message)
        async with self._writing:
            self.check()
            if run is not None:
                run.is_sent = True
            assert self._process.stdin is not None, "it is a pipe"
            limit = trio.current_time() + _WRITING_S
            writing = trio.CancelScope(deadline=limit, shield=True)
            try:
                with writing:
                    await self._process.stdin.send_all(data)
            except (trio.BrokenResourceError, trio.ClosedResourceError):
                self.lose("the agent does not listen any more")
            if writing.cancelled_caught:
                self.lose(f"the agent has not listened for {_WRITING_S:g} s")
            self.check()

    def check(self) -> None:
        """Check that the agent lives.

        Raises:
            RayLostError: If it was lost.
        """
        if self.lost is not None:
            msg = f"the connection to Ray was lost: {self.lost}"
            raise RayLostError(msg)

    def open_run(self, number: int) -> RunHandle:
        """Begin to pass messages about a run to it.

        Raises:
            RayLostError: If the agent was lost.
        """
        self.check()
        run = self._runs[number] = RunHandle(number)
        return run

    def close_run(self, run: RunHandle) -> None:
        """Drop further messages about a run."""
        self._runs.pop(run.id, None)

    async def end_run(self, run: RunHandle, grace_s: float) -> None:
        """End a run, and wait until nothing of it is left, as far as the agent knows."""
        if not run.is_sent or run.end is not None or self.lost is not None:
            return
        grace_s = min(grace_s, NEVER_S)
        with trio.CancelScope(shield=True):
            with suppress(RayLostError):
                await self.send({"do": "cancel", "id": run.id, "grace_s": grace_s})
            with trio.move_on_after(grace_s + _ANSWER_S):
                await run.over()
                return
        if not run.has_ended and self.lost is None:
            _LOG.error("run %d was cancelled, and the agent does not say that it has ended", run.id)

    async def survivors(self) -> list[SurvivorMap]:
        """Ask for the detached runs of earlier agents.

        Raises:
            RayLostError: If the agent was lost.
        """
        put, take = trio.open_memory_channel[list[SurvivorMap]](1)
        self.check()
        self._asking.append(put)
        await self.send({"do": "survivors"})
        try:
            return await take.receive()
        except trio.EndOfChannel:
            self.check()
            raise

    # Messages from it

    async def listen(self) -> None:
        """Handle the messages of the agent, until it counts as lost."""
        with self._listening:
            await self._listen()

    async def _listen(self) -> None:
        incoming = MessageDecoder()
        heard_at = began_at = trio.current_time()
        while self.lost is None and self.refused is None:
            limit = heard_at + SILENCE_S if self.is_connected else began_at + _CONNECTING_S
            data = await self._read(limit)
            if data is None:
                seconds = SILENCE_S if self.is_connected else _CONNECTING_S
                what = "said nothing" if self.is_connected else "not connected"
                self.lose(f"the agent has {what} for {seconds:g} s")
            elif not data:
                with trio.move_on_after(_LAST_WORDS_S):
                    await self._process.wait()
                self.lose(self._how_ended())
            else:
                heard_at = trio.current_time()  # a beat waits behind a long message
                try:
                    for message in incoming.feed(data):
                        self._handle(message)
                except WireError as error:
                    _LOG.error("the agent says what makes no sense: %s", error)
                    self.lose(f"the agent says what makes no sense: {error}")

    async def _read(self, limit: float) -> bytes | bytearray | None:
        """Return the next bytes; empty at the end, None at the limit."""
        stdout = self._process.stdout
        assert isinstance(stdout, trio.lowlevel.FdStream), "it is a pipe"
        with trio.move_on_at(limit):
            try:
                return await stdout.receive_some(_AT_ONCE)
            except (trio.BrokenResourceError, trio.ClosedResourceError):
                return b""
        # This program itself may have been stopped: bytes that have come meanwhile count.
        try:
            return os.read(stdout.fileno(), _AT_ONCE)
        except BlockingIOError:
            return None
        except OSError:
            return b""

    def _handle(self, message: FromAgent) -> None:
        if (
            message["say"] == "started"
            or message["say"] == "ended"
            or message["say"] == "failed"
            or message["say"] == "cancelled"
        ):
            self._handle_run(message)
        elif message["say"] == "nodes":
            self._listeners.nodes(message["nodes"])
        elif message["say"] == "connected":
            self.is_connected = True
            self._listeners.connected(message)
        elif message["say"] == "refused":
            self.refused = message
        elif message["say"] == "outdone":
            self._listeners.outdone(message["term"])
        elif message["say"] == "survivors":
            self._answer(message["survivors"])
        elif message["say"] == "warning":
            self._listeners.warning(message)

    def _handle_run(self, message: AboutRun) -> None:
        run = self._runs.get(message["id"])
        if run is None:
            return
        run.receive(message)
        if run.end is not None:
            self.close_run(run)

    def _answer(self, survivors: list[SurvivorMap]) -> None:
        asking, self._asking = self._asking, []
        for put in asking:
            with suppress(trio.BrokenResourceError):  # it does not wait any more
                put.send_nowait(survivors)

    async def log_errors(self) -> None:
        """Log the lines of its error output, until that ends."""
        assert self._process.stderr is not None, "it is a pipe"
        rest = b""
        with suppress(trio.BrokenResourceError, trio.ClosedResourceError):
            async for data in self._process.stderr:
                *lines, rest = (rest + data).split(b"\n")
                if len(rest) > _LINE:
                    lines.append(rest)
                    rest = b""
                for line in lines:
                    self._log(line)
        self._log(rest)

    def _log(self, line: bytes) -> None:
        text = line[:_LINE].decode(errors="replace").rstrip()
        if text:
            self.last_lines.append(text)
            _LOG.info("agent: %s", text)

    # Its end

    async def watch(self) -> None:
        """Wait until its process has ended; then it is lost, even if its output stays open."""
        await self._process.wait()
        await trio.sleep(_LAST_WORDS_S)
        self.lose(self._how_ended())

    def _how_ended(self) -> str:
        status = self._process.returncode
        if status is None:
            return "the agent has closed its output"
        # If it was killed, its last output does not explain that.
        last = f": {self.last_lines[-1]}" if self.last_lines and status > 0 else ""
        return f"the agent has ended, with status {status}{last}"

    def lose(self, why: str) -> None:
        """Mark it as lost, and wake all tasks that wait for it."""
        if self.lost is None:
            self.lost = why
            self._listening.cancel()
            for run in self._runs.values():
                run.lose()
            self._runs.clear()
            for asking in self._asking:
                asking.close()

    async def hang_up(self) -> None:
        """Close its input, which ends it."""
        assert self._process.stdin is not None, "it is a pipe"
        with trio.CancelScope(shield=True):
            await self._process.stdin.aclose()

    async def end(self) -> None:
        """Wait until its process has ended, whose input has; after a while end it by force."""
        with trio.CancelScope(shield=True):
            with trio.move_on_after(_LEAVING_S):
                await self._process.wait()
            if self._process.returncode is None:
                await end_group(self._process.pid, 0, self._reap)
            self.ended_at = trio.current_time()
            for pipe in (self._process.stdout, self._process.stderr):
                assert pipe is not None, "it is a pipe"
                await pipe.aclose()

    async def _reap(self) -> None:
        await self._process.wait()


def _packed(message: ToAgent) -> bytes:
    """Return a message as bytes.

    Raises:
        RunFailedError: If it has a value that cannot be sent.
    """
    try:
        data = packed(message)
    except (TypeError, ValueError, OverflowError) as error:
        msg = f"the work cannot be sent: {error}"
        raise RunFailedError(msg) from error
    if len(data) > LARGEST_BYTES:
        msg = f"the work cannot be sent: it has {len(data)} bytes, the most are {LARGEST_BYTES}"
        raise RunFailedError(msg)
    return data
