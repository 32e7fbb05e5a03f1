"""An agent that tests drive by its messages."""

from __future__ import annotations

import importlib
import os
import queue
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import msgpack

from muster.ray import runner
from tests.engines.cluster import Cluster

cloudpickle: Any = importlib.import_module("cloudpickle")  # it has no types

AGENT: Final = Path(runner.__file__).parent / "agent.py"
LONG_S: Final = 90.0
"""How long to wait for anything, in seconds; only a failing test waits so long."""


class Agent:
    """An agent that is connected to a cluster."""

    def __init__(
        self, cluster: Cluster, *, follow: bool = True, address: str | None = None
    ) -> None:
        self.process = subprocess.Popen(
            [cluster.python, "-I", str(AGENT)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
        )
        self.messages: list[dict[str, Any]] = []
        self._new: queue.Queue[dict[str, Any] | None] = queue.Queue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        self.last = 0
        self.send(do="connect", address=address or cluster.address, namespace="muster")
        if follow:
            self.send(do="follow", every_s=0.2)

    def _read(self) -> None:
        assert self.process.stdout is not None
        unpacker = msgpack.Unpacker()
        while data := os.read(self.process.stdout.fileno(), 65_536):
            unpacker.feed(data)
            for message in unpacker:
                self._new.put({**message, "received_s": time.monotonic()})
        self._new.put(None)

    def send(self, **message: Any) -> None:  # noqa: ANN401
        assert self.process.stdin is not None
        self.process.stdin.write(msgpack.packb(message))
        self.process.stdin.flush()

    def wait(
        self, wanted: Callable[[dict[str, Any]], bool], within_s: float = LONG_S
    ) -> dict[str, Any]:
        """Wait for a message, or find it among those that have come."""
        until = time.monotonic() + within_s
        seen = 0
        while True:
            for message in self.messages[seen:]:
                if wanted(message):
                    return message
            seen = len(self.messages)
            try:
                new = self._new.get(timeout=max(0.0, until - time.monotonic()))
            except queue.Empty:
                shown = [each for each in self.messages if each["say"] not in ("beat", "nodes")]
                raise AssertionError(f"it has not come; came: {shown}") from None
            assert new is not None, "the agent has ended"
            self.messages.append(new)

    def node(self, name: str) -> str:
        """Return the id of a node by its name, as soon as it is there."""

        def of(message: dict[str, Any]) -> list[str]:
            nodes: list[dict[str, Any]] = message["nodes"] if message["say"] == "nodes" else []
            return [node["id"] for node in nodes if node["labels"].get("node_name") == name]

        return of(self.wait(lambda message: bool(of(message))))[0]

    def wait_for(self, say: str, number: int | None = None) -> dict[str, Any]:
        return self.wait(
            lambda message: (
                message["say"] == say and (number is None or message.get("id") == number)
            )
        )

    def end_of(self, number: int) -> dict[str, Any]:
        """Wait for the end of a run."""
        ends = ("ended", "failed", "cancelled")
        return self.wait(lambda message: message["say"] in ends and message.get("id") == number)

    def command(self, node: str, run: list[str] | str, **more: Any) -> int:  # noqa: ANN401
        names = ("cwd", "stdin", "stdout", "stderr")
        work = {name: more.pop(name, None) for name in names}
        env = more.pop("env", {})
        return self.run(node, {"kind": "command", "run": run, "env": env, **work}, **more)

    def call(self, node: str, function: Any, *args: Any, **more: Any) -> int:  # noqa: ANN401
        sent = function if isinstance(function, str) else cloudpickle.dumps(function)
        work = {
            "kind": "call",
            "function": sent,
            "arguments": cloudpickle.dumps((args, more.pop("kwargs", {}))),
            "env": more.pop("env", {}),
            "runtime_env": more.pop("runtime_env", {}),
            "options": more.pop("options", {}),
        }
        return self.run(node, work, **more)

    def run(self, node: str, work: dict[str, Any], **more: Any) -> int:  # noqa: ANN401
        self.last += 1
        message: dict[str, Any] = {
            "do": "run",
            "id": self.last,
            "name": f"app/ask-{self.last}/{self.last}",
            "node": node,
            "cpus": 1.0,
            "gpus": 0.0,
            "memory": 0,
            "resources": {},
            "work": work,
            "grace_s": 5.0,
            "gate": None,
            "detached": False,
            **more,
        }
        self.send(**message)
        return self.last

    def cancel(self, number: int, grace_s: float = 5.0) -> None:
        self.send(do="cancel", id=number, grace_s=grace_s)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(LONG_S)

    def close(self) -> None:
        """End it, by the end of its input."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        if self.process.poll() is None:
            self.process.stdin.close()
        try:
            self.process.wait(LONG_S)
        finally:
            if self.process.poll() is None:
                self.kill()
            self._reader.join(LONG_S)
            self.process.stdout.close()
            if not self.process.stdin.closed:
                self.process.stdin.close()
