"""Stands for each command of Slurm: ``python fake_commands.py COMMAND …``, with a file for a state.

A test says in the file what becomes of jobs, and how Slurm misbehaves. Nothing runs.
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


@contextmanager
def state_in(file: Path) -> Generator[dict[str, Any], None, None]:
    """Read the state, and write it back at the end of the block."""
    with file.open("r+", encoding="utf-8") as opened:
        fcntl.flock(opened, fcntl.LOCK_EX)
        state: dict[str, Any] = json.load(opened)
        yield state
        opened.seek(0)
        opened.truncate()
        json.dump(state, opened)


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
        "calls": [],
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
    for part in str(job["comment"]).partition(" ")[0].rpartition("/")[2].split(","):
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
    asked = any(one.startswith("--signal") for one in arguments)
    if asked and "." in arguments[-1]:
        signal_step(state, arguments[-1])
    for job in state["jobs"]:
        if str(job["job_id"]) != arguments[-1] or job["job_state"] not in ("PENDING", "RUNNING"):
            continue
        if not asked:
            job["job_state"] = "CANCELLED"
        elif not state["deaf"]:
            job |= {"job_state": "FAILED", "exit_code": 143 << 8}
    return 0, "", ""


def answer(state: dict[str, Any], command: str, arguments: list[str]) -> tuple[int, str, str]:
    """Return the exit status, the output and the error output of a command."""
    if state["away"]:
        if command == "squeue" and "--json" in arguments:  # as squeue 22.05 does
            return 0, json.dumps({"errors": [{"source": "slurm_load_jobs"}], "jobs": []}), ""
        return 1, "", SILENT
    match command:
        case "sbatch":
            return sbatch(state, arguments)
        case "scancel":
            return scancel(state, arguments)
        case "squeue" if "--steps" in arguments:
            return 0, steps(state), ""
        case "squeue":
            return 0, json.dumps({"errors": [], "jobs": state["jobs"]}), ""
        case "sinfo":
            return 0, "p*\nother\n", ""
        case "scontrol" if arguments[1] == "reservation":
            return 1, "", f"Reservation {arguments[2]} not found\n"
        case "scontrol" if arguments[1] == "config":
            return 0, "SelectTypeParameters = CR_CPU_MEMORY\n", ""
        case _:
            return 0, "\n".join(state["nodes"]) + "\n", ""


def is_held(file: Path) -> bool:
    """Return whether sbatch is not to come back now."""
    with state_in(file) as state:
        return bool(state["held"])


def main(command: str, arguments: list[str]) -> int:
    """Answer as a command of Slurm does."""
    file = Path(os.environ["FAKE_SLURM"])
    with state_in(file) as state:
        state["calls"].append([command, *arguments])
    while command == "sbatch" and is_held(file):
        time.sleep(0.02)
    with state_in(file) as state:
        status, printed, trouble = answer(state, command, arguments)
    sys.stdout.write(printed)
    sys.stderr.write(trouble)
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
