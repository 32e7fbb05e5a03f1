"""The progress line of an import: how much of the dumps is read, and how many jobs that made."""

from __future__ import annotations

import os
from contextlib import AbstractContextManager, ExitStack, nullcontext
from pathlib import Path
from types import TracebackType
from typing import Self, final

from rich.console import Console, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table

from muster.cli._progress import NARROW, Measured
from muster.feeds._encodings.source import Source
from muster.importing import Account


@final
class Reading:
    """Shows on standard error how much is read, if that is a terminal.

    Args:
        account: Counts what is read.
        files: The names of all files.
        shown: False for no line, even on a terminal.
    """

    def __init__(self, account: Account, files: tuple[str, ...], *, shown: bool) -> None:
        self._account = account
        self._console = Console(stderr=True)
        self._shown = shown and self._console.is_terminal
        self._streams = ExitStack()
        self._measured: list[Measured] = []
        self._bytes = sum(Path(file).stat().st_size for file in files if _is_measured(file))

    def __enter__(self) -> Self:
        self._streams.enter_context(self._line())
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._streams.close()

    def open(self, file: str) -> Source:
        """Return what is to be read of a file: itself, or a stream that counts its bytes."""
        if not (self._shown and _is_measured(file)):
            return file
        stream = Path(file).open("rb")  # noqa: SIM115 - closed with the others
        self._streams.callback(stream.close)
        measured = Measured(file, stream, Path(file).stat().st_size)
        self._measured.append(measured)
        return measured

    def _line(self) -> AbstractContextManager[object]:
        if not self._shown:
            return nullcontext()
        return Live(
            get_renderable=self._drawn,
            console=self._console,
            refresh_per_second=8,
            transient=True,
            redirect_stdout=False,
            redirect_stderr=False,
        )

    def _drawn(self) -> RenderableType:
        line = Table.grid(padding=(0, 2))
        read = sum(list(self._account.read.values()))
        cells = [f"{read:,} records"]
        if self._bytes and self._console.width >= NARROW:
            done = sum(measured.done for measured in list(self._measured))
            line.add_row(ProgressBar(total=self._bytes, completed=done, width=24), *cells)
        else:
            line.add_row(*cells)
        return line


def _is_measured(file: str) -> bool:
    return Path(file).is_file() and os.access(file, os.R_OK)
