"""A process that acquires a lease in a file: ``python -m tests.actors.serving.replication.holder``.

Its arguments are the file, its own name and the times of the lease. It prints ``waits``, ``holds`` and
``lost``, each in a line, when its state changes.
"""

from __future__ import annotations

import sys
from pathlib import Path

import click
import trio

from muster._leases import LeaseTimes
from muster.service.replication.election import FileLease


async def main(*words: str) -> None:
    path, name, held_s, renewed_s, given_up_s = words
    times = LeaseTimes(int(held_s), float(renewed_s), float(given_up_s))
    lease = FileLease(Path(path), name, times=times)
    await lease.look()
    click.echo("waits")
    await lease.acquire()
    click.echo("holds")
    await lease.hold()
    click.echo("lost")


if __name__ == "__main__":
    trio.run(main, *sys.argv[1:])
