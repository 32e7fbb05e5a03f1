"""A Slurm for tests: real daemons on this machine, which end with the process of the tests.

Several ``slurmd`` run on one machine, each as a node. All daemons, and all processes of jobs, are
in a process namespace of their own. Folders, ports and keys are their own, too.
"""

from __future__ import annotations

import json
import os
import random
import secrets
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Final, final

from muster.slurm._nodes import fields_of
from tests.engines.slurm import daemons

PATIENCE_S: Final = 120.0
"""How long anything may take, in seconds: the machine may be slow, and busy."""

_PORTS: Final = range(15_000, 32_000)
"""Where the ports of the daemons are; no system gives these to connections."""

_NEEDED: Final = ("munged", "slurmctld", "slurmd", "sbatch", "unshare")
_SYSTEM: Final = "/usr/sbin:/sbin"

_CONF: Final = """\
ClusterName=muster
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={port}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.sock
CredType=cred/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool/%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
SlurmctldLogFile={folder}/log/slurmctld.log
SlurmdLogFile={folder}/log/slurmd-%n.log
ProctrackType=proctrack/pgid
TaskPlugin=task/none
MpiDefault=none
SwitchType=switch/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
JobCompType=jobcomp/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU_Memory
SchedulerType=sched/backfill
SchedulerParameters=batch_sched_delay=0,sched_interval=1,bf_interval=1,sched_min_interval=0
SlurmdParameters=config_overrides
ReturnToService=2
SlurmdTimeout=6
SlurmctldTimeout=10
MessageTimeout=5
MinJobAge={min_job_age}
KillWait=2
InactiveLimit=0
WaitTime=0
GresTypes=gpu
NodeName=n1 NodeHostname={host} NodeAddr=127.0.0.1 Port={n1} CPUs=4 RealMemory=2000 Feature=fast
NodeName=n2 NodeHostname={host} NodeAddr=127.0.0.1 Port={n2} CPUs=4 RealMemory=2000
NodeName=n3 NodeHostname={host} NodeAddr=127.0.0.1 Port={n3} CPUs=4 RealMemory=2000 Gres=gpu:2
PartitionName=muster Nodes=n[1-3] Default=YES MaxTime=INFINITE State=UP
PartitionName=other Nodes=n[1-2] MaxTime=INFINITE State=UP
"""

_GRES: Final = """\
NodeName=n3 Name=gpu File=/dev/null
NodeName=n3 Name=gpu File=/dev/zero
"""


@cache
def why_not() -> str | None:
    """Return why there can be no Slurm here, or None."""
    if os.geteuid() != 0:
        return "Slurm's daemons need root"
    missing = [name for name in _NEEDED if _which(name) is None]
    if missing:
        return (
            f"{', '.join(missing)} not found: install Slurm "
            "(bash tests/engines/slurm/install.sh does it where apt-get can)"
        )
    made = subprocess.run([*_NAMESPACE, "true"], capture_output=True, check=False)
    if made.returncode != 0:
        return f"no process namespace can be had: {made.stderr.decode().strip()}"
    return None


_NAMESPACE: Final = ("unshare", "--pid", "--fork", "--kill-child", "--mount-proc")


def _which(name: str) -> str | None:
    return shutil.which(name, path=f"{os.environ.get('PATH', '')}:{_SYSTEM}")


class ClusterError(Exception):
    """The cluster has not carried out a request of a test."""


@final
class Cluster:
    """A running Slurm with the nodes n1, n2 and n3; see :func:`cluster`. Every method blocks.

    Attributes:
        folder: A folder for the files of tests; removed at the end.
        conf: Its slurm.conf, for the variable ``SLURM_CONF``.
    """

    def __init__(self, folder: Path, leader: subprocess.Popen[str]) -> None:
        self.folder = folder
        self.conf = folder / "slurm.conf"
        self._leader = leader

    def start_controller(self) -> None:
        """Start slurmctld, and wait until it answers."""
        self._start("slurmctld", "-D")
        wait_until(lambda: self._says("scontrol", "ping"), "slurmctld answers")

    def kill_controller(self) -> None:
        """Kill slurmctld."""
        self._ask(do="kill", name="slurmctld")

    def start_node(self, name: str) -> None:
        """Start the slurmd of a node, and wait until Slurm gives the node out."""
        self._start("slurmd", "-D", "-N", name, as_name=name)
        wait_until(lambda: self.state(name) in ("idle", "mixed", "allocated"), f"{name} is up")

    def kill_node(self, name: str) -> None:
        """Kill the slurmd of a node, and nothing else there."""
        self._ask(do="kill", name=name)

    def state(self, node: str) -> str:
        """Return the state of a node: ``idle``, ``idle+drain``, …."""
        # What sinfo says may be old when a heterogeneous job has ended.
        return fields_of(self.run("scontrol", "show", "node", node, "--oneliner"))["State"].lower()

    def run(self, *command: str) -> str:
        """Run a command of Slurm, and return its output."""
        env = os.environ | {"SLURM_CONF": str(self.conf)}
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, env=env, timeout=PATIENCE_S
        )
        if done.returncode != 0:
            msg = f"{command}: {done.stderr}"
            raise ClusterError(msg)
        return done.stdout

    def jobs(self) -> list[str]:
        """Return the comments of the jobs that have not ended."""
        return self.run("squeue", "-h", "-o", "%k").splitlines()

    def reset(self) -> None:
        """End all jobs, and open all nodes."""
        self.run("scancel", "--user=root")
        wait_until(lambda: not self.run("squeue", "-h", "-o", "%i"), "all jobs are gone")
        for name in ("n1", "n2", "n3"):
            if self.state(name).endswith("drain") or self.state(name).startswith("down"):
                self.run("scontrol", "update", f"NodeName={name}", "State=RESUME")
            self.wait_for_idle(name)

    def wait_for_idle(self, node: str) -> None:
        """Wait until a node is up, and nothing runs there."""
        wait_until(lambda: self.state(node) == "idle", f"{node} is idle")

    def _says(self, *command: str) -> bool:
        try:
            return "UP" in self.run(*command)
        except ClusterError:
            return False

    def _start(self, program: str, *options: str, as_name: str | None = None) -> None:
        found = _which(program)
        assert found is not None, "why_not() has looked"
        self._ask(do="start", name=as_name or program, command=[found, *options])

    def _ask(self, **request: object) -> None:
        assert self._leader.stdin is not None
        assert self._leader.stdout is not None
        print(json.dumps(request), file=self._leader.stdin, flush=True)
        answer: dict[str, str] = json.loads(self._leader.stdout.readline())
        if "failed" in answer:
            raise ClusterError(answer["failed"])

    def start(self) -> None:
        """Start all daemons."""
        munged = _which("munged")
        assert munged is not None, "why_not() has looked"
        parts = {"key-file": "munge.key", "socket": "munge.sock", "pid-file": "munged.pid"}
        parts |= {"log-file": "log/munged.log", "seed-file": "munged.seed"}
        options = [f"--{option}={self.folder / file}" for option, file in parts.items()]
        self._ask(do="start", name="munged", command=[munged, "--foreground", "--force", *options])
        self._ask(do="wait_for", path=str(self.folder / "munge.sock"))
        self.start_controller()
        for name in ("n1", "n2", "n3"):
            self._start("slurmd", "-D", "-N", name, as_name=name)
        for name in ("n1", "n2", "n3"):
            self.wait_for_idle(name)


@contextmanager
def cluster(*, min_job_age: int = 300) -> Generator[Cluster]:
    """Run a Slurm for the time of a block."""
    folder = Path(tempfile.mkdtemp(prefix="slurm-", dir=os.environ.get("SLURM_TESTS")))
    for name in ("state", "spool", "log", "work"):
        (folder / name).mkdir()
    key = folder / "munge.key"
    key.write_bytes(secrets.token_bytes(1024))
    key.chmod(0o600)
    folder.chmod(0o755)  # munged refuses folders that others may write
    ports = _free_ports(4)
    (folder / "slurm.conf").write_text(
        _CONF.format(
            host=socket.gethostname().partition(".")[0],
            folder=folder,
            port=ports[0],
            n1=ports[1],
            n2=ports[2],
            n3=ports[3],
            min_job_age=min_job_age,
        ),
        encoding="utf-8",
    )
    (folder / "gres.conf").write_text(_GRES, encoding="utf-8")
    with subprocess.Popen(
        [*_NAMESPACE, sys.executable, daemons.__file__, str(folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"SLURM_CONF": str(folder / "slurm.conf")},
    ) as leader:
        running = Cluster(folder, leader)
        try:
            running.start()
            yield running
        finally:
            assert leader.stdin is not None
            leader.stdin.close()
            try:
                leader.wait(PATIENCE_S)
            finally:
                leader.kill()
                shutil.rmtree(folder, ignore_errors=True)


def wait_until(condition: Callable[[], bool], what: str) -> None:
    """Wait until a condition holds.

    Raises:
        ClusterError: If it does not in time.
    """
    until = time.monotonic() + PATIENCE_S
    while not condition():
        if time.monotonic() > until:
            msg = f"not after {PATIENCE_S:g} s: {what}"
            raise ClusterError(msg)
        time.sleep(0.1)


def _free_ports(count: int) -> list[int]:
    """Return free ports.

    They are below those that the system gives to whoever asks for any port, as each connection does:
    nobody gets one of them between this look and the start of the daemons.
    """
    found: list[int] = []
    for port in random.sample(_PORTS, len(_PORTS)):
        with socket.socket() as one, suppress(OSError):
            one.bind(("", port))
            found.append(port)
        if len(found) == count:
            return found
    raise ClusterError(f"fewer than {count} ports are free")


def main(command: list[str]) -> int:
    """Run a command while a Slurm is there for it; return its exit status."""
    reason = why_not()
    if reason is not None:
        sys.exit(reason)
    with cluster() as running:
        env = os.environ | {"SLURM_CONF": str(running.conf)}
        return subprocess.run(command, env=env, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
