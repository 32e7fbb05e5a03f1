"""The objects of a dump: YAML or JSON, one by one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, final

import attrs

from muster.feeds import FeedError
from muster.feeds._encodings.raw import Raw
from muster.feeds._encodings.source import Input
from muster.importing.kubernetes.dumps.json_objects import read_json
from muster.importing.kubernetes.dumps.yaml_objects import read_yaml

_LIST: Final = "List"


@final
@attrs.frozen
class Found:
    """An object of a dump.

    Attributes:
        kind: Its kind, such as ``Pod``; empty if it does not say one.
        value: The object as written.
        place: Where it stands, such as ``pods.yaml:17``.
        problem: Why it cannot be read, or None.
    """

    kind: str
    value: dict[str, Raw]
    place: str
    problem: str | None = None


# KUBERNETES-1
def objects_of(source: Input) -> Iterator[Found]:
    """Yield the objects of a dump, those of a List one by one.

    Raises:
        FeedError: If it is neither YAML nor JSON.
    """
    is_json = source.head.lstrip(b"\xef\xbb\xbf \t\r\n")[:1] in (b"{", b"[")
    objects = read_json(source.stream, source.name) if is_json else read_yaml(source)
    for raw, outer in objects:
        place = f"{source.name}:{raw.line}"
        value = raw.value
        if not isinstance(value, dict):
            if not raw.index:
                msg = (
                    "is no Kubernetes object: a map with `kind` and `metadata` should stand here; "
                    "print it with kubectl get --output=yaml, or =json"
                )
                raise FeedError(source.name, msg, raw.line)
            yield Found("", {}, place, raw.problem or "is not a map")
            continue
        yield from _found(value, outer, place, raw.problem)


def _found(
    value: dict[str, Raw], outer: str, place: str, problem: str | None, *, is_inner: bool = False
) -> Iterator[Found]:
    """Yield an object, or the items of a List that is part of a list."""
    kind = value.get("kind")
    items = value.get("items")
    if isinstance(items, list) and not is_inner:
        for item in items:
            if isinstance(item, dict):
                yield from _found(item, _text(kind), place, problem, is_inner=True)
            else:
                yield Found("", {}, place, "is not a map")
        return
    named = _text(kind) or _text(outer).removesuffix(_LIST)
    yield Found(named, value, place, problem)


def _text(value: Raw) -> str:
    return str(value) if isinstance(value, str) else ""
