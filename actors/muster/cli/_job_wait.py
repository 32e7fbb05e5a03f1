"""The wait for the end of a job: why it is pending, what it writes, how it ends (CLIENT-13).

This module is imported when a server is asked: it needs httpx.
"""

from __future__ import annotations

import json
import re
import signal
import sys
import time
from collections import deque
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from http import HTTPStatus
from types import FrameType
from typing import Any, Final, final

import attrs

from muster.cli._options import INTERRUPTED, complain, printable
from muster.cli._server import WAIT_RETRIES, RetryPolicy
from muster.cli._streams import LogOutput, stored_decisions
from muster.client import Server, ServerError, at  # this module is imported when a server is asked
from muster_core.decisions import Kind, Reason
from muster_core.snapshots import AskPlace

# CLIENT-14
LOST: Final = 123
"""The exit status when it is unknown how the command ended."""

TIME_IS_UP: Final = 124
"""The exit status when the command was ended after ``run_for``, or at its run limit."""

NOT_LET_IN: Final = 125
"""The exit status when the command was refused, or the server cannot be used."""

NOT_STARTED: Final = 126
"""The exit status when the command could not be started, or was not in time."""

_BY_SIGNAL: Final = 128
"""The exit status when signal 0 ended the command; the number of the signal is added."""

_CANCELLED: Final = _BY_SIGNAL + signal.SIGTERM

_FAILED: Final = re.compile("exit status ([0-9]{1,3})|killed by signal ([A-Z0-9]+)")
"""The messages of failed commands in the decision log (LOCAL-3)."""

_PLACES: Final = frozenset(place.value for place in AskPlace)
_BOUND: Final = AskPlace.BOUND.value

_SHORTEST_S: Final = 0.02
_LONGEST_S: Final = 1.0
"""The period for polling an ask, in seconds."""

_READ_S: Final = 30.0
"""How often decisions are read while the command runs, in seconds: not all are kept for ever."""

_SAID_S: Final = 10.0
"""The least time between two texts of the same reason, in seconds."""

_CANCELLING: Final = RetryPolicy(limit_s=5.0, silent_s=1.0)


@final
@attrs.frozen
class SubmittedJob:
    """A job that was let in.

    Attributes:
        app: The name of its application.
        asks: The names of its asks.
        since: The number of the last decision before it.
        run_for_us: After how many microseconds a command is ended, or None.
    """

    app: str
    asks: Sequence[str]
    since: int
    run_for_us: int | None


@final
@attrs.define
class _AskHistory:
    """The decisions about an ask so far.

    Attributes:
        bound_at: When it got its node last, in seconds; None if it never did.
        released: The last two decisions with which it lost its node, or was removed.
    """

    bound_at: float | None = None
    released: deque[Mapping[str, Any]] = attrs.field(factory=lambda: deque(maxlen=2))

    # CLIENT-14
    def end(self, run_for_us: int | None) -> tuple[int, str | None]:
        """Return the exit status, and a message about the end or None."""
        if not self.released:
            return LOST, "the server does not know any more how it ended"
        last = self.released[-1]
        reason, message = last["reason"], last.get("message")
        match reason:
            case Reason.COMPLETED if message is not None:
                return _CANCELLED, f"ended from outside: {message}"
            case Reason.COMPLETED:
                ran_us = round((last["at"] - (self.bound_at or 0.0)) * 1_000_000)
                if run_for_us is not None and ran_us >= run_for_us:
                    return TIME_IS_UP, "ended, since its time is up"
                return 0, None
            case Reason.RUN_LIMIT:
                return TIME_IS_UP, "ended, since it has run for as long as it may"
            case Reason.EXPIRED:
                return NOT_STARTED, "not started: its time to start is over"
            case Reason.FAILED:
                return _status_of(message or ""), message or "failed"
            case Reason.REMOVED if self.released[0]["reason"] == Reason.BIND_FAILED:
                return NOT_STARTED, f"could not be started: {self.released[0].get('message')}"
            case _:
                return _CANCELLED, "cancelled" if reason == Reason.REMOVED else str(reason)


def _status_of(message: str) -> int:
    """Return the exit status of a command that has failed."""
    found = _FAILED.fullmatch(message)
    if found is None:
        return 1
    status, name = found.groups()
    if status is not None:
        return int(status)
    with suppress(KeyError):
        return _BY_SIGNAL + signal.Signals[name]
    return _BY_SIGNAL + int(name) if name.isdecimal() else 1


class _SignalledError(BaseException):
    """A signal asks this process to end."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


@final
class JobWait:
    """Waits until all commands of a job have ended.

    Args:
        server: The server.
        job: The job.
        follows: Whether the output of its commands is shown.
    """

    def __init__(self, server: Server, job: SubmittedJob, *, follows: bool) -> None:
        self._server = server
        self._job = job
        self._follows = follows
        #: The asks that are not over, each with its output; it is shown for one after the other.
        self._left = deque(
            (name, LogOutput(server, at(job.app, name), follows=True, stays=False))
            for name in job.asks
        )
        self._histories = {name: _AskHistory() for name in job.asks}
        self._since = job.since
        self._read_at = time.monotonic()
        self._reasons = _ReasonNotices()

    # CLIENT-15
    def run(self) -> int:
        """Return the exit status of the job; Ctrl-C and signals cancel it.

        Raises:
            ServerError: If the server was away too long.
        """
        with _raising():
            try:
                return self._wait_unless_repeated()
            except KeyboardInterrupt:
                self._cancel()
                return INTERRUPTED
            except _SignalledError as error:
                self._cancel()
                return _BY_SIGNAL + error.number
            except BrokenPipeError:
                self._cancel()
                raise

    def _wait_unless_repeated(self) -> int:
        """Return the exit status; at a terminal, the first Ctrl-C only announces what a second does."""
        try:
            return self._wait()
        except KeyboardInterrupt:
            # Without a terminal there is no second Ctrl-C.
            if not sys.stdin.isatty():
                raise
            complain(f"\n{printable(self._job.app)} goes on. Ctrl-C again cancels it.")
        return self._wait()

    def _wait(self) -> int:
        while self._left:
            self._wait_for(*self._left[0])
            self._left.popleft()
        self._read()
        return max(self._end(name) for name in self._job.asks)

    def _wait_for(self, name: str, output: LogOutput) -> None:
        """Wait until an ask is over."""
        wait_s, shows = _SHORTEST_S, self._follows
        while (answer := self._get_ask(name)) is not None:
            if answer["item"]["place"] != _BOUND:
                self._reasons.report(self._full_name(name), answer)
            elif shows:
                try:
                    output.copy(sys.stdout.buffer)
                    wait_s = _SHORTEST_S
                except ServerError as error:
                    shows = self._may_come(error)
            if time.monotonic() - self._read_at > _READ_S:
                self._read()
            time.sleep(wait_s)
            wait_s = min(1.5 * wait_s, _LONGEST_S)
        if shows:
            try:
                output.copy(sys.stdout.buffer)
            except ServerError as error:
                if error.status != HTTPStatus.NOT_FOUND:
                    raise

    def _full_name(self, name: str) -> str:
        return printable(f"{self._job.app}/{name}")

    def _get_ask(self, name: str) -> dict[str, Any] | None:
        """Return an ask as the server gives it; None if it is over."""
        path = f"asks/{at(self._job.app, name)}/why"
        try:
            answer = WAIT_RETRIES.ask(self._server, lambda: self._server.get(path))
        except ServerError as error:
            if error.status == HTTPStatus.NOT_FOUND:
                return None
            raise
        return answer if answer["item"]["place"] in _PLACES else None

    def _may_come(self, error: ServerError) -> bool:
        """Return whether missing output may still come; if not, print where it is.

        Raises:
            ServerError: If it is another error.
        """
        if error.status != HTTPStatus.NOT_FOUND:
            raise error
        if not error.problem.get("may_start"):
            complain(str(error))
            return False
        return True

    def _read(self) -> None:
        """Read the decisions that were made since the last time."""
        self._read_at = time.monotonic()
        filters = {"app": self._job.app, "kinds": f"{Kind.BOUND},{Kind.RELEASED}"}
        for last, decision in WAIT_RETRIES.ask(
            self._server, lambda: [*stored_decisions(self._server, self._since, filters)]
        ):
            self._since = last
            story = None if decision is None else self._histories.get(decision["ask"])
            if decision is None or story is None:
                continue
            if decision["kind"] == Kind.BOUND:
                story.bound_at = decision["at"]
            else:
                story.released.append(decision)

    def _end(self, name: str) -> int:
        """Return the exit status of an ask, and print how it ended if it failed."""
        status, message = self._histories[name].end(self._job.run_for_us)
        if message is not None:
            complain(f"{self._full_name(name)}: {printable(message)}")
        return status

    def _cancel(self) -> None:
        """Cancel the job, within a few seconds."""
        app = printable(self._job.app)
        event = json.dumps([{"op": "remove_app", "app": self._job.app}]).encode()
        try:
            _CANCELLING.ask(self._server, lambda: self._server.submit(event))
        except ServerError as error:
            complain(f"{error}\n{app} goes on. To cancel it: muster cancel {app}")
        else:
            complain(f"{app}: cancelled")


# CLIENT-13
@final
class _ReasonNotices:
    """Prints why asks wait: once, and again when the reason changes."""

    def __init__(self) -> None:
        self._code: tuple[str, str] | None = None
        self._text = ""
        self._said_at = 0.0

    def report(self, name: str, answer: Mapping[str, Any]) -> None:
        """Print why an ask waits, unless that was printed already; its numbers may change often."""
        # Most commands need not wait, and do without these modules.
        from muster.cli._resources import dates_of, reason_text  # noqa: PLC0415 - see above

        reasons: Sequence[dict[str, Any]] = answer["item"]["reasons"]
        if not reasons:
            return
        code, now = (name, str(reasons[0]["code"])), time.monotonic()
        text = f"{name} waits: {reason_text(reasons[0], dates_of(answer))}"
        if text == self._text or (code == self._code and now - self._said_at < _SAID_S):
            return
        self._code, self._text, self._said_at = code, text, now
        complain(text)


@contextmanager
def _raising() -> Generator[None]:
    """Raise :class:`_SignalledError` at a signal that ends a program; a second one ends it."""

    def end(number: int, _frame: FrameType | None) -> None:
        for one in changed:
            signal.signal(one, signal.SIG_DFL)
        raise _SignalledError(number)

    changed = [
        number
        for number in (signal.SIGTERM, signal.SIGHUP)
        if signal.getsignal(number) is signal.SIG_DFL
    ]
    try:
        for number in changed:
            signal.signal(number, end)
        yield
    finally:
        for number in changed:
            signal.signal(number, signal.SIG_DFL)
