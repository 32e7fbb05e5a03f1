"""A control plane of Kubernetes for tests: a real etcd and API server, with RBAC on.

There is no controller and no kubelet: tests make what these would make. ``make kubernetes`` brings
the programs. They end with the process that has started them.
"""

from __future__ import annotations

import os
import shutil
import socket
import ssl
import subprocess
import tempfile
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from functools import cache
from pathlib import Path
from typing import Any, Final, cast, final

import httpx

PATIENCE_S: Final = float(os.environ.get("PATIENCE", "120"))
"""How long anything may take, in seconds: the machine may be slow, and busy."""

_CACHE: Final = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
SERVER: Final = _CACHE / "muster" / "kubernetes" / "kube-apiserver-2"

TOKENS: Final = {"admin": "system:masters", "muster": "", "nobody": ""}
"""The users, each with its name as its token, and the group of each."""


@cache
def why_not() -> str | None:
    """Return why there can be no control plane here, or None."""
    missing = [one for one in ("etcd", "setpriv", "openssl") if shutil.which(one) is None]
    if missing or not SERVER.exists():
        lacks = ", ".join(missing) or "the API server"
        return f"{lacks} not found: make kubernetes brings what is needed"
    return None


class ClusterError(Exception):
    """The control plane has not carried out a request of a test."""


def wait_until(condition: Callable[[], object], what: str) -> None:
    """Wait until a condition holds.

    Raises:
        ClusterError: If it does not in time.
    """
    end = time.monotonic() + PATIENCE_S
    while not condition():
        if time.monotonic() > end:
            msg = f"not in {PATIENCE_S:.0f} s: {what}"
            raise ClusterError(msg)
        time.sleep(0.05)


@final
class ControlPlane:
    """A running etcd and API server; see :func:`control_plane`. Every method blocks.

    Attributes:
        folder: A folder for files; removed at the end.
        url: The URL of the API server.
        etcd_url: The URL of etcd.
        authority: The file with the certificate that it is known by.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.authority = folder / "certificates" / "apiserver.crt"
        self._ports = dict(zip(("etcd", "peers", "server"), _free_ports(3), strict=True))
        self.url = f"https://127.0.0.1:{self._ports['server']}"
        self.etcd_url = f"http://127.0.0.1:{self._ports['etcd']}"
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        # A process ends with the thread that has started it: not one that ends when it is idle.
        self._thread = ThreadPoolExecutor(1)
        tokens = "".join(f'{name},{name},{name},"{of}"\n' for name, of in TOKENS.items())
        (folder / "tokens.csv").write_text(tokens)
        key = folder / "accounts.key"
        subprocess.run(["openssl", "genrsa", "-out", key, "2048"], check=True, capture_output=True)

    def start_etcd(self) -> None:
        """Start etcd with its previous data."""
        url, peers = self.etcd_url, f"http://127.0.0.1:{self._ports['peers']}"
        options = {
            "data-dir": self.folder / "etcd",
            "listen-client-urls": url,
            "advertise-client-urls": url,
            "listen-peer-urls": peers,
            "initial-advertise-peer-urls": peers,
            "initial-cluster": f"default={peers}",
        }
        self._start("etcd", "etcd", options, "--unsafe-no-fsync")

    def start_server(self) -> None:
        """Start the API server, and wait until it is ready."""
        accounts = self.folder / "accounts.key"
        options = {
            "etcd-servers": self.etcd_url,
            "secure-port": self._ports["server"],
            "bind-address": "127.0.0.1",
            "advertise-address": "127.0.0.1",
            "cert-dir": self.folder / "certificates",
            "token-auth-file": self.folder / "tokens.csv",
            "authorization-mode": "RBAC",
            "disable-admission-plugins": "ServiceAccount",
            "service-account-issuer": "https://muster.test",
            "service-account-key-file": accounts,
            "service-account-signing-key-file": accounts,
            "service-cluster-ip-range": "10.0.0.0/24",
        }
        self._start("server", str(SERVER), options)
        wait_until(self._is_ready, "the API server is ready")

    def kill(self, name: str) -> None:
        """Kill ``etcd`` or ``server``."""
        process = self._processes.pop(name)
        process.kill()
        process.wait()

    def end(self) -> None:
        """Kill all of it."""
        for name in list(self._processes):
            self.kill(name)
        self._thread.shutdown()

    def client(self, user: str = "admin") -> httpx.Client:
        """Return a client of a user."""
        return httpx.Client(
            base_url=self.url,
            headers={"Authorization": f"Bearer {user}"},
            verify=ssl.create_default_context(cafile=self.authority),
            timeout=PATIENCE_S,
        )

    def post(self, path: str, body: Mapping[str, Any], user: str = "admin") -> dict[str, Any]:
        """Make an object, and return it."""
        with self.client(user) as client:
            return _answer(client.post(path, json=body))

    def delete(self, path: str) -> None:
        """Delete an object at once."""
        with self.client() as client:
            _answer(client.request("DELETE", path, json={"gracePeriodSeconds": 0}))

    def kubeconfig(self, user: str = "admin", url: str | None = None) -> Path:
        """Write a kubeconfig file for a user, and return its path."""
        path = self.folder / f"{user}.kubeconfig"
        path.write_text(
            f"""\
apiVersion: v1
kind: Config
current-context: test
clusters:
- name: test
  cluster: {{server: "{url or self.url}", certificate-authority: "{self.authority}"}}
users:
- name: {user}
  user: {{token: {user}}}
contexts:
- name: test
  context: {{cluster: test, user: {user}}}
"""
        )
        return path

    def _start(self, name: str, program: str, options: Mapping[str, object], *flags: str) -> None:
        words: Sequence[str] = [f"--{key}={value}" for key, value in options.items()]
        with (self.folder / f"{name}.log").open("ab") as log:
            self._processes[name] = self._thread.submit(
                subprocess.Popen[bytes],
                ["setpriv", "--pdeathsig", "KILL", program, *words, *flags],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            ).result()

    def _is_ready(self) -> bool:
        if self._processes["server"].poll() is not None:
            log = (self.folder / "server.log").read_text(errors="replace")[-2000:]
            msg = f"the API server has ended:\n{log}"
            raise ClusterError(msg)
        try:
            with self.client() as client:
                is_ready = client.get("/readyz").text == "ok"
                # The server makes this namespace only then.
                return is_ready and client.get("/api/v1/namespaces/default").is_success
        except (httpx.TransportError, OSError):  # Not even its certificate is there yet.
            return False


def _free_ports(count: int) -> list[int]:
    """Return free ports; these programs cannot choose their own."""
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]


def _answer(response: httpx.Response) -> dict[str, Any]:
    if response.is_error:
        msg = f"{response.request.url} has answered {response.status_code}: {response.text}"
        raise ClusterError(msg)
    return cast("dict[str, Any]", response.json())


@contextmanager
def control_plane() -> Generator[ControlPlane]:
    """Start a control plane, and end it afterwards."""
    with tempfile.TemporaryDirectory(prefix="muster-kubernetes-") as folder:
        plane = ControlPlane(Path(folder))
        try:
            plane.start_etcd()
            plane.start_server()
            yield plane
        finally:
            plane.end()
