"""The dumps that are mutated."""

from __future__ import annotations

import io
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

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
from tests.actors.importing.mutated import Kind
from tests.actors.importing.slurm.dumps import CONF, DUMPED, NEW_JSON, NODES, QOS, SACCT, TREE

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
