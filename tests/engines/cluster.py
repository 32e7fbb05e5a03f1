"""A cluster of Ray for tests: real daemons on this machine, which end with the process of the tests.

Each cluster is in a network namespace of its own, which has only loopback. So Ray, which listens
on all addresses, is not visible from outside, clusters do not meet, and ``processes`` finds
everything that was started there.
"""

from __future__ import annotations

import importlib.util
import json
import os
import select
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, Final, cast, final

from tests.engines import daemons

PATIENCE_S: Final = 180.0
"""How long anything may take, in seconds: the machine may be slow, and busy."""

_GIB: Final = 1 << 30

# As root, and as another user where the system lets users have namespaces.
_NEW_NAMESPACE: Final = (
    (["unshare", "--net"], ["nsenter"]),
    (["unshare", "--map-root-user", "--net"], ["nsenter", "--preserve-credentials", "--user"]),
)

SETTINGS: Final = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_DEDUP_LOGS": "0",
    "RAY_prestart_worker_first_driver": "0",  # each worker costs a second of processor time
}
"""What is set for all processes of a cluster, and for those that use it."""


@cache
def why_not() -> str | None:
    """Return why there can be no cluster here, or None."""
    if importlib.util.find_spec("ray") is None:
        return "ray is not installed: make test-engines installs it"
    if _namespace_commands() is None:
        return "this user may not have a network namespace, and Ray would listen on all addresses"
    return None


@cache
def _namespace_commands() -> tuple[list[str], list[str]] | None:
    """Return the commands that make and enter a network namespace, or None."""
    for make, enter in _NEW_NAMESPACE:
        if shutil.which(make[0]) is None or shutil.which(enter[0]) is None:
            return None
        if subprocess.run([*make, "true"], capture_output=True, check=False).returncode == 0:
            return make, enter
    return None


class ClusterError(Exception):
    """The cluster has not carried out a request of a test."""


@final
class Cluster:
    """A running cluster; see :func:`cluster`. Every method blocks.

    Attributes:
        address: The address of the head, for ``connect``.
        python: A Python inside the namespace of the cluster, for ``connect``: a script.
        folder: A folder for the files of tests; removed at the end.
        namespace: The network namespace, as ``/proc/PID/ns/net`` names it.
    """

    def __init__(self, folder: Path, settings: Mapping[str, str]) -> None:
        way = _namespace_commands()
        if way is None:
            raise ClusterError(why_not() or "")
        make, enter = way
        self.folder = folder
        self.address = ""
        self._log = folder / "daemons.log"
        self._environment = os.environ | SETTINGS | dict(settings) | {"RAY_TMPDIR": str(folder)}
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [*make, sys.executable, "-P", daemons.__file__, str(folder)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                env=self._environment,
                start_new_session=True,
            )
        ours = os.readlink("/proc/self/ns/net")
        namespace = Path(f"/proc/{self._process.pid}/ns/net")
        wait_until(lambda: os.readlink(namespace) != ours, "the namespace is there")
        self.namespace = os.readlink(namespace)
        # While this is open, no other namespace gets the same number.
        self._kept = os.open(namespace, os.O_RDONLY)
        self.python = str(folder / "python")
        self._write_python(enter)

    def _write_python(self, enter: list[str]) -> None:
        """Write a script that is Python in the namespace; it has the id of the process itself."""
        settings = self._environment
        lines = [f"export {name}='{settings[name]}'" for name in (*SETTINGS, "RAY_TMPDIR")]
        net = f"--net=/proc/{self._process.pid}/ns/net"
        user = f"--target {self._process.pid}" if "--user" in enter else ""
        lines.append(f"exec {' '.join(enter)} {user} {net} -- '{sys.executable}' \"$@\"")
        script = Path(self.python)
        script.write_text("\n".join(["#!/bin/sh", *lines, ""]), encoding="utf-8")
        script.chmod(0o755)

    def start_head(self) -> None:
        """Start the head; or another one at the same address when it was killed, without nodes."""
        port = int(self.address.rpartition(":")[2]) if self.address else None
        self.address = str(self._ask("start_head", port=port))

    def kill_head(self) -> None:
        """``kill -9`` the process of the head that knows the nodes."""
        self._ask("kill_head")

    def add(
        self,
        name: str,
        cpus: float = 2,
        *,
        memory: int = _GIB,
        resources: Mapping[str, float] | None = None,
        labels: Mapping[str, str] | None = None,
    ) -> str:
        """Start a raylet with the label ``node_name``, or again when it was killed.

        Returns:
            Ray's id of the node, which Ray lists now.
        """
        return str(
            self._ask(
                "add",
                name=name,
                cpus=cpus,
                memory=memory,
                resources=dict(resources or {}),
                labels=dict(labels or {}),
            )
        )

    def kill(self, name: str) -> None:
        """``kill -9`` the raylet of a node, and nothing else there."""
        self._ask("kill", name=name)

    def pids(self) -> dict[str, int]:
        """Return the ids of the daemons: of each raylet by its name, and of the head as ``""``."""
        return cast("dict[str, int]", self._ask("pids"))

    def available(self) -> dict[str, dict[str, float]]:
        """Return the free resources of each node, by its id in Ray."""
        return cast("dict[str, dict[str, float]]", self._ask("available"))

    def total(self) -> dict[str, dict[str, float]]:
        """Return the resources of each live node, by its id in Ray."""
        return cast("dict[str, dict[str, float]]", self._ask("total"))

    def alive(self) -> list[str]:
        """Return the ids of the nodes that Ray has for alive."""
        return cast("list[str]", self._ask("alive"))

    def actors(self) -> int:
        """Return how many actors there are that are not dead."""
        return cast("int", self._ask("actors"))

    def processes(self) -> dict[int, str]:
        """Return the processes in the namespace, except the daemons, with their commands."""
        found: dict[int, str] = {}
        for pid in daemons.running_in(self.namespace):
            if pid == self._process.pid:
                continue
            try:
                line = Path(f"/proc/{pid}/cmdline").read_bytes()
            except OSError:
                continue
            command = line.replace(b"\0", b" ").decode(errors="replace").strip()
            if not any(part in command for part in _DAEMONS):
                found[pid] = command
        return found

    def stop(self) -> None:
        """End everything in the namespace, by the ids of the processes."""
        try:
            assert self._process.stdin is not None
            self._process.stdin.close()
            try:
                self._process.wait(timeout=60)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
            daemons.kill_all_in(self.namespace, spared=0)
        finally:
            assert self._process.stdout is not None
            self._process.stdout.close()
            os.close(self._kept)
            shutil.rmtree(self.folder, ignore_errors=True)

    def _ask(self, what: str, **arguments: object) -> object:
        """Send a request, and wait for its answer.

        Raises:
            ClusterError: If it has failed, or takes too long.
        """
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        try:
            stdin.write(json.dumps({"do": what} | arguments).encode() + b"\n")
            stdin.flush()
        except BrokenPipeError:
            raise ClusterError(f"{what}: the daemons have ended\n{self.log()}") from None
        if not select.select([stdout], [], [], PATIENCE_S)[0]:
            raise ClusterError(f"{what} takes longer than {PATIENCE_S:.0f} s\n{self.log()}")
        line = stdout.readline()
        answer: dict[str, Any] = json.loads(line) if line else {"failed": "the daemons have ended"}
        if "failed" in answer:
            raise ClusterError(f"{what}: {answer['failed']}\n{self.log()}")
        return answer["done"]

    def log(self) -> str:
        """Return the end of the output of the daemons."""
        return self._log.read_text(encoding="utf-8", errors="replace")[-3000:]


_DAEMONS: Final = (
    "gcs/gcs_server",
    "raylet/raylet",
    "ray/dashboard/",
    "ray/_private/",
    "ray/autoscaler/",
    "ray::DashboardAgent",
    "ray::RuntimeEnvAgent",
    "ray::IDLE",
)
"""How the command of a process begins that belongs to Ray, and not to work."""


@contextmanager
def cluster(
    *nodes: str, cpus: float = 2, settings: Mapping[str, str] | None = None
) -> Generator[Cluster]:
    """Run a cluster with a head without CPUs, and raylets with these names.

    Args:
        nodes: The names of the nodes.
        cpus: The number of CPUs of each.
        settings: Environment variables of all its processes, such as ``RAY_health_check_…``.
    """
    # Sockets are in this folder, and their paths may have some hundred characters only.
    running = Cluster(Path(tempfile.mkdtemp(prefix="mray-", dir="/tmp")), settings or {})
    try:
        running.start_head()
        for name in nodes:
            running.add(name, cpus)
        yield running
    finally:
        running.stop()


def wait_until(
    condition: Callable[[], bool], what: str, within_s: float = PATIENCE_S, *, every_s: float = 0.02
) -> None:
    """Wait until something is so.

    Raises:
        ClusterError: If it is not so in time.
    """
    until = time.monotonic() + within_s
    while not condition():
        if time.monotonic() > until:
            raise ClusterError(f"not within {within_s:.0f} s: {what}")
        time.sleep(every_s)
