"""A small cluster of Ray and an agent, as the tests of the agent use them: by its messages."""

from __future__ import annotations

import json
import os
import queue
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import cloudpickle
import msgpack

from muster.ray import keeper

HERE: Final = Path(__file__).parent
AGENT: Final = Path(keeper.__file__).parent / "agent.py"
LONG_S: Final = 90.0
"""How long to wait for anything, in seconds; only a failing test waits so long."""


class SmallCluster:
    """A cluster, with so many nodes of so many processors."""

    def __init__(self, nodes: int, cpus: int) -> None:
        self._folder = tempfile.mkdtemp(prefix="mray-", dir="/tmp")
        self._process = subprocess.Popen(
            [sys.executable, str(HERE / "small_cluster.py"), str(nodes), str(cpus)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "RAY_TMPDIR": self._folder, "RAY_DISABLE_IMPORT_WARNING": "1"},
            text=True,
            start_new_session=True,
        )
        about = self._heard()
        self.address: str = about["address"]
        self.nodes: list[str] = [node["node"] for node in about["nodes"]]
        self.raylets: dict[str, int] = {node["node"]: node["raylet"] for node in about["nodes"]}

    def _heard(self) -> Any:  # noqa: ANN401
        assert self._process.stdout is not None
        return json.loads(self._process.stdout.readline())

    def ask(self, *what: str) -> Any:  # noqa: ANN401
        assert self._process.stdin is not None
        self._process.stdin.write(" ".join(what) + "\n")
        self._process.stdin.flush()
        return self._heard()

    def add(self) -> str:
        added = self.ask("add")
        self.nodes.append(added["node"])
        self.raylets[added["node"]] = added["raylet"]
        return str(added["node"])

    def kill(self, node: str) -> None:
        self.ask("kill", str(self.raylets[node]))
        self.nodes.remove(node)

    def lacks(self) -> dict[str, float]:
        """Give what is not free, if not all becomes free in time."""
        lacks: dict[str, float] = self.ask("idle")["lacks"]
        return lacks

    def close(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        try:
            self._process.wait(LONG_S)
        finally:
            os.killpg(self._process.pid, signal.SIGKILL) if self._process.poll() is None else None
            self._process.stdout.close()
            shutil.rmtree(self._folder, ignore_errors=True)


class SmallAgent:
    """An agent that is connected to a cluster."""

    def __init__(self, address: str, *, follow: bool = True, namespace: str = "muster") -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-I", str(AGENT)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
        )
        self.said: list[dict[str, Any]] = []
        self.at: list[float] = []
        self._new: queue.Queue[dict[str, Any] | None] = queue.Queue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        self._next = 0
        self.tell(do="connect", address=address, namespace=namespace)
        if follow:
            self.tell(do="follow", every_s=0.2)

    def _read(self) -> None:
        assert self.process.stdout is not None
        unpacker = msgpack.Unpacker()
        while data := os.read(self.process.stdout.fileno(), 65_536):
            unpacker.feed(data)
            for message in unpacker:
                self._new.put({**message, "heard": time.monotonic()})
        self._new.put(None)

    def tell(self, **message: Any) -> None:  # noqa: ANN401
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
            for message in self.said[seen:]:
                if wanted(message):
                    return message
            seen = len(self.said)
            try:
                message = self._new.get(timeout=max(0.0, until - time.monotonic()))
            except queue.Empty:
                shown = [each for each in self.said if each["say"] not in ("beat", "nodes")]
                raise AssertionError(f"it has not come; came: {shown}") from None
            if message is None:
                raise AssertionError("the agent has ended")
            self.said.append(message)

    def wait_for(self, say: str, number: int | None = None) -> dict[str, Any]:
        return self.wait(
            lambda said: said["say"] == say and (number is None or said.get("id") == number)
        )

    def end_of(self, number: int) -> dict[str, Any]:
        """Wait for the end of a run."""
        ends = ("ended", "failed", "cancelled")
        return self.wait(lambda said: said["say"] in ends and said.get("id") == number)

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
        self._next += 1
        message: dict[str, Any] = {
            "do": "run",
            "id": self._next,
            "name": f"app/ask-{self._next}/{self._next}",
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
        self.tell(**message)
        return self._next

    def cancel(self, number: int, grace_s: float = 5.0) -> None:
        self.tell(do="cancel", id=number, grace_s=grace_s)

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
