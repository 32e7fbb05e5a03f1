"""Speaks the protocol of the agent of Muster without Ray: it runs commands itself.

Files control it. It is run as ``ray_agent.py FOLDER …``. In the folder:

* ``nodes.json``: the nodes; it may change meanwhile
* ``away``: if it is there, Ray cannot be reached
* ``no-ray``: if it is there, this Python has no ray
* ``NUMBER.agent``: it writes the number of its process there
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgpack

FOLDER = Path(sys.argv[1])
SAYING = threading.Lock()
ENDING = threading.Lock()
RUNNING: dict[int, subprocess.Popen[bytes]] = {}
CANCELLED: set[int] = set()


def say(**message: object) -> None:
    with SAYING:
        os.write(1, msgpack.packb(message))


def beat() -> None:
    reported: object = None
    while True:
        nodes: list[Any] = []
        with suppress(FileNotFoundError):
            nodes = json.loads((FOLDER / "nodes.json").read_text())
        if nodes != reported:
            say(say="nodes", nodes=nodes)
            reported = nodes
        say(say="beat")
        time.sleep(0.1)


def run(message: dict[str, Any]) -> None:
    number, work = message["id"], message["work"]
    folder = Path(work["stdout"] or os.devnull).parent
    if not folder.is_dir():  # what the keeper of a command says
        text = f"there is no folder {str(folder)!r}, for stdout"
        say(say="failed", id=number, how="work", error=text, text=text)
        return
    try:
        with Path(work["stdout"] or os.devnull).open("ab") as output:
            RUNNING[number] = command = subprocess.Popen(
                work["run"],
                shell=isinstance(work["run"], str),
                cwd=work["cwd"],
                env={**os.environ, **work["env"]},
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
    except OSError as error:
        say(say="failed", id=number, how="work", error=type(error).__name__, text=str(error))
        return
    say(say="started", id=number, pid=command.pid)
    with ENDING:
        if number in CANCELLED:  # it was cancelled before it had begun
            end(command)
    status = command.wait()
    if number in CANCELLED:
        say(say="cancelled", id=number, gone=True)
    else:
        say(say="ended", id=number, status=status, value=None)


def end(command: subprocess.Popen[bytes]) -> None:
    with suppress(ProcessLookupError):
        os.killpg(command.pid, signal.SIGTERM)


def cancel(message: dict[str, Any]) -> None:
    with ENDING:
        CANCELLED.add(message["id"])
        if (command := RUNNING.get(message["id"])) is not None:
            end(command)


def connect(message: dict[str, Any]) -> None:
    if (FOLDER / "no-ray").exists():
        say(say="refused", reason="import", text="No module named 'ray'")
        sys.exit()
    if (FOLDER / "away").exists():
        say(say="refused", reason="connect", text="nobody answers")
        sys.exit()
    (FOLDER / "connect.json").write_text(json.dumps(message))
    say(say="connected", ray="2.60.0", python="3.11")


def handle(message: dict[str, Any]) -> None:
    match message["do"]:
        case "connect":
            connect(message)
        case "follow":
            threading.Thread(target=beat, daemon=True).start()
        case "run":
            threading.Thread(target=run, args=(message,), daemon=True).start()
        case "cancel":
            cancel(message)
        case "survivors":
            say(say="survivors", survivors=[])
        case _:
            pass


def main() -> None:
    (FOLDER / f"{time.time_ns()}.agent").write_text(str(os.getpid()))
    unpacker = msgpack.Unpacker()
    while data := os.read(0, 65_536):
        unpacker.feed(data)
        for message in unpacker:
            handle(message)
    for command in [*RUNNING.values()]:  # a thread may add one, and one may end just now
        if command.poll() is None:
            with suppress(ProcessLookupError):
                os.killpg(command.pid, signal.SIGKILL)


main()
