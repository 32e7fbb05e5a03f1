"""Dumps that are not quite right; ``python -m tests.actors.importing --kind swf`` imports many.

Dumps are mutated: characters are changed, lines are cut, doubled and swapped, columns are dropped.
Whatever that gives, an import either says that it cannot use the file, or counts every record and
makes a feed that a replay does not refuse. A kind of dump takes part with a module
``tests.actors.importing.KIND.samples`` that has a :class:`Kind` with the name ``KIND``.
"""

from __future__ import annotations

import importlib
import io
import random
import re
import time
import traceback
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Final, final

import attrs

from muster.feeds import FeedError, read_feed
from muster.feeds._raw import Encoding
from muster.importing import Workload
from muster.importing.workload import configuration_of, parents_with_jobs
from muster.replay._driver import submit_item_directly
from muster_core.coordinator.plain_scheduler import PlainScheduler
from muster_core.decisions import Kind as DecisionKind
from muster_core.errors import ConfigError

KINDS: Final = ("csv", "kubernetes", "slurm", "swf")
"""The kinds of dumps that have samples; a new kind is added here."""

UNUSABLE: Final = "said to be unusable"
IMPORTED: Final = "imported and replayed"


@final
@attrs.frozen
class Kind:
    """A kind of dumps.

    Attributes:
        samples: Small dumps that are right, by names.
        read: Reads a dump that was made of the sample of a name into a workload. It gives the
            workload nodes if the dump has none. It may raise :class:`FeedError` and
            :class:`ConfigError`.
        parts: The separator of the columns of a line; empty for none.
        words: Values that mean something in such dumps.
    """

    samples: Mapping[str, bytes]
    read: Callable[[str, bytes, Workload], None]
    parts: bytes = b""
    words: tuple[bytes, ...] = ()


class FaultError(Exception):
    """An import has done what no import may do."""


def kind_of(name: str) -> Kind:
    """Return a kind by its name."""
    found = importlib.import_module(f"tests.actors.importing.{name}.samples").KIND
    assert isinstance(found, Kind)
    return found


def outcome_of(kind: Kind, sample: str, dump: bytes) -> str:
    """Import a dump and replay the feed.

    Returns:
        :data:`UNUSABLE` or :data:`IMPORTED`.

    Raises:
        FaultError: If a record is missing in the account, or the replay refuses an event.
    """
    with Workload() as workload:
        try:
            kind.read(sample, dump, workload)
        except (FeedError, ConfigError):
            return UNUSABLE
        missing = workload.account.missing
        if missing:
            raise FaultError(f"neither taken nor left out: {missing}")
        queues = workload.queues
        if not (queues and workload.nodes) or parents_with_jobs(queues):
            return UNUSABLE
        feed = io.BytesIO()
        workload.write(
            feed, {"config": configuration_of(queues, workload.settings)}, Encoding.JSON_LINES
        )
    _replay(feed.getvalue())
    return IMPORTED


def _replay(feed: bytes) -> None:
    scheduler = PlainScheduler()
    for item in read_feed(io.BytesIO(feed)):
        submit_item_directly(scheduler, item)
    scheduler.settle()
    for announced in scheduler.announced:
        if announced.decision.kind is DecisionKind.REJECTED:
            fields = announced.as_map()
            raise FaultError(f"the replay refuses an event: {fields}\n{feed.decode()[:4000]}")


def mutant(kind: Kind, dump: bytes, chance: random.Random) -> bytes:
    """Return a dump with some mistakes."""
    mistakes = _MISTAKES if dump[:1] not in b"{[" or chance.random() < 0.2 else (_literal,)
    for _ in range(chance.choice((1, 1, 1, 2, 3, 5))):
        dump = chance.choice(mistakes)(kind, dump, chance)
    return dump


def _changed(kind: Kind, dump: bytes, chance: random.Random) -> bytes:
    """Change some characters."""
    written = bytearray(dump)
    for _ in range(chance.randint(1, 4)):
        if written:
            written[chance.randrange(len(written))] = _character(chance)
    return bytes(written)


def _character(chance: random.Random) -> int:
    return chance.randrange(256) if chance.random() < 0.3 else chance.choice(_CHARACTERS)


def _cut(kind: Kind, dump: bytes, chance: random.Random) -> bytes:
    """Cut a line, or the whole dump."""
    if chance.random() < 0.2:
        return dump[: chance.randint(0, len(dump))]
    lines = dump.split(b"\n")
    number = chance.randrange(len(lines))
    lines[number] = lines[number][: chance.randint(0, len(lines[number]))]
    return b"\n".join(lines)


def _moved(kind: Kind, dump: bytes, chance: random.Random) -> bytes:
    """Double, leave out or swap lines."""
    lines = dump.split(b"\n")
    one, other = chance.randrange(len(lines)), chance.randrange(len(lines))
    match chance.randrange(3):
        case 0:
            lines.insert(other, lines[one])
        case 1:
            del lines[one]
        case _:
            lines[one], lines[other] = lines[other], lines[one]
    return b"\n".join(lines)


def _without_column(kind: Kind, dump: bytes, chance: random.Random) -> bytes:
    """Drop a column, of one line or of all lines."""
    if not kind.parts or kind.parts not in dump:
        return _cut(kind, dump, chance)
    lines = [line.split(kind.parts) for line in dump.split(b"\n")]
    number = chance.randrange(max(map(len, lines)))
    only = chance.randrange(len(lines)) if chance.random() < 0.5 else None
    for place, line in enumerate(lines):
        if only in (None, place) and number < len(line):
            del line[number]
    return b"\n".join(kind.parts.join(line) for line in lines)


def _worded(kind: Kind, dump: bytes, chance: random.Random) -> bytes:
    """Put a value that means something in the place of another one."""
    lines = dump.split(b"\n")
    number = chance.randrange(len(lines))
    parts = kind.parts if kind.parts and kind.parts in lines[number] else b" "
    words = lines[number].split(parts)
    words[chance.randrange(len(words))] = chance.choice((*_WORDS, *kind.words))
    lines[number] = parts.join(words)
    return b"\n".join(lines)


def _literal(kind: Kind, dump: bytes, chance: random.Random) -> bytes:
    """Put another value in the place of one of JSON, so that it stays JSON."""
    places = [match.span(1) for match in _VALUE.finditer(dump)]
    if not places or dump[:1] not in b"{[":
        return _worded(kind, dump, chance)
    begin, end = chance.choice(places)
    return dump[:begin] + chance.choice(_VALUES) + dump[end:]


_VALUE: Final = re.compile(rb'[:\[,]\s*("[^"\\]*"|-?[0-9]+|true|false|null|\[\]|\{\})(?=\s*[,}\]])')
_VALUES: Final = (
    b"0", b"-1", b"1", b"2.5", b"1e30", b"9" * 30, b"null", b"true", b'""', b'"x"', b"[]", b"{}",
    b'["RUNNING"]', b'"\\ud800"', b'{"set": true, "infinite": true, "number": 0}',
)  # fmt: skip
_CHARACTERS: Final = b"0123456789-:.,|=/[]{}()\"'\\ \t\n\x00_aGKMn\xc3\xa9"
_WORDS: Final = (
    b"", b"-1", b"0", b"9" * 25, b"1e400", b"nan", b"Infinity", b"null", b"None", b"Unknown",
    b"true", b"..", b"\xff\xfe", "\u2028".encode(), b"0.0000001", b"[]", b"{}",
)  # fmt: skip

_MISTAKES: Final = (
    _changed, _changed, _cut, _moved, _without_column, _worded, _worded, _literal, _literal,
)  # fmt: skip


def attack(
    name: str, count: int, seed: int, seconds: float | None = None
) -> tuple[Counter[str], list[str]]:
    """Import mutants of all samples of a kind in turn.

    Args:
        name: The kind.
        count: How many mutants.
        seed: What determines them; each has its own seed, from this number on.
        seconds: It ends after this time, in seconds; None for no such limit.

    Returns:
        How often each outcome came, and the faults, each with its seed.
    """
    kind = kind_of(name)
    samples = sorted(kind.samples.items())
    outcomes: Counter[str] = Counter()
    faults: list[str] = []
    until = None if seconds is None else time.monotonic() + seconds
    for own in range(seed, seed + count):
        sample, dump = samples[own % len(samples)]
        dump = mutant(kind, dump, random.Random(own))
        try:
            outcomes[f"{sample}: {outcome_of(kind, sample, dump)}"] += 1
        except Exception:  # noqa: BLE001 - any of them is a fault
            faults.append(f"{name}, {sample}, --seed {own}:\n{traceback.format_exc()}\n{dump!r}")
        if until is not None and time.monotonic() > until:
            break
    return outcomes, faults
