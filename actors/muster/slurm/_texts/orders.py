"""What is to be submitted: the options of ``sbatch``, and the script."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, final

import attrs

from muster.slurm._texts.amounts import Share
from muster.slurm._texts.script import Work, gang_script, script_of
from muster.slurm._texts.tags import Tag

_LONGEST_NAME: Final = 200
"""How many characters of a tag may be the name of a file with results."""


@final
@attrs.frozen
class Site:
    """How jobs are submitted.

    Attributes:
        partition: The partition.
        reservation: The reservation, or None.
        options: Further options of sbatch.
        results: The shared folder for exit statuses, or None.
        has_components: Whether each node of a gang is a component of its job.
    """

    partition: str
    reservation: str | None
    options: Sequence[str]
    results: str | None
    has_components: bool = False

    @property
    def common(self) -> tuple[str, ...]:
        """The options that each component of a job has."""
        reservation = () if self.reservation is None else (f"--reservation={self.reservation}",)
        return (*self.options, f"--partition={self.partition}", *reservation)


@final
@attrs.frozen
class Order:
    """A job to submit.

    Attributes:
        tag: Whose it is.
        members: Its commands, in the order of their numbers.
    """

    tag: Tag
    members: tuple[Work, ...]

    @property
    def shares(self) -> Mapping[str, Share]:
        """What the job takes of each node."""
        found: dict[str, Share] = {}
        for work in self.members:
            before = found.get(work.node)
            found[work.node] = work.share if before is None else before + work.share
        return found

    def is_heterogeneous(self, site: Site) -> bool:
        """Whether each node is a component: with different amounts it has to be."""
        shares = self.shares
        return len(set(shares.values())) > 1 or (site.has_components and len(shares) > 1)

    def script(self, site: Site) -> str:
        """Return the script of the job."""
        if self.tag.ask is not None:
            (work,) = self.members
            return script_of(work, result_file(site, self.tag, work.number))
        groups = None
        if self.is_heterogeneous(site):
            groups = {node: place for place, node in enumerate(self.shares)}
        result = None if site.results is None else f"{site.results}/{_file(self.tag.name)}-"
        return gang_script(self.tag, self.members, groups, result)

    def result_files(self, site: Site) -> tuple[str, ...]:
        """Return the names of the files into which exit statuses will be written."""
        found = (result_file(site, self.tag, work.number) for work in self.members)
        return tuple(name for name in found if name is not None)

    def command(self, site: Site) -> tuple[str, ...]:
        """Return the command that submits the job, which reads the script."""
        tag = self.tag
        fixed = ["--parsable", "--no-requeue"]
        if all(work.command.stdout is not None for work in self.members):
            fixed.append("--output=/dev/null")  # else it is Slurm's own file, as usual there
        shares = self.shares
        if not self.is_heterogeneous(site):
            share = next(iter(shares.values()))
            own = self._component(site, tag.job_name, tuple(shares), share)
            return ("sbatch", *fixed, *own)
        words = ["sbatch", *fixed]
        for place, (node, share) in enumerate(shares.items()):
            # Components of one name would wait for each other for ever.
            words += [":"] if place else []
            words += self._component(site, f"{tag.job_name}+{place}", (node,), share)
        return tuple(words)

    def _component(
        self, site: Site, name: str, nodes: Sequence[str], share: Share
    ) -> tuple[str, ...]:
        return (
            *site.common,
            f"--job-name={name}",
            "--dependency=singleton",
            f"--comment={self.tag.text}",
            f"--nodelist={','.join(nodes)}",
            f"--nodes={len(nodes)}",
            f"--ntasks={len(nodes)}",
            "--ntasks-per-node=1",
            *share.options,
        )


def result_file(site: Site, tag: Tag, number: int) -> str | None:
    """Return the name of the file with the exit status of an allocation, or None."""
    if site.results is None:
        return None
    return f"{site.results}/{_file(tag.name)}-{number}"


def _file(name: str) -> str:
    return name.replace("/", "%2F")[:_LONGEST_NAME]
