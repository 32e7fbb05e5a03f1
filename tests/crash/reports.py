"""What a life tells while it lives, through a pipe: a report is written before anything follows."""

from __future__ import annotations

import os
import pickle
import struct
from collections.abc import Iterator
from typing import Final, final

import attrs

from muster_core.decisions import Announced
from muster_core.events import Event
from muster_core.snapshots import Snapshot

_HEAD: Final = struct.Struct(">I")

Key = tuple[str, ...]


@final
@attrs.frozen
class Phase:
    """A part of the life begins: ``opening``, ``open``, ``closing`` or ``closed``."""

    name: str


@final
@attrs.frozen
class Called:
    """A call was made.

    Attributes:
        number: Its number.
        said: The call in words.
        keys: What it submits.
    """

    number: int
    said: str
    keys: tuple[Key, ...]


@final
@attrs.frozen
class Answered:
    """A call was answered.

    Attributes:
        number: Its number.
        done: Whether what it submits was let in; None if nobody knows, as it was closed.
        refusal: The message with which it was refused, or None.
    """

    number: int
    done: bool | None
    refusal: str | None = None


@final
@attrs.frozen
class Wrote:
    """The journal got the decisions of a batch."""

    decisions: tuple[Announced, ...]


@final
@attrs.frozen
class Let:
    """The record got an event, or the end of a batch.

    Attributes:
        at_us: The instant of the batch.
        event: The event; None for the end of the batch.
    """

    at_us: int
    event: Event | None


@final
@attrs.frozen
class Saw:
    """An observer read decisions.

    Attributes:
        observer: Which one.
        decisions: What it read.
    """

    observer: int
    decisions: tuple[Announced, ...]


@final
@attrs.frozen
class Worked:
    """The binder was given an allocation.

    Attributes:
        app: The application.
        ask: The ask.
        node: The node.
        again: Whether it was to be resumed.
    """

    app: str
    ask: str
    node: str
    again: bool


@final
@attrs.frozen
class Looked:
    """The state between two batches.

    Attributes:
        batches: How many batches there were.
        on_disk: The last batch that a reader found.
        snapshot: The state.
    """

    batches: int
    on_disk: int
    snapshot: Snapshot


@final
@attrs.frozen
class Failed:
    """Something went wrong in the life."""

    what: str


Report = Phase | Called | Answered | Wrote | Let | Saw | Worked | Looked | Failed


@final
class Teller:
    """Writes reports to a pipe, each at once, so that a kill takes none back.

    Args:
        pipe: The file descriptor.
    """

    def __init__(self, pipe: int) -> None:
        self._pipe = pipe

    def tell(self, report: Report) -> None:
        """Write a report."""
        data = pickle.dumps(report, protocol=5)
        rest = memoryview(_HEAD.pack(len(data)) + data)
        while rest:
            rest = rest[os.write(self._pipe, rest) :]


@final
class Listener:
    """Takes reports out of what comes through a pipe; one that was cut short does not count."""

    def __init__(self) -> None:
        self._data = bytearray()

    def feed(self, data: bytes) -> Iterator[Report]:
        """Yield the reports that are complete now."""
        self._data += data
        while len(self._data) >= _HEAD.size:
            (size,) = _HEAD.unpack_from(self._data)
            end = _HEAD.size + size
            if len(self._data) < end:
                return
            report: Report = pickle.loads(self._data[_HEAD.size : end])  # our own child wrote it
            del self._data[:end]
            yield report
