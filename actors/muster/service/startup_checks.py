"""Checks before the start: options that exclude each other, and files that cannot be read.

What keeps the service from starting is found before clients can connect.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

import attrs

from muster._surface.conversion import configuration_of
from muster.service.backends.registry import backend_problems
from muster.service.replication.election import lease_of
from muster.service.server.addresses import Address, host_of
from muster.store._file import Lock, make_directory
from muster_core.config.model import Configuration
from muster_core.errors import MusterError

if TYPE_CHECKING:
    from muster.service.options import ServeOptions


_KEPT: Final = ("keep", "durability", "checkpoint_every")


# ACCESS-19
def problems_of(options: ServeOptions) -> list[str]:
    """Return what is wrong with options; nothing if they are right."""
    return [
        *_about_state(options),
        *_about_replicas(options),
        *_about_access(options),
        *backend_problems(options),
    ]


def _about_state(options: ServeOptions) -> Iterator[str]:
    fields = attrs.fields_dict(type(options))
    for name in _KEPT:
        if options.state is None and getattr(options, name) != fields[name].default:
            yield f"--{name.replace('_', '-')} needs --state: without it nothing is kept"
    if (
        options.watch
        and options.config is None
        and options.tokens is None
        and (options.tls_cert is None)
    ):
        yield "--watch needs --config, --tokens or --tls-cert: there is no file to watch"
    if options.yunikorn_ui is not None:
        if options.yunikorn_listen is None:
            yield "--yunikorn-ui needs --yunikorn-listen: the UI has a port of its own"
        elif not options.yunikorn_ui.is_dir():
            yield f"--yunikorn-ui: {options.yunikorn_ui} is no folder"


# REPLICA-1
def _about_replicas(options: ServeOptions) -> Iterator[str]:
    if options.state is None:
        if options.follow is not None:
            yield "--follow needs --state: a follower keeps what its leader does"
        if options.sync is not None:
            yield "--sync needs --state: nobody can follow without it"
        if options.lease is not None:
            yield "--lease needs --state: who leads next goes on with what is kept"
    if options.token_file is not None and options.follow is None:
        yield "--token-file needs --follow: it has the token for the leader"
    if options.lease is not None:
        try:
            lease_of(options.lease, "-", "")
        except MusterError as error:
            yield f"--lease: {error}"


def _about_access(options: ServeOptions) -> Iterator[str]:
    if (options.tls_cert is None) != (options.tls_key is None):
        yield "--tls-cert and --tls-key need each other"
    for name in options.hosts:
        host = host_of(name)
        if host is None or host[1] or not host[0]:
            yield f"--host: {name!r}: must be a name or an IP address, without a port"
    listen = (*options.listens(), options.yunikorn_listen)
    known = set[str]()
    for written in listen:
        if written is not None:
            if written in known and not written.endswith(":0"):
                yield f"--listen: {written} is there twice"
            known.add(written)
            yield from _about_address(written, options)


# ACCESS-6, LOCAL-21
def _about_address(written: str, options: ServeOptions) -> Iterator[str]:
    try:
        address = Address.read(written)
        is_private = address.is_private()
    except MusterError as error:
        yield str(error)
        return
    if not is_private and options.tokens is None:
        yield (
            f"listen: {written}: others could reach it, and nobody would need a token: "
            f"name a file with --tokens, or listen on a loopback address or a Unix socket"
        )
    elif address.path is None and options.is_open and not options.trust_local:
        yield (
            f"listen: {written}: every user of this machine could run commands as the user of the "
            f"service: listen on unix:PATH, name a file with --tokens, or say --trust-local"
        )


def read_initial_configuration(options: ServeOptions) -> Configuration | None:
    """Return the configuration to start with, or None if there is no file of it.

    Args:
        options: What the service is started with.

    Raises:
        OSError: If the configuration cannot be read.
        ConfigError: If it is refused.
        StoreError: If another process has the state directory, or there can be none.
    """
    configuration = configuration_of(options.config, options.partition)
    if options.state is not None and options.listens() == (options.socket,):
        make_directory(options.state)  # for the socket
    if options.state is not None and options.state.is_dir():
        # It is locked for good when it is opened, after the service has said where it listens.
        Lock(options.state).release()
    return None if options.config is None else configuration
