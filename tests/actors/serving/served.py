"""A real ``muster serve``: a process with a socket, and a client for it."""

from __future__ import annotations

import os
import re
import signal
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from queue import Empty, Queue
from types import TracebackType
from typing import Final, Self, final

import httpx

PATIENCE_S: Final = 180.0
"""How long anything is waited for, in seconds; it is never reached on a machine that works."""

CONFIG: Final = """
partitions:
  - name: default
    queues:
      - name: root
        submitacl: "*"
        queues:
          - {name: prod, resources: {guaranteed: {vcore: 4}, max: {vcore: 8}}}
          - {name: dev}
"""


def until(is_so: Callable[[], bool]) -> None:
    """Ask again and again until something is so."""
    began = time.monotonic()
    while not is_so():
        assert time.monotonic() - began < PATIENCE_S, "it has never come about"


@final
class Served:
    """A running ``muster serve``, as a context manager.

    Args:
        folder: Where the configuration is written, if ``config`` is a text.
        arguments: Further arguments of the command.
        config: The configuration, or None for none.
        listen: Where it listens; nothing to let it choose.
        environment: Further environment variables.
        verify: The file of the certificate authority for TLS, or None.
        prefix: A program with arguments that becomes the command.
        until_ready: Whether to wait until it answers requests.

    Attributes:
        urls: The addresses that it says it listens on.
        lines: The lines of its standard error, as far as they were looked at.
    """

    def __init__(
        self,
        folder: Path,
        *arguments: str,
        config: str | None = CONFIG,
        listen: Sequence[str] = ("127.0.0.1:0",),
        environment: Mapping[str, str] | None = None,
        verify: str | None = None,
        until_ready: bool = True,
        prefix: Sequence[str] = (),
    ) -> None:
        command = [
            *prefix,
            sys.executable,
            "-X",
            "faulthandler",
            "-m",
            "muster",
            "serve",
            *arguments,
        ]
        for address in listen:
            command += ["--listen", address]
        if config is not None:
            path = folder / "queues.yaml"
            path.write_text(config, encoding="utf-8")
            command += ["--config", str(path)]
        self.process = subprocess.Popen(
            command,
            stderr=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stdin=subprocess.DEVNULL,
            env={**os.environ, **(environment or {})},
            text=True,
        )
        self.lines: list[str] = []
        self._queue: Queue[str | None] = Queue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        self.urls: list[str] = []
        try:
            while len(self.urls) < max(len(listen), 1):
                line = self.line("listening on ")
                found = re.search(r'listening on ([^\s"]+)', line)
                assert found is not None, line
                self.urls.append(found[1])
            if until_ready:
                self.line(r"\bready\b")
        except BaseException:
            self.kill()
            raise
        self.client = self.client_of(self.urls[0], verify)

    @staticmethod
    def client_of(url: str, verify: str | None = None) -> httpx.Client:
        """Return a client for an address that it listens on."""
        context = True if verify is None else ssl.create_default_context(cafile=verify)
        uds = url.removeprefix("unix:") if url.startswith("unix:") else None
        return httpx.Client(
            base_url=url if uds is None else "http://localhost",
            transport=httpx.HTTPTransport(verify=context, uds=uds),
            timeout=PATIENCE_S,
            trust_env=False,
        )

    def _read(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self._queue.put(line.rstrip("\n"))
        self._queue.put(None)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is None and self.process.poll() is None:
            assert self.stop() == 0, "\n".join(self.lines)
        else:
            self.kill()

    def line(self, pattern: str) -> str:
        """Return the next line of its standard error that a pattern is found in."""
        while True:
            try:
                line = self._queue.get(timeout=PATIENCE_S)
            except Empty:
                told = "\n".join(self.lines)
                msg = f"no line like {pattern!r} in {PATIENCE_S} s:\n{told}"
                raise AssertionError(msg) from None
            if line is None:
                told = "\n".join(self.lines)
                msg = f"it ended before a line like {pattern!r}:\n{told}"
                raise AssertionError(msg)
            self.lines.append(line)
            if re.search(pattern, line):
                return line

    def stop(self, number: int = signal.SIGTERM) -> int:
        """End it by a signal; return its exit status."""
        self.process.send_signal(number)
        try:
            status = self.process.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            self.kill()
            raise
        self._close()
        return status

    def lines_with(self, text: str) -> list[str]:
        """Return the lines of standard error with a text, as far as they were looked at."""
        return [line for line in self.lines if text in line]

    def kill(self) -> None:
        """End it at once, as ``kill -9`` does."""
        self.process.kill()
        self.process.wait()
        self._close()

    def _close(self) -> None:
        client: httpx.Client | None = getattr(self, "client", None)
        if client is not None:
            client.close()
        self._reader.join(PATIENCE_S)
        while not self._queue.empty():
            line = self._queue.get()
            if line is not None:
                self.lines.append(line)
        assert self.process.stderr is not None
        self.process.stderr.close()
