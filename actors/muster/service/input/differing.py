"""The difference of two configurations, by queue and field."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, cast

from muster.feeds._written.configurations import configuration as written_of

if TYPE_CHECKING:
    from muster.feeds import Raw
    from muster_core.config.model import Configuration

Fields = dict[str, object]


def document_of(configuration: Configuration) -> dict[str, Raw]:
    """Return a configuration in the form of its file; what has no effect is left out."""
    return written_of(configuration)


# INPUT-13
def difference_of(before: Configuration, after: Configuration) -> dict[str, object]:
    """Return the difference of two configurations.

    Returns:
        ``partition``: the fields of the partition that differ; ``queues``: the queues that were
        added, removed or changed, by path, each with the fields that differ. A field has its path
        in the queue, and its values before and after; null if it is not there.
    """
    old, new = _partition(before), _partition(after)
    return {
        "partition": _changes(_flat(old[0]), _flat(new[0])),
        "queues": [*_queues(old[1], new[1])],
    }


def _partition(configuration: Configuration) -> tuple[Fields, dict[str, Fields]]:
    """Return the fields of a partition, and those of its queues by path, in their order."""
    partition = cast(
        "dict[str, Raw]", cast("list[Raw]", written_of(configuration)["partitions"])[0]
    )
    queues: dict[str, Fields] = {}
    waiting = [("", one) for one in cast("list[dict[str, Raw]]", partition["queues"])]
    while waiting:
        above, queue = waiting.pop(0)
        path = f"{above}.{queue['name']}" if above else str(queue["name"])
        queues[path] = {
            name: value for name, value in queue.items() if name not in {"name", "queues"}
        }
        children = cast("list[dict[str, Raw]]", queue.get("queues") or [])
        waiting[:0] = [(path, child) for child in children]
    return {name: value for name, value in partition.items() if name != "queues"}, queues


def _queues(old: Mapping[str, Fields], new: Mapping[str, Fields]) -> Iterator[dict[str, object]]:
    for path in {**new, **old}:
        fields = _changes(_flat(old.get(path, {})), _flat(new.get(path, {})))
        if path not in old or path not in new:
            yield {"queue": path, "change": "added" if path in new else "removed", "fields": fields}
        elif fields:
            yield {"queue": path, "change": "changed", "fields": fields}


def _flat(fields: Mapping[str, object], above: str = "") -> Fields:
    """Return fields with the paths of what is in maps inside them; lists stay as they are."""
    found: Fields = {}
    for name, value in fields.items():
        path = f"{above}.{name}" if above else name
        if isinstance(value, Mapping):
            found |= _flat(cast("Mapping[str, object]", value), path)
        else:
            found[path] = value
    return found


def _changes(before: Fields, after: Fields) -> list[dict[str, object]]:
    return [
        {"field": name, "before": before.get(name), "after": after.get(name)}
        for name in {**before, **after}
        if before.get(name) != after.get(name)
    ]
