"""The submission of a job as texts: the options of ``sbatch``, its script and its comment.

One script is around each command, and one around those of a gang. The comment of a job names its
ask: ``muster:APP/ASK/RUN``, and ``@TERM`` if that is not the first term. These are pure functions,
without commands or tasks.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Mapping, Sequence
from typing import Final, final
from urllib.parse import quote, unquote

import attrs

from muster.slurm._nodes import Share
from muster.subprocesses import Command
from muster_core.errors import EventError

_OF_GANG: Final = "*"

FIRST_TERM: Final = 1
"""The term of jobs without one: of the first leader, or of a scheduler without a store."""

_MOST: Final = 1000
"""The most characters of a comment; Slurm refuses more than 1,023."""

_AN_END: Final = 4
"""How many characters the end of a member takes at most, with the comma: 255."""


@final
@attrs.frozen
class JobTag:
    """The owner of a job.

    Attributes:
        namespace: The namespace of the program.
        app: The application; of a gang's job the full name of the gang.
        ask: The ask, or None for a gang's job.
        numbers: The numbers of the allocations, in ascending order.
        term: The term of the leader that has submitted it; the first one is not written.
    """

    namespace: str
    app: str
    ask: str | None
    numbers: tuple[int, ...]
    term: int = FIRST_TERM

    @property
    def text(self) -> str:
        """The comment of the job when it is submitted."""
        term = f"@{self.term}" if self.term > FIRST_TERM else ""
        return f"{self.name}/{_ranges(self.numbers)}{term}"

    @property
    def name(self) -> str:
        """The comment without the numbers and the term."""
        ask = _OF_GANG if self.ask is None else _written(self.ask)
        return f"{self.namespace}:{_written(self.app)}/{ask}"

    @property
    def job_name(self) -> str:
        """The name of the job. Jobs of one name do not run at the same time."""
        return self.name if self.ask is not None else f"{self.name}/{self.numbers[0]}"

    def check(self) -> None:
        """Check that a comment can hold it.

        Raises:
            EventError: If it is too long.
        """
        ends = 0 if self.ask is not None else _AN_END * len(self.numbers)
        if len(self.text) + ends <= _MOST:
            return
        if self.ask is None:
            msg = (
                f"gang: {self.app!r}: {len(self.numbers)} members are too many to be started "
                "together: Slurm's comments, which say how they end, are too short"
            )
        else:
            msg = f"app, ask: {self.app!r}, {self.ask!r}: too long for a comment of Slurm"
        raise EventError(msg)


@final
@attrs.frozen
class JobComment:
    """The content of the comment of a job.

    Attributes:
        tag: The owner of the job.
        ends: How its members have ended: exit statuses as a shell says them, by number.
    """

    tag: JobTag
    ends: dict[int, int]


def read_comment(text: str) -> JobComment | None:
    """Read the comment of a job; None if it is not one of ours."""
    whose, _, ends = text.partition(" ")
    namespace, colon, rest = whose.partition(":")
    parts = rest.split("/")
    if not colon or len(parts) != 3:
        return None
    app, ask, last = parts
    ranges, at, term = last.partition("@")
    numbers = _numbers(ranges)
    if not numbers or (at and not (term.isascii() and term.isdecimal())):
        return None
    named = None if ask == _OF_GANG else unquote(ask)
    tag = JobTag(namespace, unquote(app), named, numbers, int(term or FIRST_TERM))
    found = {
        number: int(end)
        for number, end in zip(numbers, ends.split(","), strict=False)
        if end.isdecimal()
    }
    return JobComment(tag, found)


def _written(name: str) -> str:
    return quote(name, safe="@+:,=")


def _ranges(numbers: Sequence[int]) -> str:
    """Write numbers as ranges: ``17-20,23``."""
    ranges: list[list[int]] = []
    for number in numbers:
        if ranges and ranges[-1][1] == number - 1:
            ranges[-1][1] = number
        else:
            ranges.append([number, number])
    return ",".join(f"{a}" if a == b else f"{a}-{b}" for a, b in ranges)


def _numbers(ranges: str) -> tuple[int, ...]:
    """Read ranges; empty if these are none."""
    found: list[int] = []
    for part in ranges.split(","):
        first, dash, last = part.partition("-")
        if not first.isdecimal() or (dash and not last.isdecimal()):
            return ()
        begin, end = int(first), int(last if dash else first)
        if end - begin >= _MOST or (found and begin <= found[-1]):
            return ()
        found += range(begin, end + 1)
    return tuple(found)


NOT_THERE: Final = 12
"""The number of SIGUSR2, with which a script ends itself if it cannot start its command."""

_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_TENTHS: Final = 10
_LONGEST_GRACE: Final = 10**9

# The command runs in the process group of the script. SIGTERM to the script goes to all of the
# group; what still runs after the grace period is killed, and before that the script does not end:
# with it Slurm would kill the rest of the group at once. SIGTERM may come at any moment, also before
# the script waits for its command: so the trap does all that is to be done then.
_AROUND: Final = """\
not_there() {{ echo "muster: $1" >&2; kill -s USR2 $$; sleep 5; exit 1; }}
others() {{
    found=
    for stat in /proc/[0-9]*/stat; do
        {{ read -r line <"$stat"; }} 2>/dev/null || continue
        set -- ${{line##*) }}
        [ "$3" = "$group" ] && [ "$1" != Z ] && [ "$1" != X ] || continue
        pid=${{stat#/proc/}}; pid=${{pid%/stat}}
        [ "$pid" = $$ ] || found="$found $pid"
    done
    [ -n "$found" ]
}}
end_all() {{
    trap '' TERM
    if [ -n "$group" ]; then kill -s TERM 0; kill -s CONT 0; else kill -s TERM $child; fi
}}
finish() {{
    trap '' TERM
    tenths=0
    while others; do
        [ $tenths -lt {grace} ] || kill -s KILL $found 2>/dev/null
        sleep 0.1
        tenths=$((tenths + 1))
    done
}}
end_early() {{
    {on_term}
    finish
    wait $child 2>/dev/null; last=$?; [ $last = 127 ] || status=$last
    exit $status
}}
{{ read -r line <"/proc/$$/stat"; }} 2>/dev/null && set -- ${{line##*) }} && group=$3
[ "$group" = $$ ] || group=
{prepare}
ended= child= status=143
trap 'ended=yes; [ -z "$child" ] || end_early' TERM
exec {command} <&9 9<&- &
child=$!
[ -z "$ended" ] || end_early
wait $child; status=$?
others && end_all
finish
"""

# Each end comes through a pipe, and goes to slurmctld in the comment of the job. A controller
# that is away is asked again; one that is there and refuses is not asked for ever.
_GANG: Final = """\
command -v scontrol >/dev/null || {{ kill -s USR2 $$; sleep 5; exit 1; }}
pipe=$(mktemp -d) || {{ kill -s USR2 $$; sleep 5; exit 1; }}
mkfifo "$pipe/ends" && exec 3<>"$pipe/ends" && rm -r "$pipe"
{members}
left={count}
while [ $left -gt 0 ]; do
    read -r index status <&3
    eval "end_$index=$status"
    left=$((left - 1))
    ends= i=0
    while [ $i -lt {count} ]; do
        eval "ends=\\"\\$ends\\$end_$i,\\""
        i=$((i + 1))
    done
    refused=0
    until scontrol update JobId="$SLURM_JOB_ID" Comment={comment}" $ends" >/dev/null 2>&1; do
        sleep 1
        scontrol ping 2>/dev/null | grep -q UP && refused=$((refused + 1))
        [ $refused -lt 10 ] || break
    done
done
wait
"""


@final
@attrs.frozen
class MemberWork:
    """The work of an allocation.

    Attributes:
        number: The number of the allocation.
        node: The node.
        share: The amounts that it takes there.
        command: The command.
        env: The variables that name its ask.
        grace_s: How long it may take to end after SIGTERM, in seconds.
    """

    number: int
    node: str
    share: Share
    command: Command
    env: Mapping[str, str]
    grace_s: float


def step_name(namespace: str, number: int) -> str:
    """Return the name of the job step of a member."""
    return f"{namespace}-{number}"


def script_of(work: MemberWork, result: str | None) -> str:
    """Return the script of a job with one command.

    Args:
        work: The command.
        result: The file into which the exit status is written, if it ends by itself; or None.
    """
    lines = ["#!/bin/sh", _command_lines(work, "end_all"), _keeping(result), "exit $status", ""]
    return "\n".join(lines)


def gang_script(
    tag: JobTag, members: Sequence[MemberWork], groups: Mapping[str, int] | None, result: str | None
) -> str:
    """Return the script of a gang's job, which runs each command as a job step on its node.

    Args:
        tag: The owner of the job.
        members: The members, in the order of their numbers.
        groups: The component of each node, if the job is heterogeneous.
        result: The beginning of the names of the files with exit statuses, or None.
    """
    started: list[str] = []
    for index, work in enumerate(members):
        # A signal to a step goes to all of its processes, so the script need not pass it on.
        inner = f"{_command_lines(work, ':')}{_keeping(_result_of(result, work))}\nexit $status"
        step = [
            "srun",
            "--exact",
            "--nodes=1",
            "--ntasks=1",
            f"--nodelist={work.node}",
            f"--job-name={step_name(tag.namespace, work.number)}",
            "--kill-on-bad-exit=0",
            "--input=none",
            "--quiet",
            *work.share.options,
        ]
        if groups is not None:
            step.insert(1, f"--het-group={groups[work.node]}")
        line = shlex.join([*step, "/bin/sh", "-c", inner])
        started.append(f'( {line} 3>&-; echo "{index} $?" >&3 ) &')
    body = _GANG.format(
        members="\n".join(started), count=len(members), comment=shlex.quote(tag.text)
    )
    return f"#!/bin/sh\n{body}"


def _result_of(result: str | None, work: MemberWork) -> str | None:
    return None if result is None else f"{result}{work.number}"


def _keeping(result: str | None) -> str:
    """Return the line that keeps the exit status of a command that has ended by itself."""
    if result is None:
        return ""
    new, kept = shlex.quote(f"{result}.new"), shlex.quote(result)
    return f'[ -n "$ended" ] || {{ echo $status >{new} && mv {new} {kept}; }} 2>/dev/null'


def _command_lines(work: MemberWork, on_term: str) -> str:
    command = work.command
    variables = {**command.env, **work.env}
    # A shell has no variables with other names; `env` has.
    others = [f"{name}={text}" for name, text in variables.items() if not _NAME.fullmatch(name)]
    prepare = [
        f"export {name}={shlex.quote(text)}"
        for name, text in variables.items()
        if _NAME.fullmatch(name)
    ]
    if command.cwd is not None:
        folder = shlex.quote(os.fspath(command.cwd))
        prepare.append(f"cd -- {folder} || not_there 'its folder is not there'")
    given = "/dev/null" if command.stdin is None else shlex.quote(os.fspath(command.stdin))
    prepare.append(f"[ -r {given} ] || not_there 'its input cannot be read'")
    # A shell gives what it runs in the background an empty input instead of its own.
    prepare.append(f"exec 9<{given}")
    for number, file in (("", command.stdout), ("2", command.stderr)):
        if file is not None:
            name = shlex.quote(os.fspath(file))
            opened = f"{{ true >>{name}; }} 2>/dev/null"
            prepare.append(f"{opened} || not_there 'its output cannot be written'")
            prepare.append(f"exec {number}>>{name}")
    if isinstance(command.run, str):
        line = ["/bin/sh", "-c", command.run]
    else:
        line = list(command.run)
        program = shlex.quote(line[0]) if line else "''"
        prepare.append(f"command -v -- {program} >/dev/null || not_there 'no such program'")
    if others:
        line = ["env", *others, *line]
    grace = int(min(work.grace_s * _TENTHS, _LONGEST_GRACE))
    return _AROUND.format(
        prepare="\n".join(prepare), on_term=on_term, command=shlex.join(line), grace=grace
    )


_LONGEST_NAME: Final = 200
"""The most characters of a tag in the name of a file with results."""


@final
@attrs.frozen
class SubmitOptions:
    """The options for submitting jobs.

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
class JobSpec:
    """A job to submit.

    Attributes:
        tag: Its owner.
        members: Its commands, in the order of their numbers.
    """

    tag: JobTag
    members: tuple[MemberWork, ...]

    @property
    def shares(self) -> Mapping[str, Share]:
        """The amounts that the job takes of each node."""
        found: dict[str, Share] = {}
        for work in self.members:
            before = found.get(work.node)
            found[work.node] = work.share if before is None else before + work.share
        return found

    def is_heterogeneous(self, site: SubmitOptions) -> bool:
        """Whether each node is a component: with different amounts it has to be."""
        shares = self.shares
        return len(set(shares.values())) > 1 or (site.has_components and len(shares) > 1)

    def script(self, site: SubmitOptions) -> str:
        """Return the script of the job."""
        if self.tag.ask is not None:
            (work,) = self.members
            return script_of(work, result_file(site, self.tag, work.number))
        groups = None
        if self.is_heterogeneous(site):
            groups = {node: place for place, node in enumerate(self.shares)}
        result = None if site.results is None else f"{site.results}/{_file(self.tag.name)}-"
        return gang_script(self.tag, self.members, groups, result)

    def result_files(self, site: SubmitOptions) -> tuple[str, ...]:
        """Return the names of the files into which exit statuses will be written."""
        found = (result_file(site, self.tag, work.number) for work in self.members)
        return tuple(name for name in found if name is not None)

    def command(self, site: SubmitOptions) -> tuple[str, ...]:
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
        self, site: SubmitOptions, name: str, nodes: Sequence[str], share: Share
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


def result_file(site: SubmitOptions, tag: JobTag, number: int) -> str | None:
    """Return the name of the file with the exit status of an allocation, or None."""
    if site.results is None:
        return None
    return f"{site.results}/{_file(tag.name)}-{number}"


def _file(name: str) -> str:
    return name.replace("/", "%2F")[:_LONGEST_NAME]
