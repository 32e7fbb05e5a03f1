"""Attack a service: ``python -m tests.attack --requests 100000``, or ``--minutes 60``.

It stops at the first fault, and says how to send the same requests again.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import click
import trio

from tests.actors.serving.served import Served
from tests.attack.client import (
    Findings,
    ServiceState,
    attack,
    faults_after,
    faults_in_log,
    read_state,
)
from tests.attack.requests import CONFIG

_AT_ONCE = 2_000
_WARM_UP = 500


@click.command()
@click.option("--requests", type=click.IntRange(min=1), help="How many requests are sent.")
@click.option("--minutes", type=click.FloatRange(min=0), help="How long it lasts.")
@click.option("--seed", type=int, default=1, show_default=True, help="What determines them.")
def main(requests: int | None, minutes: float | None, seed: int) -> None:
    """Send requests that make no sense, and check that the service stands them."""
    until = None if minutes is None else time.monotonic() + minutes * 60
    with tempfile.TemporaryDirectory(prefix="muster-attack-") as name:
        sent, statuses, faults = _attack(Path(name), requests, until, seed)
    for status, number in sorted(statuses.items()):
        click.echo(f"{number:9,} × {status or 'no answer'}")
    click.echo(f"{sent:9,} requests, {len(faults)} faults")
    for fault in faults[:10]:
        click.echo(f"\n{fault}")
    sys.exit(bool(faults))


def _attack(
    folder: Path, requests: int | None, until: float | None, seed: int
) -> tuple[int, Counter[int], list[str]]:
    statuses: Counter[int] = Counter()
    sent, faults = 0, list[str]()
    with Served(folder, "--state", str(folder / "state"), config=CONFIG) as served:
        before: ServiceState | None = None
        while not faults and not _is_over(sent, requests, until):
            count = _WARM_UP if before is None else _AT_ONCE
            if requests is not None:
                count = min(count, requests - sent)
            found = _attack_with(served, seed, count)
            for (_, status), number in found.statuses.items():
                statuses[status] += number
            sent += found.sent
            seed += 1_000_003
            faults = found.faults
            if before is None:
                before = read_state(served)
            faults += faults_after(served, before, sent)
            if faults:
                faults.append(f"again: python -m tests.attack --seed {seed - 1_000_003}")
        served.stop()
        faults += faults_in_log(served)
    return sent, statuses, faults


def _is_over(sent: int, requests: int | None, until: float | None) -> bool:
    if until is not None:
        return time.monotonic() >= until
    return sent >= (requests or 100_000)


def _attack_with(served: Served, seed: int, count: int) -> Findings:
    host, _, port = served.urls[0].removeprefix("http://").rpartition(":")
    return trio.run(attack, host, int(port), seed, count)


if __name__ == "__main__":
    main()
