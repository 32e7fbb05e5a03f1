"""The messages between the program and the agent: maps of msgpack, one after the other.

The program writes to the agent's standard input, and reads its standard output. Whatever Ray or
its libraries print there goes to the standard error. The pipe's end, in either direction, means
that the other side has gone. Each side ignores keys that it does not know, and messages about runs
that it does not know.

A run has a number, which the program gives; it is never used again while the agent lives. Its
life in the agent::

    Run ──> (placed at the gate) ──> Started ──> Ended | Failed
     └── Cancel at any time ──> Cancelled, once nothing of it is left

For each ``Run`` the agent sends exactly one of ``Ended``, ``Failed`` and ``Cancelled``, and at most
one ``Started`` before. After ``Cancel`` it sends ``Cancelled`` unless the end was sent before.
A detached run keeps its end, and its room on the node, until the program sends ``Fetched``.
"""

from __future__ import annotations

from typing import Any, Literal, TypedDict

BEAT_S = 1.0
"""The period of the signs of life of the agent, in seconds."""

SILENCE_S = 10.0
"""After how long a silence the agent is taken for dead, in seconds."""

NEVER_S = 1e9
"""The longest time in a message, in seconds; it replaces an endless ``grace_s``."""

LARGEST_BYTES = 256 * 1024 * 1024
"""The largest message, in bytes; a value that is larger is reported as ``Failed``, as ``work``."""


# To the agent


class Term(TypedDict):
    """The term of the program, of all that have led the same scheduler."""

    scheduler: str
    term: int


class _Connect(TypedDict):
    do: Literal["connect"]
    address: str
    namespace: str


class Connect(_Connect, total=False):
    """Connect to Ray; the first message. Answered by ``Connected``, or by ``Refused`` and the end.

    ``log_to_driver`` says whether what workers print comes to the agent's standard error, too; it
    does by default. ``leads`` is as if ``Lead`` followed at once.
    """

    log_to_driver: bool
    leads: Term


class Lead(Term):
    """Orders have this term from now on: it is noted in Ray's head, where all agents see it.

    Before it handles a further message, the agent looks for a higher term there. If there is one,
    it sends ``Outdone``, does nothing more, and ends.
    """

    do: Literal["lead"]


class Follow(TypedDict):
    """List Ray's nodes every few seconds, and send ``Nodes`` at first and at each change.

    A further one replaces the first.
    """

    do: Literal["follow"]
    every_s: float


class CommandWork(TypedDict):
    """A command: the fields of ``muster.Command``.

    ``env`` has ``MUSTER_APP`` and the others; the agent adds ``MUSTER_RUN``, the name of the run.
    """

    kind: Literal["command"]
    run: list[str] | str
    cwd: str | None
    env: dict[str, str]
    stdin: str | None
    stdout: str | None
    stderr: str | None


class CallWork(TypedDict):
    """A callable.

    ``function`` is ``module:name``, or a pickled callable; ``arguments`` is a pickled pair of the
    positional and the keyword arguments. The worker unpickles both. ``env`` is in the environment
    while it runs, as for a command.
    """

    kind: Literal["call"]
    function: str | bytes
    arguments: bytes
    env: dict[str, str]
    runtime_env: dict[str, Any]
    options: dict[str, Any]


class GateOf(TypedDict):
    """The gate of a gang: its members begin when ``peers`` runs with this name are placed.

    If one of them fails or is cancelled before, all fail, as ``gate``.
    """

    name: str
    peers: int
    reserve: bool
    """Whether Ray reserves the room of all members in one placement group."""


class Run(TypedDict):
    """Run work, once, on one node.

    ``name`` is ``app/ask/number``: with ``detached`` the run is a detached actor
    ``muster/<name>``. An actor of this name that is there already is ended first.
    """

    do: Literal["run"]
    id: int
    name: str
    node: str
    cpus: float
    gpus: float
    memory: int
    resources: dict[str, float]
    work: CommandWork | CallWork
    grace_s: float
    gate: GateOf | None
    detached: bool


class Miss(TypedDict):
    """A member of a gang is not going to be sent: the others fail, as ``gate``; not answered."""

    do: Literal["miss"]
    gate: GateOf
    text: str


class Adopt(TypedDict):
    """Go on with the detached run of an earlier agent, under a new number.

    It is answered as ``Run`` is: ``Started`` as soon as it answers, if it has begun, then its end,
    also if it has ended meanwhile. One that does not answer is waited for until ``Cancel``. If it is not there, or still at its gate: ``Failed``, as
    ``not_started``, and nothing of it is left.
    """

    do: Literal["adopt"]
    id: int
    name: str
    grace_s: float


class Survivors(TypedDict):
    """List the detached runs of earlier agents. Answered by ``SurvivorsAre``."""

    do: Literal["survivors"]


class EndSurvivor(TypedDict):
    """End a detached run that was not adopted, with everything that it has started."""

    do: Literal["end"]
    name: str
    grace_s: float


class Cancel(TypedDict):
    """End a run: softly at once, by force after ``grace_s`` seconds."""

    do: Literal["cancel"]
    id: int
    grace_s: float


class Fetched(TypedDict):
    """The program has recorded the end of a detached run: nothing needs to keep it any more.

    It follows ``Ended`` or ``Failed`` of a detached run, and is not answered. Until it is sent,
    another program would get the same end.
    """

    do: Literal["fetched"]
    id: int


class Warm(TypedDict):
    """Start some workers on a node, so that the first runs there need not wait for them."""

    do: Literal["warm"]
    node: str
    count: int


ToAgent = (
    Connect | Lead | Follow | Run | Miss | Adopt | Survivors | EndSurvivor | Cancel | Fetched | Warm
)


# From the agent


class Connected(TypedDict):
    """The agent is connected to Ray."""

    say: Literal["connected"]
    ray: str
    python: str


class Refused(TypedDict):
    """The agent cannot be connected, and ends. ``reason`` is ``import``, ``python`` or ``connect``."""

    say: Literal["refused"]
    reason: Literal["import", "python", "connect"]
    text: str


class Outdone(TypedDict):
    """Another program leads, with a higher term: the agent refuses all messages, and ends."""

    say: Literal["outdone"]
    term: int


class Beat(TypedDict):
    """The agent lives."""

    say: Literal["beat"]


class NodeMap(TypedDict):
    """A node of Ray that is alive. Amounts are Ray's own: ``CPU``, ``memory`` in bytes, …."""

    id: str
    labels: dict[str, str]
    resources: dict[str, float]
    draining: bool


class Nodes(TypedDict):
    """All nodes of Ray that are alive."""

    say: Literal["nodes"]
    nodes: list[NodeMap]


class Started(TypedDict):
    """The work of a run has begun. ``pid`` is the process of the command, or the worker."""

    say: Literal["started"]
    id: int
    pid: int


class Ended(TypedDict):
    """A run has ended by itself: a status for a command, a pickled value for a callable."""

    say: Literal["ended"]
    id: int
    status: int | None
    value: bytes | None


class Failed(TypedDict):
    """A run could not be started, or its work has raised, or its worker or node was lost.

    ``how``: ``not_started`` (Ray did not start it), ``work`` (the callable raised, the command
    could not be started; ``text`` has the traceback), ``lost`` (the worker or the node has gone),
    ``node_lost`` (the node has gone), ``gate`` (another member of the gang has not started).
    """

    say: Literal["failed"]
    id: int
    how: Literal["not_started", "work", "lost", "node_lost", "gate"]
    error: str
    text: str


class Cancelled(TypedDict):
    """A run that was cancelled has ended. ``gone``: whether Ray says so, too."""

    say: Literal["cancelled"]
    id: int
    gone: bool


class SurvivorMap(TypedDict):
    """A detached run of an earlier agent; the amounts as in ``Run``.

    One that is ``silent`` does not answer now, as its node may be busy: its amounts are zero, and
    its node may be empty.
    """

    name: str
    node: str
    state: Literal["placed", "running", "ended", "silent"]
    cpus: float
    gpus: float
    memory: int
    resources: dict[str, float]


class SurvivorsAre(TypedDict):
    """The detached runs of earlier agents."""

    say: Literal["survivors"]
    survivors: list[SurvivorMap]


class _Notice(TypedDict):
    say: Literal["warning"]
    text: str


class Notice(_Notice, total=False):
    """A warning for the operator. ``node`` is the id of a node, if it is about one."""

    node: str


FromAgent = (
    Connected
    | Refused
    | Outdone
    | Beat
    | Nodes
    | Started
    | Ended
    | Failed
    | Cancelled
    | SurvivorsAre
    | Notice
)
