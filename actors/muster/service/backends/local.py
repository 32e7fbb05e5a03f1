"""``--run local``: commands run on this machine; :mod:`muster.service.local` does the work.

While the service runs, the backend finds old jobs again, removes old output, and adds this machine
as a node at the first start.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Final, final

import attrs
import trio
from typing_extensions import override

from muster._surface.allocation import BIND_TIMEOUT_S
from muster._surface.open import store_options
from muster.service.backends.cluster import bound_numbers
from muster.service.local.binder import BinderSettings, CommandContext, LocalBinder, identities
from muster.service.local.cgroups import open_cgroups
from muster.service.local.jobs import Attempt, earlier_of
from muster.service.local.machine import GPU, Gpus, capacity, find_gpus, node_name
from muster.service.options import BackendOptions, NoOutputError, StartOutput, option
from muster_core.coordinator.coordinator import CoordinatorMachine
from muster_core.nodes.node import Node
from muster_core.structures.steps import Steps
from muster_core.values.devices import MOST_DEVICES, NO_STOCKS, DeviceStock

if TYPE_CHECKING:
    from muster._pod_identity import PodReasons
    from muster._surface.allocation import Allocation
    from muster.service.options import Backend, BackendHost, ServeOptions


_LOG: Final = logging.getLogger("muster.service")

_PRUNES_S: Final = 600.0
"""How often output that is too old is looked for, in seconds."""

_MOST_STARTS: Final = 10
"""How many starts are named, the latest ones."""


@final
@attrs.frozen
class LocalOptions(BackendOptions):
    """How commands run on this machine.

    Attributes:
        log_bytes: How much of the output of each start is kept, in bytes.
        end_jobs: Whether commands are ended when the service ends; without a state directory they
            always are.
        adds_node: Whether this machine becomes a node at the first start, if there is none.
        gpus: How many GPUs that node has; None to look for them.
        uses_cgroups: Whether each command runs in a cgroup of its own, where the service may.
    """

    run = "local"
    place = "this machine"
    runs_as_service = True
    takes_accounts = True

    log_bytes: int = option(
        "--log-bytes",
        "count",
        "BYTES",
        "how much output of each start of an ask is kept.",
        default=64 * 1024 * 1024,
    )
    end_jobs: bool = option(
        "--end-jobs",
        "on",
        None,
        "end the commands with the service, instead of leaving them to the next start.",
        default=False,
    )
    adds_node: bool = option(
        "--no-node",
        "off",
        None,
        "do not add this machine as a node at the first start.",
        default=True,
    )
    gpus: int | None = option(
        "--gpus",
        "count",
        "N",
        "how many GPUs this machine has as a node; 0 for none. Otherwise nvidia-smi and rocm-smi "
        "are asked.",
        most=MOST_DEVICES,
    )
    uses_cgroups: bool = option(
        "--no-cgroups",
        "off",
        None,
        "do not run each command in a cgroup of its own, which limits it to what its ask asks for.",
        default=True,
    )

    @override
    def contradiction(self) -> str | None:
        if self.gpus is not None and not self.adds_node:
            return "--gpus is about the node that --no-node does not add: leave out one of them"
        return None

    @override
    def problems(self, options: ServeOptions) -> Iterator[str]:
        if not (options.is_open or options.run_as or options.trust_submitters):
            yield (
                "--run local with --tokens runs commands of submitters: say as which user with "
                "--run-as, or --trust-submitters to run them as the user of the service"
            )

    @override
    def backend(self, options: ServeOptions) -> Backend:
        return LocalBackend(options, self)


@final
class LocalBackend:
    """Runs commands on this machine.

    Args:
        options: What the service is started with.
        own: How commands run.
    """

    def __init__(self, options: ServeOptions, own: LocalOptions) -> None:
        self.bind_timeout_s: Final = BIND_TIMEOUT_S
        self._options: Final = options
        self._own: Final = own
        self._binder: LocalBinder

    @asynccontextmanager
    async def opened(self) -> AsyncGenerator[LocalBinder, None]:
        """Yield the binder that runs commands.

        Raises:
            RunAsError: If commands cannot run as the users that were named.
        """
        known, state = identities(self._options.run_as), self._options.state
        with ExitStack() as cleaning:
            folder = state or Path(
                cleaning.enter_context(
                    TemporaryDirectory(prefix="muster-", ignore_cleanup_errors=True)
                )
            )
            own = self._own
            cgroups = open_cgroups(folder.absolute()) if own.uses_cgroups else None
            self._binder = LocalBinder(
                BinderSettings(
                    folder.absolute(),
                    state is not None,
                    own.log_bytes,
                    own.grace_s,
                    own.end_jobs,
                    known,
                    cgroups,
                )
            )
            cleaning.callback(self._binder.close)
            yield self._binder

    @asynccontextmanager
    async def running(self, host: BackendHost, server: str) -> AsyncGenerator[None, None]:
        """Let jobs start for the time of a block; end orphans, and remove old output."""

        async def surroundings(allocation: Allocation) -> CommandContext:
            def read(machine: CoordinatorMachine) -> Steps[CommandContext]:
                yield
                key = machine.registry.locate(allocation.app)
                submitter = None if key is None else machine.view.apps[key].identity.user[0]
                node = machine.view.nodes.nodes.get(allocation.node)
                return CommandContext(submitter, _stocks(node))

            return await host.inspect(read)

        self._binder.serve(server, surroundings)
        async with trio.open_nursery() as nursery:
            is_first = not self._binder.has_run_before
            nursery.start_soon(self._binder.end_orphans, await host.inspect(bound_numbers))
            await self._add_machine(host, is_first=is_first)
            store = store_options(self._options.state, "full", 1, self._options.keep)
            nursery.start_soon(self._prune_always, None if store is None else store.keep_us)
            yield
            nursery.cancel_scope.cancel()

    # LOCAL-11, LOCAL-13
    async def _add_machine(self, host: BackendHost, *, is_first: bool) -> None:
        """Add this machine as a node at the first start, if there is none."""
        name, gpus = node_name(), self._own.gpus

        def read(machine: CoordinatorMachine) -> Steps[tuple[bool, Node | None]]:
            yield
            nodes = machine.view.nodes.nodes
            return bool(nodes), nodes.get(name)

        has_nodes, own = await host.inspect(read)
        if is_first and not has_nodes and self._own.adds_node:
            resources = capacity()
            found = await find_gpus() if gpus is None else Gpus.of(gpus)
            await host.scheduler.add_node(name, resources, devices=found.devices or None)
            amounts = [f"{kind} {amount:,}" for kind, amount in resources.items()]
            if found.each:
                amounts.append(f"{GPU} {len(found.each)} ({found.description})")
            _LOG.info("this machine is the node %s: %s", name, ", ".join(amounts))
        elif gpus is not None and own is not None:
            stock = _stocks(own).get(GPU)
            count = 0 if stock is None else stock.count
            if count != gpus:
                _LOG.warning(
                    "--gpus counts when this machine becomes a node: %s has %d, and update_node "
                    "changes it",
                    name,
                    count,
                )

    async def _prune_always(self, keep_us: int | None) -> None:
        """Remove output that is older than the history that is kept, as long as the service runs."""
        while keep_us is not None:
            try:
                await self._binder.prune(keep_us)
            except OSError as error:
                _LOG.warning("output that is too old cannot be removed: %s", error)
            await trio.sleep(_PRUNES_S)

    def health(self) -> None:
        """Return nothing: this machine is there."""

    def followed_configuration(self) -> None:
        """Return nothing: the service reads its file."""

    def waits_for(self) -> str | None:
        """Return None: the service decides, whether or not commands can run."""
        return None

    def measures(self) -> Mapping[str, float]:
        """Return no metrics."""
        return {}

    def pods_without_ask(self) -> Mapping[str, PodReasons]:
        """Return nothing: there are no pods."""
        return {}

    def pod_reasons(self, _namespace: str, _name: str, /) -> None:
        """Return nothing: there are no pods."""

    # LOCAL-10
    async def output(
        self, host: BackendHost, app: str, ask: str, attempt: int | None
    ) -> StartOutput:
        """Return where the output of the command of an ask is.

        Raises:
            NoOutputError: If there is none.
        """
        came_us = _arrival_us(host, app, ask)

        def find() -> tuple[list[Attempt], Sequence[Attempt]]:
            attempts = self._binder.logs.attempts(app, ask)
            return attempts, earlier_of(attempts, came_us)

        attempts, earlier = await trio.to_thread.run_sync(find)
        own = attempts[len(earlier) :]
        if not (own if attempt is None else attempts):
            failure = host.ledger.failure(app, ask)
            why = "" if failure is None else f"; {failure.text()}"
            message = f"{app}/{ask} has no output: no command of it has started here{why}"
            if earlier:
                message += (
                    f"; of an earlier ask of this name there is that of {_numbers_text(earlier)}"
                )
            may_start = host.ledger.may_start(app, ask)
            raise NoOutputError(message, may_start=may_start, earlier=_attempt_numbers(earlier))
        wanted = attempt or own[-1].number
        found = next((one for one in attempts if one.number == wanted), None)
        if found is None:
            starts = [_numbers_text(own)] if own else []
            starts += (
                [f"{_numbers_text(earlier)} (of an earlier ask of this name)"] if earlier else []
            )
            message = f"attempt: {wanted}: there is output of {', and of '.join(starts)}"
            raise NoOutputError(message, parameter="attempt")

        async def is_over() -> bool:
            return "ended_us" in await trio.to_thread.run_sync(found.about)

        others = [
            (one.number, one in earlier)
            for one in reversed(attempts[-_MOST_STARTS:])
            if one.number != wanted
        ]
        return StartOutput(found.output, found.number, is_over, others, found in earlier)


def _stocks(node: Node | None) -> Mapping[str, DeviceStock]:
    """Return the devices of a node by type, which may have none, or be gone."""
    return NO_STOCKS if node is None or node.devices is None else node.devices.stocks


# PAGE-86
def _arrival_us(host: BackendHost, app: str, ask: str) -> int | None:
    """Return when an ask came, or else its application, in microseconds since 1970, or None."""
    ledger = host.ledger
    known = ledger.ask(app, ask) or ledger.app(app) or ledger.completed.get(app)
    if known is None or known.came_us is None:
        return None
    return host.unix_us(known.came_us)


def _numbers_text(attempts: Sequence[Attempt]) -> str:
    return ", ".join(map(str, _attempt_numbers(attempts)))


def _attempt_numbers(attempts: Sequence[Attempt]) -> list[int]:
    return [one.number for one in attempts[-_MOST_STARTS:]]
