"""Loading a configuration: from a document to a :class:`Configuration`, or to all problems.

CONFIG-1, CONFIG-9, CONFIG-11. All partitions are read and checked, and one of them runs. The
warnings are those of the partition that runs and those of the whole file.

``nodesortpolicy`` is read here: the order of nodes, its weights, and the typical asks of ``fgd``.
CONFIG-15, CONFIG-16: of fields that YuniKorn obeys and Muster does not (``usergroupresolver`` and
``checksum``) the form is checked, with one warning each; an empty field has no warning.

Any text is the name of a resource type (QUANTITY-2), so a slip is no error: ``cpu`` in place of
``vcore`` names a type of its own, of which no node has anything. Warnings about such names are for
authors of files. No decision depends on them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import islice
from typing import Final, final

import attrs

from muster_core.config.document import (
    DocumentWarning,
    Field,
    Order,
    Report,
)
from muster_core.config.placement import check_chain, read_rules
from muster_core.config.properties import resolve
from muster_core.config.queues import (
    ROOT,
    WrittenQueue,
    build_queue,
    check_limits,
    check_written_quotas,
    read_root,
    warn_of_orders,
)
from muster_core.config.users import limits_of_root, read_limits
from muster_core.values.configuration import (
    Configuration,
    NamedType,
    NodeSortPolicy,
    PlacementRule,
    QueueConfig,
    TypicalAsk,
)
from muster_core.values.devices import (
    MOST_WANTED,
    WHOLE,
    DeviceNeed,
    DeviceNeeds,
    is_device_type,
    names_devices,
)
from muster_core.values.errors import ConfigError, Problem, QuantityError
from muster_core.values.names import did_you_mean
from muster_core.values.resources import Resources, parse_integer, shown

DEFAULT_PARTITION = "default"
"""The partition that runs if there are several and none is chosen."""

MOST_COMPARED: Final = 200
"""The most names with which one is compared."""

_COMMON_SLIPS: Final = {
    **dict.fromkeys(("cpu", "cpus", "core", "cores", "vcores", "vcpu", "vcpus"), "vcore"),
    **dict.fromkeys(("mem", "mems", "ram"), "memory"),
}
_NO_LETTERS: Final = re.compile(r"[-_. ]")
_PLURAL: Final = re.compile(r"(?<=[a-z])s$")
_SHORTEST: Final = 4
"""The least length of names in which a missing letter is a slip: ``gpu`` and ``vgpu`` are two types."""


# CONFIG-83
def type_name_warning(name: str, known: Iterable[str] = ()) -> str | None:
    """Return a warning about the name of a type, or None.

    Args:
        name: The name of the type.
        known: The other types that are used, in a fixed order.
    """
    likely = _COMMON_SLIPS.get(name.casefold())
    if likely is not None:
        return f"the type {shown(name)} is not {likely}, but one of its own: write {likely}"
    other = similar_type(name, known)
    if other is None:
        return None
    return f"the type {shown(name)} differs little from {shown(other)}, which is used as well"


def similar_type(name: str, known: Iterable[str]) -> str | None:
    """Return the first of some types that differs so little from a name that it may be meant.

    They differ in case, in ``-``, ``_`` and points, in the ``s`` of a plural, in one letter that is
    missing, or in two letters that have changed places. Numbers are never a slip: two sizes of huge
    pages, or two models of a device, differ in no more.

    Args:
        name: The name of the type.
        known: The other types; only the first :data:`MOST_COMPARED` are compared.
    """
    for other in islice(known, MOST_COMPARED):
        if other != name and _similar(name, other):
            return other
    return None


def _similar(one: str, other: str) -> bool:
    if abs(len(one) - len(other)) > 2:
        return False
    first, second = _normal(one), _normal(other)
    if first == second:
        return True
    # Prefixes are names of companies: compared part by part, none counts for the other.
    ends = [part.rpartition("/") for part in (first, second)]
    (group, _, own), (other_group, _, other_own) = ends
    if group == other_group:
        return _one_slip(own, other_own)
    return own == other_own and _one_slip(group, other_group)


def _normal(name: str) -> str:
    return _PLURAL.sub("", _NO_LETTERS.sub("", name.casefold()))


def _one_slip(one: str, other: str) -> bool:
    """Return whether a letter is missing in one of the names, or two have changed places."""
    if not (one.isalpha() and other.isalpha() and min(len(one), len(other)) >= _SHORTEST):
        return False
    short, long = sorted((one, other), key=len)
    same = next((at for at, letter in enumerate(short) if letter != long[at]), len(short))
    if len(long) == len(short) + 1:
        return short[same:] == long[same + 1 :]
    swapped = long[same : same + 2][::-1]
    return len(long) == len(short) and short[same:] == swapped + long[same + 2 :]


TYPICAL_FIELDS: Final = ("devices", "resources", "weight")
NEED_FIELDS: Final = ("milli", "count", "models")

MOST_WEIGHT: Final = 1_000_000
"""The largest weight of a typical ask."""


# DEVICE-17
def read_typical(field: Field) -> tuple[TypicalAsk, ...]:
    """Read the typical asks; every problem is refused, and invalid parts are left out."""
    items = field.items()
    if not items and (field.is_list or field.is_null):
        field.refuse("there is no typical ask here: leave the field out, and they are learned")
    found = [_read_typical_ask(item) for item in items]
    return tuple(one for one in found if one is not None)


def _read_typical_ask(item: Field) -> TypicalAsk | None:
    fields = item.fields(TYPICAL_FIELDS)
    for name in ("devices", "weight"):
        if name not in fields:
            item.refuse(f"{name} is missing")
    devices = _read_devices(fields["devices"]) if "devices" in fields else ()
    resources = _read_resources(fields["resources"]) if "resources" in fields else Resources()
    weight = _read_number(fields["weight"], MOST_WEIGHT) if "weight" in fields else None
    return TypicalAsk(devices, resources, weight) if devices and weight else None


def _read_devices(field: Field) -> DeviceNeeds:
    needs: dict[str, DeviceNeed] = {}
    fields = field.fields()
    if not fields and (field.is_map or field.is_null):
        field.refuse("a typical ask needs at least one type of devices")
    for name, part in fields.items():
        if not is_device_type(name):
            part.refuse(f"{shown(name)} is no RFC 1123 label")
            continue
        need = _read_need(part)
        if need is not None:
            needs[name] = need
    return tuple(sorted(needs.items()))


# DEVICE-2
def _read_need(field: Field) -> DeviceNeed | None:
    """Return the need of one type: a number, or a map with ``milli`` or ``count``."""
    if not field.is_map:
        count = _read_number(field, MOST_WANTED)
        return None if count is None else DeviceNeed(count=count)
    fields = field.fields(NEED_FIELDS)
    if ("milli" in fields) == ("count" in fields):
        field.refuse("one of milli and count says how much of the devices is needed")
        return None
    name, most = ("count", MOST_WANTED) if "count" in fields else ("milli", WHOLE)
    number = _read_number(fields[name], most)
    models = _read_models(fields["models"]) if "models" in fields else None
    if number is None or models == ():
        return None
    if name == "milli" and number < WHOLE:
        return DeviceNeed(milli=number, models=models)
    return DeviceNeed(count=1 if name == "milli" else number, models=models)


def _read_models(field: Field) -> tuple[str, ...]:
    items = field.items()
    if not items and (field.is_list or field.is_null):
        field.refuse("the list is empty: leave it out for any model")
    models: list[str] = []
    for item in items:
        text = item.text()
        if text == "":
            item.refuse("the name of a model has at least one character")
        elif text is not None:
            models.append(text)
    return tuple(models)


def _read_resources(field: Field) -> Resources:
    amounts, fields = field.amounts()
    named = names_devices(amounts)
    # DEVICE-5
    if named is not None:
        fields[named].refuse("devices are no resources: name them in 'devices'")
        return Resources()
    return Resources(amounts)


def _read_number(field: Field, most: int) -> int | None:
    text = field.text("a number")
    if text is None:
        return None
    try:
        return parse_integer(text, 1, most)
    except QuantityError as error:
        field.refuse(str(error))
        return None


NODE_SORT_FIELDS: Final = ("type", "resourceweights", "typical")

_WEIGHT: Final = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?", re.ASCII)
_INFINITY: Final = float("inf")


# CONFIG-12
def read_node_sort(
    field: Field | None,
) -> tuple[NodeSortPolicy, dict[str, float], tuple[TypicalAsk, ...]]:
    """Read the ``nodesortpolicy`` of a partition, which is fair if there is none.

    Returns:
        The order, the weights, and the typical asks; each empty if none are named.
    """
    fields = {} if field is None else field.fields(NODE_SORT_FIELDS)
    policy = NodeSortPolicy.FAIR
    kind = fields.get("type")
    text = None if kind is None or kind.is_null else kind.text()
    if kind is not None and text is not None:
        try:
            policy = NodeSortPolicy(text.lower())
        except ValueError:
            kind.refuse(f"{shown(text)} is not one of {', '.join(NodeSortPolicy)}")
    weights = _read_weights(fields["resourceweights"]) if "resourceweights" in fields else {}
    typical = read_typical(fields["typical"]) if "typical" in fields else ()
    if typical and policy is not NodeSortPolicy.FGD:
        fields["typical"].warn(f"typical asks do nothing with the type {policy}: fgd uses them")
    return policy, weights, typical


# CONFIG-13
def _read_weights(field: Field) -> dict[str, float]:
    """Read the ``resourceweights``; refuse them if their sum overflows a float."""
    fields = field.fields()
    for name, weight in fields.items():
        field.report.names_type(name, weight)
    weights = {name: _read_weight(weight) for name, weight in fields.items()}
    if sum(weights.values()) == _INFINITY:
        field.refuse("the weights are too large: no average of them can be computed")
    return weights


# CONFIG-13
def _read_weight(field: Field) -> float:
    """Read one weight; return 0, with a problem, if it is invalid."""
    text = field.text()
    if text is None:
        return 0.0
    weight = float(text) if _WEIGHT.fullmatch(text) else _INFINITY
    if 0 <= weight < _INFINITY:
        return abs(weight)  # "-0" is accepted as 0
    if weight < 0:
        field.refuse(f"the weight {shown(text)} is negative")
    else:
        field.refuse(f"{shown(text)} is not a weight: write a number from 0 up")
    return 0.0


# CONFIG-16
RESOLVER_FIELDS: Final = ("type",)


# CONFIG-15
def warn_not_obeyed(field: Field, name: str) -> None:
    """Warn that a field has no effect."""
    field.warn(f"{name}: checked for form, but not obeyed", once=f"field {name}")


def read_resolver(field: Field) -> None:
    """Check a ``usergroupresolver``: a text, or a map with its ``type``."""
    if field.is_null:
        return
    if field.is_map or field.is_list:
        _read_ignored_text(field.fields(RESOLVER_FIELDS), "type")
    warn_not_obeyed(field, "usergroupresolver")


def read_checksum(field: Field) -> None:
    """Check the ``checksum`` of a file."""
    if not field.is_null and field.text():
        warn_not_obeyed(field, "checksum")


def _read_ignored_text(fields: dict[str, Field], name: str) -> None:
    if name in fields:
        fields[name].text()


# CONFIG-1
FILE_FIELDS: Final = ("partitions", "checksum")
PARTITION_FIELDS: Final = (
    "name",
    "nodesortpolicy",
    "preemption",
    "queues",
    "limits",
    "placementrules",
    "usergroupresolver",
)
PREEMPTION_FIELDS: Final = ("enabled", "quotapreemptionenabled")


@final
@attrs.frozen
class _Partition:
    """A partition as it was read.

    Attributes:
        name: Its name; empty if that is not a text.
        field: The field with its name, or the partition.
        node_weights: ``nodesortpolicy.resourceweights``; empty if there are none.
        report: The report with its warnings.
    """

    name: str
    field: Field
    node_sort: NodeSortPolicy
    node_weights: dict[str, float]
    typical: tuple[TypicalAsk, ...]
    preemption_enabled: bool
    quota_preemption: bool
    root: WrittenQueue
    placement_rules: tuple[PlacementRule, ...]
    report: Report


# CONFIG-24
def default_configuration() -> Configuration:
    """Return the configuration before the first one: only the root, without limits."""
    settings = resolve({}, None)
    root = QueueConfig(name=ROOT, path=ROOT, is_parent=True, settings=settings)
    return Configuration(partition=DEFAULT_PARTITION, root=root)


def load_configuration(
    document: object,
    *,
    file: str | None = None,
    line: int | None = None,
    partition: str | None = None,
) -> Configuration:
    """Check a document and build the configuration of one of its partitions.

    Args:
        document: The document: maps, lists and scalars, see :mod:`muster_core.config.tree`.
        file: The name of the file, for problems; None for a configuration given inline.
        line: The line of the parts that know none, or None.
        partition: The partition to run; None for ``default``, or the only one.

    Raises:
        ConfigError: If it is refused; with all problems.
    """
    report = Report(file)
    top = Field.top(document, report, line)
    fields = top.fields(FILE_FIELDS)
    if "checksum" in fields:
        read_checksum(fields["checksum"])
    place = fields.get("partitions", top)
    partitions = _read_partitions(fields.get("partitions"))
    chosen = _choose(partitions, partition, place)
    problems = report.problems
    # CONFIG-33
    if problems or chosen is None:
        raise ConfigError(problems)
    warnings = sorted(report.warnings + chosen.report.warnings, key=_in_order)
    types = chosen.report.types
    with_places = sorted([*warnings, *_about_types(types)], key=_in_order)
    configuration = Configuration(
        partition=chosen.name,
        root=build_queue(chosen.root),
        node_sort=chosen.node_sort,
        preemption_enabled=chosen.preemption_enabled,
        quota_preemption=chosen.quota_preemption,
        placement_rules=chosen.placement_rules,
        warnings=tuple(warned.problem.message for warned in warnings),
        located_warnings=tuple(_with_guess(warned) for warned in with_places),
        types=tuple(named for _, named in types),
        typical=chosen.typical,
    )
    weights = tuple(sorted(chosen.node_weights.items()))
    return attrs.evolve(configuration, node_weights=weights) if weights else configuration


def _in_order(warned: DocumentWarning) -> tuple[Order, str]:
    return warned.order, warned.problem.message


def _with_guess(warned: DocumentWarning) -> Problem:
    return attrs.evolve(warned.problem, message=warned.problem.message + warned.guess)


# CONFIG-83
def _about_types(types: list[tuple[Order, NamedType]]) -> list[DocumentWarning]:
    """Return the warnings about types whose names look like a slip."""
    found: list[DocumentWarning] = []
    names = [named.name for _, named in types]
    for index, (order, named) in enumerate(types):
        message = type_name_warning(named.name, names[:index])
        if message is not None:
            problem = Problem(message, named.path, named.file, named.line)
            found.append(DocumentWarning(order, None, problem))
    return found


# CONFIG-11, CONFIG-18
def _read_partitions(field: Field | None) -> list[_Partition]:
    """Read all partitions, and refuse duplicate names."""
    partitions: list[_Partition] = []
    seen: dict[str, Field] = {}
    for item in [] if field is None else field.items():
        found = _read_partition(item.reporting_to(item.report.part()))
        partitions.append(found)
        if found.name in seen:
            first = seen[found.name].path
            found.field.refuse(f"the name {shown(found.name)} is used twice, first in {first}")
        elif found.name:
            seen[found.name] = found.field
    return partitions


# CONFIG-9
def _choose(partitions: list[_Partition], wanted: str | None, place: Field) -> _Partition | None:
    """Return the partition that runs; None, with a problem, if there is no such partition."""
    named = {partition.name: partition for partition in partitions}
    if not partitions:
        if not place.report.problems:
            place.refuse("there is no partition")
    elif wanted is not None:
        if wanted not in named:
            guess = did_you_mean(wanted, named)
            place.refuse(f"there is no partition {shown(wanted)}, only {', '.join(named)}{guess}")
        return named.get(wanted)
    elif DEFAULT_PARTITION in named:
        return named[DEFAULT_PARTITION]
    elif len(partitions) == 1:
        return partitions[0]
    else:
        names = ", ".join(named)
        place.refuse(f"none of the partitions is called default: choose one of {names}")
    return None


def _read_partition(field: Field) -> _Partition:
    """Read one partition, and check its queues against each other."""
    fields = field.fields(PARTITION_FIELDS)
    # CONFIG-10
    named = "name" in fields and not fields["name"].is_null
    name = fields["name"].text() if named else DEFAULT_PARTITION
    node_sort, weights, typical = read_node_sort(fields.get("nodesortpolicy"))
    root = read_root(field, fields.get("queues"))
    check_written_quotas(root)
    limits = limits_of_root(fields.get("limits"), read_limits(fields.get("limits")), root.limits)
    root = attrs.evolve(root, limits=limits)
    check_limits(root)
    warn_of_orders(root)
    enabled, quota = _read_preemption(fields.get("preemption"))
    if "usergroupresolver" in fields:
        read_resolver(fields["usergroupresolver"])
    return _Partition(
        name="" if name is None else name or DEFAULT_PARTITION,  # as in YuniKorn
        field=fields.get("name", field),
        node_sort=node_sort,
        node_weights=weights,
        typical=typical,
        preemption_enabled=enabled,
        quota_preemption=quota,
        root=root,
        placement_rules=_read_placement_rules(fields.get("placementrules"), root),
        report=field.report,
    )


# PLACEMENT-18
def _read_placement_rules(field: Field | None, root: WrittenQueue) -> tuple[PlacementRule, ...]:
    """Read the ``placementrules`` of a partition; without them, or without an item, none."""
    written = [] if field is None else read_rules(field)
    for rule in written:
        check_chain(rule, root)
    return tuple(found.rule for found in written)


# CONFIG-14, QUOTA-1
def _read_preemption(field: Field | None) -> tuple[bool, bool]:
    """Read ``preemption``: whether it is enabled, and whether quota preemption is."""
    fields = {} if field is None else field.fields(PREEMPTION_FIELDS)
    enabled = fields["enabled"].boolean(default=True) if "enabled" in fields else True
    quota = fields.get("quotapreemptionenabled")
    return enabled, False if quota is None else quota.boolean(default=False)
