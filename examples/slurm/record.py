"""Makes the dumps in ``cluster/``: ``sudo python record.py``, in about five minutes.

It starts a small Slurm with accounting on this machine, which nothing outlives: four nodes, three
partitions, three accounts and four users. Some hundred short jobs run there. Then it writes down
what ``sacct``, ``scontrol`` and ``sacctmgr`` say. It needs Debian's packages ``slurm-wlm``,
``slurmdbd``, ``munge`` and ``mariadb-server``.
"""

from __future__ import annotations

import os
import random
import secrets
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

HERE: Final = Path(__file__).resolve().parent / "cluster"
FOLDER: Final = Path("/mnt/slurm")
PATIENCE_S: Final = 300.0

NAMESPACES: Final = ("unshare", "--pid", "--mount", "--uts", "--net", "--fork", "--mount-proc")

CONF: Final = """\
ClusterName=example
SlurmctldHost=cluster(127.0.0.1)
SlurmctldPort=26817
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket=/mnt/slurm/munge.sock
CredType=cred/munge
StateSaveLocation=/mnt/slurm/state
SlurmdSpoolDir=/mnt/slurm/spool/%n
SlurmctldPidFile=/mnt/slurm/slurmctld.pid
SlurmdPidFile=/mnt/slurm/slurmd-%n.pid
SlurmctldLogFile=/mnt/slurm/log/slurmctld.log
SlurmdLogFile=/mnt/slurm/log/slurmd-%n.log
ProctrackType=proctrack/linuxproc
PrologFlags=Alloc,Contain
TaskPlugin=task/none
MpiDefault=none
SwitchType=switch/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost=127.0.0.1
AccountingStoragePort=26819
AccountingStoragePass=/mnt/slurm/munge.sock
AccountingStorageEnforce=associations,limits,qos
AccountingStorageTRES=gres/gpu,gres/gpu:a100
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU_Memory
SchedulerType=sched/backfill
SchedulerParameters=batch_sched_delay=0,sched_interval=1,bf_interval=1,sched_min_interval=0
PriorityType=priority/multifactor
PriorityWeightAge=1000
PriorityWeightQOS=1000
PriorityWeightFairshare=10000
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
SlurmdParameters=config_overrides
ReturnToService=2
SlurmdTimeout=15
JobRequeue=1
MinJobAge=2
KillWait=2
GresTypes=gpu
DefMemPerCPU=1000

NodeName=DEFAULT RealMemory=16000 Sockets=1 CoresPerSocket=8 ThreadsPerCore=1
NodeName=c1 NodeHostname=cluster NodeAddr=127.0.0.1 Port=26821 Feature=ib,avx512
NodeName=c2 NodeHostname=cluster NodeAddr=127.0.0.1 Port=26822 Feature=ib,avx512
NodeName=c3 NodeHostname=cluster NodeAddr=127.0.0.1 Port=26823 Feature=avx512
NodeName=g1 NodeHostname=cluster NodeAddr=127.0.0.1 Port=26824 Feature=avx512 RealMemory=32000 Gres=gpu:a100:2

PartitionName=DEFAULT State=UP MaxTime=60 PriorityTier=10 PreemptMode=OFF
PartitionName=batch Nodes=c[1-3] Default=YES DefaultTime=10
PartitionName=gpu Nodes=g1
PartitionName=scavenge Nodes=ALL PriorityTier=1 PreemptMode=REQUEUE MaxTime=UNLIMITED
"""

DBD_CONF: Final = """\
DbdHost=cluster
DbdAddr=127.0.0.1
DbdPort=26819
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket=/mnt/slurm/munge.sock
LogFile=/mnt/slurm/log/slurmdbd.log
PidFile=/mnt/slurm/slurmdbd.pid
StorageType=accounting_storage/mysql
StorageHost=127.0.0.1
StoragePort=26820
StorageUser=slurm
StoragePass=slurm
StorageLoc=slurm
"""

GRES: Final = """\
NodeName=g1 Name=gpu Type=a100 File=/dev/null
NodeName=g1 Name=gpu Type=a100 File=/dev/zero
"""

USERS: Final = {"alice": 3001, "bob": 3002, "carol": 3003, "dan": 3004}
ACCOUNT_OF: Final = {"alice": "physics", "bob": "chemistry", "carol": "science", "dan": "physics"}
NODES: Final = ("c1", "c2", "c3", "g1")

AT_FIRST_LONG: Final = '[ "$SLURM_RESTART_COUNT" ] && exec sleep 3; sleep 200'

STATES: Final = "BF,CA,CD,DL,F,NF,OOM,PD,PR,R,RQ,RS,RV,S,TO"
COLUMNS: Final = (
    "JobID,JobName,User,Group,Account,Partition,QOS,Submit,Eligible,Start,End,ElapsedRaw,State,"
    "ReqTRES,AllocTRES,NNodes,Constraints,Priority,TimelimitRaw"
)


def run(*command: str, may_fail: bool = False) -> str:
    """Run a command, and return its output."""
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=PATIENCE_S)
    if done.returncode and not may_fail:
        sys.exit(f"{' '.join(command)}: {done.stderr}")
    return done.stdout


def wait_until(condition: Callable[[], bool], what: str) -> None:
    """Wait until a condition holds."""
    until = time.monotonic() + PATIENCE_S
    while not condition():
        if time.monotonic() > until:
            sys.exit(f"not after {PATIENCE_S:g} s: {what}")
        time.sleep(0.2)


def daemon(*command: str) -> subprocess.Popen[bytes]:
    """Start a daemon that stays in the foreground."""
    with (FOLDER / "log" / "daemons.txt").open("ab") as log:
        return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)


def prepare() -> None:
    """Give this process a folder, a name of the machine and users of its own."""
    run("mount", "-t", "tmpfs", "-o", "mode=755", "tmpfs", "/mnt")
    for name in ("state", "spool", "log", "db"):
        (FOLDER / name).mkdir(parents=True)
    run("hostname", "cluster")
    run("ip", "link", "set", "lo", "up")
    run("ip", "address", "add", "10.0.0.1/32", "dev", "lo")  # Slurm wants one beside 127.0.0.1
    users = "".join(f"{name}:x:{uid}:{uid}::/:/bin/sh\n" for name, uid in USERS.items())
    groups = "".join(f"{name}:x:{uid}:\n" for name, uid in USERS.items())
    for file, more in (
        ("/etc/passwd", users),
        ("/etc/group", groups),
        ("/etc/hosts", "127.0.0.1 cluster\n"),
    ):
        own = FOLDER / Path(file).name
        own.write_text(Path(file).read_text(encoding="utf-8") + more, encoding="utf-8")
        run("mount", "--bind", str(own), file)
    for name, text in (("slurm.conf", CONF), ("slurmdbd.conf", DBD_CONF), ("gres.conf", GRES)):
        (FOLDER / name).write_text(text, encoding="utf-8")
    (FOLDER / "slurmdbd.conf").chmod(0o600)
    (FOLDER / "munge.key").write_bytes(secrets.token_bytes(1024))
    (FOLDER / "munge.key").chmod(0o600)
    os.environ["SLURM_CONF"] = str(FOLDER / "slurm.conf")
    os.environ["SLURMDBD_CONF"] = str(FOLDER / "slurmdbd.conf")
    os.environ["PATH"] += ":/usr/sbin:/sbin"


def start_database() -> None:
    """Start MariaDB with an empty database."""
    data, socket = FOLDER / "db" / "data", FOLDER / "db" / "socket"
    run(
        "mariadb-install-db",
        "--no-defaults",
        f"--datadir={data}",
        "--user=root",
        "--auth-root-authentication-method=normal",
        "--skip-test-db",
    )
    daemon(
        "mariadbd",
        "--no-defaults",
        f"--datadir={data}",
        f"--socket={socket}",
        "--user=root",
        "--bind-address=127.0.0.1",
        "--port=26820",
        "--innodb-buffer-pool-size=64M",
    )
    wait_until(socket.exists, "MariaDB answers")
    run(
        "mariadb",
        "--no-defaults",
        f"--socket={socket}",
        "--user=root",
        "-e",
        "create database slurm; create user slurm@localhost identified by 'slurm'; "
        "create user slurm@'127.0.0.1' identified by 'slurm'; "
        "grant all on slurm.* to slurm@localhost; grant all on slurm.* to slurm@'127.0.0.1'",
    )


def start_node(name: str) -> subprocess.Popen[bytes]:
    """Start the slurmd of a node."""
    return daemon("slurmd", "-D", "-N", name)


def start() -> dict[str, subprocess.Popen[bytes]]:
    """Start everything, and return the nodes."""
    parts = {"key-file": "munge.key", "socket": "munge.sock", "pid-file": "munged.pid"}
    parts |= {"log-file": "log/munged.log", "seed-file": "munged.seed"}
    daemon(
        "munged",
        "--foreground",
        "--force",
        *(f"--{option}={FOLDER / file}" for option, file in parts.items()),
    )
    wait_until((FOLDER / "munge.sock").exists, "munged answers")
    start_database()
    daemon("slurmdbd", "-D")
    wait_until(lambda: "root" in run("sacctmgr", "-nP", "show", "user", may_fail=True), "slurmdbd")
    run("sacctmgr", "-i", "add", "cluster", "example")
    daemon("slurmctld", "-D")
    wait_until(lambda: "UP" in run("scontrol", "ping", may_fail=True), "slurmctld answers")
    wait_until(lambda: "gpu" in run("sacctmgr", "-nP", "show", "tres"), "GPUs are known")
    manage()
    nodes = {name: start_node(name) for name in NODES}
    wait_until(lambda: run("sinfo", "-hN", "-o", "%t").split().count("idle") >= 7, "nodes are up")
    return nodes


def manage() -> None:
    """Make the accounts: physics and chemistry below science, which has jobs, too."""
    run("sacctmgr", "-i", "add", "qos", "urgent", "Priority=100")
    run(
        "sacctmgr",
        "-i",
        "add",
        "account",
        "science",
        "Cluster=example",
        "Fairshare=10",
        "GrpTRES=cpu=28,node=4",
    )
    run(
        "sacctmgr",
        "-i",
        "add",
        "account",
        "physics",
        "parent=science",
        "Cluster=example",
        "Fairshare=6",
        "GrpTRES=gres/gpu=2",
    )
    run(
        "sacctmgr",
        "-i",
        "add",
        "account",
        "chemistry",
        "parent=science",
        "Cluster=example",
        "Fairshare=4",
        "GrpTRES=cpu=12,mem=24G",
        "MaxJobs=40",
    )
    for user, account in ACCOUNT_OF.items():
        run(
            "sacctmgr",
            "-i",
            "add",
            "user",
            user,
            f"Account={account}",
            "Cluster=example",
            "QOS=normal,urgent",
            "DefaultQOS=normal",
        )


def submit(user: str, script: str, *options: str) -> str:
    """Submit a job, and return its number."""
    return run(
        "sbatch",
        "--parsable",
        f"--uid={user}",
        f"--gid={user}",
        "--chdir=/",
        "--output=/dev/null",
        *options,
        "--wrap",
        script,
    ).strip()


def state_of(job: str) -> str:
    """Return the state of a job; empty when it is gone."""
    return run("squeue", "-h", "-o", "%T", "-j", job, may_fail=True).strip()


def special(nodes: dict[str, subprocess.Popen[bytes]]) -> None:
    """Run special jobs, which end in every possible way."""
    first = submit("alice", "sleep 4", "-J", "prepare")
    submit(
        "alice",
        "sleep 2",
        "-J",
        "train",
        f"--dependency=afterok:{first}",
        "-p",
        "gpu",
        "--gpus=a100:1",
        "--mem=4G",
        "-c2",
    )
    submit("carol", "sleep 2", "-J", "nightly", "--begin=now+25")
    submit("bob", "exit 3", "-J", "broken")
    submit("bob", "sleep 300", "-J", "endless", "--time=1", "--mem=100M")
    never = submit("carol", "sleep 1", "-J", "never", "--hold")
    killed = submit("carol", "sleep 300", "-J", "killed")
    submit("dan", "sleep 5", "-J", "whole node", "--exclusive")
    submit("dan", "sleep 1", "-J", "a|b")
    run(
        "sbatch",
        "--parsable",
        "--uid=alice",
        "--gid=alice",
        "--chdir=/",
        "-J",
        "coupled",
        "--output=/dev/null",
        "-n2",
        "--mem=1G",
        ":",
        "-n1",
        "--mem=4G",
        str(FOLDER / "het.sh"),
    )
    again = submit("bob", "sleep 6", "-J", "again")
    wait_until(lambda: state_of(again) == state_of(killed) == "RUNNING", "they run")
    run("scontrol", "requeue", again)
    run("scancel", killed)
    run("scancel", never)
    # Scavengers fill the nodes; a job of another partition takes one from them.
    scavengers = [
        submit("dan", "sleep 25", "-J", "scavenger", "-p", "scavenge", "-c6") for _ in range(4)
    ]
    wait_until(lambda: all(state_of(job) == "RUNNING" for job in scavengers), "scavengers run")
    urgent = submit("carol", "sleep 3", "-J", "urgent", "--qos=urgent", "-c4")
    wait_until(lambda: state_of(urgent) != "PENDING", "one of them gives way")
    lost = submit("bob", AT_FIRST_LONG, "-J", "lost", "-w", "c3", "-C", "avx512")
    wait_until(lambda: state_of(lost) == "RUNNING", "a job runs on c3")
    nodes["c3"].kill()
    wait_until(lambda: "down" in run("sinfo", "-hn", "c3", "-o", "%t"), "c3 is lost")
    nodes["c3"] = start_node("c3")
    wait_until(lambda: state_of(lost) != "RUNNING", "its job is queued again")


def everyday(chance: random.Random) -> None:
    """Submit the everyday jobs, some at a time."""
    for batch in range(22):
        user = chance.choice(list(USERS))
        for _ in range(chance.randint(4, 9)):
            size = chance.choice((1, 1, 1, 2, 4))
            memory = chance.choice((500, 1000, 2000))
            extra = ["-C", "ib"] if chance.random() < 0.1 else []
            extra += chance.choice(([], ["--time=1"], ["--time=2"]))
            submit(
                user,
                f"sleep {chance.randint(1, 12)}",
                "-J",
                f"step-{size}",
                f"-c{size}",
                f"--mem={memory}M",
                *extra,
            )
        if batch % 4 == 0:
            submit(
                user,
                f"srun sleep {chance.randint(2, 8)}",
                "-J",
                "wide",
                "-N2",
                "-n6",
                "--mem-per-cpu=500M",
            )
        if batch % 4 == 1:
            submit(
                user,
                f"sleep {chance.randint(1, 6)}",
                "-J",
                "sweep",
                f"--array=0-{chance.randint(7, 15)}%6",
                "--mem=1G",
            )
        if batch % 4 == 2:
            submit(
                "alice",
                f"sleep {chance.randint(2, 9)}",
                "-J",
                "infer",
                "-p",
                "gpu",
                f"--gres=gpu:{chance.randint(1, 2)}",
                "-c2",
                "--mem=8G",
            )
        time.sleep(chance.uniform(0.5, 4.0))


def leave_some() -> None:
    """Leave some jobs that have not ended when the dumps are made."""
    submit("alice", "sleep 300", "-J", "long", "-N3", "--ntasks-per-node=2", "--mem=2G")
    submit("dan", "sleep 20", "-J", "later", "--array=0-20", "-c4")
    submit("bob", "sleep 10", "-J", "held", "--hold")
    time.sleep(6)


def record() -> None:
    """Record the output of Slurm."""
    HERE.mkdir(exist_ok=True)
    # Without --state, sacct leaves out what was cancelled while it could not start.
    since = ("--allusers", "--starttime=2020-01-01", "--endtime=now", f"--state={STATES}")
    made = {
        "sacct.txt": ("sacct", "-P", "--duplicates", *since, f"--format={COLUMNS}"),
        "sacct.json": (
            "sacct",
            "--json",
            "--duplicates",
            *since,
            "--name=prepare,train,coupled,again,broken,scavenger",
        ),
        "nodes.txt": ("scontrol", "show", "node"),
        "associations.txt": ("sacctmgr", "-P", "show", "associations", "tree"),
        "qos.txt": ("sacctmgr", "-P", "show", "qos"),
    }
    for name, command in made.items():
        (HERE / name).write_text(run(*command), encoding="utf-8")
    conf = run("scontrol", "show", "config") + run("scontrol", "show", "partition")
    (HERE / "conf.txt").write_text(conf, encoding="utf-8")
    run("sacctmgr", "dump", "example", f"File={FOLDER / 'dump.cfg'}")
    shutil.copyfile(FOLDER / "dump.cfg", HERE / "dump.cfg")
    (HERE / "slurm.conf").write_text(CONF, encoding="utf-8")


def main() -> None:
    """Record in namespaces of our own: when this process ends, the kernel ends all the others."""
    if os.environ.get("INSIDE") != "yes":
        environment = os.environ | {"INSIDE": "yes", "TZ": "UTC"}
        command = [*NAMESPACES, "--kill-child", sys.executable, __file__]
        sys.exit(subprocess.run(command, env=environment, check=False).returncode)
    child = os.fork()
    if child:
        found, status = 0, 0
        while found != child:  # the first process reaps orphans
            found, status = os.wait()
        sys.exit(os.waitstatus_to_exitcode(status))
    prepare()
    het = FOLDER / "het.sh"
    het.write_text("#!/bin/sh\nsrun --het-group=0,1 sleep 4\n", encoding="utf-8")
    nodes = start()
    everyday(random.Random(4))
    special(nodes)
    wait_until(lambda: not run("squeue", "-h"), "all jobs are gone")
    leave_some()
    record()


if __name__ == "__main__":
    main()
