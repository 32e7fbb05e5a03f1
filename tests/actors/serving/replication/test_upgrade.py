"""One version takes over from another one, and back, with a store of each format.

Stores of older formats are files that the last version with each of them wrote: a service, or a
program, that was killed, with a checkpoint in the middle. Another version is a copy of the code of
this one that is changed, in a process of its own.
"""

from __future__ import annotations

import gzip
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import httpx
import pytest

import muster
import muster_core
from muster.store._rows import FORMAT
from tests.actors.serving.replication.pairs import (
    APP,
    NODE,
    asks,
    decisions,
    digest,
    enter,
    follower,
    get,
    leader,
    level,
    post,
    role,
)
from tests.actors.serving.served import Served, until

FORMATS: Final = Path(__file__).parents[2] / "store" / "formats"
OTHER: Final = "0.0.9"
EDITS: Final = {"muster/_version.py": (f'"{muster.__version__}"', f'"{OTHER}"')}
"""In each file of the code what is replaced, and by what: only the version is another one."""

DECIDES_OTHERWISE: Final = {
    **EDITS,
    "muster_core/nodes/node_index.py": (
        "(score if self._is_fair else -score, node.name)",
        "(-score if self._is_fair else score, node.name)",
    ),
}
NEXT_FORMAT: Final = {
    **EDITS,
    "muster/store/_rows.py": (f"FORMAT: Final = {FORMAT}", f"FORMAT: Final = {FORMAT + 1}"),
    "muster/store/_file.py": (
        "MappingProxyType({1: ",
        f"MappingProxyType({{{FORMAT}: lambda *_: None, 1: ",
    ),
}


def version(folder: Path, edits: Mapping[str, tuple[str, str]]) -> Mapping[str, str]:
    """Make another version of Muster of this one; return the environment in which it runs."""
    code = folder / "code"
    for package in (muster, muster_core):
        source = Path(str(package.__file__)).parent
        shutil.copytree(
            source,
            code / source.name,
            ignore=shutil.ignore_patterns("__pycache__", "*.so", "*.pyd"),
        )
    for name, (old, new) in edits.items():
        text = (code / name).read_text(encoding="utf-8")
        assert old in text
        (code / name).write_text(text.replace(old, new), encoding="utf-8")
    return {"PYTHONPATH": str(code)}


def serve(
    folder: Path,
    state: str,
    follows: Served | None,
    code: Mapping[str, str] | None = None,
    *,
    port: int = 0,
    until_ready: bool = True,
) -> Served:
    """Start a server with a state directory, as a version of Muster."""
    words = () if follows is None else ("--follow", follows.urls[0])
    return Served(
        folder,
        *("--state", str(folder / state), *words),
        listen=(f"127.0.0.1:{port}",),
        environment=code,
        until_ready=until_ready,
    )


def promote(served: Served, over: Served) -> None:
    """Promote a follower; the old leader ends."""
    answer = served.client.post("/api/v1/replica/promote")
    assert answer.status_code == 200, answer.text
    assert over.process.wait(60) == 2
    over.kill()


def items(served: Served, what: str) -> list[dict[str, Any]]:
    """Return the items of a list."""
    found: list[dict[str, Any]] = get(served, f"/api/v1/{what}")["items"]
    return found


def check_same(one: Served, other: Served) -> None:
    """Check that two servers know the same, as far back as both of them know it."""
    level(one, other)
    for what in ("asks", "apps", "nodes", "queues"):
        assert items(other, what) == items(one, what)
    ours, theirs = decisions(one), decisions(other)
    both = min(len(ours), len(theirs))
    assert theirs[len(theirs) - both :] == ours[len(ours) - both :]


def check_repeated(served: Served, first: httpx.Response, *events: dict[str, object]) -> None:
    """Check that a call with the key ``k`` is answered as it was at first."""
    again = post(served, *events, key="k")
    assert (again.status_code, again.json()) == (200, first.json())


def test_there_is_a_store_of_each_format() -> None:
    # STORE-8: that of the present one is for later versions, which it is older for.
    there = {path.name for path in FORMATS.iterdir()}
    assert there == {f"{number}.db.gz" for number in range(1, FORMAT + 1)}


@pytest.mark.parametrize("number", range(1, FORMAT))
def test_a_store_of_an_older_format_goes_there_and_back(tmp_path: Path, number: int) -> None:
    # REPLICA-2, REPLICA-11, REPLICA-12, STORE-8
    old_store(tmp_path / "leader", number)
    with leader(tmp_path) as one:
        kept = decisions(one)
        assert [ask["ask"] for ask in items(one, "asks")] == ["x-1", "x-2", "y-0", "y-1"]
        assert (tmp_path / "leader" / f"muster.db.format-{number}").is_file()
        with follower(tmp_path, one) as other:
            check_same(one, other)
            first = post(one, asks("z", 2), key="k")
            check_same(one, other)
            promote(other, over=one)
            enter(other, {"op": "release", "app": "a", "ask": "x-1"})
            with serve(tmp_path, "leader", other) as back:
                check_same(other, back)
                promote(back, over=other)
                check_repeated(back, first, asks("z", 2))
                enter(back, asks("w", 1))
                assert decisions(back)[: len(kept)] == kept
                assert role(back)["term"] == 3
        with serve(tmp_path, "leader", None) as again:
            assert decisions(again)[: len(kept)] == kept
            left = [ask["ask"] for ask in items(again, "asks")]
            assert left == ["x-2", "y-0", "y-1", "z-0", "z-1", "w-0"]


@pytest.mark.parametrize("number", range(1, FORMAT))
@pytest.mark.parametrize("lease", [False, True])
def test_a_store_of_an_older_format_follows(tmp_path: Path, number: int, *, lease: bool) -> None:
    # REPLICA-11, REPLICA-17, STORE-8
    for name in ("leader", "follower"):
        old_store(tmp_path / name, number)
    words = ("--lease", f"file:{tmp_path / 'lease'}") if lease else ()
    with leader(tmp_path, *words) as one, follower(tmp_path, one, *words) as other:
        enter(one, asks("z", 1))
        check_same(one, other)
        assert decisions(other) == decisions(one)  # from its own store: nothing was copied
        assert not [*(tmp_path / "follower").glob("*aside*")]


def old_store(directory: Path, number: int) -> None:
    """Put the store of an older format into a directory."""
    directory.mkdir()
    content = gzip.decompress((FORMATS / f"{number}.db.gz").read_bytes())
    (directory / "muster.db").write_bytes(content)


def test_another_version_takes_over_and_back(tmp_path: Path) -> None:
    # REPLICA-5, REPLICA-12
    old = version(tmp_path, EDITS)
    with serve(tmp_path, "leader", None, old) as one:
        enter(one, NODE, APP, asks("early", 1))
        with serve(tmp_path, "follower", one) as other:
            first = post(one, asks("x", 2), key="k")
            check_same(one, other)
            assert get(one, "/api/v1/replica")["version"] == OTHER
            (shown,) = get(one, "/api/v1/replica")["followers"]
            assert shown["version"] == muster.__version__
            answered = decisions(one)

            promote(other, over=one)
            check_repeated(other, first, asks("x", 2))
            enter(other, asks("y", 1))
            assert decisions(other)[: len(answered)] == answered
            with serve(tmp_path, "leader", other, old) as back:
                check_same(other, back)
                answered = decisions(other)
                promote(back, over=other)
                check_repeated(back, first, asks("x", 2))
                enter(back, asks("late", 1))
                assert decisions(back)[: len(answered)] == answered
                assert get(back, "/api/v1/replica")["version"] == OTHER


def test_a_version_that_decides_otherwise_ends(tmp_path: Path) -> None:
    # REPLICA-6
    other_code = version(tmp_path, DECIDES_OTHERWISE)
    with leader(tmp_path) as one:
        enter(one, NODE, {**NODE, "node": "m"}, APP, asks("same", 1))
        with serve(tmp_path, "follower", one, other_code) as other:
            level(one, other)
            kept = get(one, "/api/v1/replica")["batch"]
            enter(one, asks("x", 1))
            line = other.line("decides otherwise today")
            check_difference(line, kept + 1, ("n", "m"), (muster.__version__, OTHER))
            assert other.process.wait(60) == 2
            other.kill()
        until(lambda: role(one)["differences"] == 1)
        check_difference(role(one)["difference"], kept + 1, ("n", "m"), (muster.__version__, OTHER))
        enter(one, asks("y", 1))  # it goes on
        assert "muster_replica_differences_total 1.0" in one.client.get("/metrics").text
    assert digest(tmp_path / "follower")[0] == kept


def test_a_difference_in_its_own_store_is_reported_as_well(tmp_path: Path) -> None:
    # REPLICA-6
    other_code = version(tmp_path, DECIDES_OTHERWISE)
    with leader(tmp_path) as one:
        enter(one, NODE, {**NODE, "node": "m"}, APP, asks("same", 1))
        with follower(tmp_path, one) as other:
            level(one, other)
            enter(one, asks("x", 1))
            level(one, other)
            kept = get(one, "/api/v1/replica")["batch"]
            other.kill()
        with serve(tmp_path, "follower", one, other_code, until_ready=False) as other:
            line = other.line("decides otherwise today")
            check_difference(line, kept, ("n", "m"), (muster.__version__, OTHER))
            assert other.process.wait(60) == 2
            other.kill()
        until(lambda: role(one)["differences"] == 1)
        check_difference(role(one)["difference"], kept, ("n", "m"), (muster.__version__, OTHER))


def check_difference(
    text: str, batch: int, nodes: tuple[str, str], versions: tuple[str, str]
) -> None:
    """Check that a text names the first decision that differs, and the versions of both servers."""
    assert f"batch {batch} decides otherwise today, from decision " in text
    was, _, now = text.partition(", and is now ")
    assert f"kind='assigned' app='a' ask='x-0' node='{nodes[0]}'" in was
    assert f"kind='assigned' app='a' ask='x-0' node='{nodes[1]}'" in now
    assert f"Muster {versions[0]} wrote it, and this is Muster {versions[1]}:" in now


def test_the_version_of_a_leader_may_change_meanwhile(tmp_path: Path) -> None:
    # REPLICA-4, REPLICA-6
    other_code = version(tmp_path, DECIDES_OTHERWISE)
    with leader(tmp_path) as one, follower(tmp_path, one) as other:
        enter(one, NODE, {**NODE, "node": "m"}, APP, asks("same", 1))
        level(one, other)
        port = int(one.urls[0].rpartition(":")[2])
        assert one.stop() == 0
        with serve(tmp_path, "leader", None, other_code, port=port) as changed:
            enter(changed, asks("x", 1))
            line = other.line("decides otherwise today")
            last = get(changed, "/api/v1/replica")["batch"]
            check_difference(line, last, ("m", "n"), (OTHER, muster.__version__))
            assert other.process.wait(60) == 2
            other.kill()


def test_a_version_with_a_newer_format_takes_over(tmp_path: Path) -> None:
    # REPLICA-11, REPLICA-12, STORE-8
    new = version(tmp_path, NEXT_FORMAT)
    with leader(tmp_path) as one:
        enter(one, NODE, APP)
        with follower(tmp_path, one) as other:
            enter(one, asks("x", 2))
            level(one, other)
        with serve(tmp_path, "follower", one, new) as other:  # the store that it had
            enter(one, asks("y", 1))
            check_same(one, other)
            assert decisions(other) == decisions(one)
            promote(other, over=one)
            enter(other, asks("z", 1))
            refused = f"writes format {FORMAT + 1} .Muster {OTHER}.; this is Muster"
            with pytest.raises(AssertionError, match=refused):
                serve(tmp_path, "leader", other)  # it cannot go back
            with serve(tmp_path, "leader", other, new) as back:
                check_same(other, back)
