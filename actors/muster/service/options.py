"""The options of a service, and the interface of a backend, with its options."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal, Protocol, TypeAlias, TypeVar, final

import attrs

from muster.store._file import SOCKET_NAME

if TYPE_CHECKING:
    from muster._pod_identity import PodReasons
    from muster._surface.allocation import Binder
    from muster._surface.scheduler import Scheduler
    from muster.service.ledger.ledger import Ledger
    from muster_core.config.model import Configuration
    from muster_core.coordinator.coordinator import CoordinatorMachine
    from muster_core.structures.steps import Steps


T = TypeVar("T")

Sync: TypeAlias = Literal["strict", "available"]
"""What a leader does that no follower acknowledges in time: hold calls back, or go on alone."""

SYNC_TIMEOUT_S: Final = 5.0
"""How long a leader waits for an acknowledgement, in seconds, unless it is said."""

LogForm: TypeAlias = Literal["text", "json"]
"""The form of the lines of the log."""

LISTEN: Final = "127.0.0.1:9080"
"""The default address of a service that runs no commands as its user."""


GRACE_S: Final = 10.0
"""How long a command may take to end after SIGTERM, in seconds, unless it is said."""


@final
@attrs.frozen
class Limits:
    """How much a service takes; what is beyond is refused, and counted.

    Attributes:
        body_bytes: The longest body of a request, in bytes.
        events: The most events of a request.
        nesting: How deep the values of a body may be nested.
        connections: The most open connections.
        streams: The most streams of decisions and events at the same time.
        write_s: How long a client may read nothing of what is sent to it, in seconds.
        head_bytes: The longest head of a request, in bytes.
        head_s: How long the head of a request may take to arrive, in seconds.
        body_s: How long the body of a request may take to arrive, in seconds.
        idle_s: How long a connection may be idle, in seconds.
        calls: The most calls that wait at the entry of the scheduler.
    """

    body_bytes: int = 16 * 1024 * 1024
    events: int = 10_000
    nesting: int = 64
    connections: int = 1_000
    streams: int = 100
    write_s: float = 30.0
    head_bytes: int = 64 * 1024
    head_s: float = 10.0
    body_s: float = 120.0
    idle_s: float = 75.0
    calls: int = 1_024


NAMES: Final = tuple(one.name for one in attrs.fields(Limits))
"""The names of all limits, as the options, the problems and the metrics have them."""

Takes: TypeAlias = Literal["text", "path", "labels", "count", "time", "on", "off", "either"]
"""What an option takes, if anything: a text, a path, labels, a number, or a time in seconds."""


@final
@attrs.frozen
class OptionForm:
    """An option of ``muster serve`` that means something to one backend only.

    Attributes:
        flag: Its name, such as ``--ray-address``.
        takes: What it takes.
        metavar: The word for that in its help.
        about: What it means.
        most: The greatest number that it takes.
    """

    flag: str
    takes: Takes
    metavar: str | None
    about: str
    most: int | None = None


_FORM: Final = "form"


def option(
    flag: str,
    takes: Takes,
    metavar: str | None,
    about: str,
    *,
    default: object = None,
    most: int | None = None,
) -> Any:  # noqa: ANN401 - as attrs.field
    """Return a field of a backend's options that has an option of the command line."""
    form = OptionForm(flag, takes, metavar, about, most)
    return attrs.field(default=default, metadata={_FORM: form})


IsOver: TypeAlias = Callable[[], Awaitable[bool]]
"""Returns whether a command has ended."""


@final
@attrs.frozen
class StartOutput:
    """The output of a start of an ask.

    Attributes:
        file: The file that has it.
        number: Which start of an ask of this name it is, from 1.
        is_over: Returns whether the command has ended.
        others: The numbers of other starts, the latest first, each with whether it is of an
            earlier ask of this name.
        is_earlier: Whether it is of an earlier ask of this name.
    """

    file: Path
    number: int
    is_over: IsOver
    others: Sequence[tuple[int, bool]] = ()
    is_earlier: bool = False


@final
class NoOutputError(Exception):
    """There is no output of a command.

    Attributes:
        reason: Why there is none.
        fields: Further fields of the answer.
    """

    def __init__(self, reason: str, **fields: object) -> None:
        super().__init__(reason)
        self.reason: Final = reason
        self.fields: Final = fields


class Term(Protocol):
    """The term of this server, which its orders have; a higher one ends its lead."""

    @property
    def term(self) -> int:
        """The number; 0 without a state directory."""
        ...

    def observe_term(self, term: int, url: str, whom: str) -> bool:
        """Take note of another term.

        Args:
            term: The term.
            url: The address of its server; empty if unknown.
            whom: The source of the term, in words.
        """
        ...


class BackendHost(Protocol):
    """The running service, as far as a backend needs it."""

    @property
    def scheduler(self) -> Scheduler:
        """The scheduler."""
        ...

    @property
    def ledger(self) -> Ledger:
        """What was let in and decided."""
        ...

    @property
    def leadership(self) -> Term:
        """The term of this server."""
        ...

    async def inspect(self, read: Callable[[CoordinatorMachine], Steps[T]]) -> T:
        """Read the state between two batches."""
        ...

    def unix_us(self, at_us: int) -> int:
        """Return an instant of the scheduler in microseconds since 1970 in UTC."""
        ...


Measure: TypeAlias = float | Mapping[str, float]
"""The value of a metric, or its values by those of its label."""


class Backend(Protocol):
    """What runs the commands of asks."""

    @property
    def bind_timeout_s(self) -> float:
        """How long a command may take to start, in seconds."""
        ...

    def opened(self) -> AbstractAsyncContextManager[Binder]:
        """Return a block that lasts longer than the scheduler, and gives its binder.

        Raises:
            MusterError: If commands cannot run.
        """
        ...

    def running(self, host: BackendHost, server: str) -> AbstractAsyncContextManager[None]:
        """Return a block in which commands run, and nodes are followed.

        Args:
            host: The service, whose scheduler runs; it takes no requests yet.
            server: The address of the service.
        """
        ...

    def health(self) -> Mapping[str, object] | None:
        """Return its part of ``/healthz``; None if it is always well."""
        ...

    def followed_configuration(self) -> tuple[str, Configuration] | None:
        """Return what ``--config`` names, and the configuration there, if this follows it; or None."""
        ...

    def waits_for(self) -> str | None:
        """Return what the service waits for before it decides, in words; None for nothing."""
        ...

    def measures(self) -> Mapping[str, Measure]:
        """Return the values of its metrics, by their names."""
        ...

    # POD-31
    def pods_without_ask(self) -> Mapping[str, PodReasons]:
        """Return why pods that wait for this scheduler have no ask, by ``namespace/name``."""
        ...

    # POD-9
    def pod_reasons(self, namespace: str, name: str, /) -> PodReasons | None:
        """Return why a pod of Kubernetes has no ask.

        Args:
            namespace: Its namespace.
            name: Its name.

        Returns:
            Codes (:class:`PodCode`) and sentences; None if there is no such pod, or that is
            unknown: only what follows a cluster of Kubernetes knows pods.
        """
        ...

    async def output(
        self, host: BackendHost, app: str, ask: str, attempt: int | None
    ) -> StartOutput:
        """Return where the output of the command of an ask is.

        Args:
            host: The service.
            app: The name of its application.
            ask: Its name; it may be over.
            attempt: Which start of an ask of this name, from 1; None for the latest of the ask that
                is there, or of the application that is there.

        Raises:
            NoOutputError: If there is none.
        """
        ...


@final
@attrs.frozen
class BackendMetric:
    """A metric of a backend; its value, or those by its label, come from :meth:`Backend.measures`."""

    name: str
    kind: Literal["gauge", "counter"]
    about: str
    label: str = ""

    def read(self, measured: Mapping[str, Measure]) -> object:
        """Return its value, or None; with a label its values, each with that of the label."""
        found = measured.get(self.name)
        if not self.label:
            return found
        return [((value,), of) for value, of in found.items()] if isinstance(found, Mapping) else ()


@attrs.frozen
class BackendOptions(ABC):
    """How commands run on a backend; the class declares the backend.

    Attributes:
        run: Its name: the value of ``--run``.
        place: Where commands run, in words.
        metrics: Its metrics.
        health: The JSON schema of its part of ``/healthz``; None without one.
        runs_as_service: Whether commands run as the user of the service.
        takes_accounts: Whether they can run as other users, by ``--run-as``.
        runs_commands: Whether it runs the commands of asks; else it does other work for them.
        grace_s: How long a command may take to end after SIGTERM, in seconds; then it is killed.
    """

    run: ClassVar[str]
    place: ClassVar[str]
    metrics: ClassVar[tuple[BackendMetric, ...]] = ()
    health: ClassVar[Mapping[str, Any] | None] = None
    runs_as_service: ClassVar[bool]
    takes_accounts: ClassVar[bool] = False
    runs_commands: ClassVar[bool] = True

    grace_s: float = GRACE_S

    @abstractmethod
    def problems(self, options: ServeOptions) -> Iterator[str]:
        """Yield what is wrong with them, beside the other options of a service."""

    # LOCAL-20, LOCAL-21
    def open_problems(self, options: ServeOptions) -> Iterator[str]:
        """Yield what keeps a service from running commands of everybody who reaches it."""
        if os.name != "nt" and os.geteuid() == 0:
            yield (
                f"--run {self.run} as root needs --tokens: without them whoever reaches the "
                f"service runs commands as root; or run the service as another user"
            )
        elif not options.listens():
            yield (
                f"--run {self.run} without --tokens listens on a Unix socket in the folder of "
                f"--state, or in XDG_RUNTIME_DIR: name one of them, or a socket with --listen "
                f"unix:PATH"
            )

    @abstractmethod
    def backend(self, options: ServeOptions) -> Backend:
        """Return the backend of a service with these options."""

    def take_config(self, config: Path | None) -> tuple[BackendOptions, Path | None]:
        """Return the options with a ``--config`` that only they understand, and what else it is."""
        return self, config

    def take_lease(self, lease: str | None) -> tuple[BackendOptions, str | None]:
        """Return the options with a ``--lease`` that they hold themselves, and what else it is."""
        return self, lease

    def contradiction(self) -> str | None:
        """Return how its options contradict each other, or None."""
        return None

    @classmethod
    def forms(cls) -> Mapping[str, OptionForm]:
        """Return its options of the command line, by their fields."""
        fields: Iterable[attrs.Attribute[Any]] = attrs.fields(cls)
        return {one.name: one.metadata[_FORM] for one in fields if _FORM in one.metadata}

    def given(self) -> Iterator[str]:
        """Yield the options that were given."""
        for name, form in self.forms().items():
            if getattr(self, name) != attrs.fields_dict(type(self))[name].default:
                yield form.flag


@final
@attrs.frozen
class ServeOptions:
    """What a service is started with.

    Attributes:
        config: The file of the configuration, or None: only ``root``, without limits.
        partition: The partition to run; None for ``default``, or else the only one.
        state: The state directory; None to keep nothing.
        keep: How long history is kept, such as ``30d``; None for ever.
        durability: As for :func:`muster.open_scheduler`.
        checkpoint_every: As for :func:`muster.open_scheduler`.
        listen: Where to listen: ``host:port``, or ``unix:PATH``; empty for what :meth:`listens`
            chooses.
        yunikorn_listen: Where YuniKorn's end points are served on a port of their own, or None.
        yunikorn_ui: The folder with YuniKorn's web UI, or None.
        cluster: The name of the cluster that YuniKorn's end points say.
        cors: Whether YuniKorn's end points allow other web sites to read them.
        tokens: The file of the tokens; None if none is needed.
        hosts: Names under which the service is reached, besides addresses that it listens on.
        tls_cert: The file of the certificate, or None.
        tls_key: The file of its key, or None.
        backend: What runs the commands of asks, and how; None if other programs run them, by the
            decisions.
        unused: How other backends would, as far as that was said.
        run_as: The user as whom commands run, for one user or (key ``*``) for all.
        trust_submitters: Whether commands of submitters may run as the user of the service.
        trust_local: Whether every user of this machine may run commands as the user of the
            service: it runs them, listens on loopback, and needs no tokens.
        log: The form of the lines of the log.
        watch: Whether the configuration is read again when its file has changed.
        limits: How much it takes.
        follow: The address of the leader; None to lead.
        token_file: The file with the token for the leader, or None.
        sync: What to do when no follower acknowledges; None not to wait for followers.
        sync_timeout_s: How long an acknowledgement is waited for, in seconds.
        lease: The lease that only who leads holds: ``file:PATH`` or ``kubernetes:NAMESPACE/NAME``.
    """

    config: Path | None = None
    partition: str | None = None
    state: Path | None = None
    keep: str | None = None
    durability: Literal["full", "process"] = "full"
    checkpoint_every: int = 50_000
    listen: tuple[str, ...] = ()
    yunikorn_listen: str | None = None
    yunikorn_ui: Path | None = None
    cluster: str = "muster"
    cors: bool = False
    tokens: Path | None = None
    hosts: tuple[str, ...] = ()
    tls_cert: Path | None = None
    tls_key: Path | None = None
    backend: BackendOptions | None = None
    unused: tuple[BackendOptions, ...] = ()
    run_as: tuple[tuple[str, str], ...] = ()
    trust_submitters: bool = False
    trust_local: bool = False
    log: LogForm = "text"
    watch: bool = False
    limits: Limits = Limits()
    follow: str | None = None
    token_file: Path | None = None
    sync: Sync | None = None
    sync_timeout_s: float = SYNC_TIMEOUT_S
    lease: str | None = None

    @property
    def run(self) -> str:
        """The option ``--run``."""
        return "none" if self.backend is None else self.backend.run

    @property
    def is_open(self) -> bool:
        """Whether everybody who reaches the service may run commands as its user."""
        backend = self.backend
        return backend is not None and backend.runs_as_service and self.tokens is None

    # LOCAL-21
    def listens(self) -> tuple[str, ...]:
        """Return where the service listens: as was said, or the address that is safe.

        It is empty if a socket is needed, and there is no folder for it.
        """
        if self.listen:
            return self.listen
        if not self.is_open or self.trust_local:
            return (LISTEN,)
        socket = self.socket
        return () if socket is None else (socket,)

    @property
    def socket(self) -> str | None:
        """The address of the socket in the state directory, or else in that of the session."""
        runtime = os.environ.get("XDG_RUNTIME_DIR")
        folder = self.state or (Path(runtime) if runtime else None)
        return None if folder is None else f"unix:{folder.absolute() / SOCKET_NAME}"
