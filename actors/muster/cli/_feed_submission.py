"""The submission of a feed to a server: in several requests, or all events in one (CLIENT-4)."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from http import HTTPStatus
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, final

import attrs
import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from muster.cli._options import DIFFERENT, STDIN, UNUSABLE, Format, complain, name_of, print_json
from muster.cli._server import SUBMIT_RETRIES, CommandError, ServerAddress, exit_on_server_error
from muster.feeds import Expect, FeedError, FeedItem, Refused, Settle, read_feed, write_event
from muster.figures.text import counted

if TYPE_CHECKING:
    from muster.client import Server


_BYTES: Final = 8 * 1024 * 1024
"""The most bytes of one request; a server takes twice as many."""

_MOST: Final = 10_000
"""The most events of one request."""


@final
@attrs.frozen
class FeedLine:
    """An event to send.

    Attributes:
        place: Its place for messages: its line, or its index in the feed.
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
class SubmissionTally:
    """The progress of a submission.

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


@final
@attrs.frozen
class SubmittedFeed:
    """A feed that is to be sent.

    Attributes:
        file: Its name.
        skip: How many of its events are not sent.
        word: The word of this run, which marks its requests.
        output: The form of what is printed.
    """

    file: str
    skip: int
    word: str
    output: Format

    def send_in_parts(
        self, context: click.Context, address: ServerAddress, batch: int, *, keep_going: bool
    ) -> None:
        """Send its events, a batch in each request, and end the command.

        Args:
            context: The context of the command.
            address: Which server is asked.
            batch: How many events one request has.
            keep_going: Whether to go on after a refusal.
        """
        tally = SubmissionTally(position=self.skip)
        try:
            with exit_on_server_error(), address.open() as server:
                sending = FeedSubmission(server, self, tally, keep_going=keep_going)
                with sending.shown():
                    sending.run(_lines(self, tally), batch)
        except FeedError as error:
            complain(str(error))
            context.exit(UNUSABLE)
        except (click.exceptions.Exit, KeyboardInterrupt):
            _print_resume_command(self, tally)
            raise
        _print_tally(self, tally)
        if tally.refused:
            if tally.sent:
                _print_partial_submission(tally)
            if sending.has_more:
                _print_resume_command(self, tally)
            context.exit(DIFFERENT)

    def send_whole(
        self, context: click.Context, address: ServerAddress, *, is_tried: bool, is_atomic: bool
    ) -> None:
        """Send its events in one request, or try them, and end the command.

        Args:
            context: The context of the command.
            address: Which server is asked.
            is_tried: Whether nothing is to change.
            is_atomic: Whether none is let in if one is refused.
        """
        with exit_on_server_error(), address.open() as server:
            whole = SingleRequest(server, self, is_atomic=is_atomic)
            try:
                is_right = whole.send(is_tried=is_tried)
            except FeedError as error:
                complain(str(error))
                context.exit(UNUSABLE)
        context.exit(0 if is_right else DIFFERENT)


def _lines(feed: SubmittedFeed, tally: SubmissionTally) -> Iterator[FeedLine]:
    """Yield the events of a feed as they are sent.

    Raises:
        FeedError: If the feed cannot be read.
    """
    for item in islice(read_feed(feed.file, only_feeds=True), feed.skip, None):
        if isinstance(item.content, (Settle, Expect)):
            tally.skipped += 1
        else:
            yield _line(item)


def _line(item: FeedItem) -> FeedLine:
    place = f"event {item.index}" if item.line is None else str(item.line)
    content = item.content
    if isinstance(content, Refused):
        return FeedLine(place, item.index, None, content.message)
    assert not isinstance(content, (Settle, Expect)), "not for a server"
    try:
        text = json.dumps(write_event(content), ensure_ascii=False, separators=(",", ":"))
        return FeedLine(place, item.index, text.encode())
    except ValueError as error:
        return FeedLine(place, item.index, None, str(error))


@final
class FeedSubmission:
    """Sends the events of a feed.

    Args:
        server: The server.
        feed: The feed.
        tally: What was done so far.
        keep_going: Whether to go on after a refusal.

    Attributes:
        has_stopped: Whether it ended at a refusal.
        has_more: Whether events of the feed were not sent then.
    """

    def __init__(
        self, server: Server, feed: SubmittedFeed, tally: SubmissionTally, *, keep_going: bool
    ) -> None:
        self._server = server
        self._feed = feed
        self._tally = tally
        self._keep_going = keep_going
        self._bar: Progress | None = None
        self.has_stopped = False
        self.has_more = False

    def shown(self) -> AbstractContextManager[object]:
        """Return a context in which a bar shows how far it is, if standard error is a terminal."""
        console = Console(stderr=True)
        if not console.is_terminal or self._feed.file == STDIN:
            return nullcontext()
        total = sum(1 for _ in read_feed(self._feed.file, only_feeds=True))
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

    def run(self, lines: Iterator[FeedLine], batch: int) -> None:
        """Send events, a batch in each request.

        Raises:
            ServerError: If the server cannot be asked.
        """
        waiting: list[FeedLine] = []
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

    def _send(self, lines: list[FeedLine]) -> None:
        whole = [line for line in lines if line.text is not None]
        answers = iter(self._post_lines(whole) if whole else [])
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

    def _refuse(self, line: FeedLine, message: str) -> None:
        self._tally.refused += 1
        self.has_stopped = not self._keep_going
        complain(f"{name_of(self._feed.file)}:{line.place}: refused: {message}")

    def _post_lines(self, lines: list[FeedLine]) -> list[dict[str, Any]]:
        return _post_events(self._server, lines, self._feed.word)


def _post_events(
    server: Server, lines: Sequence[FeedLine], run: str, *, atomic: bool = False
) -> list[dict[str, Any]]:
    """Send events in one request, and return the result of each.

    Raises:
        ServerError: If the server does not take them.
    """
    content = _content(lines)
    digest = hashlib.sha256(content).hexdigest()[:16]
    # The same request has the same key, so it may be sent again.
    key = f"{run}-{lines[0].position}-{digest}"
    return SUBMIT_RETRIES.ask(
        server, lambda: server.submit(content, key=key, atomic=atomic), also={HTTPStatus.CONFLICT}
    )


def _content(lines: Sequence[FeedLine]) -> bytes:
    return b"[" + b",".join(line.text or b"" for line in lines) + b"]"


# CLIENT-18, CLIENT-19
@final
class SingleRequest:
    """Sends all events of a feed in one request, or only tries them.

    Args:
        server: The server.
        feed: The feed.
        is_atomic: Whether none is let in if one is refused.
    """

    def __init__(self, server: Server, feed: SubmittedFeed, *, is_atomic: bool) -> None:
        self._server = server
        self._feed = feed
        self._name = name_of(feed.file)
        self._is_atomic = is_atomic

    def send(self, *, is_tried: bool) -> bool:
        """Send events; say what is refused, and what follows if they are only tried.

        Args:
            is_tried: Whether nothing is to change.

        Returns:
            Whether nothing is refused.

        Raises:
            FeedError: If the feed cannot be read.
            ServerError: If the server does not take them.
            Unusable: If they are too many for one request.
        """
        found = [*islice(_lines(self._feed, SubmissionTally()), _MOST + 1)]
        if len(found) > _MOST:
            msg = (
                f"{self._name}: has more than {_MOST:,} events: with --atomic and --dry-run all go "
                f"into one request, which has {_MOST:,} at most"
            )
            raise CommandError(msg)
        sent = [line for line in found if line.text is not None]
        results: Sequence[Mapping[str, Any]] = []
        decisions: Sequence[object] = []
        if sent and not is_tried and len(sent) == len(found):
            results = _post_events(self._server, sent, self._feed.word, atomic=True)
        elif sent:
            # What is no event is refused already, so the others are only looked at.
            tried = SUBMIT_RETRIES.ask(
                self._server,
                lambda: self._server.try_events(_content(sent), atomic=self._is_atomic),
            )
            results, decisions = tried["results"], tried["decisions"]
        errors = {
            line.place: str(one["error"])
            for line, one in zip(sent, results, strict=True)
            if one["error"] is not None
        }
        errors |= {line.place: line.refusal or "" for line in found if line.text is None}
        for line in found:
            if line.place in errors:
                complain(f"{self._name}:{line.place}: refused: {errors[line.place]}")
        self._print_result(len(found), len(errors), decisions if is_tried else None)
        return not errors

    def _print_result(self, count: int, refused: int, decisions: Sequence[object] | None) -> None:
        let_in = 0 if self._is_atomic and refused else count - refused
        if self._feed.output is Format.JSON:
            summary: dict[str, object] = {"feed": self._name, "sent": let_in, "refused": refused}
            print_json(summary if decisions is None else {**summary, "decisions": decisions})
            return
        more = f", {refused:,} refused" if refused else ""
        if decisions is None:
            click.echo(f"{self._name}: {counted(let_in, 'event')} let in{more}")
            return
        for decision in decisions:
            click.echo(json.dumps(decision, ensure_ascii=False))
        complain(
            f"{self._name}: {counted(let_in, 'event')} would be let in{more}; nothing has changed"
        )


def _print_partial_submission(tally: SubmissionTally) -> None:
    refused = "the refused one" if tally.refused == 1 else "the refused ones"
    complain(
        f"{counted(tally.sent, 'event')} {_verb_for(tally.sent)} let in, and would be refused a second "
        f"time. Put {refused} right in a file of its own and submit that. With --atomic none is "
        "let in if one is refused."
    )


def _print_resume_command(feed: SubmittedFeed, tally: SubmissionTally) -> None:
    done = counted(tally.position, "event")
    complain(
        f"{done} of {name_of(feed.file)} {_verb_for(tally.position)} done. To go on after them: "
        f"muster submit {feed.file} --skip {tally.position} --run {feed.word}"
    )


def _verb_for(count: int) -> str:
    return "is" if count == 1 else "are"


def _print_tally(feed: SubmittedFeed, tally: SubmissionTally) -> None:
    if feed.output is Format.JSON:
        print_json({"feed": name_of(feed.file), **attrs.asdict(tally)})
        return
    sent = counted(tally.sent, "event")
    refused = f", {tally.refused:,} refused" if tally.refused else ""
    click.echo(f"{name_of(feed.file)}: {sent} let in{refused}")
