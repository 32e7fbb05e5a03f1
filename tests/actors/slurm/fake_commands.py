"""Stands for the commands of Slurm, with a folder for a state.

A test says in the folder what becomes of jobs, and how Slurm misbehaves. Nothing runs.

What asks is asked many times a second, and a Python that starts costs ten times as much as a shell:
so these commands are scripts that print an answer which is ready. Whoever changes the state makes
the answers. ``sbatch`` and ``scancel`` change it: ``python fake_commands.py COMMAND …``.
"""

from __future__ import annotations

import fcntl
import json
import os
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

SILENT = "sbatch: error: Unable to contact slurm controller (connect failure)\n"


BETWEEN = "\x1f"
"""What separates the arguments of a call in the list of all calls; names may have new lines."""
END = "\x1e"
"""What a call in this list ends with."""

_HEAD = f"""#!/bin/sh
cd "$FAKE_SLURM" || exit 1
IFS='{BETWEEN}'
name=${{0##*/}}
call="$name${{*:+{BETWEEN}$*}}"
printf '%s{END}' "$call" >> calls
"""

_ASKS = """case "$name $1 $2" in
    'squeue --steps '*) name=steps ;;
    'scontrol show config') name=config ;;
    'scontrol show reservation') name=reservation ;;
esac
if [ -e away ] && [ "$name" != squeue ]; then
    printf '%s' '{silent}' >&2
    exit 1
fi
if [ "$name" = reservation ]; then
    printf 'Reservation %s not found\\n' "$3" >&2
    exit 1
fi
exec cat "$name.answer"
"""


def write_commands(folder: Path) -> None:
    """Write the commands, for ``PATH``; ``FAKE_SLURM`` has to be the folder of the state."""
    folder.mkdir()
    for name in ("squeue", "sinfo", "scontrol"):
        _write_command(folder / name, _HEAD + _ASKS.format(silent=SILENT))
    for name in ("sbatch", "scancel"):
        _write_command(
            folder / name, f'{_HEAD}exec {sys.executable} -I -S {__file__} {name} "$@"\n'
        )


def _write_command(file: Path, script: str) -> None:
    file.write_text(script, encoding="utf-8")
    file.chmod(0o755)


def begin(folder: Path) -> None:
    """Begin with a state of two nodes and no jobs."""
    folder.mkdir()
    (folder / "calls").touch()
    state = new_state()
    (folder / "state.json").write_text(json.dumps(state), encoding="utf-8")
    _put(folder / "sinfo.answer", "p*\nother\n")
    _put(folder / "config.answer", "SelectTypeParameters = CR_CPU_MEMORY\n")
    _make_answers(folder, state)


@contextmanager
def state_in(folder: Path) -> Generator[dict[str, Any], None, None]:
    """Read the state; at the end of the block write it back, and make the answers.

    The process may be killed at any moment, for example when its job has gone.
    """
    with (folder / "lock").open("ab") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        before = (folder / "state.json").read_text(encoding="utf-8")
        state: dict[str, Any] = json.loads(before)
        yield state
        after = json.dumps(state)
        if after != before:
            _put(folder / "state.json", after)
            _make_answers(folder, state)


def _make_answers(folder: Path, state: dict[str, Any]) -> None:
    answer: dict[str, Any] = {"errors": [], "jobs": state["jobs"]}
    if state["away"]:
        (folder / "away").touch()
        answer = {"errors": [{"source": "slurm_load_jobs"}], "jobs": []}  # as squeue 22.05 does
    else:
        (folder / "away").unlink(missing_ok=True)
    _put(folder / "squeue.answer", json.dumps(answer))
    _put(folder / "steps.answer", steps(state))
    _put(folder / "scontrol.answer", "\n".join(state["nodes"]) + "\n")


def _put(file: Path, text: str) -> None:
    """Write a file that others read at any moment."""
    new = file.with_suffix(".new")
    new.write_text(text, encoding="utf-8")
    new.replace(file)


def new_state() -> dict[str, Any]:
    """Return the state of a Slurm with two nodes and no jobs."""
    node = "NodeName={0} CPUTot=4 RealMemory=1000 State=IDLE Partitions=p Gres=(null)"
    return {
        "jobs": [],
        "nodes": [node.format("n1"), node.format("n2")],
        "away": False,
        "deaf": False,  # whether jobs do not end when they are asked to
        "steps": True,  # whether the members of gangs' jobs have begun
        # or "unheard": it accepts, but the answer is lost; "lost"; "refuses"; "chats"; "stammers"
        "sbatch": "good",
        "held": False,  # whether sbatch does not come back
    }


def option(arguments: list[str], name: str) -> str:
    """Return the value of ``--name=value``."""
    return next((one.partition("=")[2] for one in arguments if one.startswith(f"--{name}=")), "")


def sbatch(state: dict[str, Any], arguments: list[str]) -> tuple[int, str, str]:
    """Submit a job."""
    behaviour = state["sbatch"]
    state["sbatch"] = "good"
    if behaviour == "refuses":
        return 1, "", "sbatch: error: Batch job submission failed: Invalid account\n"
    if behaviour == "lost":
        return 1, "", SILENT
    number = len(state["jobs"]) + 1
    state["jobs"].append(
        {
            "job_id": number,
            "job_state": "PENDING",
            "exit_code": 0,
            "comment": option(arguments, "comment"),
            "nodes": "",
            "wanted": option(arguments, "nodelist"),
            "state_reason": "None",
            "script": sys.stdin.read(),
        }
    )
    if behaviour == "unheard":
        return 1, "", "sbatch: error: Batch job submission failed: Socket timed out\n"
    if behaviour == "stammers":
        return 0, "accepted!\n", ""
    greeting = "Welcome to the cluster.\n" if behaviour == "chats" else ""
    return 0, f"{greeting}{number}\n", ""


def members(job: dict[str, Any]) -> list[int]:
    """Return the numbers of the allocations of a job."""
    found: list[int] = []
    for part in (
        str(job["comment"]).partition(" ")[0].rpartition("/")[2].partition("@")[0].split(",")
    ):
        first, _, last = part.partition("-")
        found += range(int(first), int(last or first) + 1)
    return found


def ends(job: dict[str, Any]) -> list[str]:
    """Return how the members of a gang's job have ended, as its comment says it."""
    written = str(job["comment"]).partition(" ")[2]
    return written.split(",") if written else [""] * len(members(job))


def steps(state: dict[str, Any]) -> str:
    """List the job steps of gangs' jobs that run."""
    return "".join(
        f"{job['job_id']}.{place}|muster-{number}\n"
        for job in state["jobs"]
        if job["job_state"] == "RUNNING" and "/*/" in job.get("comment", "")
        for place, number in enumerate(members(job))
        if state["steps"] and not ends(job)[place]
    )


def signal_step(state: dict[str, Any], step: str) -> None:
    """Let a member end; with the last one, its job ends."""
    number, _, place = step.partition(".")
    for job in state["jobs"]:
        if str(job["job_id"]) != number or state["deaf"]:
            continue
        written = ends(job)
        written[int(place)] = "143"
        job["comment"] = f"{job['comment'].partition(' ')[0]} {','.join(written)}"
        if all(written[: len(members(job))]):
            job["job_state"] = "COMPLETED"


def scancel(state: dict[str, Any], arguments: list[str]) -> tuple[int, str, str]:
    """Cancel a job, or note that it gets a signal."""
    is_signal = any(one.startswith("--signal") for one in arguments)
    if is_signal and "." in arguments[-1]:
        signal_step(state, arguments[-1])
    for job in state["jobs"]:
        if str(job["job_id"]) != arguments[-1] or job["job_state"] not in ("PENDING", "RUNNING"):
            continue
        if not is_signal:
            job["job_state"] = "CANCELLED"
        elif not state["deaf"]:
            job |= {"job_state": "FAILED", "exit_code": 143 << 8}
    return 0, "", ""


def is_held(folder: Path) -> bool:
    """Return whether sbatch is not to come back now."""
    with state_in(folder) as state:
        return bool(state["held"])


def main(command: str, arguments: list[str]) -> int:
    """Answer as a command of Slurm does."""
    folder = Path(os.environ["FAKE_SLURM"])
    while command == "sbatch" and is_held(folder):
        time.sleep(0.02)
    with state_in(folder) as state:
        if state["away"]:
            status, printed, trouble = 1, "", SILENT
        else:
            act = sbatch if command == "sbatch" else scancel
            status, printed, trouble = act(state, arguments)
    sys.stdout.write(printed)
    sys.stderr.write(trouble)
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
