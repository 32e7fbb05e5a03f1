"""The resources of a server as commands show them: columns, detail views, devices and dates.

One :class:`ResourceKind` for each: queues, applications, asks, pods, users, gangs and nodes. Adding a column
is one entry here.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Sized
from functools import partial
from typing import Any, Final, final
from urllib.parse import quote

import attrs

from muster.cli._options import printable
from muster.cli._output import (
    FieldKind,
    Item,
    ItemField,
    amounts,
    amounts_text,
    cell_text,
    list_of,
    map_of,
    names,
    numbers,
    print_fields,
)
from muster.cli._progress import clock, instant
from muster.cli._server import CommandError
from muster.figures.text import (
    dated,
    free_words,
    held_words,
    holders_of,
    instant_of,
    parse_iso_date,
    percent,
)
from muster.figures.usage import hours_text
from muster_core.decisions import MICROSECONDS
from muster_core.values.devices import WHOLE


# CLIENT-10
def held_by(ask: Item) -> str:
    """Return the devices of an ask as text."""
    return printable(held_words(_map(ask.get("devices")), _map(ask.get("resources"))))


# CLIENT-10
def free_on(node: Item) -> str:
    """Return the free devices of a node as text."""
    stocks = _map(node.get("devices"))
    return printable("; ".join(free_words(kind, _free(stock)) for kind, stock in stocks.items()))


# CLIENT-10
def lines_of(node: Item) -> Iterator[str]:
    """Yield a line for each type of devices of a node, with what is free, and one for each device."""
    held = holders_of(
        (f"{ask.get('app')}/{ask.get('ask')}", _map(ask.get("devices")), _map(ask.get("resources")))
        for ask in list_of(node.get("asks")) or ()
    )
    for kind, stock in _map(node.get("devices")).items():
        free, model = _free(stock), _map(stock).get("model")
        of = "" if model is None else f", model {model}"
        yield printable(f"{kind}{of}: {free_words(kind, free)}")
        for index in range(len(free)):
            holders = held.get((kind, index), ())
            holder_names = ", ".join(_holder(*holder) for holder in holders) or "nobody"
            yield printable(f"{kind} {index}: {holder_names}")


def _holder(name: str, milli: int) -> str:
    return name if milli == WHOLE else f"{name} ({milli} milli)"


def _map(value: object) -> Mapping[str, Any]:
    return map_of(value) or {}


def _free(stock: object) -> Sequence[int]:
    return list_of(_map(stock).get("free")) or ()


def dates_of(answer: Mapping[str, Any]) -> Callable[[int], str]:
    """Return a function that writes the instants of an answer as dates.

    Args:
        answer: The answer, which has the instant of its batch as ``at`` and as ``time``.

    Returns:
        A function that takes an instant in microseconds since the origin of time.
    """
    return partial(_date, parse_iso_date(answer["time"]) - in_us(answer["at"]))


def _date(origin_us: int, at_us: int) -> str:
    """Return an instant as a date with whole seconds, not before the instant."""
    unix_us = -(-(origin_us + at_us) // MICROSECONDS) * MICROSECONDS
    return instant(unix_us, 0)


def in_us(at: float) -> int:
    """Return seconds in microseconds."""
    return round(at * MICROSECONDS)


def reason_text(reason: Mapping[str, Any], date: Callable[[int], str]) -> str:
    """Return a reason why an ask waits, with its code, and with its instant as a date.

    Args:
        reason: The reason, as the server gives it.
        date: Writes an instant, given in microseconds.
    """
    message = dated(reason["message"], instant_of(reason["facts"]), date)
    return f"{reason['code']}: {printable(message)}"


# CLIENT-3
def with_dates(item: Item, instants: Iterable[str], date: Callable[[int], str]) -> Item:
    """Return an item with its instants as dates.

    Args:
        item: The item.
        instants: The fields that have instants in seconds since the origin; after a point, the
            field within a map, or within each map of a list.
        date: Writes an instant, given in microseconds.
    """
    found = dict(item)
    for path in instants:
        field, _, rest = path.partition(".")
        if field in found:
            found[field] = _with_dates(found[field], rest, date)
    return found


def _with_dates(value: object, rest: str, date: Callable[[int], str]) -> object:
    if not rest:
        return date(in_us(value)) if isinstance(value, (int, float)) else value
    inner, several = map_of(value), list_of(value)
    if several is not None:
        return [_with_dates(one, rest, date) for one in several]
    return value if inner is None else with_dates(inner, [rest], date)


PLACE_OF_ENDED: Final = "ended"
"""The place of an ask that has ended."""

PLACE_WITHOUT_ASK: Final = "none"
"""The place of a pod that has no ask."""


@final
@attrs.frozen
class ResourceKind:
    """A resource as the command line shows it.

    Attributes:
        plural: Its name in a path and in the command.
        singular: The name of one.
        fields: The columns of its table.
        describe: Prints the detail view of one.
        instants: Its fields that have instants; see :func:`.with_dates`.
        heads: How many columns have the names of the rows, the first ones.
    """

    plural: str
    singular: str
    fields: Sequence[ItemField]
    describe: Callable[[Item], None]
    instants: Sequence[str] = ()
    heads: int = 1

    def path_of(self, written: str) -> str:
        """Return the path of one, below ``/api/v1/``.

        Raises:
            Unusable: If an ask is named without its application, or a user is named.
        """
        if self is USERS:
            msg = f"{written!r}: of users there is only the list"
            raise CommandError(msg)
        if self.plural == "pods":
            return f"pods/{ask_path(written, 'a pod as NAMESPACE/POD')}"
        if self.plural != "asks":
            return f"{self.plural}/{quote(written, safe='')}"
        return f"asks/{ask_path(written)}"


def ask_path(written: str, form: str = "an ask as APP/ASK") -> str:
    """Return the part of a path that names an ask, or a pod.

    Args:
        written: Its name.
        form: What it is and how it is written, in words.

    Raises:
        Unusable: If it is not written in this way.
    """
    app, slash, ask = written.partition("/")
    if not (app and slash and ask) or "/" in ask:
        msg = f"{written!r}: write {form}"
        raise CommandError(msg)
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
    return cell_text(value)


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
        return cell_text(value)
    return f"({_map_text(found)})" if found else ""


def _listed(value: object) -> str:
    """Return a list of maps on one line."""
    return "; ".join(_words(found) for one in list_of(value) or () if (found := map_of(one)))


def _describe(item: Item) -> None:
    print_fields(_fields_of(item, {}))


def _describe_ask(item: Item) -> None:
    print_fields(_with_devices(item, held_by(item)))


def _describe_node(item: Item) -> None:
    print_fields(_with_devices(item, "\n".join(lines_of(item))))


def _with_devices(item: Item, devices: str) -> list[tuple[str, str]]:
    """Return all fields, with a given text for the devices."""
    return [
        (title, devices if title == "devices" else text) for title, text in _fields_of(item, {})
    ]


def _ask_name(item: Item) -> str:
    return printable(f"{item.get('app')}/{item.get('ask')}")


def pod_name(item: Item) -> str:
    """Return the namespace and the name of the pod of an ask; nothing for none."""
    pod = map_of(item.get("pod"))
    return "" if pod is None else printable(f"{pod['namespace']}/{pod['name']}")


def _parts_of(field: str, *parts: str, wide: bool = False, if_any: bool = False) -> list[ItemField]:
    """Return the columns of some parts of a map that a field has."""
    return [
        ItemField(part, partial(_part_text, field, part), wide, folds=True, if_any=if_any)
        for part in parts
    ]


def _part_text(field: str, part: str, item: Item) -> str:
    return cell_text(_map(item.get(field)).get(part))


def _counts(item: Item) -> str:
    """Return how many asks there are in each place."""
    found = map_of(item.get("asks")) or {}
    return ", ".join(f"{count:,} {place}" for place, count in found.items() if count)


def _counts_of_members(item: Item) -> str:
    found = map_of(item.get("members")) or {}
    return ", ".join(f"{_length(asks):,} {place}" for place, asks in found.items() if asks)


def _length(found: object) -> int:
    return len(found) if isinstance(found, Sized) else int(str(found))


def _defined(item: Item, field: str) -> str:
    found = map_of(item.get("definition")) or {}
    return cell_text(found.get(field))


def _topology(item: Item) -> str:
    found = map_of((map_of(item.get("definition")) or {}).get("topology")) or {}
    return ", ".join(f"{name}: {value}" for name, value in found.items())


def _command(item: Item) -> str:
    found = list_of(item.get("command"))
    return cell_text(item.get("command")) if found is None else shlex.join(found)


# AGING-10
def _aged(item: Item) -> str:
    """Return the priority of an ask with its age, if it has any."""
    aged = item.get("aged")
    return "" if aged in (None, item.get("priority")) else cell_text(aged)


def _reserved(item: Item) -> str:
    """Return the node that is reserved for an ask, and from when on."""
    found = map_of(item.get("reservation"))
    if found is None:
        return ""
    start = found.get("start")
    since = "an end that is not known" if start is None else cell_text(start)
    return f"{cell_text(found.get('node'))} from {since}"


def _left(seconds: object) -> str:
    return clock(seconds) if isinstance(seconds, (int, float)) else ""


def _rounded(seconds: object) -> str:
    return clock(round(seconds, 1)) if isinstance(seconds, (int, float)) else ""


_durations: Final = FieldKind(_rounded)


def _part(part: object) -> str:
    return percent(part) if isinstance(part, (int, float)) else ""


# LISTS-25
_parts: Final = FieldKind(_part)


def _weight(item: Item) -> str:
    """Return the weight of a queue; nothing for the default if it orders nothing."""
    weight = item.get("weight")
    orders = item.get("due") is not None or item.get("deserved") is not None
    return cell_text(weight) if weight != 1 or orders else ""


def _hours(item: Item) -> str:
    return printable(hours_text(map_of(item.get("used")) or {}))


def _exit(item: Item) -> str:
    found = item.get("signal")
    return cell_text(item.get("exit_status")) if found is None else printable(str(found))


def _memory(item: Item) -> str:
    found = item.get("max_memory")
    return amounts_text({"memory": found}).partition(" ")[2] if isinstance(found, int) else ""


def over_since(ask: str, found: Item, date: Callable[[int], str]) -> str:
    """Return in words when and how an ask has ended.

    Args:
        ask: Its name, as APP/ASK.
        found: The ask, as the server gives it.
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


QUEUES: Final = ResourceKind(
    "queues",
    "queue",
    (
        *names("queue"),
        *numbers("priority"),
        *amounts("allocated", "guaranteed"),
        # SHARE-17
        ItemField(
            "deserved", lambda item: amounts_text(item.get("deserved")), folds=True, if_any=True
        ),
        *amounts("max", "pending"),
        *numbers("running", "draining"),
        *numbers("share", "overused", wide=True),
        ItemField("weight", _weight, wide=True, if_any=True),
        *numbers("past_share", wide=True, if_any=True),
        *_parts("had", "due", wide=True, if_any=True),
        *names("hits", wide=True),
        *numbers("over_since", wide=True),
        *numbers("dynamic", "fence", "offset", wide=True),
        *names("sort_policy", wide=True),
    ),
    _describe,
)
APPS: Final = ResourceKind(
    "apps",
    "app",
    (
        *names("app", "queue", "state", "user"),
        *numbers("priority"),
        ItemField("asks", _counts, folds=True),
        *amounts("allocated", "pending"),
        # POD-3
        *_parts_of("pods", "namespace", "owner", if_any=True),
        *names("groups", wide=True),
        *numbers("came", wide=True),
    ),
    _describe,
    ("came", "states.at"),
)
# POD-2
_POD: Final = ItemField("pod", pod_name, folds=True, if_any=True)

ASKS: Final = ResourceKind(
    "asks",
    "ask",
    (
        ItemField("ask", _ask_name, folds=True),
        _POD,
        *names("queue", "place"),
        *numbers("priority"),
        ItemField("aged", _aged, if_any=True),
        *amounts("resources"),
        *names("node"),
        ItemField("devices", held_by, folds=True, if_any=True),
        *names("reason"),
        *names("user", "gang", wide=True),
        ItemField("reserved", _reserved, wide=True),
        *numbers("came", "bound", wide=True),
        ItemField("command", _command, wide=True, folds=True),
    ),
    _describe_ask,
    (*("came", "since", "taken", "bound", "last_failed", "backs_off_until"), "reservation.start"),
)
# POD-8
PODS: Final = ResourceKind(
    "pods",
    "pod",
    (
        *_parts_of("pod", "namespace"),
        ItemField("pod", partial(_part_text, "pod", "name"), folds=True),
        *_parts_of("pod", "owner"),
        ItemField("state", lambda item: cell_text(item.get("place")), folds=True),
        *names("node", "queue"),
        *numbers("priority"),
        ItemField("aged", _aged, if_any=True),
        *amounts("resources"),
        ItemField("devices", held_by, folds=True, if_any=True),
        *names("reason"),
        ItemField("ask", _ask_name, wide=True, folds=True),
        *names("user", "gang", wide=True),
        ItemField("reserved", _reserved, wide=True),
        *numbers("came", "bound", wide=True),
        *_parts_of("pod", "uid", wide=True),
    ),
    _describe_ask,
    ASKS.instants,
    heads=2,
)
"""Asks that stand for pods of Kubernetes."""


def _reasons(item: Item) -> str:
    return "; ".join(f"{one['code']}: {one['message']}" for one in item.get("reasons") or ())


# POD-31
WITHOUT_ASK: Final = ResourceKind(
    "pods-without-ask",
    "pod",
    (
        *_parts_of("pod", "namespace"),
        ItemField("pod", partial(_part_text, "pod", "name"), folds=True),
        ItemField("reasons", _reasons, folds=True),
    ),
    _describe,
    heads=2,
)
"""Pods that have no ask."""

ENDED: Final = ResourceKind(
    "asks",
    "ask",
    (
        ItemField("ask", _ask_name, folds=True),
        _POD,
        *names("user", "outcome"),
        ItemField("exit", _exit),
        *numbers("ended"),
        *_durations("wait", "run_time"),
        ItemField("used", _hours, folds=True),
        *names("message"),
        *names("queue", "node", wide=True),
        *amounts("resources", wide=True),
        *numbers("submitted", "started", wide=True),
        *_durations("cpu_time", wide=True),
        ItemField("max memory", _memory, wide=True),
    ),
    _describe_ended,
    ("submitted", "started", "ended"),
)
"""Asks that have ended."""

USERS: Final = ResourceKind(
    "users",
    "user",
    (
        ItemField("user", lambda item: cell_text(item.get("user")) or "(none)", folds=True),
        *numbers("apps", "pending", "waiting", "bound"),
        *amounts("allocated"),
        ItemField("used", _hours, folds=True),
        ItemField("share", lambda item: f"{100 * float(item.get('share', 0)):.1f} %"),
        *numbers("completed", "failed", "cancelled"),
        *numbers("run_limit", "expired", "lost", wide=True),
        *numbers("since", wide=True),
    ),
    _describe,
    ("since",),
)
GANGS: Final = ResourceKind(
    "gangs",
    "gang",
    (
        *names("gang"),
        ItemField("mode", lambda item: _defined(item, "mode")),
        ItemField("min member", lambda item: _defined(item, "min_member")),
        *numbers("satisfied", "timed_out"),
        ItemField("members", _counts_of_members, folds=True),
        *numbers("missing"),
        *names("user", wide=True),
        ItemField("topology", _topology, wide=True),
        ItemField("time left", lambda item: _left(item.get("left")), wide=True),
    ),
    _describe,
    ("since", "until"),
)


# RESERVED-2
def _free_amounts(item: Item) -> str:
    """Return what is free on a node that asks use; nothing for an unused one, see `capacity`."""
    return amounts_text(item.get("available")) if item.get("used_by_others") else ""


NODES: Final = ResourceKind(
    "nodes",
    "node",
    (
        *names("node"),
        *numbers("schedulable"),
        *amounts("used", "capacity"),
        # RESERVED-2
        *amounts("used_by_others", if_any=True),
        ItemField("available", _free_amounts, folds=True, if_any=True),
        ItemField("devices", free_on, folds=True, if_any=True),
        ItemField("asks", lambda item: cell_text(item.get("count"))),
        ItemField("attributes", lambda item: _words(item.get("attributes") or {}), wide=True),
        ItemField("taints", lambda item: _listed(item.get("taints")), wide=True, if_any=True),
    ),
    _describe_node,
    ("came", "reserved.start"),
)

KINDS: Final = {kind.plural: kind for kind in (QUEUES, APPS, ASKS, PODS, GANGS, NODES, USERS)}
"""All kinds, by the word of the command."""


def kind_of(word: str) -> ResourceKind | None:
    """Return the kind that a word names, in the singular too; None if there is no such kind."""
    return next((one for one in KINDS.values() if word in {one.plural, one.singular}), None)
