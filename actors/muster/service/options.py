"""What a service is started with."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final, Literal, TypeAlias, final

import attrs

from muster.store._file import SOCKET_NAME

Run: TypeAlias = Literal["none", "local", "ray"]
"""What does the work of asks: whoever reads the decisions, subprocesses on this machine, or Ray."""

LogForm: TypeAlias = Literal["text", "json"]
"""The form of the lines of the log."""

LISTEN: Final = "127.0.0.1:9080"
"""Where a service listens that nobody can use to run commands as its user."""


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


@final
@attrs.frozen
class LocalOptions:
    """How commands run on this machine.

    Attributes:
        log_bytes: How much of the output of each start is kept, in bytes.
        grace_s: How long a command may take to end after SIGTERM, in seconds; then it is killed.
        end_jobs: Whether commands are ended when the service ends; without a state directory they
            always are.
        adds_node: Whether this machine becomes a node at the first start, if there is none.
        gpus: How many GPUs that node has; None to look for them.
        uses_cgroups: Whether each command runs in a cgroup of its own, where the service may.
    """

    log_bytes: int = 64 * 1024 * 1024
    grace_s: float = 10.0
    end_jobs: bool = False
    adds_node: bool = True
    gpus: int | None = None
    uses_cgroups: bool = True


@final
@attrs.frozen
class RayOptions:
    """How commands run on a cluster of Ray.

    Attributes:
        address: The address of the cluster, as ``ray.init`` takes it; None for ``auto``.
        namespace: The namespace of the runs in Ray; None for ``muster``.
        python: The interpreter that speaks to Ray, which has ray; None for that of the service.
        node_name: The label of Ray's nodes by which they are called; None for their ids.
        select: The labels that a node of Ray must have to be a node of Muster.
        warm: How many workers are started on each node in advance.
        detached: Whether commands outlive the service; None if there is a state directory.
        output: The folder on each node for the output of commands; None to leave it to Ray.
        grace_s: How long a command may take to end after SIGTERM, in seconds; then it is killed.
        patience_s: How long Ray may be away after a start, in seconds; then its nodes are removed.
    """

    address: str | None = None
    namespace: str | None = None
    python: Path | None = None
    node_name: str | None = None
    select: tuple[tuple[str, str], ...] = ()
    warm: int = 0
    detached: bool | None = None
    output: Path | None = None
    grace_s: float = 10.0
    patience_s: float = 60.0


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
        checkpoint_every: After how many events a checkpoint is taken.
        listen: Where to listen: ``host:port``, or ``unix:PATH``; empty for what :meth:`listens`
            chooses.
        yunikorn_listen: Where YuniKorn's end points are served on a port of their own, or None.
        yunikorn_ui: The folder with YuniKorn's web UI, or None.
        cluster: The name of the cluster that YuniKorn's end points say.
        cors: Whether YuniKorn's end points allow other web sites to read them.
        tokens: The file of the tokens; None if nobody needs one.
        hosts: Names under which the service is reached, besides addresses that it listens on.
        tls_cert: The file of the certificate, or None.
        tls_key: The file of its key, or None.
        run: What does the work of asks.
        run_as: The user as whom commands run, for one user or (key ``*``) for all.
        trust_submitters: Whether commands of submitters may run as the user of the service.
        trust_local: Whether every user of this machine may run commands as the user of the
            service: it runs them, listens on loopback, and nobody needs a token.
        local: How commands run on this machine.
        ray: How commands run on a cluster of Ray.
        log: The form of the lines of the log.
        watch: Whether the configuration is read again when its file has changed.
        limits: How much it takes.
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
    run: Run = "none"
    run_as: tuple[tuple[str, str], ...] = ()
    trust_submitters: bool = False
    trust_local: bool = False
    local: LocalOptions = attrs.field(factory=LocalOptions)
    ray: RayOptions = attrs.field(factory=RayOptions)
    log: LogForm = "text"
    watch: bool = False
    limits: Limits = Limits()

    @property
    def is_open(self) -> bool:
        """Whether whoever reaches the service may run commands on this machine."""
        return self.run == "local" and self.tokens is None

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
