"""Read configurations from YAML files.

All scalars stay texts, as the core reads them (:mod:`muster_core.config.tree`): ``off`` stays ``off``
and ``010`` stays ``010``. An error names the line.

YuniKorn reads its configuration from a ConfigMap, whose ``data`` has it as the text of the key
``queues.yaml``. So a file may be that ConfigMap as it is, a List of objects, or several manifests.
It is unwrapped, and lines are still those of the file.
"""

from __future__ import annotations

import codecs
from collections.abc import Iterator, Sequence
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Final, final

import attrs

from muster._idle_properties import with_idle_warnings
from muster._yaml import (
    Sign,
    TreeBuilder,
    YamlError,
    YamlRules,
    check_characters,
    read_tokens,
)
from muster_core.config import load_configuration
from muster_core.config.tree import (
    MAX_DEPTH,
    LocatedList,
    LocatedMap,
    LocatedText,
    Plain,
    Tree,
    describe,
    entries_of,
    is_null,
    items_of,
    line_of,
    text_of,
)
from muster_core.errors import ConfigError, Problem
from muster_core.values.names import did_you_mean

if TYPE_CHECKING:
    from muster_core.config.model import Configuration


QUEUES: Final = "queues.yaml"
"""The key in the ``data`` of a ConfigMap; its other keys configure what is not the queues."""

_PARTITIONS: Final = "partitions"
_MOST_NAMED: Final = 5
"""How many objects a message names."""


@final
@attrs.frozen
class Embedded:
    """A configuration that is a text in a ConfigMap.

    Attributes:
        text: The text.
        line: The line where it begins, or None.
        is_literal: Whether its lines follow that line as they are.
    """

    text: str
    line: int | None
    is_literal: bool


# CONFIG-6
def find_configuration(documents: Sequence[object], file: str | None) -> object:
    """Return the only configuration in the documents of a file: a tree, or one embedded in it.

    Args:
        documents: The documents, without empty ones.
        file: The name of the file, for messages.

    Raises:
        ConfigError: If there are several configurations, or only Kubernetes objects without one.
    """
    found: object = None
    objects: list[object] = []
    for document in documents:
        for part in _parts(document):
            candidate = _candidate(part, file)
            if candidate is None:
                objects.append(part)
            elif found is None:
                found = candidate
            else:
                raise _refusal(_second(found), line_of(candidate), file)
    if found is not None:
        return found
    if objects:
        raise _refusal(_without(objects), line_of(objects[0]), file)
    return Plain("")


def _parts(document: object, depth: int = 0) -> Iterator[object]:
    """Yield a document, or the items of a List of objects."""
    items = items_of(_field(document, "items")) if _is_object(document) else None
    kind = _text(document, "kind")
    if kind is not None and kind.endswith("List") and items is not None:
        for item in items:
            yield from _parts(item, depth + 1)
    elif depth == 0 or _is_object(document):
        yield document


# CONFIG-80
def _candidate(part: object, file: str | None) -> object:
    """Return the configuration that a document is or contains; None for any other object.

    Raises:
        ConfigError: If it is a ConfigMap that has another value in place of the text.
    """
    if not _is_object(part):
        return part
    data = _field(part, "data") if _text(part, "kind") == "ConfigMap" else _MISSING
    value = _field(data, QUEUES)
    if value is _MISSING:
        return None
    text, line = text_of(value), line_of(value)
    if text is None:
        message = f"{describe(value)} stands where a text is expected: write | behind {QUEUES}:"
        raise ConfigError([Problem(message, f"data.{QUEUES}", file, line)])
    return Embedded(text, line, getattr(value, "literal", False))


def _is_object(node: object) -> bool:
    """Return whether a document is a Kubernetes object, and no configuration."""
    return _text(node, "kind") is not None and _field(node, _PARTITIONS) is _MISSING


_MISSING: Final = object()


def _field(node: object, name: str) -> object:
    """Return the value of a field, or what marks that there is none."""
    return next((value for key, value in entries_of(node) or () if key == name), _MISSING)


def _text(node: object, name: str) -> str | None:
    """Return the text of a field, or None."""
    return text_of(_field(node, name))


def _second(first: object) -> str:
    line = line_of(first)
    place = "" if line is None else f" in line {line}"
    return f"a second configuration starts here, after the first{place}: leave out one of them"


def _without(objects: Sequence[object]) -> str:
    """Return the message that none of the objects has a configuration."""
    named = ", ".join(_name_of(one) for one in objects[:_MOST_NAMED])
    more = f" and {len(objects) - _MOST_NAMED} more" if len(objects) > _MOST_NAMED else ""
    keys = [
        name
        for one in objects
        if _text(one, "kind") == "ConfigMap"
        for part in ("data", "binaryData")
        for key, _ in entries_of(_field(one, part)) or ()
        if (name := text_of(key)) is not None
    ]
    packed = f"{QUEUES}.gz" in keys
    hint = f"; unpack {QUEUES}.gz" if packed else did_you_mean(QUEUES, keys)
    return f"there is no ConfigMap with the key {QUEUES} in its data, only {named}{more}{hint}"


def _name_of(one: object) -> str:
    name = _text(_field(one, "metadata"), "name")
    kind = (_text(one, "kind") or "")[:80]
    return f"the {kind}" if name is None else f"the {kind} {name[:80]!r}"


def _refusal(message: str, line: int | None, file: str | None) -> ConfigError:
    return ConfigError([Problem(message, file=file, line=line)])


_RULES: Final = YamlRules(
    is_whole=True,
    most_values=200_000,
    unknown_tag="the tag {} has no meaning in a configuration",
    no_unicode="half a surrogate pair cannot stand in a configuration",
    too_deep=f"nested deeper than {MAX_DEPTH} levels",
    too_many="the aliases stand for too much",
    unknown_alias="the alias *{} names nothing that stands before it",
    no_merge="<< takes a map or a list of maps, not {}",
)

MAX_FILE_BYTES: Final = 64 * 1024 * 1024
"""The largest file that is read, so that a wrong file does not fill the memory."""

_BYTE_ORDER_MARKS: Final = (
    (codecs.BOM_UTF32_LE, "utf-32"),  # before UTF-16, as it begins with the mark of UTF-16
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)


def read_configuration(path: str | PathLike[str], *, partition: str | None = None) -> Configuration:
    """Read a configuration from a file in YuniKorn's ``queues.yaml`` form.

    Args:
        path: The file.
        partition: The partition to run; None for ``default``, or else the only one.

    Raises:
        OSError: If the file cannot be read.
        ConfigError: If the configuration is refused; it lists everything that is wrong.
    """
    with Path(path).open("rb") as stream:
        content = read_content(stream)
    return parse_configuration(content, file=str(path), partition=partition)


# CONFIG-82
def read_content(stream: BinaryIO) -> bytes:
    """Read a file that has a configuration; of one that is too large no more than shows it.

    Raises:
        OSError: If it cannot be read.
    """
    return stream.read(MAX_FILE_BYTES + 1)


def parse_configuration(
    text: str | bytes, *, file: str | None = None, partition: str | None = None
) -> Configuration:
    """Read a configuration from the content of a file.

    Args:
        text: The content; bytes are UTF-8, unless a byte order mark says otherwise.
        file: The name of the file, for error messages.
        partition: The partition to run; None for ``default``, or else the only one.

    Raises:
        ConfigError: If the configuration is refused; it lists everything that is wrong.
    """
    document = parse_document(text, file=file)
    configuration = load_configuration(document, file=file, partition=partition)
    return with_idle_warnings(configuration, document, file=file)


# CONFIG-6, CONFIG-35
def parse_document(text: str | bytes, *, file: str | None = None) -> object:
    """Read the one configuration of a file; an empty file is an empty text.

    Args:
        text: The content of the file.
        file: The name of the file, for error messages.

    Raises:
        ConfigError: If the text is not YAML, has no configuration or several, or uses YAML that
            a configuration must not use; with the line.
    """
    return _opened(find_configuration(parse_documents(text, file=file), file), file)


def parse_documents(text: str | bytes, *, file: str | None = None) -> list[Tree]:
    """Read all documents of a file, whatever they are, without empty ones.

    Args:
        text: The content of the file.
        file: The name of the file, for error messages.

    Raises:
        ConfigError: If the text is not YAML, or uses YAML that a configuration must not use; with
            the line.
    """
    # CONFIG-82
    if len(text) > MAX_FILE_BYTES:
        message = f"a configuration has at most {MAX_FILE_BYTES} bytes, and this is larger"
        raise ConfigError([Problem(message, file=file)])
    return _parsed(_decode(text, file) if isinstance(text, bytes) else text, file)


# CONFIG-80
def unwrap(document: object) -> object:
    """Return the configuration in a document that may be a ConfigMap or a List of objects.

    Raises:
        ConfigError: If it is an object without a configuration, or has several.
    """
    return _opened(find_configuration([document], None), None)


# CONFIG-81
def _opened(found: object, file: str | None) -> object:
    """Return a configuration; if it is a text in a ConfigMap, read it."""
    if not isinstance(found, Embedded):
        return found
    documents = _parsed(found.text, file, found)
    if len(documents) > 1:
        message = f"a second document starts here: {QUEUES} is one"
        raise ConfigError([Problem(message, file=file, line=line_of(documents[1]))])
    if documents:
        return documents[0]
    nothing = Plain("")
    nothing.line = found.line
    return nothing


def _parsed(text: str, file: str | None, inside: Embedded | None = None) -> list[Tree]:
    """Read all documents of a text, without empty ones.

    Args:
        text: The text.
        file: The name of the file.
        inside: The place of the text in the file, if it is not all of it.

    Raises:
        ConfigError: If the text is not YAML, or uses YAML that a configuration must not use.
    """
    is_elsewhere = inside is not None and not inside.is_literal
    above = 0 if inside is None or is_elsewhere else inside.line or 0
    try:
        documents = _documents(text, above)
    except YamlError as error:
        message, line = str(error), error.line
        if is_elsewhere and line is not None:
            message, line = f"{message} (line {line} of the text that begins here)", None
        if line is None and inside is not None:
            line = inside.line
        raise ConfigError([Problem(message, file=file, line=line)]) from None
    if inside is not None and is_elsewhere:
        for document in documents:
            _put_on_line(document, inside.line)
    return documents


def _documents(text: str, above: int) -> list[Tree]:
    check_characters(text, above + 1)
    tokens = read_tokens(text, above)
    builder = TreeBuilder(tokens, _RULES)
    documents: list[Tree] = []
    for token in tokens:
        if token.sign is Sign.DOCUMENT:
            builder.forget_anchors()
            continue
        document, _ = builder.build(token)
        if not is_null(document):
            documents.append(document)
    return documents


def _put_on_line(document: Tree, line: int | None) -> None:
    """Set the line of all values of a document."""
    waiting: list[object] = [document]
    while waiting:
        part = waiting.pop()
        if isinstance(part, LocatedText | LocatedMap | LocatedList):
            part.line = line
        waiting.extend(items_of(part) or ())
        for entry in entries_of(part) or ():
            waiting.extend(entry)


def _decode(data: bytes, file: str | None) -> str:
    """Decode the bytes of a file.

    Raises:
        ConfigError: If the bytes are invalid in the encoding that their mark names.
    """
    encoding = next(
        (name for mark, name in _BYTE_ORDER_MARKS if data.startswith(mark)), "utf-8-sig"
    )
    try:
        return data.decode(encoding)
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        byte = data[error.start]
        message = f"byte 0x{byte:02x} is not {encoding.removesuffix('-sig')}: {error.reason}"
        raise ConfigError([Problem(message, file=file, line=line)]) from None


# ACCESS-42, POD-27
def replaced_once(file: str) -> str:
    """Return in words when what ``--config`` names replaces what was applied since."""
    if file.startswith("configmap:"):
        return "changes, or the service starts again"
    return "changes and is read again"
