"""Small dumps of Slurm, in the forms that sacct, scontrol and slurm.conf have, and imports of
them.
"""

from __future__ import annotations

import io
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from muster.importing import Workload, default_queues
from muster.importing.nodes import parse_nodes
from muster.importing.slurm import (
    FIELDS,
    QUEUES,
    ClusterFiles,
    PrioritySource,
    nodes_of_slurm,
    read_slurm,
)
from tests.actors.importing.helpers import Event, events_of, imported
from tests.actors.importing.mutated import Kind

HEADER: Final = (
    "JobID|JobName|User|Group|Account|Partition|QOS|Submit|Eligible|Start|End|ElapsedRaw|State|"
    "ReqTRES|AllocTRES|NNodes|Constraints|Priority"
)

SACCT: Final = f"""\
{HEADER}
1|step-1|bob|bob|chem|batch|normal|2026-01-31T10:00:00|2026-01-31T10:00:00|2026-01-31T10:00:05|\
2026-01-31T10:00:15|10|COMPLETED|billing=1,cpu=1,mem=2000M,node=1|billing=1,cpu=1,node=1|1||7
1.batch|batch|||chem|||2026-01-31T10:00:05|2026-01-31T10:00:05|2026-01-31T10:00:05|\
2026-01-31T10:00:15|10|COMPLETED||cpu=1,mem=2000M,node=1|1||
2_0|sweep|al|al|phys|batch|normal|2026-01-31T10:00:01|2026-01-31T10:00:01|2026-01-31T10:00:05|\
2026-01-31T10:00:25|20|COMPLETED|cpu=1,mem=1G,node=1|cpu=1,mem=1G,node=1|1||
2_1|sweep|al|al|phys|batch|normal|2026-01-31T10:00:01|2026-01-31T10:00:20|2026-01-31T10:00:25|\
2026-01-31T10:00:55|30|FAILED|cpu=1,mem=1G,node=1|cpu=1,mem=1G,node=1|1||
2_[2-9%2]|sweep|al|al|phys|batch|normal|2026-01-31T10:00:01|2026-01-31T10:00:01|Unknown|Unknown|\
0|PENDING|cpu=1,mem=1G,node=1||1||
3|wide|al|al|phys|batch|urgent|2026-01-31T10:00:02|2026-01-31T10:00:02|2026-01-31T10:00:05|\
2026-01-31T10:01:05|60|TIMEOUT|cpu=5,mem=6G,node=1|cpu=5,mem=6G,node=2|2|ib|
4|train|al|al|phys|gpu|normal|2026-01-31T10:00:03|2026-01-31T10:00:03|2026-01-31T10:00:05|\
2026-01-31T10:00:06|1|PREEMPTED|cpu=2,mem=4G,node=1,gres/gpu=1,gres/gpu:a100=1|cpu=2,node=1|1||
4|train|al|al|phys|gpu|normal|2026-01-31T10:00:06|2026-01-31T10:00:06|2026-01-31T10:00:09|Unknown|\
5|RUNNING|cpu=2,mem=4G,node=1,gres/gpu=1,gres/gpu:a100=1|cpu=2,node=1|1||
5+0|both|bob|bob|chem|batch|normal|2026-01-31T10:00:04|2026-01-31T10:00:04|2026-01-31T10:00:05|\
2026-01-31T10:00:15|10|COMPLETED|cpu=2,mem=1G,node=1|cpu=2,mem=1G,node=1|1||
5+1|both|bob|bob|chem|batch|normal|2026-01-31T10:00:04|2026-01-31T10:00:04|2026-01-31T10:00:05|\
2026-01-31T10:00:15|10|COMPLETED|cpu=1,mem=4G,node=1|cpu=1,mem=4G,node=1|1||
6|never|bob|bob|chem|batch|normal|2026-01-31T10:00:05|2026-01-31T10:00:05|None|\
2026-01-31T10:00:15|0|CANCELLED by 1000|cpu=1,mem=2G,node=1||1||
"""

NODES: Final = """\
NodeName=c1 Arch=x86_64 CoresPerSocket=8
   CPUAlloc=4 CPUEfctv=7 CPUTot=8 CPULoad=14.58
   AvailableFeatures=ib,avx512
   ActiveFeatures=ib,avx512
   Gres=(null)
   NodeAddr=c1 NodeHostName=c1 Version=22.05.8
   OS=Linux 6.1 #1 SMP PREEMPT_DYNAMIC @0
   RealMemory=16000 AllocMem=16000 FreeMem=19749 Sockets=1 Boards=1
   MemSpecLimit=1000
   State=MIXED ThreadsPerCore=1 TmpDisk=0 Weight=1 Owner=N/A MCS_label=N/A
   Partitions=batch,scavenge
   CfgTRES=cpu=8,mem=16000M,billing=8
   AllocTRES=cpu=4,mem=16000M

NodeName=g1 Arch=x86_64 CoresPerSocket=8
   CPUAlloc=0 CPUEfctv=8 CPUTot=8 CPULoad=14.58
   AvailableFeatures=(null)
   ActiveFeatures=(null)
   Gres=gpu:a100:2(S:0-1),mps:200
   NodeAddr=g1 NodeHostName=g1 Version=22.05.8
   RealMemory=32000 AllocMem=0 FreeMem=19749 Sockets=1 Boards=1
   State=IDLE+DRAIN ThreadsPerCore=1 TmpDisk=0 Weight=1 Owner=N/A MCS_label=N/A
   Partitions=gpu,scavenge
   Reason=fan [root@2026-01-31T09:00:00]
"""

CONF: Final = """\
# A small cluster.
ClusterName=example
NodeName=DEFAULT RealMemory=16000 Sockets=1 CoresPerSocket=4 ThreadsPerCore=2
NodeName=c[01-03] Feature=ib,avx512 MemSpecLimit=1000 CoreSpecCount=1
nodename=g1 Gres=gpu:a100:2 RealMemory=32000 CPUs=8 \\
    State=DRAIN
NodeSet=fast Feature=ib
PartitionName=DEFAULT State=UP
PartitionName=batch Nodes=fast Default=YES
PartitionName=gpu Nodes=g1
PartitionName=all Nodes=ALL
"""

TREE: Final = """\
Cluster|Account|User|Partition|Share|GrpJobs|GrpTRES|MaxJobs|QOS
example|root|||1||||normal
example| root|root||1||||normal
example| science|||10||cpu=28,node=4||normal
example|  science|carol||1||||normal
example|  chem|||4||cpu=64,mem=24G|40|normal
example|   chem|bob||1||||normal
example|  phys|||6||gres/gpu=2||normal
"""

DUMPED: Final = """\
# To edit this file start with a cluster line for the new cluster
# Parent - 'root'
Cluster - 'example':Fairshare=1:QOS='normal'
Parent - 'root'
User - 'root':DefaultAccount='root':AdminLevel='Administrator':Fairshare=1
Account - 'science':Description='science':Organization='science':Fairshare=10:GrpTRES=cpu=28,node=4
Parent - 'science'
Account - 'chem':Description='x':Organization='science':Fairshare=4:GrpTRES=cpu=64,mem=24G:MaxJobs=40
Account - 'phys':Description='x':Organization='science':Fairshare=6:GrpTRES=gres/gpu=2
"""

QOS: Final = """\
Name|Priority|GraceTime|Preempt
normal|0|00:00:00|
urgent|100|00:00:00|normal
"""

NEW_JSON: Final = """\
{"meta": {"slurm": {"release": "25.05.1"}}, "errors": [], "jobs": [
{"account": "phys", "allocation_nodes": 2, "array": {"job_id": 0, "task_id": {"set": false,
"infinite": false, "number": 0}, "task": ""}, "association": {"account": "phys", "user": "al"},
"cluster": "example", "constraints": "ib", "het": {"job_id": 0, "job_offset": {"set": false,
"infinite": false, "number": 0}}, "job_id": 7, "name": "wide", "partition": "batch",
"priority": {"set": true, "infinite": false, "number": 4000}, "qos": "urgent",
"required": {"CPUs": 4, "memory_per_cpu": {"set": true, "infinite": false, "number": 512},
"memory_per_node": {"set": false, "infinite": false, "number": 0}},
"reservation": {"id": 0, "name": ""}, "state": {"current": ["COMPLETED"], "reason": "None"},
"steps": [{"step": {"id": "7.batch"}}, {"step": {"id": "7.0"}}],
"time": {"elapsed": 60, "eligible": 1769853600, "end": 1769853665, "start": 1769853605,
"submission": 1769853600, "suspended": 0, "limit": {"set": true, "infinite": false, "number": 60}},
"tres": {"allocated": [{"type": "cpu", "name": "", "id": 1, "count": 4},
{"type": "node", "name": "", "id": 4, "count": 2}], "requested": [
{"type": "cpu", "name": "", "id": 1, "count": 4}, {"type": "mem", "name": "", "id": 2,
"count": 2048}, {"type": "gres", "name": "gpu:a100", "id": 1002, "count": 2}]},
"user": "al", "group": "al", "wckey": {"wckey": "", "flags": []}},
{"account": "chem", "array": {"job_id": 8, "task_id": {"set": true, "infinite": false, "number": 3}},
"job_id": 9, "state": {"current": ["RUNNING"]}, "user": "bob", "partition": "batch",
"time": {"elapsed": 5, "eligible": 1769853600, "end": 0, "start": 1769853605,
"submission": 1769853600}, "tres": {"requested": [{"type": "cpu", "count": 1}]}}
]}
"""


# As sshare of Slurm prints it with -a -l -P, with a column of trackable resources added.
SHARES = """\
Account|User|RawShares|NormShares|RawUsage|EffectvUsage|FairShare|GrpTRESRaw
root||||99999|1.000000||cpu=99999,mem=9,energy=0
 root|root|1|0.000000|0|0.000000|1.000000|cpu=0,mem=0
 science||80|0.800000|4000|0.600000||cpu=4000,mem=2048,energy=7,node=12,billing=4000
  science|ada|2|0.100000|500|0.100000|0.5|cpu=500,mem=48
  science|bob|parent|0.100000|100|0.100000|0.5|cpu=100,mem=0
  phys||30|0.400000|3400|0.500000||cpu=3400,mem=2000
   phys|ada|1|0.400000|3400|0.500000|0.2|cpu=3400,mem=2000
  idle||1|0.100000|0|0.000000||cpu=0
 chem||20|0.200000|7200.5|0.400000||
"""
FEED_NODES = "4x vcore=8,memory=16Gi"
COLUMNS = (
    "JobID", "JobName", "Submit", "Eligible", "Start", "End", "ElapsedRaw", "State", "ReqTRES", "AllocTRES",
    "NNodes", "Account", "User",
)  # fmt: skip
USUAL = {
    "Submit": "2026-01-31T10:00:00",
    "Eligible": "2026-01-31T10:00:00",
    "Start": "2026-01-31T10:00:05",
    "End": "2026-01-31T10:01:45",
    "ElapsedRaw": "100",
    "State": "COMPLETED",
    "ReqTRES": "cpu=2,mem=4G,node=1",
    "NNodes": "1",
    "Account": "phys",
    "TimelimitRaw": "60",
    "User": "al",
}


def row(job: object = 1, **values: str) -> dict[str, str]:
    """Return a job of one node that ran for 100 s."""
    return {"JobID": str(job)} | USUAL | values


def dump_of(*rows: dict[str, str]) -> str:
    """Return a dump of sacct with the columns of these rows."""
    names = list(dict.fromkeys([*COLUMNS, *(name for each in rows for name in each)]))
    lines = ["|".join(each.get(name, "") for name in names) for each in rows]
    return "\n".join(["|".join(names), *lines, ""])


def of_text(
    folder: Path, text: str, *options: object, nodes: object = FEED_NODES
) -> tuple[list[Event], dict[str, Any]]:
    """Import a dump; return the events of the feed, and the summary."""
    file = folder / "sacct.txt"
    file.write_text(text, encoding="utf-8")
    return imported("slurm", file, "--nodes", nodes, *options)


def of_rows(
    folder: Path,
    *rows: dict[str, str],
    options: tuple[object, ...] = (),
    nodes: object = FEED_NODES,
) -> tuple[list[Event], dict[str, Any]]:
    """Import jobs; return the events of the feed, and the summary."""
    return of_text(folder, dump_of(*rows), *options, nodes=nodes)


def ask_of(folder: Path, nodes: object = FEED_NODES, **values: str) -> Event:
    """Import one job that has one ask, and return that."""
    events, _ = of_rows(folder, row(**values), nodes=nodes)
    (ask,) = events_of(events, "add_ask")
    return ask


def causes(summary: dict[str, Any], where: str = "left_out") -> dict[str, int]:
    """Return what was left out, or another list of the summary, with its count."""
    return {cause["cause"]: cause["count"] for cause in summary[where]}


_SAMPLES: Final[Mapping[str, str]] = {
    "lines": SACCT,
    "lines-again": SACCT,  # most of the mutants
    "lines-once-more": SACCT,
    "json": NEW_JSON,
    "nodes": NODES,
    "slurm.conf": CONF,
    "tree": TREE,
    "dump": DUMPED,
    "qos": QOS,
    "shares": SHARES,
}


def _read(sample: str, dump: bytes, workload: Workload) -> None:
    with tempfile.NamedTemporaryFile(dir=_FOLDER) as file:
        Path(file.name).write_bytes(dump)
        is_nodes = sample in ("nodes", "slurm.conf")
        workload.nodes = (
            nodes_of_slurm(file.name) if is_nodes else parse_nodes("2x vcore=8,memory=16Gi")
        )
        sources = ClusterFiles(
            priority=PrioritySource.JOB if sample == "lines" else None,
            accounts=file.name if sample in ("tree", "dump") else None,
            qos=file.name if sample == "qos" else None,
            shares=file.name if sample == "shares" else None,
        )
        jobs = dump if sample.startswith(("lines", "json")) else SACCT.encode()
        read_slurm(
            ["sacct.txt"],
            workload,
            default_queues(QUEUES, FIELDS),
            opener=lambda _: io.BytesIO(jobs),
            sources=sources,
        )


_FOLDER: Final = "/dev/shm" if Path("/dev/shm").is_dir() else None

KIND: Final = Kind(
    {name: text.encode() for name, text in _SAMPLES.items()},
    _read,
    parts=b"|",
    words=(
        b"100_3", b"100+1", b"2_[1-9]", b"1.batch", b"RUNNING", b"CANCELLED by 5", b"1-00:00:00",
        b"2026-01-31T10:00:00+0100", b"cpu=0", b"cpu=1,node=4000000000", b"4Gn", b"16.5G",
        b"1769853600", b"a100|ib", b"JobID", b"mem=9999999P", b"cpu=1,node=3,gres/gpu=1",
    ),
)  # fmt: skip
