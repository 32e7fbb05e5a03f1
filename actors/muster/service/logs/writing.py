"""Writing the log from a thread, so that no request waits for whoever reads it."""

from __future__ import annotations

import logging
import sys
import threading
from collections import deque
from typing import TYPE_CHECKING, Final, TextIO, final

from typing_extensions import override

from muster.service.logs.lines import JsonLines, TextLines

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self

    from muster.service.options import LogForm

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

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
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
                some.append(_told(lost))
            try:
                self._stream.write("".join(f"{self.format(one)}\n" for one in some))
                self._stream.flush()
            except (OSError, ValueError):
                return  # Nobody reads the log any more; the service goes on.
            if is_ending and not self._waiting:
                return


def _told(lost: int) -> logging.LogRecord:
    told = "%d lines of the log are lost, as nobody took them"
    return logging.LogRecord(_OURS, logging.WARNING, "", 0, told, (lost,), None)
