"""An agent that says what a test makes it say; a process of its own, without Ray.

The address that it connects to is the socket of the test. It passes every message there, and carries
out the commands that come from there. Its argument is the folder with the package ``msgpack``: it runs
without ``site``, to start quickly.
"""

from __future__ import annotations

import _socket  # what `socket` is made of, which takes longer to import than all else
import os
import select
import sys
import time

sys.path.append(sys.argv[1])
import msgpack

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

BEAT_S = 0.1


class FakeAgent:
    """Relays messages between the program and the test."""

    def __init__(self) -> None:
        self.unpacker = msgpack.Unpacker()
        self.orders = msgpack.Unpacker()
        self.test: _socket.socket | None = None
        self.beats = True
        self.listens = True
        self.stays = False
        self.cancels = True
        self.survivors: list[dict[str, Any]] = []
        self.beaten = 0.0

    def run(self) -> None:
        while True:
            sources = [0] if self.listens else []
            if self.test is not None:
                sources.append(self.test.fileno())
            ready, _, _ = select.select(sources, [], [], BEAT_S)
            if 0 in ready:
                self.handle(os.read(0, 65536))
            if self.test is not None and self.test.fileno() in ready:
                self.obey(self.test)
            if self.beats and time.monotonic() >= self.beaten + BEAT_S:
                self.beaten = time.monotonic()
                self.write(msgpack.packb({"say": "beat"}))

    def obey(self, test: _socket.socket) -> None:
        """Carry out the commands that the test has sent so far."""
        while True:
            try:
                data = test.recv(65536, _socket.MSG_DONTWAIT)
            except BlockingIOError:
                return
            if not data:
                os._exit(3)  # the test has gone
            self.orders.feed(data)
            for order in self.orders:
                self.execute(order)

    def handle(self, data: bytes) -> None:
        if not data:
            self.listens = False
            self.report({"end": True})
            if not self.stays:
                os._exit(0)
        self.unpacker.feed(data)
        for message in self.unpacker:
            if message["do"] == "connect":
                self.test = _socket.socket(_socket.AF_UNIX)
                self.test.connect(message["address"])
                self.report({"pid": os.getpid()})
            if message["do"] == "survivors":  # so a test can wait until everything was read
                if self.test is not None:
                    self.obey(self.test)  # the test has sent them before it has asked
                self.write(msgpack.packb({"say": "survivors", "survivors": self.survivors}))
                continue
            self.report({"received": message})
            if message["do"] == "cancel" and self.cancels:
                self.write(msgpack.packb({"say": "cancelled", "id": message["id"], "gone": True}))

    def report(self, message: dict[str, Any]) -> None:
        if self.test is not None:
            self.test.sendall(msgpack.packb(message))

    def execute(self, order: dict[str, Any]) -> None:
        match order:
            case {"say": message}:
                self.write(msgpack.packb(message))
            case {"write": data}:
                self.write(data)
            case {"print": text}:
                sys.stderr.write(text)
                sys.stderr.flush()
            case {"sync": _}:
                self.report({"synced": True})
            case {"close": number}:
                self.beats = False
                os.close(number)
            case {"exit": status}:
                os._exit(status)
            case _:  # beats, listens, stays, cancels, survivors
                vars(self).update(order)

    def write(self, data: bytes) -> None:
        while data:
            data = data[os.write(1, data) :]


if __name__ == "__main__":
    FakeAgent().run()
