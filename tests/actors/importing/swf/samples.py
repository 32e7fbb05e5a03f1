"""A small log in the Standard Workload Format, to be mutated."""

from __future__ import annotations

import io
from typing import Final

from muster.importing import Workload, default_queues
from muster.importing.swf import FIELDS, QUEUES, read_swf
from tests.actors.importing.mutated import Kind

_LOG: Final = b"""\
; MaxNodes: 4
; MaxProcs: 16
; Queue: 1 batch
; Partition: 1 main
1 0 5 100 4 -1 -1 4 200 -1 1 1 1 1 1 1 -1 -1
2 10 0 50 9 -1 1024 9 60 1024 1 2 1 2 1 1 -1 -1
3 10 0 -1 -1 -1 -1 2 60 -1 5 2 1 2 2 1 1 5
4 25 1 0 1 -1 -1 1 10 -1 0 3 2 -1 -1 -1 -1 -1
"""


def _read(sample: str, dump: bytes, workload: Workload) -> None:
    read_swf(
        ["log.swf"], workload, default_queues(QUEUES, FIELDS), opener=lambda _: io.BytesIO(dump)
    )


KIND: Final = Kind({"log": _LOG}, _read, parts=b" ", words=(b";", b"-1", b"2", b"5"))
