"""What the coordinator's view owns and cannot compute: nodes, deadlines, and what rounds remember.

All of these are values; the view makes them between two batches, and is loaded from them.
"""

from __future__ import annotations

from typing import final

from muster_core.structures.shapes import Shape
from muster_core.values.affinity import Taint
from muster_core.values.application_states import AppState
from muster_core.values.configuration import TypicalAsk
from muster_core.values.devices import DeviceNeeds
from muster_core.values.records import record
from muster_core.values.resources import Resources


@final
@record
class NodeFacts:
    """A node; its usage follows from the allocations.

    Attributes:
        devices: Its devices by type: how many, and their model. The capacity contains them.
        reserved: What others use on it that are no asks.
    """

    name: str
    capacity: tuple[tuple[str, int], ...]
    attributes: tuple[tuple[str, str], ...]
    schedulable: bool
    devices: tuple[tuple[str, int, str | None], ...] = ()
    reserved: tuple[tuple[str, int], ...] = ()
    taints: tuple[Taint, ...] = ()


CompletionFacts = tuple[int, int, int, str]
"""The end of an allocation: the instant in microseconds, the number of the bind, the key of the
application, and the name of the ask."""


@final
@record
class StateEndFacts:
    """The end of the time that an application may be in its state."""

    at_us: int
    app: int
    state: AppState


@final
@record
class UsageFacts:
    """The usage of a queue, or of a user of a leaf.

    Attributes:
        queue: The key of the queue.
        user: The name of the user, or None.
        used: The usage at the last end of a tick, by type.
        recent: The allocated amounts since then, up to the last batch, likewise.
    """

    queue: int
    user: str | None
    used: tuple[tuple[str, int], ...]
    recent: tuple[tuple[str, int], ...]


@final
@record
class TimerFacts:
    """The deadlines that do not follow from what owners own.

    Attributes:
        passed_us: The instant of the last batch, in microseconds: ends of ``preemption.delay``
            up to then are over.
        pending_since: The instants from which asks count as pending that were bound and lost
            their nodes: the key of the application, the name of the ask, microseconds.
        over_since: The queues that have more than their ``max``, by key, and since when, in
            microseconds.
    """

    completions: tuple[CompletionFacts, ...]
    state_ends: tuple[StateEndFacts, ...]
    passed_us: int
    pending_since: tuple[tuple[int, str, int], ...]
    over_since: tuple[tuple[int, int], ...] = ()


@final
@record
class AlikeFacts:
    """What asks share that differ only in their names; see ``eviction_history``."""

    app: int
    shape: Shape
    priority: int
    preempts: bool
    gang: str | None


@final
@record
class EvictionFacts:
    """For whom others were evicted: equal asks on a node, or a group of gangs.

    Attributes:
        alike: What the asks share, or None for a group.
        node: The name of the node, or None for a group.
        group: The names of the group's gangs; empty for asks.
    """

    alike: AlikeFacts | None
    node: str | None
    group: tuple[str, ...]


@final
@record
class HistoryFacts:
    """The evictions since something new happened.

    Attributes:
        held: The asks that were placed by evictions and still hold their nodes: the key of the
            application, the name of the ask, and the evictions.
        lost: The evictions whose preemptors were evicted.
        losers: The preemptors that were evicted.
    """

    held: tuple[tuple[int, str, EvictionFacts], ...]
    lost: tuple[EvictionFacts, ...]
    losers: tuple[AlikeFacts, ...]


@final
@record
class FailureFacts:
    """How a cycle of a Strict group became invalid in the last round.

    Attributes:
        app: The key of the application of the member that fitted nowhere.
        ask: The name of this member.
        blocked: Whether its leaf was blocked.
        full: The key of the nearest queue whose ``max`` had no room for it, or None.
        limit: The nearest limit that had no room for it, or None: the key of its queue, whether
            it is that of a group, and the name of the user or group.
        held: How many members of the group held nodes at that time.
        held_back: Whether it fitted a node, but would have delayed a reservation.
        misplaced: Whether a node had room that its gang's topology did not let it take.
    """

    group: tuple[str, ...]
    app: int
    ask: str
    blocked: bool
    full: int | None
    limit: tuple[int, bool, str | None] | None
    held: int
    held_back: bool = False
    misplaced: bool = False


@final
@record
class ReservationFacts:
    """A reservation that was in force at the end of the last round.

    Attributes:
        scope: The key of the queue to whose scope it belongs.
        start_us: When it starts, in microseconds, or None if it starts with an unknown end.
        age: Otherwise 0; the place of the allocation that ends then in the order in which nodes
            were chosen.
        places: The key of the application, the name of the ask and the name of the node, of each
            member of the party, in the order of placing.
    """

    scope: int
    start_us: int | None
    age: int
    places: tuple[tuple[int, str, str], ...]


@final
@record
class LastRoundFacts:
    """What the last round leaves for explanations, snapshots and the next round.

    Attributes:
        was_exact: Whether it tried every ask in its turn.
        failures: The failures that made cycles invalid.
        hopeless: The groups of gangs that were sure not to fit: the names of the gangs of each.
        failed_on: The node of the last failed bind of each ask that has held none since: the key
            of the application, the name of the ask, the name of the node.
        failed_with: The messages of these failed binds, if they have one: the key of the
            application, the name of the ask, the message.
        reservations: The reservations in force, by scope, and in the order of each scope.
    """

    was_exact: bool
    failures: tuple[FailureFacts, ...]
    hopeless: tuple[tuple[str, ...], ...]
    failed_on: tuple[tuple[int, str, str], ...]
    failed_with: tuple[tuple[int, str, str], ...] = ()
    reservations: tuple[ReservationFacts, ...] = ()


@final
@record
class LearnedFacts:
    """The asks with devices that came, of which ``fgd`` learns.

    Attributes:
        came: How many came with the same needs: the devices, the resources, which contain them,
            and the number.
        taken: The typical asks as they were last taken.
    """

    came: tuple[tuple[DeviceNeeds, Resources, int], ...] = ()
    taken: tuple[TypicalAsk, ...] = ()


@final
@record
class ViewFacts:
    """What the view owns.

    Attributes:
        nodes: The nodes, in the order in which they are listed.
        numbers: How many binds and waits there were so far.
        steps: How many steps of rounds there were so far.
        keepers: The node services that keep their nodes, in the order in which they began: the
            key of the application, and the name of the ask.
        last_round: What the last round leaves.
        usage: What queues and users have used up to the last batch.
    """

    nodes: tuple[NodeFacts, ...]
    numbers: int
    steps: int
    timers: TimerFacts
    keepers: tuple[tuple[int, str], ...]
    history: HistoryFacts
    last_round: LastRoundFacts
    learned: LearnedFacts = LearnedFacts()
    usage: tuple[UsageFacts, ...] = ()
