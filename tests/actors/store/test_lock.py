from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from muster import StoreError
from muster.store import StateReader
from muster.store._writer import StateWriter
from tests.actors.store.program import NEW, made, numbers, rows

PROJECT = Path(__file__).parents[3]
HOLD = """
    import sys
    from pathlib import Path
    from tests.actors.store.program import made
    writer = made(Path(sys.argv[1]), 3)
    print("open", flush=True)
    sys.stdin.read()
"""

FORK = """
    import os, sys
    from pathlib import Path
    from muster.store._writer import StateWriter
    from tests.actors.store.program import made
    directory = Path(sys.argv[1])
    writer = made(directory, 1)
    told, tell = os.pipe()
    child = os.fork()
    if not child:
        os.close(tell)
        os.read(told, 1)
        os._exit(0)
    try:
        StateWriter.open(directory)
    except Exception as error:
        print(type(error).__name__)
    writer.close()
    StateWriter.open(directory).close()
    os.close(tell)
    os.waitpid(child, 0)
"""


def holder(directory: Path) -> subprocess.Popen[str]:
    """Start a process that has a directory open until its standard input ends."""
    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(HOLD), str(directory)],
        cwd=PROJECT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "open\n"
    return process


def test_a_second_process_is_told_who_has_it(tmp_path: Path) -> None:
    # STORE-14
    directory = tmp_path / "state"
    with holder(directory) as process:
        with pytest.raises(StoreError) as caught:
            StateWriter.open(directory)
        process.communicate(timeout=300)

    told = str(caught.value)
    assert told.startswith(
        f"{directory}: process {process.pid} on {socket.gethostname()} has had the directory open"
    )
    assert str(directory) in told.partition("(command: ")[2]
    assert " since 20" in told
    assert caught.value.path == directory
    StateWriter.open(directory).close()


def test_a_process_that_was_killed_has_it_no_longer(tmp_path: Path) -> None:
    # STORE-14
    directory = tmp_path / "state"
    with holder(directory) as process:
        process.send_signal(signal.SIGKILL)
        assert process.wait(30) == -signal.SIGKILL

    with StateWriter.open(directory) as writer:
        writer.append(rows(4, 4))
    assert numbers(directory) == [1, 2, 3, 4]


def test_the_same_process_cannot_open_it_twice(tmp_path: Path) -> None:
    # STORE-14
    directory = tmp_path / "state"
    with made(directory, 1) as writer:
        with pytest.raises(
            StoreError, match=rf"this process \({os.getpid()}\) has had the directory"
        ):
            StateWriter.open(directory)
        writer.append(rows(2, 2))
    assert numbers(directory) == [1, 2]


def test_readers_need_no_lock(tmp_path: Path) -> None:
    # STORE-14
    directory = tmp_path / "state"
    with made(directory, 2) as writer, StateReader(directory) as reader:
        assert [batch.number for batch in reader.batches()] == [1, 2]
        writer.append(rows(3, 3))
        assert [batch.number for batch in reader.batches()] == [1, 2, 3]


@pytest.mark.parametrize("content", [b"", b"{", b"[1]", b"\xff"])
def test_a_holder_that_is_not_known_is_refused_all_the_same(tmp_path: Path, content: bytes) -> None:
    directory = tmp_path / "state"
    with made(directory, 1):
        (directory / "lock").write_bytes(content)
        with pytest.raises(StoreError, match="another process has the directory open for writing"):
            StateWriter.open(directory)


def test_a_lock_that_was_deleted_is_made_anew(tmp_path: Path) -> None:
    directory = tmp_path / "state"
    made(directory, 1).close()
    (directory / "lock").unlink()

    with StateWriter.open(directory), pytest.raises(StoreError, match="has had the directory open"):
        StateWriter.open(directory)


def test_a_lock_that_is_a_folder_is_told(tmp_path: Path) -> None:
    (tmp_path / "state" / "lock").mkdir(parents=True)

    with pytest.raises(StoreError, match="cannot lock the directory: Is a directory"):
        StateWriter.create(tmp_path / "state", NEW)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")
def test_a_process_that_was_forked_does_not_keep_it(tmp_path: Path) -> None:
    # STORE-14
    command = [sys.executable, "-c", textwrap.dedent(FORK), str(tmp_path / "state")]
    done = subprocess.run(
        command, cwd=PROJECT, capture_output=True, text=True, timeout=300, check=False
    )
    assert (done.returncode, done.stdout) == (0, "StoreError\n"), done.stderr
