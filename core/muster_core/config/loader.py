"""Loading a configuration: from a document to a :class:`Configuration`, or to all problems.

CONFIG-1, CONFIG-9, CONFIG-11. All partitions are read and checked, and one of them runs. The
warnings are those of the partition that runs and those of the whole file.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, final

import attrs

from muster_core.config.dynamic import DEFAULT_PARTITION
from muster_core.config.fields import Field, Report, Warned
from muster_core.config.nodes.order import read_node_sort
from muster_core.config.not_obeyed import (
    read_checksum,
    read_quota_preemption,
    read_resolver,
)
from muster_core.config.placement.chains import check_chain
from muster_core.config.placement.rules import read_rules
from muster_core.config.queues import WrittenQueue, build_queue, read_root, warn_of_orders
from muster_core.config.quotas import check_quotas
from muster_core.config.type_names import warning_about
from muster_core.config.user_limits import check_limits, limits_of_root, read_limits
from muster_core.values.configuration.partition import (
    Configuration,
    NamedType,
    NodeSortPolicy,
    TypicalAsk,
)
from muster_core.values.errors import ConfigError, Problem
from muster_core.values.nearest import did_you_mean
from muster_core.values.quantities import shown

if TYPE_CHECKING:
    from muster_core.config.document import Node
    from muster_core.values.configuration.placement_rules import PlacementRule

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
        node_sort: ``nodesortpolicy.type``.
        node_weights: ``nodesortpolicy.resourceweights``; empty if there are none.
        typical: ``nodesortpolicy.typical``.
        preemption_enabled: ``preemption.enabled``.
        root: Its queues.
        placement_rules: ``placementrules``.
        report: The report with its warnings.
    """

    name: str
    field: Field
    node_sort: NodeSortPolicy
    node_weights: dict[str, float]
    typical: tuple[TypicalAsk, ...]
    preemption_enabled: bool
    root: WrittenQueue
    placement_rules: tuple[PlacementRule, ...]
    report: Report


def load_configuration(
    document: Node, *, file: str | None = None, partition: str | None = None
) -> Configuration:
    """Check a document and build the configuration of one of its partitions.

    Args:
        document: The document, see :mod:`muster_core.config.document`.
        file: The name of the file, for problems; None for a configuration given inline.
        partition: The partition to run; None for ``default``, or the only one.

    Raises:
        ConfigError: If it is refused; with all problems.
    """
    report = Report(file)
    fields = Field.top(document, report).fields(FILE_FIELDS)
    if "checksum" in fields:
        read_checksum(fields["checksum"])
    where = fields.get("partitions", Field.top(document, report))
    partitions = _read_partitions(fields.get("partitions"))
    chosen = _choose(partitions, partition, where)
    problems = report.problems
    # CONFIG-33
    if problems or chosen is None:
        raise ConfigError(problems)
    warnings = sorted(report.warnings + chosen.report.warnings, key=_in_order)
    types = chosen.report.types
    told = sorted([*warnings, *_about_types(types)], key=_in_order)
    configuration = Configuration(
        partition=chosen.name,
        root=build_queue(chosen.root),
        node_sort=chosen.node_sort,
        preemption_enabled=chosen.preemption_enabled,
        placement_rules=chosen.placement_rules,
        warnings=tuple(warned.problem.message for warned in warnings),
        told=tuple(_with_guess(warned) for warned in told),
        types=tuple(named for _, named in types),
        typical=chosen.typical,
    )
    weights = tuple(sorted(chosen.node_weights.items()))
    return attrs.evolve(configuration, node_weights=weights) if weights else configuration


def _in_order(warned: Warned) -> tuple[int, str]:
    return warned.order, warned.problem.message


def _with_guess(warned: Warned) -> Problem:
    return attrs.evolve(warned.problem, message=warned.problem.message + warned.guess)


# CONFIG-83
def _about_types(types: list[tuple[int, NamedType]]) -> list[Warned]:
    """Return the warnings about types whose names look like a slip."""
    found: list[Warned] = []
    names = [named.name for _, named in types]
    for index, (order, named) in enumerate(types):
        message = warning_about(named.name, names[:index])
        if message is not None:
            problem = Problem(message, named.path, named.file, named.line)
            found.append(Warned(order, None, problem))
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
def _choose(partitions: list[_Partition], wanted: str | None, where: Field) -> _Partition | None:
    """Return the partition that runs; None, with a problem, if there is no such partition."""
    named = {partition.name: partition for partition in partitions}
    if not partitions:
        if not where.report.problems:
            where.refuse("there is no partition")
    elif wanted is not None:
        if wanted not in named:
            guess = did_you_mean(wanted, named)
            where.refuse(f"there is no partition {shown(wanted)}, only {', '.join(named)}{guess}")
        return named.get(wanted)
    elif DEFAULT_PARTITION in named:
        return named[DEFAULT_PARTITION]
    elif len(partitions) == 1:
        return partitions[0]
    else:
        names = ", ".join(named)
        where.refuse(f"none of the partitions is called default: choose one of {names}")
    return None


def _read_partition(field: Field) -> _Partition:
    """Read one partition, and check its queues against each other."""
    fields = field.fields(PARTITION_FIELDS)
    # CONFIG-10
    named = "name" in fields and not fields["name"].is_null
    name = fields["name"].text() if named else DEFAULT_PARTITION
    node_sort, weights, typical = read_node_sort(fields.get("nodesortpolicy"))
    root = read_root(field, fields.get("queues"))
    check_quotas(root)
    limits = limits_of_root(fields.get("limits"), read_limits(fields.get("limits")), root.limits)
    root = attrs.evolve(root, limits=limits)
    check_limits(root)
    warn_of_orders(root)
    if "usergroupresolver" in fields:
        read_resolver(fields["usergroupresolver"])
    return _Partition(
        name="" if name is None else name or DEFAULT_PARTITION,  # as in YuniKorn
        field=fields.get("name", field),
        node_sort=node_sort,
        node_weights=weights,
        typical=typical,
        preemption_enabled=_read_preemption(fields.get("preemption")),
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


# CONFIG-14
def _read_preemption(field: Field | None) -> bool:
    """Return whether preemption is enabled in a partition; the default is true."""
    fields = {} if field is None else field.fields(PREEMPTION_FIELDS)
    if "quotapreemptionenabled" in fields:
        read_quota_preemption(fields["quotapreemptionenabled"])
    return fields["enabled"].boolean(default=True) if "enabled" in fields else True
