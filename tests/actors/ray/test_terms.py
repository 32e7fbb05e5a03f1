"""The agent refuses orders whose term is lower than one that Ray's head knows."""

from __future__ import annotations

import json
import os
import queue
import subprocess
import sys
import threading
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgpack
import pytest

from tests.actors.ray.puppets import node

PATIENCE_S = 60.0
AGENT = Path(__file__).with_name("head_agent.py")


class Agent:
    """The process of an agent, by its messages."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.process = process
        self._said: queue.Queue[dict[str, Any]] = queue.Queue()
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        unpacker = msgpack.Unpacker()
        while data := os.read(self.process.stdout.fileno(), 65_536):
            unpacker.feed(data)
            for message in unpacker:
                self._said.put(message)

    def tell(self, **message: object) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(msgpack.packb(message))
        self.process.stdin.flush()

    def next_message(self) -> dict[str, Any]:
        """Wait for its next message that is no heartbeat."""
        while (said := self._said.get(timeout=PATIENCE_S))["say"] == "beat":
            pass
        return said


@contextmanager
def agent(folder: Path, **more: object) -> Generator[Agent]:
    """Have an agent that is connected."""
    (folder / "nodes.json").write_text(json.dumps([node("a1")]))
    pipe = subprocess.PIPE
    command = [sys.executable, str(AGENT), str(folder)]
    with subprocess.Popen(command, stdin=pipe, stdout=pipe) as process:
        made = Agent(process)
        made.tell(do="connect", address="local", namespace="muster", **more)
        assert made.next_message()["say"] == "connected"
        try:
            yield made
        finally:
            assert process.stdin is not None
            process.stdin.close()
            process.wait(PATIENCE_S)
            made.reader.join(PATIENCE_S)  # Its pipe is closed next.


def leads(term: int, scheduler: str = "s") -> dict[str, object]:
    return {"scheduler": scheduler, "term": term}


def test_a_lower_term_is_refused(tmp_path: Path) -> None:
    # REPLICA-15
    with agent(tmp_path) as old, agent(tmp_path) as new:
        old.tell(do="lead", **leads(1))
        old.tell(do="survivors")
        assert old.next_message() == {"say": "survivors", "survivors": []}
        new.tell(do="lead", **leads(2))
        new.tell(do="survivors")
        assert new.next_message() == {"say": "survivors", "survivors": []}
        old.tell(do="survivors")
        assert old.next_message() == {"say": "outdone", "term": 2}
        assert old.process.wait(PATIENCE_S) == 0
        new.tell(do="survivors")
        assert new.next_message() == {"say": "survivors", "survivors": []}


def test_a_program_that_connects_with_a_lower_term_gets_an_error(tmp_path: Path) -> None:
    # REPLICA-15
    with agent(tmp_path, leads=leads(3)) as new, agent(tmp_path, leads=leads(2)) as old:
        assert old.next_message() == {"say": "outdone", "term": 3}
        new.tell(do="survivors")
        assert new.next_message() == {"say": "survivors", "survivors": []}


@pytest.mark.parametrize("options", [{}, {"leads": leads(1, "of another state")}])
def test_others_are_not_concerned(tmp_path: Path, options: dict[str, object]) -> None:
    # REPLICA-15
    with agent(tmp_path, leads=leads(2)), agent(tmp_path, **options) as other:
        other.tell(do="survivors")
        assert other.next_message() == {"say": "survivors", "survivors": []}


def test_orders_wait_for_the_head_and_stay_in_order(tmp_path: Path) -> None:
    # REPLICA-15
    with agent(tmp_path) as one:
        (tmp_path / "away").touch()
        one.tell(do="lead", **leads(1))
        one.tell(do="adopt", id=7, name="a/k/7", grace_s=1.0)
        one.tell(do="follow", every_s=60.0)
        (tmp_path / "away").unlink()
        answers = [one.next_message() for _ in range(2)]
    failed = next(one for one in answers if one["say"] == "failed")
    assert (failed["id"], failed["how"]) == (7, "not_started")
    assert {one["say"] for one in answers} == {"failed", "nodes"}
