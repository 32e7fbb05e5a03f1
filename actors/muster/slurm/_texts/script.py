"""The scripts that Slurm runs: one around each command, and one around those of a gang.

They are written for any POSIX shell with Linux's ``/proc``, and need nothing of Muster on a node.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Mapping, Sequence
from typing import Final, final

import attrs

from muster.slurm._texts.amounts import Share
from muster.slurm._texts.tags import Tag
from muster.subprocesses import Command

NOT_THERE: Final = 12
"""The number of SIGUSR2, with which a script ends itself if it cannot start its command."""

_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_TENTHS: Final = 10
_LONGEST_GRACE: Final = 10**9

# The command runs in the process group of the script. SIGTERM to the script goes to all of the
# group; what still runs after the grace period is killed, and before that the script does not end:
# with it Slurm would kill the rest of the group at once. SIGTERM may come at any moment, also before
# the script waits for its command: so all that is then to be done is done where it is trapped.
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

# Each end comes through a pipe, and is told to slurmctld in the comment of the job. A controller
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
class Work:
    """What is to run for an allocation.

    Attributes:
        number: The number of the allocation.
        node: The node.
        share: What it takes there.
        command: The command.
        env: The variables that tell it what it is run for.
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


def script_of(work: Work, result: str | None) -> str:
    """Return the script of a job with one command.

    Args:
        work: The command.
        result: The file into which the exit status is written, if it ends by itself; or None.
    """
    lines = ["#!/bin/sh", _around(work, "end_all"), _keeping(result), "exit $status", ""]
    return "\n".join(lines)


def gang_script(
    tag: Tag, members: Sequence[Work], groups: Mapping[str, int] | None, result: str | None
) -> str:
    """Return the script of a gang's job, which runs each command as a job step on its node.

    Args:
        tag: Whose job it is.
        members: The members, in the order of their numbers.
        groups: The component of each node, if the job is heterogeneous.
        result: The beginning of the names of the files with exit statuses, or None.
    """
    started: list[str] = []
    for index, work in enumerate(members):
        # A signal to a step goes to all of its processes, so the script need not pass it on.
        inner = f"{_around(work, ':')}{_keeping(_result_of(result, work))}\nexit $status"
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


def _result_of(result: str | None, work: Work) -> str | None:
    return None if result is None else f"{result}{work.number}"


def _keeping(result: str | None) -> str:
    """Return the line that keeps an exit status of a command that nobody has ended."""
    if result is None:
        return ""
    new, kept = shlex.quote(f"{result}.new"), shlex.quote(result)
    return f'[ -n "$ended" ] || {{ echo $status >{new} && mv {new} {kept}; }} 2>/dev/null'


def _around(work: Work, on_term: str) -> str:
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
