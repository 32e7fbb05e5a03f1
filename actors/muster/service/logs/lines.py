"""The lines of the log."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Mapping
from typing import Any, Final, final

from typing_extensions import override

_REQUEST: Final = ("method", "path", "status")

FIELDS: Final = "fields"
"""The attribute of a record that has what a line of JSON says besides the message."""


def _fields(record: logging.LogRecord) -> Mapping[str, Any]:
    return getattr(record, FIELDS, {})


def _instant(record: logging.LogRecord) -> str:
    seconds = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
    return f"{seconds}.{int(record.msecs):03d}Z"


def _request(fields: Mapping[str, Any]) -> str:
    status = "-" if fields["status"] is None else fields["status"]
    cut = " cut off" if fields.get("cut") else ""
    return (
        f"{fields['method']} {fields['path']} {status} {fields['ms']}ms {fields['bytes']}B "
        f"{fields['who']} {fields['address']}{cut}"
    )


def escaped(text: str) -> str:
    """Return a text without characters that could make a terminal or a reader of lines err."""
    if text.isprintable():
        return text
    return "".join(
        one if one.isprintable() else one.encode("unicode_escape", "surrogatepass").decode()
        for one in text
    )


# ACCESS-20
@final
class TextLines(logging.Formatter):
    """Lines for people: the instant, the level, and what happened."""

    @override
    def format(self, record: logging.LogRecord) -> str:
        fields = _fields(record)
        said = _request(fields) if "method" in fields else record.getMessage()
        line = f"{_instant(record)} {record.levelname.lower()} {escaped(said)}"
        if record.exc_info:
            trace = self.formatException(record.exc_info).split("\n")
            line += "".join(f"\n    {escaped(one)}" for one in trace)
        return line


@final
class JsonLines(logging.Formatter):
    """Lines for programs: one JSON object each."""

    @override
    def format(self, record: logging.LogRecord) -> str:
        fields = _fields(record)
        value: dict[str, Any] = {
            "at": _instant(record),
            "level": record.levelname.lower(),
            "what": "message",
        }
        if "method" not in fields:
            value["message"] = record.getMessage()
        value |= fields
        if record.exc_info:
            value["trace"] = self.formatException(record.exc_info)
        return json.dumps(value, default=str)
