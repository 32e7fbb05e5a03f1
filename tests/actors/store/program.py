"""A small program for the store, and what two values differ in, types included."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from enum import Enum
from pathlib import Path
from typing import cast

import attrs

from muster.store import KeptBatch, StateReader
from muster.store._rows import BatchRow, row_of
from muster.store._writer import NewState, StateWriter
from muster_core.decisions import Announced, Decision, Kind
from muster_core.events import AddAsk, Event, RemoveAsk
from muster_core.resources import Resources

ORIGIN_US = 1_700_000_000_000_000
NEW = NewState("default", ORIGIN_US)
SMALL = NewState("default", ORIGIN_US, page_bytes=512)
"""With small pages, so that few bytes are many pages."""

S = 1_000_000


def events_of(number: int) -> tuple[Event, ...]:
    """Return the events of a batch; one of three has none, as that of a timer."""
    ask = AddAsk("app", f"ask-{number}", Resources({"vcore": 1000 * number}))
    return ((), (ask,), (ask, RemoveAsk("app", f"ask-{number}")))[number % 3]


def rows(first: int, last: int, seq: int | None = None) -> list[BatchRow]:
    """Return batches; batch n has n % 3 decisions and is of second n.

    Args:
        first: The number of the first one.
        last: The number of the last one.
        seq: The last decision before; None for that of the same program.
    """
    made: list[BatchRow] = []
    seq = sum(number % 3 for number in range(first)) if seq is None else seq
    for number in range(first, last + 1):
        decision = Decision(Kind.BOUND, "app", f"ask-{number}", "node", "root.a")
        decided = [Announced(seq + n + 1, number * S, decision) for n in range(number % 3)]
        made.append(row_of(number, number * S, events_of(number), decided, seq))
        seq += len(decided)
    return made


def parts_of(batch: int) -> list[bytes]:
    """Return the parts of the checkpoint after a batch."""
    return [b"first %d" % batch * 9, b"last %d" % batch * 9]


def put_checkpoint(writer: StateWriter, batch: int, parts: Sequence[bytes]) -> None:
    """Write all parts of a checkpoint."""
    for number, part in enumerate(parts):
        writer.put_part(batch, number, part, last=number == len(parts) - 1)


def made(directory: Path, batches: int = 6, new: NewState = NEW) -> StateWriter:
    """Make a state directory with some batches, each written alone; it stays open."""
    writer = StateWriter.create(directory, new, durability="process")
    for row in rows(1, batches):
        writer.append([row])
    return writer


def batches_in(directory: Path) -> list[KeptBatch]:
    """Return all batches, after decoding each."""
    with StateReader(directory) as reader:
        found = list(reader.batches())
    for batch in found:
        assert batch.events == events_of(batch.number)
        assert [one.seq for one in batch.decisions] == [*range(batch.first_seq, batch.last_seq + 1)]
    return found


def numbers(directory: Path) -> list[int]:
    """Return the numbers of all batches."""
    return [batch.number for batch in batches_in(directory)]


def copied(source: Path, target: Path) -> Path:
    """Copy the files of a state directory, as after a power cut; return the copy."""
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir()
    for path in source.iterdir():
        if path.name.startswith("muster.db") and not path.name.endswith("-shm"):
            (target / path.name).write_bytes(path.read_bytes())
    return target


def anatomy(value: object) -> object:
    """Return all parts of a value, each with its type."""
    cls = type(value)
    if isinstance(value, Enum):
        return cls, value.name
    if isinstance(value, Resources):
        return cls, list(value.amounts.items())
    if attrs.has(cls):
        return cls, [(one.name, anatomy(getattr(value, one.name))) for one in attrs.fields(cls)]
    if isinstance(value, Mapping):
        pairs = cast("Mapping[object, object]", value).items()
        return dict, [(anatomy(key), anatomy(part)) for key, part in pairs]
    if isinstance(value, tuple | list):
        return cls, [anatomy(part) for part in cast("tuple[object, ...]", value)]
    if isinstance(value, frozenset | set):
        return cls, cast("frozenset[object]", value)
    if isinstance(value, str):
        return str, str(value)
    return cls, repr(value)
