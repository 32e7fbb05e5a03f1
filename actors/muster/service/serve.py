"""Running the service: its routes, the scheduler, and the server in front of it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, cast, final

import trio
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from muster._collector import keep_loaded
from muster._errors import BrokenSchedulerError, DecidedOtherwiseError, StoreError
from muster._runtime.clock import WallClock
from muster._surface.allocation import BIND_ATTEMPTS, BIND_TIMEOUT_S
from muster._surface.open import Parts, open_parts, store_options
from muster._surface.scheduler import Scheduler
from muster.service.access import Access, OpenAccess
from muster.service.api import (
    config,
    decisions,
    events,
    events as leases,
    explanations,
    lists,
    logs,
    monitoring,
    pods,
    replica,
)
from muster.service.ask_index import AskIndex
from muster.service.authentication import Sessions, TokenAccess
from muster.service.endpoints import openapi
from muster.service.endpoints.routes import Endpoint, routes_of, with_fixed_paths
from muster.service.health import Health
from muster.service.input.configuration import ConfigFile
from muster.service.input.leases import Leases
from muster.service.ledger.ledger import Ledger
from muster.service.ledger.reconciliation import keep_reconciled
from muster.service.limits import Usage
from muster.service.listeners import BatchListeners
from muster.service.metrics.scrape import Metrics
from muster.service.options import Backend, ServeOptions
from muster.service.page.site import page_routes
from muster.service.past.states import PastStateCache
from muster.service.payloads import Problem
from muster.service.process import Reloader, configuration_of, raise_file_limit, run_heartbeat
from muster.service.replication.election import Election
from muster.service.replication.followers import Followers, wait_while_held
from muster.service.replication.following import Following, LeaderAddress
from muster.service.replication.leadership import (
    LateBackend,
    Leadership,
    check_not_over,
    forget_over,
)
from muster.service.server.addresses import Address, Hosts, bind_all
from muster.service.server.middleware import RequestGate, allow_no_origin
from muster.service.server.server import Certificate, Server
from muster.service.startup_checks import read_initial_configuration
from muster.service.state import Service, open_intake
from muster.service.streams import Broadcast
from muster.service.yunikorn.app import (
    make_site,
    may_come_from_anywhere,
    refusal,
    routes as yunikorn_routes,
)
from muster.store import StateReader
from muster.store._file import bring_directory_up_to_date
from muster_core.config.model import Configuration

if TYPE_CHECKING:
    from starlette.types import ASGIApp

    from muster._surface.allocation import Binder


ENDPOINTS: Final[tuple[Endpoint, ...]] = (
    *events.EVENT_ENDPOINTS,
    *config.ENDPOINTS,
    *lists.ENDPOINTS,
    *pods.ENDPOINTS,
    *leases.LEASE_ENDPOINTS,
    *explanations.ENDPOINTS,
    *decisions.ENDPOINTS,
    *logs.ENDPOINTS,
    *monitoring.METRICS_ENDPOINTS,
    *monitoring.HEALTH_ENDPOINTS,
    *replica.ENDPOINTS,
    openapi.endpoint_of(lambda: ENDPOINTS),
)
"""All end points that the OpenAPI document names, in its order."""


def make_app(service: Callable[[], Service]) -> Starlette:
    """Return the application.

    Args:
        service: Returns the running service.
    """
    app = Starlette(
        routes=[
            *routes_of(service, ENDPOINTS),
            *yunikorn_routes(service),
            *page_routes(service),
        ],
        exception_handlers={HTTPException: _unknown_path},
    )
    app.router.redirect_slashes = False
    return app


async def _unknown_path(request: Request, error: Exception) -> Response:
    """Return the response for a path or a method that is unknown."""
    assert isinstance(error, HTTPException), f"{error!r} is handled here"
    if error.status_code == 405:
        allowed = (error.headers or {}).get("Allow", "")
        message = f"{request.method} is no method here; there are: {allowed}"
    else:
        message = f"there is nothing at {request.scope['path'][:200]!r}"
    return Problem(error.status_code, message, headers=error.headers).response()


_LOG: Final = logging.getLogger("muster.service")

ANSWER_S: Final = 5.0
"""How long requests under way may take when the service ends, in seconds."""

END_S: Final = 8.5
"""When the end goes on without a checkpoint, in seconds after it began."""

_FAILED_S: Final = 2.0
"""How long requests under way may take after the scheduler has failed, in seconds."""

_CHANGE: Final = {"fields": {"what": "change"}}

_ANY: Final = ("0.0.0.0", "::", "*")


async def serve(
    options: ServeOptions,
    *,
    ends: trio.Event,
    listening: Callable[[Sequence[str]], None],
    rereads: trio.MemoryReceiveChannel[None] | None = None,
) -> None:
    """Run the service until it is to end.

    Args:
        options: What it is started with.
        ends: Set when it is to end: requests under way are answered, then it closes.
        listening: Called with the addresses when connections are taken; requests are answered
            when what is kept was loaded.
        rereads: Gives something whenever the files are to be read again; None: never.

    Raises:
        MusterError: As for :func:`muster.open_scheduler`, or if an address cannot be listened on,
            or the tokens or the certificate cannot be used.
        OSError: If the configuration cannot be read.
    """
    config = read_initial_configuration(options)
    running = _ServiceRun(options, config, ends, rereads)
    failure: Exception | None = None
    tls = None if running.certificate is None else running.certificate.context
    scheme = "http" if tls is None else "https"
    own = [Address.read(one) for one in options.listens()]
    others = [] if options.yunikorn_listen is None else [Address.read(options.yunikorn_listen)]
    bound = bind_all([*own, *others], protected=bool(options.tokens))
    async with trio.open_nursery() as nursery:
        # REST-25
        is_own = [any(one.address is address for address in own) for one in bound]
        fronts = [
            (one, running.gate if own_gate else running.site)
            for one, own_gate in zip(bound, is_own, strict=True)
        ]
        await nursery.start(running.server.run, fronts, tls)
        running.urls = [one.url(scheme) for one in bound]
        listening(running.urls)
        try:
            await running.run()
        except Exception as error:  # noqa: BLE001 - raised below, and not in a group
            failure = _ungrouped(error)
            if isinstance(failure, (StoreError, BrokenSchedulerError)):
                await running.fail(failure)
        await running.server.drain(0)
    if failure is not None:
        try:
            raise failure
        finally:
            del failure  # avoids a reference cycle through the traceback


@final
class _ServiceRun:
    """A service that runs, or is about to."""

    def __init__(
        self,
        options: ServeOptions,
        config: Configuration | None,
        ends: trio.Event,
        rereads: trio.MemoryReceiveChannel[None] | None,
    ) -> None:
        self.options = options
        self._config = config
        self._config_file = ConfigFile(options.config, options.state)
        self.access = OpenAccess() if options.tokens is None else TokenAccess(options.tokens)
        self.certificate = (
            None
            if options.tls_cert is None or options.tls_key is None
            else Certificate(options.tls_cert, options.tls_key)
        )
        self.usage = Usage.of(options.limits)
        self.followers = Followers(options.sync, options.sync_timeout_s)
        self.leadership = Leadership(self.followers, options.follow)
        self.broadcast = Broadcast(options.state, self.usage.streams, options.limits.write_s)
        self.ask_index = AskIndex()
        self.health = Health(options.run, self.leadership)
        self.leases = Leases()
        self.sessions = Sessions()
        self.server = Server(self.usage)
        hosts = Hosts([*options.hosts, *_listen_hosts(options)])
        self.gate = self._gate(with_fixed_paths(make_app(self._service_now)), hosts)
        self.site = self._gate(make_site(self._service_now, options.yunikorn_ui), hosts)
        self._ends = ends
        self._rereads = rereads
        self._service: Service | None = None
        self._following: Following | None = None
        self._election: Election | None = None
        self._waiting: Callable[[], int]
        #: The addresses that are listened on.
        self.urls: Sequence[str] = ()

    def _end_without(self, access: Access) -> int:
        """End the answers under way to those who have no token any more; return how many."""
        return self.gate.end_without(access) + self.site.end_without(access)

    def _gate(self, app: ASGIApp, hosts: Hosts) -> RequestGate:
        """Return the gate before an application."""
        allows = may_come_from_anywhere if self.options.cors else allow_no_origin
        return RequestGate(
            app,
            hosts,
            self.usage,
            self.health,
            self.leadership,
            allows_origin=allows,
            refuses=refusal,
        )

    def _service_now(self) -> Service:
        assert self._service is not None, "a request that came through before the state was loaded"
        return self._service

    async def run(self) -> None:
        """Run the scheduler until the service is to end."""
        warning = raise_file_limit(self.options.limits.connections)
        if warning is not None:
            _LOG.warning("%s", warning)
        closing = trio.CancelScope()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._end, closing)
            with closing:
                await self._run_scheduler()
            nursery.cancel_scope.cancel()
        if closing.cancelled_caught and self._service is not None:
            message = (
                "no checkpoint was taken in time: the next start lets in again what came since"
            )
            _LOG.warning(message)

    # ACCESS-15
    async def _end(self, closing: trio.CancelScope) -> None:
        """End recovery at once, and anything else in time."""
        await self._ends.wait()
        self.health.is_ending = True
        closing.deadline = trio.current_time() + END_S
        if self._service is None:
            closing.cancel()

    async def _run_scheduler(self) -> None:
        """Lead or follow, as the options and the lease say."""
        wait_while_held()  # What the service does by itself is no call of a client.
        options = self.options
        self.leadership.url = _public(self.urls[0], options.hosts)
        if options.state is not None and (options.lease or options.follow):
            # What follows reads it before it is opened for writing.
            await trio.to_thread.run_sync(bring_directory_up_to_date, options.state)
        if options.lease is None or options.state is None:
            await self._run_and_report(options.follow)
            return
        async with (
            Election.of(options.lease, self.leadership, options.state) as self._election,
            trio.open_nursery() as nursery,
        ):
            follow = await self._election.begin(options.follow)
            self.leadership.follow(follow)
            self.followers.check_lead = self._election.check
            if follow is None:
                nursery.start_soon(self._election.hold)
            await self._run_and_report(follow)
            nursery.cancel_scope.cancel()

    # REPLICA-6
    async def _run_and_report(self, follow: str | None) -> None:
        """Run the scheduler; its leader learns if a batch is decided otherwise here."""
        try:
            await self._run_as(follow)
        except* DecidedOtherwiseError as found:
            if self._following is not None:
                await self._following.report_difference(str(_ungrouped(found)))
            raise

    async def _run_as(self, follow: str | None) -> None:
        """Run the scheduler of a server that leads, or follows the one at an address."""
        options = self.options
        clock, ledger = WallClock(), Ledger()
        metrics = Metrics(ledger, self.usage, self.broadcast, self.leadership, options.state)
        backend = None if options.backend is None else options.backend.backend(options)
        self.health.backend = metrics.backend = backend
        await self._prepare(follow)
        follows = self._following is not None
        async with (
            _binder_of(backend, is_late=follows) as binder,
            open_parts(
                self._config,
                partition=options.partition,
                binder=binder,
                bind_timeout=BIND_TIMEOUT_S if backend is None else backend.bind_timeout_s,
                bind_attempts=BIND_ATTEMPTS,
                clock=clock,
                journal=None,
                record=None,
                store=store_options(
                    options.state, options.durability, options.checkpoint_every, options.keep
                ),
                interleave=None,
                companion=BatchListeners(
                    ledger, metrics.counting, self.broadcast.tail, self.leases, self.ask_index
                ),
                meter=metrics.meter,
                comes_in=partial(self._file_replaces_kept, ledger),
                mirror=self.followers,
                follows=follows,
            ) as parts,
            self.followers.running(),
        ):
            statistics = parts.statistics()
            self.broadcast.tail.begin(statistics.batches, statistics.decisions)
            self._waiting = parts.waiting
            service = self._service = self._service_of(
                parts, ledger, backend, metrics, clock.now_us()
            )
            if options.state is not None:
                await self._note_store(options.state)
            leads_now = None if follows else backend
            async with (
                keep_reconciled(ledger, parts.client, self._ends),
                self.broadcast.running(self._ends),
                nullcontext() if leads_now is None else leads_now.running(service, self.urls[0]),
            ):
                await self._work(service, binder if isinstance(binder, LateBackend) else None)

    # REPLICA-2
    async def _prepare(self, follow: str | None) -> None:
        """Bring the store of a follower; look whether a server without one to follow may lead."""
        options = self.options
        if options.state is None:
            return
        if follow is None:
            await trio.to_thread.run_sync(check_not_over, options.state)
            return
        address = LeaderAddress(follow, options.token_file)
        following = Following(address, options.state, options.durability, self.leadership)
        self._following = self.leadership.following = following
        await following.prepare()
        await trio.to_thread.run_sync(forget_over, options.state)
        if self._config is not None:
            # What the file says is in force at the leader already, or was replaced there.
            await trio.to_thread.run_sync(self._config_file.note, self._config)

    async def _note_store(self, state: Path) -> None:
        """Take note of the term of the store, and where it ends."""

        def read() -> tuple[int, int]:
            with StateReader(state) as reader:
                return reader.meta.term, reader.last().batch

        self.leadership.term, last = await trio.to_thread.run_sync(read)
        self.followers.last = max(self.followers.last, last)  # Timers may have run meanwhile.
        if self._election is not None:
            self._election.note_term(self.leadership.term)

    # ACCESS-40
    def _file_replaces_kept(self, ledger: Ledger, kept: Configuration, origin_us: int) -> bool:
        """Return whether the file comes in at the start, where another one was kept."""
        assert self._config is not None, "nothing is compared without a file"
        at_us = ledger.book.configured_us
        applied_us = None if at_us is None else origin_us + at_us
        file_replaces, outcome = self._config_file.log_replacement(kept, self._config, applied_us)
        _LOG.info("configuration: %s: %s", self.options.config, outcome, extra=_CHANGE)
        return file_replaces

    def _service_of(
        self,
        parts: Parts,
        ledger: Ledger,
        backend: Backend | None,
        metrics: Metrics,
        started_us: int,
    ) -> Service:
        return Service(
            scheduler=Scheduler(parts.statistics, parts.client, parts.observers.admit),
            client=parts.client,
            ledger=ledger,
            ask_index=self.ask_index,
            access=self.access,
            options=self.options,
            usage=self.usage,
            health=self.health,
            broadcast=self.broadcast,
            metrics=metrics,
            backend=backend,
            origin_us=parts.origin_us,
            intake=open_intake(self.options.state, self.leases),
            started_us=started_us,
            sessions=self.sessions,
            config_file=self._config_file,
            past=PastStateCache(self.options.state),
            leadership=self.leadership,
            following=self._following,
            election=self._election,
        )

    async def _work(self, service: Service, late: LateBackend | None) -> None:
        """Answer requests until the service is to end, and those under way after that."""
        if self._config is not None and self._config == await service.inspect(configuration_of):
            await trio.to_thread.run_sync(service.config_file.note, self._config)
        keep_loaded()
        self.health.note_answer(service.ledger.batch)
        self.health.is_open = True
        following = self._following
        if following is None:
            self.followers.begin(service.ledger.batch)
            await self.followers.wait_for_first(self._ends)
        self.health.is_ready = True
        _LOG.info("ready, at batch %d", service.ledger.batch, extra=_CHANGE)
        reloader = Reloader(service, self.access, self.certificate, self._end_without)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(run_heartbeat, service)
            nursery.start_soon(self.leadership.end, self.options.state)
            if following is None:
                nursery.start_soon(self.leases.run, service)
            else:
                nursery.start_soon(self._follow, service, following, late)
            nursery.start_soon(
                service.metrics.run,
                service.inspect,
                service.scheduler.statistics,
                self._waiting,
                service.now_us,
            )
            if self._rereads is not None:
                nursery.start_soon(reloader.run, self._rereads)
            if self.options.watch:
                nursery.start_soon(reloader.watch)
            await self._ends.wait()
            _LOG.info("the service ends: requests under way are answered", extra=_CHANGE)
            nursery.start_soon(self.followers.end)
            if not await self.server.drain(ANSWER_S):
                _LOG.warning("some requests were not answered in %g s, and are cut off", ANSWER_S)
            nursery.cancel_scope.cancel()

    # REPLICA-4, REPLICA-13
    async def _follow(
        self, service: Service, following: Following, late: LateBackend | None
    ) -> None:
        """Follow the leader; when this server is promoted, do what a leader does."""
        async with trio.open_nursery() as nursery:
            if self._election is not None:
                nursery.start_soon(self._election.stand, following, service.client)
            await following.run(service.client)
            nursery.start_soon(self.leases.run, service)
            if late is not None and service.backend is not None:
                await late.open()
                async with service.backend.running(service, self.urls[0]):
                    await trio.sleep_forever()

    # ACCESS-21
    async def fail(self, error: Exception) -> None:
        """Report that the scheduler has failed, and answer the requests under way."""
        self.health.note_failure(str(error))
        self.health.is_ready = False
        self.health.is_ending = True
        self.broadcast.tail.close()
        await self.server.drain(_FAILED_S)


def _binder_of(
    backend: Backend | None, *, is_late: bool
) -> AbstractAsyncContextManager[Binder | LateBackend | None]:
    """Return a block that gives the binder of a backend, which is opened now or later."""
    if backend is None:
        return nullcontext()
    return LateBackend.of(backend) if is_late else backend.opened()


def _ungrouped(error: Exception) -> Exception:
    """Return an exception without the groups that nurseries have put it into."""
    if not isinstance(error, ExceptionGroup):
        return error
    group = cast("ExceptionGroup[Exception]", error)
    found = {(type(one), str(one)): one for one in map(_ungrouped, group.exceptions)}
    return next(iter(found.values())) if len(found) == 1 else group


def _public(url: str, hosts: Sequence[str]) -> str:
    """Return the address that others can use: a name instead of all addresses of a machine."""
    scheme, _, place = url.partition("://")
    host, _, port = place.rpartition(":")
    return f"{scheme}://{hosts[0]}:{port}" if hosts and host.strip("[]") in _ANY else url


def _listen_hosts(options: ServeOptions) -> list[str]:
    """Return the hosts of the addresses that are listened on."""
    other = options.yunikorn_listen
    listen = [*options.listens(), *([] if other is None else [other])]
    hosts = [Address.read(one).host for one in listen]
    return [host for host in hosts if host and host not in _ANY]
