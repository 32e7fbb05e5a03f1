"""The kinds of things that a server lists: their columns, and how one of them is described."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, final
from urllib.parse import quote

import attrs
import click

from muster.cli._clients.options import Unusable
from muster.cli._clients.output import (
    Field,
    Form,
    Item,
    amounts,
    amounts_text,
    name,
    number,
    print_fields,
    print_items,
    printable,
    shown,
)


@final
@attrs.frozen
class Kind:
    """A kind of thing.

    Attributes:
        plural: Its name in a path and in the command.
        singular: The name of one.
        fields: The columns of its table.
        describe: Prints one with all that there is to say.
    """

    plural: str
    singular: str
    fields: Sequence[Field]
    describe: Callable[[Item], None]

    def path_of(self, written: str) -> str:
        """Return the path of one, below ``/api/v1/``.

        Raises:
            Unusable: If an ask is named without its application.
        """
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
    pairs: list[tuple[str, str]] = []
    for field, value in item.items():
        title = titles.get(field, field.replace("_", " "))
        if isinstance(value, Mapping):
            whole = all(isinstance(one, int) for one in value.values())
            text = amounts_text(value) if whole else _words(value)
        elif isinstance(value, list) and value and isinstance(value[0], Mapping):
            text = "\n".join(_words(one) for one in value)
        else:
            text = shown(value)
        pairs.append((title, text))
    return pairs


def _words(value: Mapping[str, object]) -> str:
    return ", ".join(
        f"{printable(str(key))} {_flat(one)}" for key, one in value.items() if one not in (None, "")
    )


def _flat(value: object) -> str:
    if isinstance(value, Mapping):
        return f"({amounts_text(value)})" if value else ""
    return shown(value)


def _describe(item: Item) -> None:
    print_fields(_fields_of(item, {}))


def _ask_name(item: Item) -> str:
    return printable(f"{item.get('app')}/{item.get('name', item.get('ask'))}")


def _describe_app(item: Item) -> None:
    asks = item.get("asks")
    rest = {
        key: value for key, value in item.items() if key != "asks" or not isinstance(asks, list)
    }
    print_fields(_fields_of(rest, {}))
    if isinstance(asks, list) and asks:
        click.echo()
        print_items(asks, ASKS.fields, Form.TABLE)


QUEUES: Final = Kind(
    "queues",
    "queue",
    (
        name("queue", "path"),
        number("priority", "priority"),
        amounts("allocated", "allocated"),
        amounts("guaranteed", "guaranteed"),
        amounts("max", "max"),
        amounts("pending", "pending"),
        number("running apps", "running_apps"),
        number("draining", "draining"),
        number("share", "share", wide=True),
        number("overused", "overused", wide=True),
        number("dynamic", "dynamic", wide=True),
        number("fence", "fence", wide=True),
        number("offset", "offset", wide=True),
        name("sort", "sort_policy", wide=True),
    ),
    _describe,
)
APPS: Final = Kind(
    "apps",
    "app",
    (
        name("app", "name"),
        name("queue", "queue"),
        name("state", "state"),
        name("user", "user"),
        number("priority", "priority"),
        amounts("used", "used"),
        amounts("pending", "pending_resources"),
        name("groups", "groups", wide=True),
        name("came", "came", wide=True),
    ),
    _describe_app,
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
        name("reason", "reason"),
        name("gang", "gang", wide=True),
        name("came", "came", wide=True),
        name("bound", "bound", wide=True),
        name("command", "command", wide=True),
    ),
    _describe,
)
GANGS: Final = Kind(
    "gangs",
    "gang",
    (
        name("gang", "name"),
        name("mode", "mode"),
        number("min member", "min_member"),
        number("satisfied", "satisfied"),
        number("timed out", "timed_out"),
        number("bound", "bound_count"),
        number("waiting", "waiting_count"),
        number("pending", "pending_count"),
        name("waiting since", "waiting_since", wide=True),
    ),
    _describe,
)
NODES: Final = Kind(
    "nodes",
    "node",
    (
        name("node", "name"),
        number("schedulable", "schedulable"),
        amounts("used", "used"),
        amounts("capacity", "capacity"),
        number("asks", "asks"),
        name("attributes", "attributes", wide=True),
    ),
    _describe,
)

KINDS: Final = {kind.plural: kind for kind in (QUEUES, APPS, ASKS, GANGS, NODES)}
"""All kinds, by the word of the command."""


def kind_of(word: str) -> Kind | None:
    """Return the kind that a word names, in the singular too; None if there is no such kind."""
    return next((one for one in KINDS.values() if word in {one.plural, one.singular}), None)
