"""The live view of a replay: the current queue tree and the latest decisions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from rich.console import Console, Group, RenderableType
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from muster.cli._progress import instant
from muster.feeds import FeedOrigin
from muster.report import Board, QueueNow, as_words

WIDE: Final = 88
"""The width in columns from which there is room for bars."""

NARROW: Final = 56
"""The width in columns below which there is room only for running and pending asks."""


def moment(board: Board, origin: FeedOrigin, console: Console) -> tuple[int, RenderableType]:
    """Draw the view of one moment; also return its instant, in microseconds.

    Args:
        board: The board to show; it does not change meanwhile.
        origin: The origin of time, as far as it is known.
        console: The terminal, as for :func:`drawn`.
    """
    with board.at_rest():
        return board.at_us, drawn(board, console, origin.us)


def drawn(board: Board, console: Console, origin_us: int | None = None) -> RenderableType:
    """Draw the view, as large as the terminal allows.

    Args:
        board: The board to show.
        console: The terminal; one line below the view and two lines above it stay free.
        origin_us: The origin of time, in microseconds since 1970 in UTC, or None.
    """
    rows = max(console.height - 3, 3)
    recent = list(board.recent)[-max(min(rows // 4, 6), 1) :] if rows > 6 else []
    room = rows - 2 - (len(recent) + 1 if recent else 0)
    parts: list[RenderableType] = [_tree(board, max(room, 1), console.width)]
    if recent:
        parts.append(Text(""))
        for announced in recent:
            when = instant(announced.at_us, origin_us)
            line = Text(f"{when}  ", style="dim", no_wrap=True, overflow="ellipsis")
            line.append(plain(as_words(announced.as_map())), style="default not dim")
            parts.append(line)
    return Group(*parts)


def _tree(board: Board, room: int, width: int) -> Table:
    queues = board.queues()
    shown = _chosen(queues, room)
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), expand=width < WIDE)
    table.add_column("queue", no_wrap=True, overflow="ellipsis", ratio=1 if width < WIDE else None)
    table.add_column("running", justify="right", no_wrap=True)
    table.add_column("pending", justify="right", no_wrap=True)
    if width >= NARROW:
        table.add_column("waiting", justify="right", no_wrap=True)
        table.add_column("priority", justify="right", no_wrap=True)
        table.add_column("used", justify="right", no_wrap=True)
    if width >= WIDE:
        table.add_column("", no_wrap=True)
    for path, queue in shown:
        table.add_row(*_cells(board, path, queue, width))
    if len(shown) < len(queues):
        table.add_row(Text(f"… {len(queues) - len(shown):,} more", style="dim"))
    return table


def _chosen(queues: Sequence[tuple[str, QueueNow]], room: int) -> list[tuple[str, QueueNow]]:
    """Choose the busiest queues, in tree order; if some are left out, keep one line free."""
    if len(queues) <= room:
        return list(queues)
    busiest = sorted(queues, key=lambda found: -(found[1].running + found[1].pending))
    chosen = {path for path, _ in busiest[: max(room - 1, 1)]}
    return [found for found in queues if found[0] in chosen]


def _cells(board: Board, path: str, queue: QueueNow, width: int) -> list[RenderableType]:
    depth = path.count(".")
    name = Text("  " * min(depth, 6) + plain(path.rpartition(".")[2]))
    pending = Text(f"{queue.pending:,}", style="yellow" if queue.pending else "dim")
    cells: list[RenderableType] = [name, Text(f"{queue.running:,}"), pending]
    if width >= NARROW:
        priority = "-" if queue.priority is None else f"{queue.priority:,}"
        share = board.share(queue)
        cells += [Text(f"{queue.waiting:,}"), Text(priority), Text(f"{share:.0%}")]
        if width >= WIDE:
            cells.append(ProgressBar(total=1.0, completed=share, width=24))
    return cells


def plain(text: str) -> str:
    """Replace the characters of a text that could control a terminal."""
    return "".join(char if char.isprintable() else "\ufffd" for char in text)
