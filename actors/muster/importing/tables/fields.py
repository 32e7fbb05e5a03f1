"""Readers of the fields of a mapping file, which collect its problems."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import final

import attrs

from muster_core.config.document import Listing, Node, Scalar, Table, describe
from muster_core.errors import Problem
from muster_core.values.nearest import did_you_mean


@final
@attrs.frozen
class Reader:
    """Reads nodes of a document.

    Attributes:
        file: The name of the mapping file.
        problems: What is wrong in it, so far.
    """

    file: str
    problems: list[Problem] = attrs.Factory(list[Problem])

    def refuse(self, node: Node, path: str, message: str) -> None:
        """Add a problem."""
        self.problems.append(Problem(message, path, self.file, node.line))

    def table(
        self, node: Node | None, path: str, known: Collection[str] | None
    ) -> Mapping[str, Node]:
        """Return the entries of a map; empty, with a problem, if it is none.

        Args:
            node: The node; None for no entry.
            path: Its path.
            known: The keys that it may have; None for any.
        """
        if node is None:
            return {}
        if not isinstance(node, Table):
            self.refuse(node, path, f"{describe(node)} is not a map")
            return {}
        entries: dict[str, Node] = {}
        for key, value in node.entries:
            name = key.text if isinstance(key, Scalar) else ""
            place = f"{path}.{name}" if path else name
            if known is not None and name not in known:
                hint = did_you_mean(name, known)
                self.refuse(key, place, f"is unknown: {', '.join(known)} can stand here{hint}")
            elif name in entries:
                self.refuse(key, place, "stands here twice")
            else:
                entries[name] = value
        return entries

    def text(self, node: Node | None, path: str, default: str = "") -> str:
        """Return a text."""
        if node is None:
            return default
        if isinstance(node, Scalar) and node.text and not node.is_null:
            return node.text
        self.refuse(node, path, f"{describe(node)} is not a text")
        return default

    def texts(self, node: Node | None, path: str) -> tuple[str, ...]:
        """Return a list of texts; one text stands for a list of it."""
        if node is None:
            return ()
        items = node.items if isinstance(node, Listing) else (node,)
        return tuple(self.text(item, f"{path}[{number}]") for number, item in enumerate(items))

    def choice(self, node: Node | None, path: str, words: Collection[str], default: str) -> str:
        """Return one of some words."""
        text = self.text(node, path, default)
        if text in words:
            return text
        assert node is not None
        self.refuse(
            node, path, f"{text!r} is none of {', '.join(words)}{did_you_mean(text, words)}"
        )
        return default

    def number(self, node: Node | None, path: str, default: float) -> float:
        """Return a number."""
        text = self.text(node, path, str(default))
        try:
            return float(text)
        except ValueError:
            assert node is not None
            self.refuse(node, path, f"{text!r} is not a number")
            return default
