"""Reading of mapping files, which are YAML; all problems of a file are collected."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import final

import attrs

from muster.config_files import parse_document, parse_documents
from muster_core.config.tree import describe, entries_of, is_null, items_of, line_of, text_of
from muster_core.errors import ConfigError, Problem
from muster_core.values.names import did_you_mean


@final
@attrs.frozen
class MappingReader:
    """Reads the parts of a mapping file.

    Attributes:
        file: The name of the file.
        problems: What is wrong in it, so far.
    """

    file: str
    problems: list[Problem] = attrs.Factory(list[Problem])

    def document(self) -> object:
        """Return the tree of the whole file.

        Raises:
            ConfigError: If it cannot be read, or is not YAML.
        """
        return parse_document(self._text(), file=self.file)

    def tree(self) -> object:
        """Return the tree of a file that is one object, of whatever kind; None if it is empty.

        Raises:
            ConfigError: If it cannot be read, is not YAML, or has several documents.
        """
        documents = parse_documents(self._text(), file=self.file)
        for second in documents[1:]:
            message = "a second document starts here: one is read"
            raise ConfigError([Problem(message, file=self.file, line=line_of(second))])
        return documents[0] if documents else None

    def _text(self) -> bytes:
        try:
            return Path(self.file).read_bytes()
        except OSError as error:
            message = f"cannot be read: {error.strerror}"
            raise ConfigError([Problem(message, file=self.file)]) from None

    def refuse(self, node: object, path: str, message: str) -> None:
        """Add a problem."""
        self.problems.append(Problem(message, path, self.file, line_of(node)))

    def table(self, node: object, path: str, known: Collection[str] | None) -> Mapping[str, object]:
        """Return the entries of a map; empty, with a problem, if it is none.

        Args:
            node: The node; None for no entry.
            path: Its path.
            known: The keys that it may have; None for any.
        """
        if node is None:
            return {}
        written = entries_of(node)
        if written is None:
            self.refuse(node, path, f"{describe(node)} is not a map")
            return {}
        entries: dict[str, object] = {}
        for key, value in written:
            name = text_of(key) or ""
            place = f"{path}.{name}" if path else name
            if known is not None and name not in known:
                hint = did_you_mean(name, known)
                self.refuse(key, place, f"is unknown: {', '.join(known)} can stand here{hint}")
            elif name in entries:
                self.refuse(key, place, "stands here twice")
            else:
                entries[name] = value
        return entries

    def text(self, node: object, path: str, default: str = "") -> str:
        """Return a text."""
        if node is None:
            return default
        if (text := text_of(node)) and not is_null(node):
            return text
        self.refuse(node, path, f"{describe(node)} is not a text")
        return default

    def texts(self, node: object, path: str) -> tuple[str, ...]:
        """Return a list of texts; a single text is a list of one."""
        if node is None:
            return ()
        items = items_of(node)
        parts = (node,) if items is None else items
        return tuple(self.text(part, f"{path}[{number}]") for number, part in enumerate(parts))

    def choice(self, node: object, path: str, words: Collection[str], default: str) -> str:
        """Return one of some words."""
        text = self.text(node, path, default)
        if text in words:
            return text
        assert node is not None
        self.refuse(
            node, path, f"{text!r} is none of {', '.join(words)}{did_you_mean(text, words)}"
        )
        return default

    def number(self, node: object, path: str, default: float) -> float:
        """Return a number."""
        text = self.text(node, path, str(default))
        try:
            return float(text)
        except ValueError:
            assert node is not None
            self.refuse(node, path, f"{text!r} is not a number")
            return default
