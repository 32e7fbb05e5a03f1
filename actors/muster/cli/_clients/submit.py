"""``muster submit``: the events of a feed, sent to a server."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, final
from uuid import uuid4

import attrs
import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from muster.cli._clients.options import Address, ending, server_options
from muster.cli._options import (
    DIFFERENT,
    FILE,
    UNUSABLE,
    Format,
    complain,
    example,
    format_option,
    name_of,
    print_json,
)
from muster.feeds import Expect, FeedError, FeedItem, Refused, Settle, read_feed, write_event
from muster.figures.text import counted

if TYPE_CHECKING:
    from muster.client import Server

_BYTES: Final = 8 * 1024 * 1024
"""The most bytes of one request; a server takes twice as many."""

_TRIES: Final = 6
_FIRST_WAIT_S: Final = 0.5


@final
@attrs.frozen
class Line:
    """An event to send.

    Attributes:
        place: Where it stands, for messages: its line, or its index in the feed.
        position: How many events of the feed come before it.
        text: The event as JSON; None if it is refused before it is sent.
        refusal: Why it is refused, or None.
    """

    place: str
    position: int
    text: bytes | None
    refusal: str | None = None


@final
@attrs.define
class Tally:
    """What was done so far.

    Attributes:
        position: How many events of the feed are done.
        sent: How many events the server let in.
        refused: How many it refused.
        skipped: How many events have no meaning for a server: ``settle`` and ``expect``.
    """

    position: int = 0
    sent: int = 0
    refused: int = 0
    skipped: int = 0


# CLIENT-4
@click.command("submit", epilog=example("muster submit jobs.yaml --keep-going"))
@click.argument("feed", type=FILE)
@click.option(
    "--keep-going",
    is_flag=True,
    help="Go on after a refusal. Otherwise the request with the first one is the last.",
)
@click.option(
    "--batch",
    type=click.IntRange(1, 10_000),
    default=100,
    show_default=True,
    help="How many events one request has; they are let in together.",
)
@click.option(
    "--skip",
    type=click.IntRange(0),
    default=0,
    help="Begin after so many events of the feed, to go on where an earlier run has ended.",
)
@click.option(
    "--run",
    "run",
    metavar="WORD",
    help="The word of an earlier run, as it said: what it had sent is not let in again.",
)
@format_option
@server_options
@click.pass_context
def command(
    context: click.Context,
    address: Address,
    /,
    feed: str,
    *,
    keep_going: bool,
    batch: int,
    skip: int,
    run: str | None,
    output: Format,
) -> None:
    """Send the events of FEED to a server, in order. `-` is standard input.

    The server lets each in when it comes: instants in the feed, `settle` and `expect` mean nothing
    to it. A request that broke off is sent again, and changes nothing if it had arrived.

    Exit status: 0, 1 if an event was refused, 2 if the feed or the server cannot be used.
    """
    tally = Tally(position=skip)
    word = run or uuid4().hex[:12]
    try:
        with ending(), address.open() as server:
            sending = Sending(server, word, tally, feed, keep_going=keep_going, output=output)
            with sending.shown(feed):
                sending.run(_lines(feed, skip, tally), batch)
    except FeedError as error:
        complain(str(error))
        context.exit(UNUSABLE)
    except (click.exceptions.Exit, KeyboardInterrupt):
        _say_how_to_resume(feed, tally, word)
        raise
    _tell(feed, tally, output)
    if tally.refused:
        if sending.has_more:
            _say_how_to_resume(feed, tally, word)
        context.exit(DIFFERENT)


def _lines(feed: str, skip: int, tally: Tally) -> Iterator[Line]:
    """Yield the events of a feed as they are sent.

    Raises:
        FeedError: If the feed cannot be read.
    """
    for item in islice(read_feed(feed, only_feeds=True), skip, None):
        if isinstance(item.content, (Settle, Expect)):
            tally.skipped += 1
        else:
            yield _line(item)


def _line(item: FeedItem) -> Line:
    place = f"event {item.index}" if item.line is None else str(item.line)
    content = item.content
    if isinstance(content, Refused):
        return Line(place, item.index, None, content.message)
    assert not isinstance(content, (Settle, Expect)), "not for a server"
    try:
        text = json.dumps(write_event(content), ensure_ascii=False, separators=(",", ":"))
        return Line(place, item.index, text.encode())
    except ValueError as error:
        return Line(place, item.index, None, str(error))


@final
class Sending:
    """Sends the events of a feed.

    Args:
        server: The server.
        run: The word of this run, which marks its requests.
        tally: What was done so far.
        feed: The name of the feed, for messages.
        keep_going: Whether to go on after a refusal.
        output: The form of what is printed.

    Attributes:
        has_stopped: Whether it ended at a refusal.
        has_more: Whether events of the feed were not sent then.
    """

    def __init__(
        self,
        server: Server,
        run: str,
        tally: Tally,
        feed: str,
        *,
        keep_going: bool,
        output: Format,
    ) -> None:
        self._server = server
        self._run = run
        self._tally = tally
        self._feed = name_of(feed)
        self._keep_going = keep_going
        self._output = output
        self._bar: Progress | None = None
        self.has_stopped = False
        self.has_more = False

    def shown(self, feed: str) -> AbstractContextManager[object]:
        """Return a context in which a bar shows how far it is, if standard error is a terminal."""
        console = Console(stderr=True)
        if not console.is_terminal or feed == "-":
            return nullcontext()
        total = sum(1 for _ in read_feed(feed, only_feeds=True))
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
            console=console,
            transient=True,
        )
        self._bar.add_task("sent", total=total)
        return self._bar

    def run(self, lines: Iterator[Line], batch: int) -> None:
        """Send events, so many in one request.

        Raises:
            ServerError: If the server cannot be asked.
        """
        waiting: list[Line] = []
        size = 0
        for line in lines:
            waiting.append(line)
            size += len(line.text or b"")
            if len(waiting) == batch or size > _BYTES:
                self._send(waiting)
                waiting, size = [], 0
                if self.has_stopped:
                    self.has_more = next(lines, None) is not None
                    return
        if waiting:
            self._send(waiting)

    def _send(self, lines: list[Line]) -> None:
        whole = [line for line in lines if line.text is not None]
        answers = iter(self._answers(whole) if whole else [])
        for line in lines:
            if line.text is None:
                self._refuse(line, line.refusal or "")
                continue
            answer = next(answers)
            if answer["ok"]:
                self._tally.sent += 1
            else:
                self._refuse(line, str(answer["error"]))
        self._tally.position = lines[-1].position + 1
        if self._bar is not None:
            self._bar.update(self._bar.task_ids[0], completed=self._tally.position)

    def _refuse(self, line: Line, message: str) -> None:
        self._tally.refused += 1
        self.has_stopped = not self._keep_going
        complain(f"{self._feed}:{line.place}: refused: {message}")

    def _answers(self, lines: list[Line]) -> list[dict[str, Any]]:
        from muster.client import ServerError  # noqa: PLC0415 - needs httpx

        content = b"[" + b",".join(line.text or b"" for line in lines) + b"]"
        digest = hashlib.sha256(content).hexdigest()[:16]
        # The same request has the same key, so it may be sent again.
        key = f"{self._run}-{lines[0].position}-{digest}"
        wait_s = _FIRST_WAIT_S
        for left in reversed(range(_TRIES)):
            try:
                return self._server.submit(content, key=key)
            except ServerError as error:
                again = error.status in {None, 409, 429, 502, 503, 504}
                if not left or not again:
                    raise
                time.sleep(wait_s)
                wait_s *= 2
        raise AssertionError("the last try returns or raises")


def _say_how_to_resume(feed: str, tally: Tally, run: str) -> None:
    complain(
        f"{counted(tally.position, 'event')} of {name_of(feed)} {'is' if tally.position == 1 else 'are'} done. To go on after them: "
        f"muster submit {feed} --skip {tally.position} --run {run}"
    )


def _tell(feed: str, tally: Tally, output: Format) -> None:
    if output is Format.JSON:
        print_json({"feed": name_of(feed), **attrs.asdict(tally)})
        return
    told = counted(tally.sent, "event")
    refused = f", {tally.refused:,} refused" if tally.refused else ""
    click.echo(f"{name_of(feed)}: {told} let in{refused}")
