"""A workload on its way into a feed: importers put jobs in, in any order; a feed comes out in order.

A :class:`Job` is an application with its asks, as an importer finds it. An :class:`Account` counts
what became of everything that was read: nothing of a dump is left out in silence.
"""

from __future__ import annotations

import json
from array import array
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import pairwise
from types import MappingProxyType
from typing import Any, Final, Self, final

import attrs

from muster.feeds import date_text
from muster.feeds._encodings import Encoder, to_json_line
from muster.feeds._files import Output, Target
from muster.feeds._output import target_encoding_of
from muster.feeds._raw import Encoding, Raw
from muster.importing.dumps import Spool
from muster.importing.nodes import NodeFields, event_fields
from muster.importing.queues import gang_name_of
from muster_core.decisions import seconds
from muster_core.values.application_states import TIMERS_US, AppState


@final
@attrs.frozen
class Cause:
    """Why some records are not in the feed, or are in it in another form.

    Attributes:
        what: Their noun in the singular, such as ``job``.
        text: The cause, as a text that follows their number.
        count: How many they are.
        first: The place of the first of them, such as ``jobs.txt:17``.
        example: The problem of the first of them, such as the value; may be empty.
    """

    what: str
    text: str
    count: int
    first: str
    example: str = ""


# IMPORT-2
@final
class ImportAccount:
    """Counts the records that are read, those that become part of the feed, and those left out, by cause.

    Every record that is read has to be taken or left out, once. A noted record is taken, but the
    feed lacks a part of it; a changed one is taken, and the feed has it in another form.

    Attributes:
        read: How many records were read, by kind, in the singular.
        taken: How many of them are in the feed.
    """

    def __init__(self) -> None:
        self.read: Counter[str] = Counter()
        self.taken: Counter[str] = Counter()
        self._left_out: dict[tuple[str, str], Cause] = {}
        self._notes: dict[tuple[str, str], Cause] = {}
        self._changes: dict[tuple[str, str], Cause] = {}

    def leave_out(
        self, what: str, text: str, first: str, example: str = "", count: int = 1
    ) -> None:
        """Count records that are left out.

        Args:
            what: Their kind, in the singular.
            text: The cause.
            first: The place of the first of them.
            example: Its problem.
            count: How many they are.
        """
        _count(self._left_out, Cause(what, text, count, first, example))

    def note(self, what: str, text: str, first: str, example: str = "", count: int = 1) -> None:
        """Count records that are taken, although the feed lacks a part of them.

        Args:
            what: Their kind, in the singular.
            text: The missing part.
            first: The place of the first of them.
            example: Its value.
            count: How many they are.
        """
        _count(self._notes, Cause(what, text, count, first, example))

    def change(self, what: str, text: str, first: str, example: str = "", count: int = 1) -> None:
        """Count records that are taken, and that the feed has in another form.

        Args:
            what: Their kind, in the singular.
            text: The form.
            first: The place of the first of them.
            example: Its value.
            count: How many they are.
        """
        _count(self._changes, Cause(what, text, count, first, example))

    @property
    def left_out(self) -> tuple[Cause, ...]:
        """The causes of records left out, the most frequent first."""
        return _by_number(self._left_out)

    @property
    def notes(self) -> tuple[Cause, ...]:
        """The notes, the most frequent first."""
        return _by_number(self._notes)

    @property
    def changes(self) -> tuple[Cause, ...]:
        """The changes, the most frequent first."""
        return _by_number(self._changes)

    @property
    def missing(self) -> Counter[str]:
        """How many records were neither taken nor left out, by kind; always empty, but for bugs."""
        rest = Counter(self.read)
        rest.subtract(self.taken)
        for cause in self._left_out.values():
            rest[cause.what] -= cause.count
        return Counter({what: number for what, number in rest.items() if number})


def _count(causes: dict[tuple[str, str], Cause], new: Cause) -> None:
    key = (new.what, new.text)
    old = causes.get(key)
    causes[key] = new if old is None else attrs.evolve(old, count=old.count + new.count)


def _by_number(causes: dict[tuple[str, str], Cause]) -> tuple[Cause, ...]:
    return tuple(sorted(causes.values(), key=lambda cause: (-cause.count, cause.what, cause.text)))


Amounts = Mapping[str, int | float | str]
"""Resources as a feed writes them, such as ``{"vcore": 4, "memory": 1024}``."""

NONE: Final[Mapping[str, str]] = {}
_NEVER: Final = -(2**63)


@final
@attrs.frozen
class AskGroup:
    """Asks of one job that are alike.

    Attributes:
        ask: The name of the ask; with a count above 1 the beginning of the names.
        resources: The resources of each of them.
        count: How many they are.
        selector: The attributes that the node must have.
        node: The only node on which they may run, or None.
        tolerations: The taints that they tolerate, as a feed writes them.
        affinity: The terms of which the node must match one, likewise, or None.
        run_us: How long each runs, in microseconds; None if it holds its room to the end.
        priority: Its priority.
        priority_class: Its priority class, which then defines its priority, or None.
        retries: How often it is tried again after its work has failed.
        estimate_us: How long it was expected to run, in microseconds, or None.
    """

    ask: str
    resources: Amounts
    count: int = 1
    selector: Mapping[str, str] = NONE
    node: str | None = None
    tolerations: Raw = None
    affinity: Raw = None
    run_us: int | None = None
    priority: int = 0
    priority_class: str | None = None
    retries: int = 0
    estimate_us: int | None = None

    def event(self, app: str, gang: str | None) -> dict[str, object]:
        """Return the event that adds the asks.

        Args:
            app: The application.
            gang: The gang whose members they are, or None.
        """
        has_class = self.priority_class is not None
        return event_fields(
            op="add_ask",
            app=app,
            ask=self.ask,
            resources=self.resources,
            priority_class=self.priority_class,
            priority=None if has_class else self.priority or None,
            count=self.count if self.count > 1 else None,
            gang=gang,
            node=self.node,
            selector=self.selector or None,
            tolerations=self.tolerations or None,
            affinity=self.affinity,
            run_for=None if self.run_us is None else in_seconds(self.run_us),
            retries=self.retries or None,
            # IMPORT-13
            estimate=None if self.estimate_us is None else in_seconds(self.estimate_us),
        )


Sizes = list[tuple[Mapping[str, int], int]]
"""The resources of asks, each with the number of such asks, the largest first."""


# IMPORT-9
def divide_evenly(amounts: Mapping[str, int], tasks: int) -> Sizes:
    """Divide amounts among tasks, as evenly as whole numbers allow.

    Tasks for which nothing is left are not among the sizes.
    """
    shares = {name: divmod(amount, tasks) for name, amount in amounts.items()}
    places = sorted({more for _, more in shares.values()} | {0, tasks})
    sizes: Sizes = []
    for first, end in pairwise(places):
        size = {name: least + (first < more) for name, (least, more) in shares.items()}
        size = {name: amount for name, amount in size.items() if amount}
        if size:
            sizes.append((size, end - first))
    return sizes


def in_seconds(time_us: int) -> int | float:
    """Return how long work runs, in seconds; work that took no time runs for 1 µs."""
    whole, part = divmod(max(time_us, 1), 1_000_000)
    return whole if not part else max(time_us, 1) / 1_000_000


@final
@attrs.frozen
class Job:
    """A job: the asks that are submitted at one instant to one application.

    Attributes:
        at_us: When it was submitted, in microseconds: since 1970 in UTC, or since the start of a
            trace without dates.
        app: The name of its application. Several jobs may have the same one.
        queue: The path of its queue.
        parts: Its groups of equal asks.
        user: Its user; empty if unknown.
        groups: The groups of the user.
        is_gang: Whether all its asks start together or not at all.
        gang: The gang of its asks that another event defines, or None.
        is_alone: Whether no other job has the same application.
        start_us: When it really started, in microseconds as ``at_us``; None if it did not, or
            that is unknown. No feed has it: a :class:`Starts` keeps it.
        partition: The part of the other system that it ran in, for the figures by partition.
    """

    at_us: int
    app: str
    queue: str
    parts: Sequence[AskGroup]
    user: str = ""
    groups: Sequence[str] = ()
    is_gang: bool = False
    gang: str | None = None
    is_alone: bool = False
    start_us: int | None = None
    partition: str = ""

    def app_event(self, app: str) -> dict[str, object]:
        """Return the event that submits the application under a name."""
        user, groups = self.user or None, self.groups or None
        return event_fields(op="add_app", app=app, queue=self.queue, user=user, groups=groups)

    @property
    def ends_us(self) -> int | None:
        """When the last of it has ended at the earliest; None if it holds room to the end."""
        longest = 0
        for part in self.parts:
            if part.run_us is None:
                return None
            longest = max(longest, part.run_us)
        return self.at_us + longest


@final
class Starts:
    """When the jobs of a feed really started, in the order of the events that add their asks.

    Some 20 bytes a job: a feed may have a million of them.

    Attributes:
        origin_us: When the first job came, in microseconds: the start of the feed.
        partitions: The names of the partitions that jobs ran in.
    """

    def __init__(self) -> None:
        self.origin_us = 0
        self.partitions: list[str] = []
        self._numbers: dict[str, int] = {}
        self._starts_us = array("q")
        self._events = array("i")
        self._places = array("i")

    def __len__(self) -> int:
        return len(self._starts_us)

    def add(self, start_us: int | None, partition: str, events: int) -> None:
        """Add the next job.

        Args:
            start_us: When it started, in microseconds as the jobs have it, or None.
            partition: Its partition.
            events: How many events add its asks.
        """
        number = self._numbers.setdefault(partition, len(self._numbers))
        if number == len(self.partitions):
            self.partitions.append(partition)
        self._starts_us.append(_NEVER if start_us is None else start_us)
        self._places.append(number)
        self._events.append(events)

    def start_us(self, job: int) -> int | None:
        """Return when a job started, in microseconds since the start of the feed, or None."""
        start_us = self._starts_us[job]
        return None if start_us == _NEVER else start_us - self.origin_us

    def events_of(self, job: int) -> int:
        """Return how many events add the asks of a job."""
        return self._events[job]

    def partition_of(self, job: int) -> str:
        """Return the partition of a job; empty if unknown."""
        return self.partitions[self._places[job]]


Event = Mapping[str, object]

_COMPLETED_AFTER_US: Final = TIMERS_US[AppState.COMPLETING]

_APP: Final = "\x00"
_GANG: Final = "\x01"
_APP_BYTES: Final = b'"\\u0000"'
_GANG_BYTES: Final = b'"\\u0001"'
"""The placeholder in the events of a job for names that are known only when all jobs are in order."""

_encoded: Final = json.JSONEncoder(ensure_ascii=False, allow_nan=False).encode


@final
@attrs.frozen
class FeedSummary:
    """The content of a feed that was written.

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
@attrs.define
class DumpEnd:
    """The jobs that had not ended when a dump was made.

    Attributes:
        at_us: The last instant in the dump, in microseconds as jobs have it.
        waiting: How many jobs waited, which are left out.
        running: How many jobs ran, which hold their room to the end.
    """

    at_us: int = 0
    waiting: int = 0
    running: int = 0


@final
class Workload:
    """Jobs and nodes on their way into a feed.

    Attributes:
        account: Counts the records, and what became of them.
        is_dated: Whether instants are microseconds since 1970 in UTC, and not since the start.
        since_us: Jobs before this instant are not wanted; None for all.
        until_us: Jobs after this instant are not wanted; None for all.
        nodes: The nodes with which the feed begins.
        settings: The settings of queues in a generated configuration, by their paths.
        partition: The fields of its partition, beside the queues.
        comments: The comments of a generated configuration, as lines.
        remarks: Remarks for the user, each in one line.
        starts: Gets the real start of each job when the feed is written, or None.
        head: Other events with which it begins, after the nodes, such as priority classes.
        end: The jobs that had not ended when the dump was made, if its format has them.
    """

    def __init__(self) -> None:
        self.account = ImportAccount()
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
        self.end = DumpEnd()
        self._spool = Spool()
        self._queues: set[str] = set()
        #: Hashes of the names of applications, and of those that came more than once: a million
        #: names themselves would take too much memory. Two names of one hash do no harm.
        self._names: set[int] = set()
        self._repeated: set[int] = set()

    # IMPORT-32
    @property
    def real_until_us(self) -> int | None:
        """Until when a replay is like the real run; None if all jobs have ended, or that is unknown."""
        if not (self.end.waiting or self.end.running):
            return None
        return self.end.at_us if self.until_us is None else min(self.end.at_us, self.until_us)

    def __enter__(self) -> Self:
        self._spool.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._spool.__exit__()

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
        """Return whether an earlier job has this application; about one in a million is a false hit."""
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
            before: Whether it comes before all jobs of this instant.
        """
        record = (None, None, None, [_encoded(event).encode()], 0, None)
        self._spool.add(at_us, record, before=before)

    def write(
        self,
        target: Target,
        configuration: Mapping[str, object],
        encoding: Encoding | None = None,
    ) -> FeedSummary:
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
        return FeedSummary(
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
        """Write the text after the last event."""
        self._output.write(self._encoder.end())

    def _instant(self, at_us: int) -> bytes:
        if self._is_dated:
            return f'"{date_text(at_us)}"'.encode()
        return to_json_line(seconds(at_us)).rstrip()

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
    """Return a configuration that has queues to which all users may submit.

    Args:
        queues: Their paths.
        settings: The settings of queues, by their paths; these queues are in it, too.
        partition: The fields of the partition itself.
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
