"""Following a leader: its store is copied, its batches are decided again, and one takes over.

What is on disk here is acknowledged. A connection that breaks goes on after the last batch.
"""

from __future__ import annotations

import logging
import random
import socket
import ssl
from collections.abc import AsyncGenerator, Generator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast, final

import attrs
import httpx
import trio
from typing_extensions import override

from muster._runtime.calls import Follow, Lead
from muster._version import __version__
from muster.service.payloads import as_json
from muster.service.replication.followers import Followers
from muster.service.replication.leadership import TERM, FollowerLag, Leadership
from muster.store import StateReader
from muster.store._copies import BatchGroup, CopyWriter, FrameReader, set_aside
from muster.store._file import NAME
from muster.store._msgpack import CodecError
from muster.store._rows import FORMAT, Anchor, KeptBatch
from muster.store._sql import RequestRow
from muster_core.errors import MusterError

if TYPE_CHECKING:
    from muster._runtime.calls import Client
    from muster.store._writer import Durability

_LOG: Final = logging.getLogger("muster.service")
_CHANGE: Final = {"fields": {"what": "change"}}

BEAT_S: Final = 1.0
"""How often a leader sends a beat, in seconds."""

_SILENCE_S: Final = 10.0
_FIRST_WAIT_S: Final = 0.1
_LONGEST_WAIT_S: Final = 5.0
_TELL_S: Final = 2.0
"""How long the request to the old leader that it is over may take, in seconds."""

_GROUPS: Final = 64
"""How many groups of batches wait at most; the leader waits with the next ones."""

_TOGETHER: Final = 512
"""How many batches are decided before they are written together, about."""

_SMALL_BYTES: Final = 16 * 1024
"""Up to how many bytes events are decoded where they are, and not in a thread."""

_LINES: Final = {"Content-Type": "application/x-ndjson"}
_LINES_S: Final = 5.0
"""How long one request acknowledges batches, in seconds."""

_PATH: Final = "/api/v1/replica"
_REFUSED: Final = frozenset({401, 403, 404})
_DIFFERS: Final = 409
_GONE: Final = 410


@final
class FollowError(MusterError):
    """The leader cannot be followed."""


@final
class _Acknowledgements:
    """The body of a request: a line as soon as more is on disk, for a short while.

    One request for each batch would take longer than all else that an answer with ``--sync`` takes.

    Args:
        name: What this server calls itself.
        followers: Knows what is on disk.
        sent: The batch that the leader knows of.

    Attributes:
        sent: The batch of the last line.
    """

    def __init__(self, name: str, followers: Followers, sent: int) -> None:
        self.sent = sent
        self._name = name
        self._followers = followers
        self._end = trio.current_time() + _LINES_S

    def __aiter__(self) -> _Acknowledgements:
        """Return this."""
        return self

    async def __anext__(self) -> bytes:
        """Wait until more is on disk, and return its line."""
        with trio.move_on_at(self._end):
            await self._followers.wait_for_batches(self.sent)
        if self._followers.last <= self.sent:
            raise StopAsyncIteration
        self.sent = self._followers.last
        return as_json({"follower": self._name, "batch": self.sent})


@final
@attrs.frozen
class LeaderAddress:
    """The address of the leader, and the token for it.

    Attributes:
        url: ``http://HOST:PORT``, ``https://HOST:PORT`` or ``unix:PATH``.
        token_file: The file with the token, or None.
    """

    url: str
    token_file: Path | None = None

    @asynccontextmanager
    async def open(self, term: int = 0) -> AsyncGenerator[httpx.AsyncClient]:
        """Open connections to it for the time of a block.

        Args:
            term: The highest term that this server knows; 0 for none.

        Raises:
            OSError: If the file of the token cannot be read.
        """
        headers = {"User-Agent": f"muster/{__version__}"}
        if self.token_file is not None:
            headers["Authorization"] = f"Bearer {self.token_file.read_text().strip()}"
        if term:
            headers[TERM] = str(term)
        if self.url.startswith("unix:"):
            base = "http://localhost"
            transport = httpx.AsyncHTTPTransport(uds=self.url.removeprefix("unix:"))
        else:
            base = self.url if "://" in self.url else f"http://{self.url}"
            # As for other programs: SSL_CERT_FILE names the certificates of a private authority.
            transport = httpx.AsyncHTTPTransport(verify=ssl.create_default_context())
        async with httpx.AsyncClient(
            base_url=base,
            headers=headers,
            transport=transport,
            timeout=httpx.Timeout(_SILENCE_S, connect=5.0),
            trust_env=False,
        ) as client:
            yield client


@final
@attrs.frozen
class Promotion:
    """The result of a promotion.

    Attributes:
        term: The term that began.
        batch: The last batch of the old leader that is here.
        leader_batch: The last batch of the old leader that this server knows.
        seconds: How long ago the last beat of the old leader was, in seconds.
    """

    term: int
    batch: int
    leader_batch: int
    seconds: float

    @override
    def __str__(self) -> str:
        """Return it in words, with what may be lost."""
        lost = self.leader_batch - self.batch
        known = (
            f"the old leader's batches {self.batch + 1} to {self.leader_batch} are not here"
            if lost > 0
            else f"the last batch of the old leader that was heard of is here ({self.batch})"
        )
        return (
            f"this server leads with term {self.term}: {known}; what the old leader did in the "
            f"last {self.seconds:.1f} s is not known"
        )


@final
class Following:
    """Follows a leader.

    Args:
        address: Where the leader is.
        state: The state directory.
        durability: Whether to wait until the disk has what is written.
        leadership: The role of this server.
    """

    def __init__(
        self, address: LeaderAddress, state: Path, durability: Durability, leadership: Leadership
    ) -> None:
        self._address = address
        self._state = state
        self._durability: Durability = durability
        self._leadership = leadership
        self.name = name_of(state)
        self._last = Anchor(0, 0, 0, b"")
        self._origin_us, self._partition = 0, ""
        self._version = ""
        self._leader_last = 0
        self._heard_at = self._level_at = trio.current_time()
        self._is_connected = False
        self._problem: str = "the leader was not asked yet"
        self._scope = trio.CancelScope()
        self._stopped = trio.Event()
        self._promoting = trio.Lock()
        #: Set when this server leads.
        self.leads = trio.Event()
        #: What the promotion was, when it is over.
        self.made: Promotion | None = None
        self._was_level = False

    # Status

    def behind(self) -> FollowerLag:
        """Return how far this server is behind."""
        batches = max(0, self._leader_last - self._last.batch)
        since = self._level_at if batches else self._heard_at
        return FollowerLag(batches, trio.current_time() - since)

    def health(self) -> Mapping[str, object]:
        """Return its part of ``/healthz``."""
        behind = self.behind()
        report: dict[str, object] = {
            "connected": self._is_connected,
            "batches_behind": behind.batches,
            "seconds_behind": round(behind.seconds, 3),
        }
        return report if self._is_connected else {**report, "detail": self._problem}

    @property
    def is_level(self) -> bool:
        """Whether it has all batches that it knows of, and has followed the leader at all."""
        return self._was_level and self._leader_last <= self._last.batch

    @property
    def problem(self) -> str:
        """Why the leader is not followed at present."""
        return self._problem

    # The beginning

    # REPLICA-2, REPLICA-11
    async def prepare(self) -> None:
        """Bring a store that goes on where the leader's does.

        A store that is there is kept if the leader knows its last batch. If the leader does not
        answer, it is kept as well: this server can be promoted. But one that is known to have other
        batches than the leader is not kept: what the leader has answered would be lost.

        Raises:
            FollowError: If the leader refuses, or is one of another history.
            StoreError: If the store cannot be read or written.
        """
        wait_s, is_other = _FIRST_WAIT_S, False
        while True:
            term = await trio.to_thread.run_sync(self._read_own)
            try:
                async with self._address.open(term) as client:
                    about = await _get_json(client, "")
                    self._check(about)
                    is_other = not self._last.digest or not await self._is_known(client)
                    if is_other:
                        await self._copy(client)
                    return
            except (httpx.HTTPError, CodecError) as error:
                if isinstance(error, httpx.HTTPStatusError) and (
                    error.response.status_code in _REFUSED
                ):
                    message = f"{self._address.url} does not let this server follow it: {error}"
                    raise FollowError(message) from error
                self._note_cut(error)
                if self._last.digest and not is_other:
                    return
                await trio.sleep(wait_s)
                wait_s = min(2 * wait_s, _LONGEST_WAIT_S)

    def _read_own(self) -> int:
        """Read where the own store ends, if there is one; return its term."""
        self._last = Anchor(0, 0, 0, b"")
        if not (self._state / NAME).exists():
            return 0
        with StateReader(self._state) as reader:
            self._last = reader.last()
            self._leadership.term = reader.meta.term
            self._origin_us, self._partition = reader.meta.origin_us, reader.meta.partition
            return reader.meta.term

    def _check(self, about: Mapping[str, Any]) -> None:
        if about.get("role") != "leader":
            raise httpx.HTTPError(f"it follows {about.get('leader')}")
        self._check_format(about)
        own = self._leadership.term
        if about["term"] < own:
            message = (
                f"{self._address.url} leads with term {about['term']}, and term {own} has begun"
            )
            raise FollowError(f"{message} here: that server is over")
        own_history = (self._origin_us, self._partition) if self._last.digest else None
        if own_history is not None and own_history != (about["origin_us"], about["partition"]):
            message = f"{self._state} has the history of another scheduler than {self._address.url}"
            raise FollowError(f"{message}: name another directory, or a new one")

    def _check_format(self, about: Mapping[str, Any]) -> None:
        if about["format"] > FORMAT:
            raise FollowError(
                f"{self._address.url} writes format {about['format']} (Muster {about['version']}); "
                f"this is Muster {__version__}, which knows formats up to {FORMAT}: use the newer "
                f"version here, too"
            )

    async def _is_known(self, client: httpx.AsyncClient) -> bool:
        place: dict[str, str | int] = {
            "batch": self._last.batch,
            "digest": self._last.digest.hex(),
        }
        found = await client.get(f"{_PATH}/place", params=place)
        if found.status_code in {_DIFFERS, _GONE}:
            _LOG.warning("%s", found.json().get("detail"), extra=_CHANGE)
            return False
        _check_status(found)
        return True

    async def _copy(self, client: httpx.AsyncClient) -> None:
        """Make the store anew, as a copy of the leader's; one that is there is set aside."""
        copy = CopyWriter(self._state, self._durability)
        frames = FrameReader()
        try:
            async with client.stream("GET", f"{_PATH}/checkpoint") as response:
                if response.is_error:
                    await response.aread()
                _check_status(response)
                async for some in response.aiter_raw():
                    for frame in frames.feed(some):
                        if frame[0] == "end":
                            backup = await trio.to_thread.run_sync(set_aside, self._state)
                            if backup is not None:
                                _LOG.warning("the store that was here is %s now", backup)
                        await trio.to_thread.run_sync(copy.take, frame)
        finally:
            with trio.CancelScope(shield=True):
                await trio.to_thread.run_sync(copy.abandon)
        if not copy.is_complete:
            msg = "the copy of the leader's store ended too early"
            raise CodecError(msg)
        await trio.to_thread.run_sync(self._read_own)
        message = "%s is a copy of the store of %s, up to batch %d"
        _LOG.info(message, self._state, self._address.url, self._last.batch, extra=_CHANGE)

    # Following

    # REPLICA-4
    async def run(self, client: Client) -> None:
        """Follow the leader until this server is promoted.

        Raises:
            FollowError: If the leader has removed what comes next, or went another way.
            DecidedOtherwiseError: If a batch is decided otherwise here.
            StoreError: If a batch cannot be written.
        """
        wait_s = _FIRST_WAIT_S
        try:
            # A connection may break while this is stopped for a promotion: with that comes
            # `Cancelled`, which only the scope takes out.
            with self._cuts_noted(), self._scope:
                while True:
                    before = self._last.batch
                    with self._cuts_noted():
                        await self._follow(client)
                    if self._last.batch > before:
                        wait_s = _FIRST_WAIT_S
                    await trio.sleep(wait_s * random.uniform(0.5, 1.0))
                    wait_s = min(2 * wait_s, _LONGEST_WAIT_S)
        finally:
            self._stopped.set()
        await self.leads.wait()

    @contextmanager
    def _cuts_noted(self) -> Generator[None]:
        """Note an error of a connection that was cut; others go on."""
        try:
            yield
        except (httpx.HTTPError, CodecError, OSError, ExceptionGroup) as error:
            self._note_cut(_cut_in(error))

    def _note_cut(self, error: Exception) -> None:
        problem = f"{self._address.url}: {_words_of(error)}"
        if self._is_connected or problem != self._problem:
            _LOG.warning("the leader is not followed: %s", problem, extra=_CHANGE)
        self._is_connected, self._problem = False, problem

    async def _follow(self, client: Client) -> None:
        """Follow the leader while the connection holds."""
        place: dict[str, str | int] = {
            "after": self._last.batch,
            "digest": self._last.digest.hex(),
            "follower": self.name,
            "url": self._leadership.url,
            "version": __version__,
        }
        async with self._address.open(self._leadership.term) as leader:
            # Another version may have been started there since it was asked last.
            about = await _get_json(leader, "")
            self._check_format(about)
            self._version = str(about["version"])
            async with leader.stream("GET", f"{_PATH}/batches", params=place) as response:
                await self._take(client, leader, response)

    async def _take(
        self, client: Client, leader: httpx.AsyncClient, response: httpx.Response
    ) -> None:
        """Take the batches of an answer as they come."""
        if response.is_error:
            await response.aread()
        if response.status_code in {_DIFFERS, _GONE}:
            raise FollowError(
                f"{response.json().get('detail')}: start this server again, and it begins "
                f"with a new copy"
            )
        _check_status(response)
        send, receive = trio.open_memory_channel[BatchGroup](_GROUPS)
        async with trio.open_nursery() as nursery:
            async with trio.open_nursery() as deciding:
                deciding.start_soon(self._decide, client, receive)
                nursery.start_soon(self._acknowledge, leader)
                async with send:
                    await self._read(client, response, send)
            nursery.cancel_scope.cancel()

    async def _read(
        self,
        client: Client,
        response: httpx.Response,
        send: trio.MemorySendChannel[BatchGroup],
    ) -> None:
        frames = FrameReader()
        async for some in response.aiter_raw():
            for frame in frames.feed(some):
                self._heard_at = trio.current_time()
                if frame[0] == "beat":
                    await self._note_beat(client, term=frame[1], last=frame[2])
                else:
                    group = BatchGroup.of(frame)
                    self._leader_last = max(self._leader_last, group.rows[-1].number)
                    await send.send(group)

    def _note_level(self, at: float) -> None:
        if self._leader_last <= self._last.batch:
            self._level_at, self._was_level = at, True

    async def _note_beat(self, client: Client, *, term: int, last: int) -> None:
        """Note a beat of the leader."""
        if term > self._leadership.term:
            await client.call(Follow((), (), term, self._version))
            self._leadership.term = term
        self._leader_last = last
        self._note_level(self._heard_at)
        if not self._is_connected:
            _LOG.info("%s is followed, at batch %d", self._address.url, last, extra=_CHANGE)
        self._is_connected = True

    async def _decide(
        self,
        client: Client,
        receive: trio.MemoryReceiveChannel[BatchGroup],
    ) -> None:
        """Decide batches again as they come."""
        async for first in receive:
            groups = [first]
            with suppress(trio.WouldBlock, trio.EndOfChannel):
                while sum(len(one.rows) for one in groups) < _TOGETHER:
                    groups.append(receive.receive_nowait())
            size = sum(len(row.events) for group in groups for row in group.rows)
            if size <= _SMALL_BYTES:  # A thread would take longer than that.
                batches, requests = self._kept_batches(groups)
            else:
                batches, requests = await trio.to_thread.run_sync(self._kept_batches, groups)
            await client.call(Follow(batches, requests, self._leadership.term, self._version))
            last = batches[-1]
            self._last = Anchor(last.number, last.at_us, last.last_seq, last.digest)
            self._note_level(trio.current_time())

    # REPLICA-10
    async def _acknowledge(self, leader: httpx.AsyncClient) -> None:
        """Acknowledge to the leader what is on disk, as soon as it is."""
        followers = self._leadership.followers
        sent = self._last.batch
        while not followers.is_over:
            await followers.wait_for_batches(sent)
            acknowledgements = _Acknowledgements(self.name, followers, sent)
            _check_status(
                await leader.post(f"{_PATH}/acknowledged", content=acknowledgements, headers=_LINES)
            )
            sent = acknowledgements.sent

    # REPLICA-6
    async def report_difference(self, difference: str) -> None:
        """Report to the leader, if it answers, that this server decides otherwise, and ends."""
        fields = {"follower": self.name, "batch": self._last.batch, "difference": difference}
        with suppress(httpx.HTTPError, OSError), trio.move_on_after(_TELL_S):
            async with self._address.open(self._leadership.term) as leader:
                await leader.post(f"{_PATH}/acknowledged", json=fields)

    def _kept_batches(
        self, groups: Sequence[BatchGroup]
    ) -> tuple[list[KeptBatch], list[RequestRow]]:
        last, path = self._last, self._state / NAME
        batches: list[KeptBatch] = []
        for group in groups:
            batches += group.after(last, path)
            end = batches[-1]
            last = Anchor(end.number, end.at_us, end.last_seq, end.digest)
        return batches, [one for group in groups for one in group.requests]

    # Taking over

    # REPLICA-12
    async def promote(self, client: Client) -> Promotion:
        """Take over: stop following, and lead with the next term.

        Raises:
            FollowError: If this server leads already.
            MusterError: If it cannot lead.
        """
        async with self._promoting:
            if self.leads.is_set():
                message = f"this server leads already, with term {self._leadership.term}"
                raise FollowError(message)
            self._scope.cancel()
            await self._stopped.wait()
            term = self._leadership.term + 1
            seconds = trio.current_time() - self._heard_at
            made = Promotion(term, self._last.batch, self._leader_last, seconds)

            def begin() -> None:
                self._leadership.lead(term)
                self._leadership.followers.begin(self._last.batch)
                self.made = made
                self.leads.set()

            await client.call(Lead(term, begin))
        _LOG.warning("%s", made, extra=_CHANGE)
        return made

    async def tell_old_leader(self, term: int) -> None:
        """Tell the old leader, if it answers, that it is over.

        Args:
            term: The term that ends it.
        """
        with suppress(httpx.HTTPError, OSError), trio.move_on_after(_TELL_S):
            async with self._address.open() as client:
                fields = {"term": term, "url": self._leadership.url}
                await client.post(f"{_PATH}/over", json=fields)


def name_of(state: Path) -> str:
    """Return what a server with a state directory calls itself: no other one has that name."""
    return f"{socket.gethostname()}:{state.absolute()}"


async def _get_json(client: httpx.AsyncClient, path: str) -> dict[str, Any]:
    response = await client.get(f"{_PATH}{path}")
    _check_status(response)
    found: dict[str, Any] = response.json()
    return found


def _check_status(response: httpx.Response) -> None:
    """Check that a leader has answered as it should.

    Raises:
        httpx.HTTPError: If it has not.
    """
    if not response.is_error:
        return
    try:
        detail = response.json().get("detail") or response.text[:200]
    except ValueError:
        detail = response.text[:200]
    message = f"{response.status_code} {detail}"
    raise httpx.HTTPStatusError(message, request=response.request, response=response)


def _words_of(error: BaseException) -> str:
    """Return the message of an error; one without a message has that of its cause."""
    below = error.__cause__ or error.__context__
    return str(error) or (type(error).__name__ if below is None else _words_of(below))


def _cut_in(error: Exception) -> Exception:
    """Return an error of a cut connection, the first one of a group.

    Raises:
        Exception: The first one that is something else.
    """
    if isinstance(error, ExceptionGroup):
        group = cast("ExceptionGroup[Exception]", error)
        return next(_cut_in(one) for one in group.exceptions)
    if not isinstance(error, (httpx.HTTPError, CodecError, OSError)):
        raise error
    return error
