"""``muster serve``: run Muster as a service."""

from __future__ import annotations

import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
import trio

from muster._errors import StoreError
from muster.cli._local.flags import local_options, take_local
from muster.cli._options import UNUSABLE, complain, example
from muster.service.options import ServeOptions
from muster.service.serve import serve
from muster_core.errors import MusterError


@click.command("serve", epilog=example("muster serve --config queues.yaml --state state"))
@click.option(
    "--config", type=click.Path(path_type=Path), metavar="FILE", help="The configuration."
)
@click.option(
    "--state",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Keep the state in this directory; without it nothing is kept.",
)
@click.option(
    "--listen",
    multiple=True,
    default=("127.0.0.1:9080",),
    show_default=True,
    metavar="HOST:PORT",
    help="Where to listen; may be given several times.",
)
@click.option("--run", type=click.Choice(["none", "local"]), default="none", help="Who works.")
@local_options
@click.pass_context
def command(context: click.Context, /, **values: Any) -> None:  # noqa: ANN401 - of any type
    """Run Muster as a service, until Ctrl-C or SIGTERM.

    Exit status: 0 when it ended as it was told, 2 if it could not start or go on.
    """
    local = take_local(values)
    options = ServeOptions(**values, local=local)
    if options.state is None:
        complain("nothing is kept: name a directory with --state to keep the state")
    try:
        trio.run(_run, options)
    except (MusterError, StoreError, OSError) as error:
        complain(str(error))
        context.exit(UNUSABLE)


async def _run(options: ServeOptions) -> None:
    """Run the service, and end it at a signal."""
    ends = trio.Event()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_end_at_signal, ends)
        await serve(options, ends=ends, listening=_tell)
        nursery.cancel_scope.cancel()


async def _end_at_signal(ends: trio.Event) -> None:
    with trio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
        async for _ in signals:
            ends.set()


def _tell(addresses: Sequence[str]) -> None:
    for address in addresses:
        complain(f"listening on {address}")
