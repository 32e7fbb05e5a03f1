"""Make the store of the present format, for as long as later versions have to read it."""

from __future__ import annotations

import gzip
import sqlite3
import tempfile
from contextlib import closing
from pathlib import Path

from muster.store._rows import FORMAT
from tests.actors.serving.served import Served
from tests.compatibility.decisions import FORMATS

APP = {"op": "add_app", "app": "a", "queue": "root.dev"}
ASK = {"op": "add_ask", "app": "a", "resources": {"vcore": 1}}
BEFORE = (
    ({"op": "add_node", "node": "n", "capacity": {"vcore": 4}}, APP),
    ({**ASK, "ask": "x", "count": 3},),
    ({**ASK, "ask": "large", "resources": {"vcore": 3}},),
)
AFTER = (
    ({**APP, "app": "p", "queue": "root.prod"},),
    ({**ASK, "app": "p", "ask": "y", "count": 2, "priority": 5},),
    ({"op": "release", "app": "a", "ask": "x-0"}, {"op": "remove_ask", "app": "a", "ask": "large"}),
)


def make() -> None:
    """Let a service write it, which ends in the middle, and is killed at the end."""
    with tempfile.TemporaryDirectory() as path:
        folder = Path(path)
        for requests in (BEFORE, AFTER):
            with Served(folder, "--state", str(folder / "state")) as served:
                for number, events in enumerate(requests):
                    headers = {"Idempotency-Key": f"{requests is BEFORE}-{number}"}
                    answer = served.client.post("/api/v1/events", json=events, headers=headers)
                    answer.raise_for_status()
                if requests is BEFORE:
                    served.process.terminate()
                    served.process.wait(60)
                else:
                    served.kill()
        with closing(sqlite3.connect(folder / "state" / "muster.db")) as connection:
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        content = (folder / "state" / "muster.db").read_bytes()
        (FORMATS / f"{FORMAT}.db.gz").write_bytes(gzip.compress(content, mtime=0))
