"""The kinds of things that a server lists: their columns, and how one of them is described."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence, Sized
from typing import Any, Final, final
from urllib.parse import quote

import attrs

from muster.cli._clients.dates import in_us
from muster.cli._clients.devices import free_on, held_by, lines_of
from muster.cli._clients.options import Unusable
from muster.cli._clients.output import (
    Field,
    Item,
    amounts,
    amounts_text,
    list_of,
    map_of,
    name,
    number,
    print_fields,
    shown,
)
from muster.cli._options import printable
from muster.cli._progress import clock
from muster.figures.use import hours_text

PLACE_OF_ENDED: Final = "ended"
"""The place of an ask that has ended."""


@final
@attrs.frozen
class Kind:
    """A kind of thing.

    Attributes:
        plural: Its name in a path and in the command.
        singular: The name of one.
        fields: The columns of its table.
        describe: Prints one with all that there is to say.
        instants: Its fields that have instants; see :func:`.with_dates`.
    """

    plural: str
    singular: str
    fields: Sequence[Field]
    describe: Callable[[Item], None]
    instants: Sequence[str] = ()

    def path_of(self, written: str) -> str:
        """Return the path of one, below ``/api/v1/``.

        Raises:
            Unusable: If an ask is named without its application, or a user is named.
        """
        if self is USERS:
            msg = f"{written!r}: of users there is only the list"
            raise Unusable(msg)
        if self.plural != "asks":
            return f"{self.plural}/{quote(written, safe='')}"
        return f"asks/{ask_path(written)}"


def ask_path(written: str) -> str:
    """Return the part of a path that names an ask.

    Raises:
        Unusable: If it is not written as APP/ASK.
    """
    app, slash, ask = written.partition("/")
    if not (app and slash and ask) or "/" in ask:
        msg = f"{written!r}: write an ask as APP/ASK"
        raise Unusable(msg)
    return f"{quote(app, safe='')}/{quote(ask, safe='')}"


def _fields_of(item: Item, titles: Mapping[str, str]) -> list[tuple[str, str]]:
    return [
        (titles.get(field, field.replace("_", " ")), _text(value)) for field, value in item.items()
    ]


def _text(value: object) -> str:
    found, listed = map_of(value), list_of(value)
    if found is not None:
        return _map_text(found)
    if listed and map_of(listed[0]) is not None:
        return "\n".join(_words(one) for one in listed)
    return shown(value)


def _map_text(found: Mapping[str, Any]) -> str:
    whole = all(isinstance(one, int) for one in found.values())
    return amounts_text(found) if whole else _words(found)


def _words(value: Mapping[str, object]) -> str:
    return ", ".join(
        f"{printable(str(key))} {_flat(one)}" for key, one in value.items() if one not in (None, "")
    )


def _flat(value: object) -> str:
    found = map_of(value)
    if found is None:
        return shown(value)
    return f"({_map_text(found)})" if found else ""


def _describe(item: Item) -> None:
    print_fields(_fields_of(item, {}))


def _describe_ask(item: Item) -> None:
    print_fields(_with_devices(item, held_by(item)))


def _describe_node(item: Item) -> None:
    print_fields(_with_devices(item, "\n".join(lines_of(item))))


def _with_devices(item: Item, told: str) -> list[tuple[str, str]]:
    """Return all fields, with other words for the devices."""
    return [(title, told if title == "devices" else text) for title, text in _fields_of(item, {})]


def _ask_name(item: Item) -> str:
    return printable(f"{item.get('app')}/{item.get('ask')}")


def _counts(item: Item) -> str:
    """Return how many asks there are in each place."""
    found = map_of(item.get("asks")) or {}
    return ", ".join(f"{count:,} {place}" for place, count in found.items() if count)


def _counts_of_members(item: Item) -> str:
    found = map_of(item.get("members")) or {}
    return ", ".join(f"{_length(who):,} {place}" for place, who in found.items() if who)


def _length(found: object) -> int:
    return len(found) if isinstance(found, Sized) else int(str(found))


def _defined(item: Item, field: str) -> str:
    found = map_of(item.get("definition")) or {}
    return shown(found.get(field))


def _topology(item: Item) -> str:
    found = map_of((map_of(item.get("definition")) or {}).get("topology")) or {}
    return ", ".join(f"{name}: {value}" for name, value in found.items())


def _command(item: Item) -> str:
    found = list_of(item.get("command"))
    return shown(item.get("command")) if found is None else shlex.join(found)


def _reserved(item: Item) -> str:
    """Return the node that is reserved for an ask, and from when on."""
    found = map_of(item.get("reservation"))
    if found is None:
        return ""
    start = found.get("start")
    since = "an end that is not known" if start is None else shown(start)
    return f"{shown(found.get('node'))} from {since}"


def _left(seconds: object) -> str:
    return clock(seconds) if isinstance(seconds, (int, float)) else ""


def _lasts(title: str, field: str, *, wide: bool = False) -> Field:
    """Return a column of durations."""
    return Field(title, lambda item: _rounded(item.get(field)), wide)


def _rounded(seconds: object) -> str:
    return clock(round(seconds, 1)) if isinstance(seconds, (int, float)) else ""


def _hours(item: Item) -> str:
    return printable(hours_text(map_of(item.get("used")) or {}))


def _exit(item: Item) -> str:
    found = item.get("signal")
    return shown(item.get("exit_status")) if found is None else printable(str(found))


def _memory(item: Item) -> str:
    found = item.get("max_memory")
    return amounts_text({"memory": found}).partition(" ")[2] if isinstance(found, int) else ""


def over_since(ask: str, found: Item, date: Callable[[int], str]) -> str:
    """Return in words when and how an ask has ended.

    Args:
        ask: Its name, as APP/ASK.
        found: What the server says of it.
        date: Writes an instant, given in microseconds.
    """
    why = "" if found["message"] is None else f": {printable(found['message'])}"
    at = date(in_us(found["ended"]))
    return f"{printable(ask)} is over: {found['outcome']} at {at}{why}"


def _describe_ended(item: Item) -> None:
    words = {"used": _hours(item), "max memory": _memory(item)}
    words |= {
        one: _rounded(item.get(one.replace(" ", "_"))) for one in ("wait", "run time", "cpu time")
    }
    print_fields([(title, words.get(title, text)) for title, text in _fields_of(item, {})])


QUEUES: Final = Kind(
    "queues",
    "queue",
    (
        name("queue", "queue"),
        number("priority", "priority"),
        amounts("allocated", "allocated"),
        amounts("guaranteed", "guaranteed"),
        amounts("max", "max"),
        amounts("pending", "pending"),
        number("running", "running"),
        number("draining", "draining"),
        number("share", "share", wide=True),
        number("overused", "overused", wide=True),
        name("hits", "hits", wide=True),
        number("dynamic", "dynamic", wide=True),
        number("fence", "fence", wide=True),
        number("offset", "offset", wide=True),
        name("sort policy", "sort_policy", wide=True),
    ),
    _describe,
)
APPS: Final = Kind(
    "apps",
    "app",
    (
        name("app", "app"),
        name("queue", "queue"),
        name("state", "state"),
        name("user", "user"),
        number("priority", "priority"),
        Field("asks", _counts, folds=True),
        amounts("allocated", "allocated"),
        amounts("pending", "pending"),
        name("groups", "groups", wide=True),
        number("came", "came", wide=True),
    ),
    _describe,
    ("came", "states.at"),
)
ASKS: Final = Kind(
    "asks",
    "ask",
    (
        Field("ask", _ask_name, folds=True),
        name("queue", "queue"),
        name("place", "place"),
        number("priority", "priority"),
        amounts("resources", "resources"),
        name("node", "node"),
        Field("devices", held_by, folds=True, if_any=True),
        name("reason", "reason"),
        name("user", "user", wide=True),
        name("gang", "gang", wide=True),
        Field("reserved", _reserved, wide=True),
        number("came", "came", wide=True),
        number("bound", "bound", wide=True),
        Field("command", _command, wide=True, folds=True),
    ),
    _describe_ask,
    (
        *("came", "since", "taken", "bound", "last_failed", "backs_off_until"),
        "reservation.start",
    ),
)
ENDED: Final = Kind(
    "asks",
    "ask",
    (
        Field("ask", _ask_name, folds=True),
        name("user", "user"),
        name("outcome", "outcome"),
        Field("exit", _exit),
        number("ended", "ended"),
        _lasts("wait", "wait"),
        _lasts("run time", "run_time"),
        Field("used", _hours, folds=True),
        name("message", "message"),
        name("queue", "queue", wide=True),
        name("node", "node", wide=True),
        amounts("resources", "resources", wide=True),
        number("submitted", "submitted", wide=True),
        number("started", "started", wide=True),
        _lasts("cpu time", "cpu_time", wide=True),
        Field("max memory", _memory, wide=True),
    ),
    _describe_ended,
    ("submitted", "started", "ended"),
)
"""Asks that have ended."""

USERS: Final = Kind(
    "users",
    "user",
    (
        Field("user", lambda item: shown(item.get("user")) or "(none)", folds=True),
        number("apps", "apps"),
        number("pending", "pending"),
        number("waiting", "waiting"),
        number("bound", "bound"),
        amounts("allocated", "allocated"),
        Field("used", _hours, folds=True),
        Field("share", lambda item: f"{100 * float(item.get('share', 0)):.1f} %"),
        number("completed", "completed"),
        number("failed", "failed"),
        number("cancelled", "cancelled"),
        number("since", "since", wide=True),
    ),
    _describe,
    ("since",),
)
GANGS: Final = Kind(
    "gangs",
    "gang",
    (
        name("gang", "gang"),
        Field("mode", lambda item: _defined(item, "mode")),
        Field("min member", lambda item: _defined(item, "min_member")),
        number("satisfied", "satisfied"),
        number("timed out", "timed_out"),
        Field("members", _counts_of_members, folds=True),
        number("missing", "missing"),
        name("user", "user", wide=True),
        Field("topology", _topology, wide=True),
        Field("time left", lambda item: _left(item.get("left")), wide=True),
    ),
    _describe,
    ("since", "until"),
)
NODES: Final = Kind(
    "nodes",
    "node",
    (
        name("node", "node"),
        number("schedulable", "schedulable"),
        amounts("used", "used"),
        amounts("capacity", "capacity"),
        Field("devices", free_on, folds=True, if_any=True),
        number("asks", "count"),
        Field("attributes", lambda item: _words(item.get("attributes") or {}), wide=True),
    ),
    _describe_node,
    ("came", "reserved.start"),
)

KINDS: Final = {kind.plural: kind for kind in (QUEUES, APPS, ASKS, GANGS, NODES, USERS)}
"""All kinds, by the word of the command."""


def kind_of(word: str) -> Kind | None:
    """Return the kind that a word names, in the singular too; None if there is no such kind."""
    return next((one for one in KINDS.values() if word in {one.plural, one.singular}), None)
