"""A workload on its way into a feed: importers put jobs in, and a feed comes out in order."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from types import MappingProxyType, TracebackType
from typing import Any, Final, Self, final

import attrs

from muster.feeds import date_text
from muster.feeds._convert import target_encoding_of
from muster.feeds._encodings.encode import Encoder, to_json_line
from muster.feeds._encodings.raw import Encoding
from muster.feeds._encodings.target import Output, Target
from muster.importing.workload.account import Account
from muster.importing.workload.jobs import Job, Starts
from muster.importing.workload.nodes import NodeFields
from muster.importing.workload.spool import Spool
from muster.importing.workload.texts import gang_name_of, seconds_of
from muster_core.values.application_states import TIMERS_US, AppState

Event = Mapping[str, object]

_COMPLETED_AFTER_US: Final = TIMERS_US[AppState.COMPLETING]

_APP: Final = "\x00"
_GANG: Final = "\x01"
_APP_BYTES: Final = b'"\\u0000"'
_GANG_BYTES: Final = b'"\\u0001"'
"""What stands in the events of a job for names that are known only when all jobs are in order."""

_encoded: Final = json.JSONEncoder(ensure_ascii=False, allow_nan=False).encode


@final
@attrs.frozen
class Written:
    """What is in a feed that was written.

    Attributes:
        events: How many events.
        apps: How many applications.
        asks: How many asks.
        gangs: How many gangs.
        nodes: How many nodes.
        first_us: When the first job came, in microseconds; None if there is no job.
        last_us: When the last job came.
        is_dated: Whether these are dates, in microseconds since 1970.
        queues: The paths of the queues, in order.
    """

    events: int
    apps: int
    asks: int
    gangs: int
    nodes: int
    first_us: int | None
    last_us: int | None
    is_dated: bool
    queues: tuple[str, ...]


@final
class Workload:
    """Jobs and nodes on their way into a feed.

    Attributes:
        account: What became of everything that was read.
        is_dated: Whether instants are microseconds since 1970 in UTC, and not since the start.
        since_us: Jobs before this instant are not wanted; None for all.
        until_us: Jobs after this instant are not wanted; None for all.
        nodes: The nodes with which the feed begins.
        settings: What a made configuration says of queues, by their paths, beside their names.
        partition: What it says of the partition itself, beside its queues.
        comments: What a made configuration says of them, in lines of a text.
        remarks: What its user should know of it, each in one line.
        starts: Gets the real start of each job when the feed is written, or None.
        head: Other events with which it begins, after the nodes, such as priority classes.
    """

    def __init__(self) -> None:
        self.account = Account()
        self.is_dated = True
        self.since_us: int | None = None
        self.until_us: int | None = None
        self.nodes: list[NodeFields] = []
        self.settings: dict[str, Mapping[str, object]] = {}
        self.partition: dict[str, object] = {}
        self.comments: list[str] = []
        self.remarks: list[str] = []
        self.starts: Starts | None = None
        self.head: list[Event] = []
        self._spool = Spool()
        self._queues: set[str] = set()
        #: Hashes of the names of applications, and of those that came more than once: a million
        #: names themselves would take too much memory. Two names of one hash do no harm.
        self._names: set[int] = set()
        self._repeated: set[int] = set()

    def __enter__(self) -> Self:
        self._spool.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._spool.__exit__(kind, error, trace)

    @property
    def queues(self) -> tuple[str, ...]:
        """The paths of the queues of all jobs, in order."""
        return tuple(sorted(self._queues))

    # IMPORT-3
    def is_wanted(self, at_us: int) -> bool:
        """Return whether a job that came at an instant is wanted; one that is not is left out."""
        return (self.since_us is None or at_us >= self.since_us) and (
            self.until_us is None or at_us <= self.until_us
        )

    def is_known(self, app: str) -> bool:
        """Return whether an earlier job has this application; of a million others one may be said to."""
        return hash(app) in self._names

    def submit(self, job: Job) -> None:
        """Put in a job.

        An application that all its asks may have left before this job comes has completed in a
        replay. Then the job becomes an application of its own: ``app.2``, ``app.3`` and so on.
        """
        self._queues.add(job.queue)
        app = job.app if job.is_alone else _APP
        if not job.is_alone:
            known = hash(job.app)
            (self._repeated if known in self._names else self._names).add(known)
        gang = job.gang
        events: list[bytes] = []
        if job.is_gang:
            gang = gang_name_of(job.app) if job.is_alone else _GANG
            members = sum(part.count for part in job.parts)
            event = {"op": "add_gang", "gang": gang, "min_member": members}
            events.append(_encoded(event).encode())
        events += [_encoded(part.event(app, gang)).encode() for part in job.parts]
        asks = sum(part.count for part in job.parts)
        head = _encoded(job.app_event(app)).encode()
        name = None if job.is_alone else job.app
        real = (job.start_us, job.partition, len(job.parts))
        self._spool.add(job.at_us, (head, name, job.ends_us, events, asks, real))

    def event(self, at_us: int, event: Event, *, before: bool = False) -> None:
        """Put in any other event, such as a node that comes later.

        Args:
            at_us: Its instant, in microseconds.
            event: The event.
            before: Whether it stands before all jobs of this instant.
        """
        record = (None, None, None, [_encoded(event).encode()], 0, None)
        self._spool.add(at_us, record, before=before)

    def write(
        self,
        target: Target,
        configuration: Mapping[str, object],
        encoding: Encoding | None = None,
    ) -> Written:
        """Write the feed; to be called once.

        Args:
            target: A path, ``-`` for standard output, or a stream of bytes.
            configuration: The fields of the event ``configure`` with which the feed begins:
                ``file``, or ``config``.
            encoding: The encoding; None to take it from the name of the target.

        Raises:
            FeedError: If it cannot be written; an existing file is then unchanged.
        """
        self._spool.finish()
        with Output(target, whole=True) as output:
            feed = _Feed(output, encoding or target_encoding_of(target), is_dated=self.is_dated)
            start_us = self._spool.first_us or 0
            feed.event(start_us, _encoded({"op": "configure", **configuration}).encode())
            for node in self.nodes:
                feed.event(start_us, _encoded(node.event()).encode())
            for event in self.head:
                feed.event(start_us, _encoded(event).encode())
            self._write_jobs(feed)
            feed.end()
        return Written(
            events=feed.events,
            apps=feed.apps,
            asks=feed.asks,
            gangs=feed.gangs,
            nodes=len(self.nodes),
            first_us=self._spool.first_us,
            last_us=self._spool.last_us,
            is_dated=self.is_dated,
            queues=self.queues,
        )

    def _write_jobs(self, feed: _Feed) -> None:
        if self.starts is not None:
            self.starts.origin_us = self._spool.first_us or 0
        for at_us, (head, name, ends_us, events, asks, real) in self._spool.in_order():
            feed.asks += asks
            if self.starts is not None and real is not None:
                self.starts.add(*real)
            if head is None or name is None:
                feed.alone(at_us, head, events)
            else:
                is_repeated = hash(name) in self._repeated
                feed.named(at_us, name, ends_us, (head, *events), is_repeated=is_repeated)


@final
class _Feed:
    """A feed that is being written, and the applications in it that have several jobs."""

    def __init__(self, output: Output, encoding: Encoding, *, is_dated: bool) -> None:
        self.events = 0
        self.apps = 0
        self.asks = 0
        self.gangs = 0
        self._output = output
        self._encoder = Encoder(encoding)
        self._is_lines = encoding is Encoding.JSON_LINES
        self._is_dated = is_dated
        self._at_us: int | None = None
        #: Of each application: how many there were by its name, when the last one is completed
        #: at the earliest (None: never), and how many gangs it has.
        self._known: dict[str, tuple[int, int | None, int]] = {}

    def event(self, at_us: int, event: bytes) -> None:
        """Write an event, given as a JSON map without ``at``."""
        if at_us != self._at_us:
            self._at_us = at_us
            event = b'{"at": ' + self._instant(at_us) + b", " + event[1:]
        self.events += 1
        if self._is_lines:
            self._output.write(event + b"\n")
        else:
            self._output.write(self._encoder.event(json.loads(event)))

    def end(self) -> None:
        """Write what stands after the last event."""
        self._output.write(self._encoder.end())

    def _instant(self, at_us: int) -> bytes:
        if self._is_dated:
            return f'"{date_text(at_us)}"'.encode()
        return to_json_line(seconds_of(at_us)).rstrip()

    def alone(self, at_us: int, head: bytes | None, events: Sequence[bytes]) -> None:
        """Write the events of a job whose application no other job has, or other events."""
        if head is not None:
            self.apps += 1
            self.event(at_us, head)
        for event in events:
            self.gangs += event.startswith(b'{"op": "add_gang"')
            self.event(at_us, event)

    # IMPORT-7
    def named(
        self,
        at_us: int,
        name: str,
        ends_us: int | None,
        events: Sequence[bytes],
        *,
        is_repeated: bool,
    ) -> None:
        """Write the events of a job whose application others may have, too."""
        times, over_us, gangs = self._known.get(name, (0, 0, 0))
        is_new = times == 0 or (over_us is not None and at_us >= over_us)
        times += is_new
        app = name if times == 1 else f"{name}.{times}"
        head, *others = events
        if is_new:
            self.apps += 1
            self.event(at_us, head.replace(_APP_BYTES, _encoded(app).encode()))
            over_us = 0
        if others and others[0].startswith(b'{"op": "add_gang"'):
            gangs += 1
            self.gangs += 1
        gang = gang_name_of(name) + ("" if gangs <= 1 else f"-{gangs}")
        for event in others:
            named = event.replace(_APP_BYTES, _encoded(app).encode())
            self.event(at_us, named.replace(_GANG_BYTES, _encoded(gang).encode()))
        if over_us is not None:
            over_us = None if ends_us is None else max(over_us, ends_us + _COMPLETED_AFTER_US)
        if is_repeated:
            self._known[name] = (times, over_us, gangs)


def parents_with_jobs(queues: Sequence[str]) -> list[tuple[str, str]]:
    """Return each queue that would have both jobs and a queue below it, with that queue."""
    known = set(queues)
    found: list[tuple[str, str]] = []
    for path in queues:
        names = path.split(".")
        above = (".".join(names[:number]) for number in range(1, len(names)))
        found += [(parent, path) for parent in above if parent in known]
    return found


def configuration_of(
    queues: Sequence[str],
    settings: Mapping[str, Mapping[str, object]] = MappingProxyType({}),
    partition: Mapping[str, object] = MappingProxyType({}),
) -> dict[str, Any]:
    """Return a configuration that has queues, each submitted to by everybody.

    Args:
        queues: Their paths.
        settings: What it says of queues, by their paths; these queues are in it, too.
        partition: What it says of the partition itself.
    """
    root: dict[str, Any] = {"name": "root", "submitacl": "*", **settings.get("root", {})}
    made: dict[str, dict[str, Any]] = {"root": root}
    for leaf in sorted({*queues, *settings}):
        names = leaf.split(".")
        for depth in range(2, len(names) + 1):
            path, above = ".".join(names[:depth]), ".".join(names[: depth - 1])
            if path not in made:
                made[path] = {"name": names[depth - 1], **settings.get(path, {})}
                made[above].setdefault("queues", []).append(made[path])
    return {"partitions": [{"name": "default", **partition, "queues": [root]}]}
