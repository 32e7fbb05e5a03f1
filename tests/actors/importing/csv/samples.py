"""Small tables of jobs, to be mutated, with the mapping files that say what they mean."""

from __future__ import annotations

import io
import tempfile
from typing import Final

from muster.importing import Workload, default_queues
from muster.importing.nodes import parse_nodes
from muster.importing.tables import ImportOptions, read_mapping, read_table
from tests.actors.importing.mutated import Kind

_DATED: Final = b"""\
id,came,began,ended,team,cpus,mib,nodes
a,2026-01-05 08:00,2026-01-05 08:01,2026-01-05 09:00,red,4,512,1
b,2026-01-05 08:00,2026-01-05 08:01:30,2026-01-05 09:00,blue,12,,2
"c ""3"" d",2026-01-05 08:00Z,2026-01-05 08:01,2026-01-05 08:01,,0.5,100,3
a,2026-01-06,2026-01-06,2026-01-06 10:00,red,1,1,1
"""
_DATED_SAYS: Final = """\
job: id
submit: came
start: began
end: ended
user: team
queue: root.{team}
resources:
  vcore: {column: cpus, default: "1"}
  memory: {column: mib, unit: Mi, default: 1Mi}
tasks: nodes
amounts: per_job
missing: {team: none}
time: {zone: Europe/Berlin}
"""
_NUMBERED: Final = b"""\
job;at;took;gpus;class
1;0;60;2;x
2;5;1:30:00;17;y
3;2;0;8;z
"""
_NUMBERED_SAYS: Final = """\
job: job
submit: at
duration: took
resources: {nvidia.com/gpu: gpus}
per_node: {nvidia.com/gpu: 8}
priority: {column: gpus, times: -1}
selector: {class: class}
where: {class: "?"}
delimiter: ";"
"""
_SAYS: Final = {"dated": _DATED_SAYS, "numbered": _NUMBERED_SAYS}


def _read(sample: str, dump: bytes, workload: Workload) -> None:
    # What the columns mean is right; it is the table that is not.
    with tempfile.NamedTemporaryFile("w", suffix=".yaml", encoding="utf-8") as file:
        file.write(_SAYS[sample])
        file.flush()
        mapped = read_mapping(file.name)
    workload.nodes = parse_nodes("3x vcore=8,memory=64Gi,nvidia.com/gpu=8")
    read_table(
        ["jobs.csv"],
        workload,
        default_queues((mapped.queue,), mapped.names),
        opener=lambda _: io.BytesIO(dump),
        mapped=mapped,
        choice=ImportOptions(),
    )


KIND: Final = Kind(
    {"dated": _DATED, "numbered": _NUMBERED},
    _read,
    parts=b",",
    words=(b"", b'"', b"-1", b"2026-01-05", b"0", b"1e3", b"8"),
)
