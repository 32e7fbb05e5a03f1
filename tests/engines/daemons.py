"""Starts, kills and ends the daemons of a cluster of Ray: ``python daemons.py FOLDER``.

It is a process of its own, as Ray is not imported into the process of the tests. It runs in a
network namespace of its own, which it brings up; so Ray listens on loopback alone, and
all processes of the cluster and of its users can be found. It reads requests from its standard
input, a JSON object in each line, and answers each by a line. When its input ends, for
whatever reason, it kills everything in its namespace, removes the folder, and ends.
"""

from __future__ import annotations

import fcntl
import importlib
import json
import os
import shutil
import signal
import socket
import struct
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, TextIO, final

_OBJECT_STORE_BYTES: Final = 80 << 20

_LISTED_S: Final = 120.0
"""How long a node may take until Ray lists it, in seconds."""

_LOOPBACK: Final = "127.0.0.1"

# From <linux/sockios.h> and <linux/if.h>.
_SIOCSIFFLAGS: Final = 0x8914
_UP_AND_RUNNING: Final = 0x1 | 0x40


@final
class Daemons:
    """The daemons of a cluster: a head without CPUs, and raylets, each with a name."""

    def __init__(self) -> None:
        self._utils: Any = importlib.import_module("ray.cluster_utils")
        self._cluster: Any = None
        self._raylets: dict[str, Any] = {}

    def start_head(self, port: int | None = None) -> str:
        """Start a head; return its address. With a port it replaces one that was killed."""
        if self._cluster is not None:
            self._kill(self._cluster.head_node, *_PARTS)
            for name in list(self._raylets):
                self.kill(name)
        options = {
            "num_cpus": 0,
            "include_dashboard": False,
            "no_monitor": True,
            "include_log_monitor": False,
            "node_ip_address": _LOOPBACK,
            "object_store_memory": _OBJECT_STORE_BYTES,
        }
        if port is not None:
            options["gcs_server_port"] = port
        self._cluster = self._utils.Cluster(
            initialize_head=True, head_node_args=options, shutdown_at_exit=False
        )
        return str(self._cluster.address)

    def kill_head(self) -> None:
        """Kill the process of the head that knows the nodes, as ``kill -9`` does."""
        self._kill(self._cluster.head_node, "gcs_server")

    def add(
        self,
        name: str,
        cpus: float,
        memory: int,
        resources: dict[str, float],
        labels: dict[str, str],
    ) -> str:
        """Start a raylet, and wait until Ray lists it; return the id of its node."""
        if name in self._raylets:
            self.kill(name)
        node = self._cluster.add_node(
            wait=False,
            num_cpus=cpus,
            memory=memory,
            resources=resources,
            labels={"node_name": name} | labels,
            include_log_monitor=False,
            node_ip_address=_LOOPBACK,
            object_store_memory=_OBJECT_STORE_BYTES,
        )
        self._raylets[name] = node
        self._cluster._wait_for_node(node, timeout=_LISTED_S)
        return str(node.node_id)

    def kill(self, name: str) -> None:
        """Kill the raylet of a node as ``kill -9`` does, and nothing else there."""
        self._kill(self._raylets.pop(name), "raylet")

    def pids(self) -> dict[str, int]:
        """Return the ids of the processes: that of the head, and that of each raylet by its name."""
        (head,) = self._cluster.head_node.all_processes["gcs_server"]
        found: dict[str, int] = {"": head.process.pid}
        for name, node in self._raylets.items():
            (raylet,) = node.all_processes["raylet"]
            found[name] = raylet.process.pid
        return found

    def available(self) -> dict[str, dict[str, float]]:
        """Return the free resources of each node, by its id."""
        state = self._cluster.global_state
        return {
            str(key): dict(found) for key, found in state.available_resources_per_node().items()
        }

    def total(self) -> dict[str, dict[str, float]]:
        """Return the resources of each live node, by its id."""
        state = self._cluster.global_state
        return {str(key): dict(found) for key, found in state.total_resources_per_node().items()}

    def alive(self) -> list[str]:
        """Return the ids of the nodes that Ray has for alive."""
        return [str(one) for one in self._cluster.global_state._live_node_ids()]

    def actors(self) -> int:
        """Return the number of actors that are not dead."""
        state = self._cluster.global_state
        return sum(one["State"] != "DEAD" for one in state.actor_table(None).values())

    @staticmethod
    def _kill(node: Any, *parts: str) -> None:  # noqa: ANN401 - Ray has no types
        for part in parts:
            for one in node.all_processes.pop(part, []):
                with suppress(ProcessLookupError):
                    one.process.kill()
                one.process.wait()


_PARTS: Final = ("raylet", "gcs_server", "dashboard", "monitor", "log_monitor")


def bring_up_loopback() -> None:
    """Bring up the only interface of a new network namespace."""
    with socket.socket() as any_socket:
        fcntl.ioctl(any_socket, _SIOCSIFFLAGS, struct.pack("16sh14x", b"lo", _UP_AND_RUNNING))


def running_in(namespace: str) -> list[int]:
    """Return the processes in a network namespace that have not ended.

    Args:
        namespace: What ``/proc/self/ns/net`` links to.
    """
    found: list[int] = []
    for name in filter(str.isdecimal, os.listdir("/proc")):
        with suppress(OSError):
            if os.readlink(f"/proc/{name}/ns/net") == namespace and state_of(int(name)) != "Z":
                found.append(int(name))
    return found


def state_of(pid: int) -> str:
    """Return the state of a process: ``R``, ``S``, …, or ``Z`` once it has ended."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return "Z"
    return "Z" if fields[0] == "X" else fields[0]


def kill_all_in(namespace: str, spared: int) -> None:
    """Kill all processes in a network namespace but one."""
    until = time.monotonic() + 30
    while time.monotonic() < until:
        others = [pid for pid in running_in(namespace) if pid != spared]
        if not others:
            return
        for pid in others:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.02)


def serve(daemons: Daemons, answers: TextIO) -> None:
    """Carry out the requests from the standard input until its end."""
    for line in sys.stdin:
        request: dict[str, Any] = json.loads(line)
        ask: Callable[..., object] = getattr(daemons, request.pop("do"))
        try:
            answer = {"done": ask(**request)}
        except Exception as error:  # noqa: BLE001 - the test gets it as an answer
            answer = {"failed": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), file=answers, flush=True)


def main() -> None:
    """Serve requests, and leave nothing behind."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # Ray prints
    namespace = os.readlink("/proc/self/ns/net")
    bring_up_loopback()
    try:
        serve(Daemons(), answers)
    finally:
        kill_all_in(namespace, spared=os.getpid())
        shutil.rmtree(sys.argv[1], ignore_errors=True)


if __name__ == "__main__":
    main()
