"""The script around a command, run as Slurm runs it: as the leader of a process group."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Generator
from contextlib import suppress
from pathlib import Path

import pytest

from muster.slurm import Command
from muster.slurm._nodes import Share
from muster.slurm._sbatch import JobSpec, JobTag, MemberWork, SubmitOptions, script_of

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="Slurm's nodes run Linux")

PATIENCE_S = 60.0
NOT_THERE = -signal.SIGUSR2

# A shell that has a trap for a signal may miss it between a fork and the program that it is for.
LONG = "sh -c 'echo ready; exec sleep 100'"
"""A program that SIGTERM ends once it has said that it is ready."""

HESITATING = ("sh", "-c", 'wait() { sleep 0.2; command wait "$@"; }; . "$0"')
"""A shell that hesitates before it waits."""


def work(command: Command, grace_s: float = 10.0) -> MemberWork:
    env = {"MUSTER_RUN": "a/x/1"}
    return MemberWork(1, "n1", Share(1, None), command, env, grace_s)


@pytest.fixture
def start(tmp_path: Path) -> Generator[Callable[..., subprocess.Popen[bytes]]]:
    """Start a script as Slurm does, and leave nothing of it behind."""
    started: list[subprocess.Popen[bytes]] = []

    def run(
        command: Command,
        grace_s: float = 10.0,
        result: str | None = None,
        shell: tuple[str, ...] = ("/bin/sh",),
    ) -> subprocess.Popen[bytes]:
        file = tmp_path / f"script-{len(started)}"
        file.write_text(script_of(work(command, grace_s), result), encoding="utf-8")
        started.append(
            subprocess.Popen(
                [*shell, str(file)],
                start_new_session=True,
                cwd=tmp_path,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
            )
        )
        return started[-1]

    yield run
    for one in started:
        if members(one.pid):
            with suppress(ProcessLookupError):  # they may have ended just now
                os.killpg(one.pid, signal.SIGKILL)
        one.communicate(timeout=PATIENCE_S)


def members(group: int) -> list[str]:
    """Return the processes of a group that have not ended."""
    found: list[str] = []
    for name in filter(str.isdecimal, os.listdir("/proc")):
        try:
            text = Path(f"/proc/{name}/stat").read_text("utf-8")
        except OSError:
            continue
        state, _, its_group, *_ = text.rpartition(")")[2].split()
        if int(its_group) == group and state not in "ZX":
            found.append(name)
    return found


@pytest.mark.parametrize(
    ("run", "status"),
    [
        ("exit 0", 0),
        ("exit 7", 7),
        ("kill -9 $$", 137),
        (["sh", "-c", "exit 3"], 3),
        ([sys.executable, "-c", "raise SystemExit(4)"], 4),
        # Neither an assignment nor a word of the shell.
        (["env", "A=1", "sh", "-c", 'exit "$A"'], 1),
    ],
)
def test_status(
    start: Callable[..., subprocess.Popen[bytes]], run: str | list[str], status: int
) -> None:
    assert start(Command(run)).wait(PATIENCE_S) == status


def test_fields(start: Callable[..., subprocess.Popen[bytes]], tmp_path: Path) -> None:
    folder = tmp_path / "it's a folder"
    folder.mkdir()
    (folder / "in").write_text("given", encoding="utf-8")
    (folder / "out").write_text("before ", encoding="utf-8")
    command = Command(
        [
            "sh",
            "-c",
            'cat; echo " $SOME $MUSTER_RUN $1"; pwd; echo odd >&2',
            "-",
            "*",
        ],
        cwd=folder,
        env={"SOME": "$x 'y'", "MUSTER_RUN": "mine"},
        stdin="in",
        stdout="out",
        stderr="err",
    )
    assert start(command).wait(PATIENCE_S) == 0
    assert (folder / "out").read_text("utf-8").splitlines() == [
        "before given $x 'y' a/x/1 *",
        str(folder),
    ]
    assert (folder / "err").read_text("utf-8") == "odd\n"


def test_variables_with_names_that_a_shell_does_not_have(
    start: Callable[..., subprocess.Popen[bytes]],
) -> None:
    program = "import os; print(os.environ['A-B'], os.environ['C'])"
    script = start(Command([sys.executable, "-c", program], env={"A-B": "odd name", "C": "c"}))
    assert script.communicate(timeout=PATIENCE_S)[0] == b"odd name c\n"


@pytest.mark.parametrize(
    ("command", "message"),
    [
        (Command(["no-such-program"]), "no such program"),
        (Command([]), "no such program"),
        (Command("true", cwd="none"), "its folder is not there"),
        (Command("true", stdin="none"), "its input cannot be read"),
        (Command("true", stdout="none/out"), "its output cannot be written"),
        (Command("true", stderr="none/err"), "its output cannot be written"),
    ],
)
def test_what_is_not_there(
    start: Callable[..., subprocess.Popen[bytes]], command: Command, message: str
) -> None:
    script = start(command)
    _, trouble = script.communicate(timeout=PATIENCE_S)
    assert script.returncode == NOT_THERE
    assert trouble.decode().splitlines()[-1] == f"muster: {message}"


def test_sigterm_reaches_all_and_all_may_end(
    start: Callable[..., subprocess.Popen[bytes]],
) -> None:
    child = f"(trap 'sleep 0.3; echo saved; exit' TERM; {LONG} & wait) & wait"
    script = start(Command(child))
    assert script.stdout is not None
    assert script.stdout.readline() == b"ready\n"
    script.send_signal(signal.SIGTERM)  # the script alone, as `scancel --batch` does
    assert script.stdout.readline() == b"saved\n"
    assert script.wait(PATIENCE_S) == 143
    assert members(script.pid) == []


def test_command_may_say_how_it_has_ended_after_sigterm(
    start: Callable[..., subprocess.Popen[bytes]],
) -> None:
    script = start(Command(f"trap 'exit 5' TERM; {LONG} & wait"))
    assert script.stdout is not None
    script.stdout.readline()
    script.send_signal(signal.SIGTERM)
    assert script.wait(PATIENCE_S) == 5


def test_deaf_processes_are_killed_after_the_grace_period(
    start: Callable[..., subprocess.Popen[bytes]],
) -> None:
    script = start(Command("trap '' TERM; (sleep 101; sleep 102) & echo ready; sleep 103"), 0.2)
    assert script.stdout is not None
    script.stdout.readline()
    script.send_signal(signal.SIGTERM)
    assert script.wait(PATIENCE_S) == 137
    assert members(script.pid) == []


def test_deaf_processes_are_killed_also_if_the_script_does_not_wait_for_them_yet(
    start: Callable[..., subprocess.Popen[bytes]],
) -> None:
    script = start(Command("trap '' TERM; echo ready; sleep 103"), 0.2, shell=HESITATING)
    assert script.stdout is not None
    script.stdout.readline()
    script.send_signal(signal.SIGTERM)
    assert script.wait(PATIENCE_S) == 137


def test_what_a_command_leaves_behind_is_asked_to_end(
    start: Callable[..., subprocess.Popen[bytes]],
) -> None:
    line = (
        "(trap 'echo asked; exit' TERM; echo ready >fifo; sleep 104 & wait) & read x <fifo; exit 6"
    )
    script = start(Command(f"mkfifo fifo; {line}"))
    out, _ = script.communicate(timeout=PATIENCE_S)
    assert (out, script.returncode) == (b"asked\n", 6)
    assert members(script.pid) == []


def test_a_result_is_kept_unless_the_command_was_ended(
    start: Callable[..., subprocess.Popen[bytes]], tmp_path: Path
) -> None:
    assert start(Command("exit 9"), result=str(tmp_path / "r 1")).wait(PATIENCE_S) == 9
    assert (tmp_path / "r 1").read_text("utf-8") == "9\n"
    script = start(Command("echo ready; sleep 105"), result=str(tmp_path / "r 2"))
    assert script.stdout is not None
    script.stdout.readline()
    script.send_signal(signal.SIGTERM)
    script.wait(PATIENCE_S)
    assert not (tmp_path / "r 2").exists()


# What is submitted

SITE = SubmitOptions("p", None, ("--account=x",), None)


def an_order(*placed: tuple[str, Share]) -> JobSpec:
    works = tuple(
        MemberWork(number, node, share, Command("true"), {}, 1.0)
        for number, (node, share) in enumerate(placed, 5)
    )
    ask = "x" if len(works) == 1 else None
    return JobSpec(JobTag("muster", "a", ask, tuple(work.number for work in works)), works)


def test_job_of_an_ask() -> None:
    command = an_order(("n1", Share(2, 10, (("gpu", 1),)))).command(SITE)
    assert command == (
        "sbatch",
        "--parsable",
        "--no-requeue",
        "--account=x",
        "--partition=p",
        "--job-name=muster:a/x",
        "--dependency=singleton",
        "--comment=muster:a/x/5",
        "--nodelist=n1",
        "--nodes=1",
        "--ntasks=1",
        "--ntasks-per-node=1",
        "--cpus-per-task=2",
        "--mem=10M",
        "--gres=gpu:1",
    )


def test_gang_whose_nodes_give_the_same_is_one_plain_job() -> None:
    one, two = Share(1, 10), Share(2, 20)
    order = an_order(("n1", one), ("n2", two), ("n1", one))
    command = order.command(SITE)
    assert ":" not in command
    assert {"--nodelist=n1,n2", "--nodes=2", "--ntasks=2", "--cpus-per-task=2", "--mem=20M"} <= set(
        command
    )
    assert "--comment=muster:a/*/5-7" in command


def test_gang_whose_nodes_give_different_amounts_has_a_component_for_each_node() -> None:
    order = an_order(("n1", Share(1, 10)), ("n2", Share(2, 20)), ("n1", Share(2, 10)))
    command = order.command(SITE)
    place = command.index(":")
    first, second = command[:place], command[place:]
    assert {"--nodelist=n1", "--cpus-per-task=3", "--mem=20M"} <= set(first)
    assert {"--nodelist=n2", "--cpus-per-task=2", "--mem=20M"} <= set(second)
    # Components of one name would wait for each other: each name may run once.
    names = [word for word in command if word.startswith("--job-name=")]
    assert len(set(names)) == 2
    script = order.script(SITE)
    assert script.count("--het-group=0") == 2
    assert script.count("--het-group=1") == 1


def test_gang_is_a_component_for_each_node_where_the_site_says_so() -> None:
    apart = SubmitOptions("p", "r", (), None, has_components=True)
    assert ":" in an_order(("n1", Share(1, 10)), ("n2", Share(1, 10))).command(apart)
    alone = an_order(("n1", Share(1, 10)), ("n1", Share(1, 10))).command(apart)
    assert ":" not in alone
    assert "--reservation=r" in alone
