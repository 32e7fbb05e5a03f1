"""The tree of queues in a configuration: names, settings and quotas.

CONFIG-17, CONFIG-19: the case of queue names does not matter. Inside Muster they are in lower
case, and a path starts with ``root``.

There are two passes: :func:`read_queue` checks the form of each queue, and :func:`build_queue`
fills in inherited values, from the root down. Between the two, :func:`check_quotas` compares the
quotas of queues with those of their parents.

CONFIG-28 to CONFIG-32. A queue whose ``guaranteed`` does not name a type counts with the sum of its
children's ``guaranteed``; without a ``max`` for a type, the smallest ``max`` above it counts. A
``guaranteed`` of 0 is the same as none; a ``max`` of 0 allows nothing. It is enough to compare each
sum with the ``max`` of the queue itself: a sum that is over a ``max`` further up is found there
too, or is over a ``guaranteed`` between the two.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, final

import attrs

from muster_core.config.document import Field
from muster_core.config.properties import SCHEDULING_ORDER, read_properties, resolve
from muster_core.config.tree import describe, entries_of, items_of, text_of
from muster_core.config.users import WrittenLimit, parse_acl, read_limits
from muster_core.values.configuration import (
    EVERY_NAME,
    Acl,
    LimitEntry,
    Limits,
    QueueConfig,
    SchedulingOrder,
    Settings,
    Template,
)
from muster_core.values.records import MAP
from muster_core.values.resources import Resources, format_quantity, shown

ROOT: Final = "root"
"""The name and the path of the queue above all others."""

# CONFIG-22
DEEPEST: Final = 100
"""How many names a path may have; each one is a queue, which is a task."""

# CONFIG-17
_QUEUE_NAME: Final = re.compile(r"[a-zA-Z0-9_:#/@-]{1,64}")


# CONFIG-19
def check_queue_name(name: str) -> str:
    """Return a queue's own name in lower case.

    Raises:
        ValueError: If the name is invalid.
    """
    if not _QUEUE_NAME.fullmatch(name):
        msg = f"{shown(name)} is not a name of a queue: 1 to 64 of a-z A-Z 0-9 _ : # / @ -"
        raise ValueError(msg)
    return name.lower()


# CONFIG-21
def canonical_path(path: str) -> str:
    """Return the path of a queue from ``root``, in lower case.

    A path that does not start with ``root`` is relative to the root.

    Args:
        path: The path as a user wrote it, such as ``Root.a.b`` or ``a.b``.

    Raises:
        ValueError: If a name on the path is invalid, or there are more than 100 names.
    """
    levels = path.count(".") + 1
    if levels > DEEPEST:
        msg = f"{shown(path)} has {levels} levels; at most {DEEPEST} are possible"
        raise ValueError(msg)
    names = [check_queue_name(name) for name in path.split(".")]
    return ".".join(names if names[0] == ROOT else [ROOT, *names])


# CONFIG-2
QUEUE_FIELDS: Final = (
    "name",
    "parent",
    "resources",
    "maxapplications",
    "properties",
    "childtemplate",
    "submitacl",
    "adminacl",
    "limits",
    "queues",
)
TEMPLATE_FIELDS: Final = ("maxapplications", "properties", "resources")
RESOURCES_FIELDS: Final = ("guaranteed", "max")


@final
@attrs.frozen
class Quota:
    """One map of ``resources``: the amounts, and the field of each amount."""

    amounts: Mapping[str, int] = attrs.field(factory=MAP)
    fields: Mapping[str, Field] = attrs.field(factory=MAP)


@final
@attrs.frozen
class WrittenQueue:
    """A queue as it was written, with its fields.

    Attributes:
        field: Its field; for a root that is not in the file, the partition.
        name_field: The field of its name, or of the queue if it has none.
        name: Its own name, in lower case; empty if it is invalid.
        path: Its path from the root, in lower case.
        is_parent: Whether it has children, has ``parent: true``, or is the root.
        max_applications: ``maxapplications``, 0 if there is none.
        applications_field: The field of ``maxapplications``, or of the queue if it has none.
        properties_field: The field of its properties, or of the queue if it has none.
        children: Its children, in the order of the document.
    """

    field: Field
    name_field: Field
    name: str
    path: str
    is_parent: bool
    applications_field: Field
    properties_field: Field
    guaranteed: Quota = attrs.field(factory=Quota)
    max: Quota = attrs.field(factory=Quota)
    max_applications: int = 0
    properties: tuple[tuple[str, str], ...] = ()
    template: Template | None = None
    submit_acl: Acl | None = None
    admin_acl: Acl | None = None
    limits: tuple[WrittenLimit, ...] = ()
    children: tuple[WrittenQueue, ...] = ()


# CONFIG-5
def read_root(partition: Field, queues: Field | None) -> WrittenQueue:
    """Read the ``queues`` of a partition: only the root, or the children of the root."""
    items = [] if queues is None else queues.items()
    if len(items) == 1 and _name_of(items[0]) == ROOT:
        return read_queue(items[0], parent=None)
    children = _read_children(items, ROOT)
    return WrittenQueue(
        partition,
        partition,
        ROOT,
        ROOT,
        is_parent=True,
        applications_field=partition,
        properties_field=partition,
        children=children,
    )


def read_queue(field: Field, parent: str | None) -> WrittenQueue:
    """Read a queue and all queues below it."""
    fields = field.fields(QUEUE_FIELDS)
    name = ROOT if parent is None else _read_name(field, fields.get("name"))
    path = name if parent is None else f"{parent}.{name}"
    # CONFIG-23
    is_parent = _is_parent(fields) or parent is None
    guaranteed, most = _read_resources(fields.get("resources"), is_root=parent is None)
    return WrittenQueue(
        field=field,
        name_field=fields.get("name", field),
        name=name,
        path=path,
        is_parent=is_parent,
        guaranteed=guaranteed,
        max=most,
        max_applications=_read_applications(fields),
        applications_field=fields.get("maxapplications", field),
        properties=_read_properties(fields, path),
        properties_field=fields.get("properties", field),
        template=_read_template(fields.get("childtemplate"), path),
        submit_acl=_read_acl(fields.get("submitacl")),
        admin_acl=_read_acl(fields.get("adminacl")),
        limits=read_limits(fields.get("limits")),
        children=_read_children(fields["queues"].items() if "queues" in fields else [], path),
    )


def build_queue(written: WrittenQueue, parent: Settings | None = None) -> QueueConfig:
    """Build the settings of a queue that was read without problems, and of all queues below it."""
    settings = resolve(dict(written.properties), parent)
    return QueueConfig(
        name=written.name,
        path=written.path,
        is_parent=written.is_parent,
        # CONFIG-26
        guaranteed=Resources(written.guaranteed.amounts),
        max=Limits.of(written.max.amounts),
        max_applications=written.max_applications,
        settings=settings,
        own_properties=written.properties,
        template=written.template,
        submit_acl=written.submit_acl,
        admin_acl=written.admin_acl,
        limits=tuple(limit.entry for limit in written.limits),
        children=tuple(build_queue(child, settings) for child in written.children),
    )


def _name_of(queue: Field) -> str | None:
    """Return the unchecked name of a queue in lower case, or None."""
    for key, value in entries_of(queue.node) or ():
        if key == "name" and (text := text_of(value)) is not None:
            return text.lower()
    return None


def _read_name(queue: Field, field: Field | None) -> str:
    """Read a queue's name in lower case; return an empty one, with a problem, if it is invalid."""
    if field is None:
        if queue.is_map or queue.is_null:
            queue.refuse("a queue needs a name")
        return ""
    text = field.text()
    if text is None:
        return ""
    try:
        return check_queue_name(text)
    except ValueError as error:
        field.refuse(str(error))
        return ""


# CONFIG-23
def _is_parent(fields: Mapping[str, Field]) -> bool:
    says_so = "parent" in fields and fields["parent"].boolean(default=False)
    return says_so or ("queues" in fields and bool(items_of(fields["queues"].node)))


# CONFIG-18
def _read_children(items: list[Field], parent: str) -> tuple[WrittenQueue, ...]:
    """Read the children of a queue, and refuse duplicate names."""
    children: list[WrittenQueue] = []
    seen: dict[str, Field] = {}
    for item in items:
        child = read_queue(item, parent)
        if child.name in seen:
            first = seen[child.name].path
            child.name_field.refuse(
                f"the name {describe(child.name_field.node)} is used twice, first in {first}"
            )
        elif child.name:
            seen[child.name] = child.name_field
        children.append(child)
    return tuple(children)


def _read_applications(fields: Mapping[str, Field]) -> int:
    """Read ``maxapplications``; without it, return 0 for no limit."""
    return fields["maxapplications"].applications() if "maxapplications" in fields else 0


def _read_properties(fields: Mapping[str, Field], path: str) -> tuple[tuple[str, str], ...]:
    """Check ``properties``, and return them as written."""
    if "properties" not in fields:
        return ()
    is_root = path == ROOT
    return read_properties(fields["properties"], path, is_root=is_root)


def _read_resources(field: Field | None, *, is_root: bool = False) -> tuple[Quota, Quota]:
    """Read ``guaranteed`` and ``max`` of ``resources``, and compare the two."""
    fields = {} if field is None else field.fields(RESOURCES_FIELDS)
    quotas = {name: Quota(*found.amounts()) for name, found in fields.items()}
    # CONFIG-27
    if is_root:
        for name, quota in quotas.items():
            if quota.fields:
                fields[name].refuse("the root has what the nodes have: it takes no resources")
        return Quota(), Quota()
    guaranteed, most = quotas.get("guaranteed", Quota()), quotas.get("max", Quota())
    # CONFIG-28
    for name, amount in guaranteed.amounts.items():
        limit = most.amounts.get(name)
        if limit is not None and amount > limit:
            written = f"guaranteed {format_quantity(name, amount)} of {name}"
            message = f"{written} is over max {format_quantity(name, limit)}"
            guaranteed.fields[name].refuse(message)
    return guaranteed, most


# QUEUE-14
def _read_template(field: Field | None, path: str) -> Template | None:
    """Read a ``childtemplate``; an empty one counts as missing, as in YuniKorn."""
    fields = {} if field is None else field.fields(TEMPLATE_FIELDS)
    guaranteed, most = _read_resources(fields.get("resources"))
    template = Template(
        guaranteed=Resources(guaranteed.amounts),
        max=Limits.of(most.amounts),
        max_applications=_read_applications(fields),
        properties=_read_properties(fields, f"{path} (childtemplate)"),
    )
    return template if any(attrs.astuple(template, recurse=False)) else None


# CONFIG-37
def _read_acl(field: Field | None) -> Acl | None:
    """Read an ACL; return None if it is missing, empty or invalid."""
    if field is None or field.is_null:
        return None
    text = field.text()
    try:
        return None if text is None else parse_acl(text)
    except ValueError as error:
        field.refuse(str(error))
        return None


# BACKFILL-3
def warn_of_orders(queue: WrittenQueue, ruled_by: str | None = None) -> None:
    """Warn of each ``scheduling.order`` that another one above it makes meaningless.

    Args:
        queue: The queue to begin at.
        ruled_by: The path of the topmost queue above it whose order is not ``greedy``, or None.
    """
    own = SCHEDULING_ORDER.name in dict(queue.properties)
    if ruled_by is not None:
        if own:
            _warn(queue, queue.path, queue.properties, ruled_by)
    elif own and _order_of(queue.properties) is not SchedulingOrder.GREEDY:
        ruled_by = queue.path
    if queue.template is not None and ruled_by is not None:
        properties = queue.template.properties
        if SCHEDULING_ORDER.name in dict(properties):
            _warn(queue, f"{queue.path} (childtemplate)", properties, ruled_by)
    for child in queue.children:
        warn_of_orders(child, ruled_by)


def _order_of(properties: Iterable[tuple[str, str]]) -> SchedulingOrder:
    try:
        return SCHEDULING_ORDER.of(dict(properties), SchedulingOrder.GREEDY)
    except ValueError:  # It is refused already.
        return SchedulingOrder.GREEDY


def _warn(
    queue: WrittenQueue, named: str, properties: Iterable[tuple[str, str]], ruled_by: str
) -> None:
    own = dict(properties)[SCHEDULING_ORDER.name]
    field = queue.properties_field if named == queue.path else queue.field
    field.warn(
        f"{named}: {SCHEDULING_ORDER.name} {own} has no effect: "
        f"that of {ruled_by} rules all queues below it"
    )


@final
@attrs.frozen
class QuotaTree:
    """The quotas of a queue and of all queues below it.

    Attributes:
        refuse: Reports a problem: whether it is with ``guaranteed`` or ``max``, the resource type,
            and the message.
    """

    guaranteed: Mapping[str, int]
    max: Mapping[str, int]
    children: Sequence[QuotaTree]
    refuse: Callable[[str, str, str], None]


def _quotas_of(queue: WrittenQueue) -> QuotaTree:
    def refuse(quota: str, resource: str, message: str) -> None:
        fields = queue.max.fields if quota == "max" else queue.guaranteed.fields
        fields[resource].refuse(message)

    children = [_quotas_of(child) for child in queue.children]
    return QuotaTree(queue.guaranteed.amounts, queue.max.amounts, children, refuse)


def check_written_quotas(root: WrittenQueue) -> None:
    """Report all contradictions between the quotas of a configuration."""
    check_quotas(_quotas_of(root))
    _check_applications(root)


def check_quotas(root: QuotaTree) -> None:
    """Report all contradictions between the quotas of a tree of queues."""
    _check_guaranteed(root)
    _check_max(root, {})


# CONFIG-29, CONFIG-32
def _check_guaranteed(queue: QuotaTree) -> dict[str, int]:
    """Check the sums of ``guaranteed``, bottom up; return what counts for the queue itself."""
    total: dict[str, int] = {}
    for child in queue.children:
        for name, amount in _check_guaranteed(child).items():
            total[name] = total.get(name, 0) + amount
    # CONFIG-26
    own = {name: amount for name, amount in queue.guaranteed.items() if amount}
    for quota, bounds in (("guaranteed", own), ("max", queue.max)):
        for name, bound in bounds.items():
            if total.get(name, 0) > bound:
                queue.refuse(
                    quota,
                    name,
                    f"the children's guaranteed {name}, {format_quantity(name, total[name])}"
                    f" together, is over {quota} {format_quantity(name, bound)}",
                )
    return total | own


# CONFIG-30, CONFIG-32
def _check_max(queue: QuotaTree, above: Mapping[str, int]) -> None:
    """Check each ``max`` against the smallest one above it, top down."""
    smallest = dict(above)
    for name, amount in queue.max.items():
        bound = above.get(name)
        if bound is not None and amount > bound:
            queue.refuse(
                "max",
                name,
                f"max {format_quantity(name, amount)} of {name}"
                f" is over the {format_quantity(name, bound)} of a queue above",
            )
        smallest[name] = amount if bound is None else min(amount, bound)
    for child in queue.children:
        _check_max(child, smallest)


# CONFIG-31
def _check_applications(queue: WrittenQueue) -> None:
    """Check each ``maxapplications`` against that of the parent, if the parent has a limit."""
    limit = queue.max_applications
    for child in queue.children:
        own = child.max_applications
        if limit and not own:
            child.applications_field.refuse(
                f"maxapplications is not limited, but that of the parent is ({limit})"
            )
        elif limit and own > limit:
            child.applications_field.refuse(f"maxapplications {own} is over the parent's {limit}")
        _check_applications(child)


# LIMIT-4
@final
@attrs.frozen
class _LowestAbove:
    """The least that the queues above give to a name.

    Attributes:
        amounts: The least of each type, with the path of the queue that gives it.
        applications: The least number of applications, with the path; None without a limit.
    """

    amounts: Mapping[str, tuple[int, str]]
    applications: tuple[int, str] | None

    def lowered(self, entry: LimitEntry, path: str) -> _LowestAbove:
        """Return the least with the limit of a queue for the same name."""
        amounts = dict(self.amounts)
        for kind, amount in entry.max.amounts:
            amounts[kind] = min(amounts.get(kind, (amount, path)), (amount, path))
        count, applications = entry.max_applications, self.applications
        if count and (applications is None or count < applications[0]):
            applications = count, path
        return _LowestAbove(amounts, applications)


_NO_LIMITS: Final = _LowestAbove({}, None)
_LimitsAbove = Mapping[str, _LowestAbove]


def check_limits(root: WrittenQueue) -> None:
    """Report the limits that are over those of their own queue, or of the queues above it."""
    _check_amounts(root, {}, {})


def _check_amounts(queue: WrittenQueue, users: _LimitsAbove, groups: _LimitsAbove) -> None:
    for limit in queue.limits:
        _check_queue(limit, queue)
        for name in limit.entry.users:
            _check_above(limit, "user", name, users)
        for name in limit.entry.groups:
            _check_above(limit, "group", name, groups)
    if queue.limits:
        entries = [limit.entry for limit in queue.limits]
        users = _lowered(users, ((entry.users, entry) for entry in entries), queue.path)
        groups = _lowered(groups, ((entry.groups, entry) for entry in entries), queue.path)
    for child in queue.children:
        _check_amounts(child, users, groups)


def _lowered(
    above: _LimitsAbove, named: Iterable[tuple[Sequence[str], LimitEntry]], path: str
) -> dict[str, _LowestAbove]:
    below = dict(above)
    for names, entry in named:
        for name in names:
            below[name] = above.get(name, _NO_LIMITS).lowered(entry, path)
    return below


# LIMIT-3
def _check_queue(limit: WrittenLimit, queue: WrittenQueue) -> None:
    """Report where a limit is over the ``max`` and ``maxapplications`` of its own queue."""
    entry = limit.entry
    for kind, amount in entry.max.amounts:
        most = queue.max.amounts.get(kind)
        if most is not None and amount > most:
            limit.amounts[kind].refuse(
                f"{format_quantity(kind, amount)} of {kind} is over the max of {queue.path},"
                f" {format_quantity(kind, most)}"
            )
    if queue.max_applications and entry.max_applications > queue.max_applications:
        limit.applications_field.refuse(
            f"maxapplications {entry.max_applications} is over that of {queue.path},"
            f" {queue.max_applications}"
        )


# LIMIT-4
def _check_above(limit: WrittenLimit, kind: str, name: str, above: _LimitsAbove) -> None:
    """Report where a limit gives more to a name than the queues above give to it."""
    least = above.get(name) or above.get(EVERY_NAME)
    if least is None:
        return
    whom = f"every {kind}" if name not in above else f"the {kind} {shown(name)}"
    entry = limit.entry
    for resource, amount in entry.max.amounts:
        most, path = least.amounts.get(resource, (amount, ""))
        if amount > most:
            limit.amounts[resource].refuse(
                f"{format_quantity(resource, amount)} of {resource} is over the"
                f" {format_quantity(resource, most)} that {path} gives to {whom}"
            )
    if least.applications is None:
        return
    count, path = least.applications
    own = entry.max_applications
    if not own or own > count:
        what = f"maxapplications {own} is" if own else "maxapplications is not limited, which is"
        limit.applications_field.refuse(f"{what} over the {count} that {path} gives to {whom}")
