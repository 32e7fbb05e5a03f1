"""The log of the service on standard error, as text or JSON.

A thread writes it, so that no request waits for its reader.
"""

from __future__ import annotations

import json
import logging
import sys
import threading
import time
from collections import deque
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, Self, TextIO, final

from typing_extensions import override

if TYPE_CHECKING:
    from muster.service.options import LogForm


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
        message = _request(fields) if "method" in fields else record.getMessage()
        line = f"{_instant(record)} {record.levelname.lower()} {escaped(message)}"
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


_MOST: Final = 10_000
"""How many lines may wait for their writer; further ones are lost, and counted."""

_GATHER_S: Final = 0.01
"""How long the writer waits for further lines, so that not each of many wakes a thread."""

_END_S: Final = 1.0
"""How long the end waits for lines that are not written, in seconds."""

_OURS: Final = "muster"


@final
class LogWriter(logging.Handler):
    """Writes records to standard error, as a context manager for the time of the service.

    Args:
        form: The form of the lines.
        stream: Where to write; default: standard error.
    """

    def __init__(self, form: LogForm, stream: TextIO | None = None) -> None:
        super().__init__()
        self.setFormatter(JsonLines() if form == "json" else TextLines())
        self._stream = sys.stderr if stream is None else stream
        self._waiting: deque[logging.LogRecord] = deque()
        self._changed = threading.Condition()
        self._lost = 0
        self._is_ending = False
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._write_all, name="muster-log", daemon=True)

    def __enter__(self) -> Self:
        root, ours = logging.getLogger(), logging.getLogger(_OURS)
        root.addHandler(self)
        ours.setLevel(logging.INFO)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        logging.getLogger().removeHandler(self)
        with self._changed:
            self._is_ending = True
            self._end.set()
            self._changed.notify()
        self._thread.join(_END_S)

    @override
    def emit(self, record: logging.LogRecord) -> None:
        with self._changed:
            if len(self._waiting) >= _MOST:
                self._lost += 1
                return
            self._waiting.append(record)
            if len(self._waiting) == 1:
                self._changed.notify()

    def _write_all(self) -> None:
        while True:
            with self._changed:
                while not self._waiting and not self._is_ending:
                    self._changed.wait()
            self._end.wait(_GATHER_S)
            with self._changed:
                some, lost = [*self._waiting], self._lost
                self._waiting.clear()
                self._lost = 0
                is_ending = self._is_ending
            if lost:
                some.append(_lost_lines_record(lost))
            try:
                self._stream.write("".join(f"{self.format(one)}\n" for one in some))
                self._stream.flush()
            except (OSError, ValueError):
                return  # The log has no reader any more; the service goes on.
            if is_ending and not self._waiting:
                return


def _lost_lines_record(lost: int) -> logging.LogRecord:
    message = "%d lines of the log are lost, as nobody took them"
    return logging.LogRecord(_OURS, logging.WARNING, "", 0, message, (lost,), None)
