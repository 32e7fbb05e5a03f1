"""The agent of Muster itself, with a folder in place of Ray: no run begins.

It is run as ``head_agent.py FOLDER …``. In the folder:

* ``nodes.json``: the nodes
* ``away``: if it is there, the head does not answer
* ``terms/SCHEDULER/TERM``: the terms that the head knows
* ``started``: the names of the runs that were to begin
* ``NUMBER.agent``: it notes its process there
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

from muster.ray._agent_server import serve

FOLDER = Path(sys.argv[1])


class Head:
    """What the agent needs of Ray before anything runs there."""

    def load(self) -> None:
        """Do nothing."""

    def connect(self, _address: str, _namespace: str, **_options: object) -> tuple[str, str]:
        return "2.60.0", "3.11"

    def disconnect(self) -> None:
        """Do nothing."""

    def nodes(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = json.loads((FOLDER / "nodes.json").read_text())
        return found

    def highest_term(self, scheduler: str, term: int) -> int:
        if (FOLDER / "away").exists():
            raise ConnectionError
        terms = FOLDER / "terms" / scheduler
        terms.mkdir(parents=True, exist_ok=True)
        (terms / str(term)).touch()
        return max(int(one.name) for one in terms.iterdir())

    def names_of_detached(self) -> list[str]:
        return []

    def names_of_groups(self) -> list[str]:
        return []

    def detached(self, _name: str) -> None:
        """Return nothing: none is there."""

    def start_detached(self, run: dict[str, Any], _group: object) -> Any:  # noqa: ANN401
        with (FOLDER / "started").open("a") as file:
            file.write(f"{run['name']}\n")
        raise ConnectionError


if __name__ == "__main__":
    (FOLDER / f"{time.time_ns()}.agent").write_text(str(os.getpid()))
    asyncio.run(serve(Head()))
