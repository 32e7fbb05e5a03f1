"""The decisions of a span as rows: equal ones of an instant are one row that opens."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, final

import attrs

from muster.figures.text import counted
from muster.service.page.rendering import segment
from muster_core.decisions import Kind

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from muster_core.decisions import Announced

_VERBS: Final[Mapping[Kind, str]] = {
    Kind.ASSIGNED: "assigned",
    Kind.WAITING: "waiting for the rest of the gang",
    Kind.BOUND: "bound",
    Kind.RELEASED: "released",
    Kind.REJECTED: "refused",
    Kind.GANG_SATISFIED: "satisfied",
    Kind.GANG_TIMED_OUT: "timed out",
    Kind.APP_STATE: "",
    Kind.QUEUE_PRIORITY: "",
    Kind.CONFIG: "",
    Kind.WARNING: "warning",
    Kind.RESERVED: "reserved",
}
"""What was decided, in a word."""

_BESIDE: Final[Mapping[Kind, str]] = {
    **dict.fromkeys(Kind, "on"),
    Kind.ASSIGNED: "to",
    Kind.BOUND: "to",
    Kind.RELEASED: "from",
}
"""What stands before the names of nodes."""

_NAMED: Final = 3
"""How many nodes are named in a group."""


@final
@attrs.frozen
class Row:
    """A decision as the page shows it.

    Attributes:
        seq: Its number.
        at_us: Its instant.
        words: What was decided.
        path: The address of the page of what it is about; empty if there is none.
        about: What that is.
    """

    seq: int
    at_us: int
    words: str
    path: str
    about: str

    @classmethod
    def of(cls, announced: Announced) -> Row:
        """Return a decision as it is shown behind the name of what it is about."""
        path, about = _page_of(announced)
        return cls(announced.seq, announced.at_us, _words(announced), path, about)


def _words(announced: Announced) -> str:
    """Return in words what was decided, without the name of what it is about."""
    one = announced.decision
    match one.kind:
        case Kind.APP_STATE:
            return f"is {one.state}"
        case Kind.QUEUE_PRIORITY if one.priority is None:
            return "has no currentPriority any more"
        case Kind.QUEUE_PRIORITY:
            return f"has currentPriority {one.priority}"
        case Kind.REJECTED | Kind.WARNING:
            return f"{_VERBS[one.kind]}: {one.message}"
        case _:
            words = [_VERBS[one.kind], *_cause(announced)]
            if one.node is not None:
                words.append(f"{_BESIDE[one.kind]} {one.node}")
            if one.message:
                words.append(one.message)
            return " ".join(word for word in words if word)


def _cause(announced: Announced) -> Iterator[str]:
    """Yield why something was decided, if that is said."""
    reason = announced.decision.reason
    if reason is not None:
        yield f"({reason.value.replace('_', ' ')})"


# PAGE-66
def _page_of(announced: Announced) -> tuple[str, str]:
    """Return the address of the page of what a decision is about, and its name."""
    one = announced.decision
    if one.app is not None and one.ask is not None:
        return f"/asks/{segment(one.app)}/{segment(one.ask)}", f"{one.app}/{one.ask}"
    if one.kind is Kind.APP_STATE and one.app is not None:
        return f"/apps/{segment(one.app)}", one.app
    if one.gang is not None:
        return f"/gangs/{segment(one.gang)}", one.gang
    if one.node is not None:
        return f"/nodes/{segment(one.node)}", one.node
    if one.queue is not None:
        return f"/queues/{segment(one.queue)}", one.queue
    return ("/config", "configuration") if one.kind is Kind.CONFIG else ("", "")


@final
@attrs.frozen
class Group:
    """Decisions of one instant that differ only in their asks, applications, queues or nodes.

    Attributes:
        rows: The decisions, at least one.
        words: What was decided; of several, in sum.
        path: The address of the page of what they are about; empty if there is none.
        about: What that is.
    """

    rows: Sequence[Row]
    words: str
    path: str
    about: str


# PAGE-65
def groups_of(decisions: Iterable[Announced]) -> list[Group]:
    """Return decisions in groups, in the order of the first one of each."""
    found: dict[object, list[Announced]] = {}
    for one in decisions:
        found.setdefault(_key(one), []).append(one)
    return [_group(several) for several in found.values()]


def _key(announced: Announced) -> object:
    one = announced.decision
    # Those about asks of different applications are told apart, and what was only said by its words.
    app = one.app if one.ask is not None else None
    message = one.message if one.kind in {Kind.REJECTED, Kind.WARNING} else None
    return (announced.at_us, one.kind, app, one.reason, one.state, message)


def _group(several: Sequence[Announced]) -> Group:
    rows = [Row.of(one) for one in several]
    if len(rows) == 1:
        return Group(rows, rows[0].words, rows[0].path, rows[0].about)
    first = several[0].decision
    app = first.app if first.ask is not None else None
    path = "" if app is None else f"/apps/{segment(app)}"
    return Group(rows, _sum(several), path, app or "")


def _sum(several: Sequence[Announced]) -> str:
    """Return in words what several decisions have decided."""
    first = several[0].decision
    words = [counted(len(several), _noun(several[0]))]
    match first.kind:
        case Kind.APP_STATE:
            words.append(f"are {first.state}")
        case Kind.QUEUE_PRIORITY:
            words.append("have another currentPriority")
        case Kind.REJECTED | Kind.WARNING:
            words.append(f"{_VERBS[first.kind]}: {first.message}")
        case _:
            words += [_VERBS[first.kind], *_cause(several[0])]
    nodes = list(dict.fromkeys(one.decision.node for one in several if one.decision.node))
    if nodes:
        more = len(nodes) - _NAMED
        rest = f" and {counted(more, 'other node')}" if more > 0 else ""
        words.append(f"{_BESIDE[first.kind]} {', '.join(nodes[:_NAMED])}{rest}")
    return " ".join(word for word in words if word)


def _noun(announced: Announced) -> str:
    one = announced.decision
    if one.kind is Kind.REJECTED:
        return "event"
    nouns = {"ask": one.ask, "application": one.app, "gang": one.gang, "queue": one.queue}
    return next((noun for noun, name in nouns.items() if name is not None), "decision")
