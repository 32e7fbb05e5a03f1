"""What keeps the service from starting is found before anybody can connect."""

from __future__ import annotations

from typing import TYPE_CHECKING

from muster._surface.conversion import configuration_of
from muster.store._format import make_directory
from muster.store._lock import Lock

if TYPE_CHECKING:
    from muster.service.options import ServeOptions
    from muster_core.config.model import Configuration


def read_beforehand(options: ServeOptions) -> Configuration | None:
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
