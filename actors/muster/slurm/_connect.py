"""Checks that Slurm can be used, and uses it for the time of a block."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, get_args

import trio

from muster._surface.context import opens_in
from muster.slurm._batch import Ground
from muster.slurm._commands import Commands
from muster.slurm._errors import SlurmError
from muster.slurm._slurm import Slurm, check_seconds
from muster.slurm._texts.amounts import DEFAULT_RESOURCES, Amounts
from muster.slurm._texts.orders import Site
from muster.slurm._watch import Watch
from muster_core.errors import EventError

if TYPE_CHECKING:
    from os import PathLike

GangForm = Literal["job", "components"]
"""How a gang on several nodes is submitted; see :func:`connect`."""

_RESULTS_KEPT_S: Final = 30 * 86400.0
"""How long files with exit statuses are kept, in seconds."""


@opens_in("trio", "muster.slurm.connect", elsewhere="muster.asyncio.slurm.connect")
async def connect(
    *,
    partition: str | None = None,
    reservation: str | None = None,
    namespace: str = "muster",
    options: Sequence[str] = (),
    resources: Mapping[str, str] = DEFAULT_RESOURCES,
    results: str | PathLike[str] | None = None,
    gangs: GangForm = "job",
    every: float = 1.0,
    adopt_within: float = 60.0,
) -> AsyncGenerator[Slurm]:
    """Use Slurm, by its commands, as the user of this program, for the time of a block.

    Open it outside of the scheduler, so that a scheduler that closes can still end its jobs. Jobs
    of an earlier program with this namespace are taken over, or ended: so no two programs of one
    user may have one namespace at the same time.

    Args:
        partition: The partition whose nodes Muster gives out; default: Slurm's default partition.
            It should be Muster's alone.
        reservation: A reservation in it, to use these nodes only.
        namespace: How the comments of the jobs begin.
        options: Further options of sbatch for each job, such as ``--account=physics``.
        resources: What Slurm's resources are called in Muster; the others keep their names.
        results: A folder that all nodes share, in which jobs keep their exit statuses. With it a
            program finds how a job has ended that Slurm has forgotten (after ``MinJobAge``).
        gangs: How a gang on several nodes is submitted. ``job``: as one job, which Slurm starts as
            soon as there is room, and which keeps the room of a member that has ended until the
            last one has. ``components``: as a heterogeneous job with one component for each node,
            which gives such a node back at once, but is started by Slurm's backfill only, some
            time later. Members that need different amounts on different nodes are always this.
        every: How often to ask Slurm for all jobs at most, in seconds.
        adopt_within: How long jobs of an earlier program are kept that no scheduler takes over,
            in seconds; 5 seconds once ``follow`` runs.

    Raises:
        EventError: If an argument is invalid.
        SilentError: If Slurm's controller does not answer.
        SlurmError: If the commands of Slurm are not there, or there is no such partition
            or reservation.
    """
    if not namespace.isascii() or not namespace.replace("-", "").isalnum():
        msg = f"namespace: {namespace!r}: must be letters, digits and hyphens"
        raise EventError(msg)
    if gangs not in get_args(GangForm):
        msg = f"gangs: {gangs!r}: must be one of {', '.join(get_args(GangForm))}"
        raise EventError(msg)
    check_seconds("every", every, above_zero=True)
    check_seconds("adopt_within", adopt_within, above_zero=False)
    folder = None if results is None else str(Path.cwd() / results)
    commands = Commands()
    commands.check()
    site = Site(
        await _partition(commands, partition),
        reservation,
        tuple(options),
        folder,
        gangs == "components",
    )
    if reservation is not None:
        await commands.run(("scontrol", "show", "reservation", reservation, "--oneliner"))
    config = await commands.run(("scontrol", "show", "config"))
    amounts = Amounts(resources, counts_memory=_counts_memory(config))
    if folder is not None:
        await trio.to_thread.run_sync(_prune, Path(folder))
    watch = Watch(commands, every)
    await watch.ask()
    async with trio.open_nursery() as nursery:
        ground = Ground(commands, watch, site, set())
        slurm = Slurm(ground, nursery, amounts, namespace=namespace, adopt_within=adopt_within)
        slurm.find_earlier()
        watch.told = slurm.hear
        nursery.start_soon(watch.run)
        nursery.start_soon(slurm.end_orphans)
        try:
            yield slurm
        finally:
            nursery.cancel_scope.cancel()


async def _partition(commands: Commands, name: str | None) -> str:
    """Return the partition, which is checked, or the default one.

    Raises:
        SlurmError: If there is none.
    """
    printed = await commands.run(("sinfo", "--noheader", "--all", "--format=%P"))
    marked = printed.split()
    names = [one.rstrip("*") for one in marked]
    if name is None:
        name = next((one.rstrip("*") for one in marked if one.endswith("*")), None)
        if name is None:
            msg = f"partition: Slurm has no default one; there are {', '.join(names) or 'none'}"
            raise SlurmError(msg)
    elif name not in names:
        msg = f"partition: {name!r}: there are {', '.join(names) or 'none'}"
        raise SlurmError(msg)
    return name


def _counts_memory(config: str) -> bool:
    """Return whether Slurm gives memory out, by what ``scontrol show config`` has printed."""
    for line in config.splitlines():
        name, _, setting = line.partition("=")
        if name.strip() == "SelectTypeParameters":
            return "MEMORY" in setting.upper()
    return False


def _prune(folder: Path) -> None:
    """Make the folder for results, and remove old ones.

    Raises:
        SlurmError: If it cannot be used.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        newest = max((file.stat().st_mtime for file in folder.iterdir()), default=0.0)
        for file in folder.iterdir():
            if file.stat().st_mtime < newest - _RESULTS_KEPT_S:
                file.unlink()
    except OSError as error:
        msg = f"results: {str(folder)!r}: {error.strerror or error}"
        raise SlurmError(msg) from None
