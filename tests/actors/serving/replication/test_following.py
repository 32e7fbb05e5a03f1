"""A follower has the same decisions as its leader, and reports a difference."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path
from typing import Final

import attrs
import pytest
import trustme

from muster.store import StateReader
from muster.store._msgpack import decode_decisions, encode_decisions
from muster.store._sql import CompanionState
from muster.store._writer import NewState, StateWriter
from muster_core.decisions import Kind
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


def stable_fields(served: Served, path: str) -> dict[str, object]:
    """GET a path; return the fields except the time of the answer."""
    return {name: one for name, one in get(served, path).items() if name not in {"at", "time"}}


WHY: Final = "/api/v1/asks/a/late-2/why"


def test_a_follower_decides_the_same(tmp_path: Path) -> None:
    # REPLICA-1, REPLICA-3, REPLICA-5, REPLICA-9
    with leader(tmp_path) as one:
        enter(one, NODE, APP, asks("early", 2))
        with follower(tmp_path, one) as other:
            enter(one, asks("late", 3), key="k")
            level(one, other)

            assert decisions(other) == decisions(one)
            assert get(other, "/api/v1/asks")["items"] == get(one, "/api/v1/asks")["items"]
            assert stable_fields(other, WHY) == stable_fields(one, WHY)
            (shown,) = get(one, "/api/v1/replica")["followers"]
            assert (shown["connected"], shown["batches_behind"]) == (True, 0)
            assert role(other) | {"seconds_behind": 0} == {
                "role": "follower",
                "term": 1,
                "leader": one.urls[0],
                "connected": True,
                "batches_behind": 0,
                "seconds_behind": 0,
            }
    assert digest(tmp_path / "follower") == digest(tmp_path / "leader")


def test_it_begins_with_a_checkpoint(tmp_path: Path) -> None:
    # REPLICA-2
    with leader(tmp_path) as one:
        enter(one, NODE, APP, asks("x", 2), key="k")
        enter(one, {"op": "release", "app": "a", "ask": "x-0"})
    with leader(tmp_path) as one:  # it has written a checkpoint at its end
        enter(one, asks("y", 1))
        with follower(tmp_path, one) as other:
            level(one, other)

            ended = "/api/v1/asks/a/x-0"
            assert stable_fields(other, ended) == stable_fields(
                one, ended
            )  # which has ended before the checkpoint
            assert get(other, "/api/v1/apps")["items"] == get(one, "/api/v1/apps")["items"]
    with StateReader(tmp_path / "follower") as reader:
        assert reader.meta.anchor.batch > 0
        assert [one.key for one in reader.requests(0)] == ["k"]


def test_reads_are_answered_and_writes_go_to_the_leader(tmp_path: Path) -> None:
    # REPLICA-8
    with leader(tmp_path) as one, follower(tmp_path, one) as other:
        level(one, other)
        elsewhere = post(other, NODE)
        assert elsewhere.status_code == 307
        assert elsewhere.headers["location"] == f"{one.urls[0]}/api/v1/events"
        page = other.client.get("/").text
        assert f"Follows {one.urls[0]}: level" in page
        assert f"Follower {get(one, '/api/v1/replica')['followers'][0]['follower']}: level" in (
            one.client.get("/").text
        )

        answer = other.client.get("/api/v1/queues")
        assert answer.headers["muster-role"] == "follower"
        assert answer.headers["muster-behind"].startswith("batches=0, seconds=")
        assert answer.headers["muster-term"] == "1"
        assert "muster-role" not in one.client.get("/api/v1/queues").headers


def test_a_client_is_sent_on(tmp_path: Path) -> None:
    # REPLICA-8
    from muster.client import open_server  # noqa: PLC0415 - as a program does

    with (
        leader(tmp_path) as one,
        follower(tmp_path, one) as other,
        open_server(other.urls[0]) as it,
    ):
        assert [
            done["ok"]
            for done in it.submit(b'[{"op": "add_app", "app": "b", "queue": "root.dev"}]')
        ] == [True]
        level(one, other)
        assert [app["app"] for app in it.get("apps")["items"]] == ["b"]


def test_a_client_gets_an_error_when_the_leader_is_gone(tmp_path: Path) -> None:
    # REPLICA-8, CLIENT-2
    from muster.client import ServerError, open_server  # noqa: PLC0415 - as a program does

    with leader(tmp_path) as one, follower(tmp_path, one) as other:
        level(one, other)
        one.kill()
        with open_server(other.urls[0]) as it, pytest.raises(ServerError) as raised:
            it.response("POST", "events", content=b"[]")
    assert str(raised.value).startswith(
        f"{other.urls[0]}: follows {one.urls[0]}, which cannot be reached: "
    )


def test_a_cut_connection_goes_on(tmp_path: Path) -> None:
    # REPLICA-4
    with leader(tmp_path) as one, follower(tmp_path, one) as other:
        enter(one, NODE, APP)
        level(one, other)
        port = one.urls[0].rpartition(":")[2]
        one.kill()
        until(lambda: not role(other)["connected"])
        assert get(other, "/api/v1/nodes")["items"]
        with leader(tmp_path, listen=(f"127.0.0.1:{port}",)) as again:
            enter(again, asks("x", 1))
            level(again, other)
            assert decisions(other) == decisions(again)


def test_it_needs_a_role(tmp_path: Path) -> None:
    # REPLICA-1
    secrets = {"boss": "admin", "second": "replica", "viewer": "reader"}
    lines = (f"{n} {r} - - {sha256(n.encode()).hexdigest()}" for n, r in secrets.items())
    tokens = tmp_path / "tokens"
    tokens.write_text("\n".join(lines), encoding="utf-8")
    tokens.chmod(0o600)
    for name in secrets:
        (tmp_path / name).write_text(name, encoding="utf-8")
    with leader(tmp_path, "--tokens", str(tokens)) as one:
        with follower(tmp_path, one, "--token-file", str(tmp_path / "second")) as other:
            until(lambda: role(other)["connected"])
        more = ("--token-file", str(tmp_path / "viewer"), "--state", str(tmp_path / "other"))
        with pytest.raises(AssertionError, match="403 this needs the role replica"):
            follower(tmp_path, one, *more)


def test_it_follows_over_tls(tmp_path: Path) -> None:
    # REPLICA-1, REPLICA-4
    authority = trustme.CA()
    mine = authority.issue_cert("127.0.0.1")
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    mine.private_key_and_cert_chain_pem.write_to_path(tmp_path / "own.pem")
    tls = (f"--tls-cert={tmp_path / 'own.pem'}", f"--tls-key={tmp_path / 'own.pem'}")
    with Served(
        tmp_path, "--state", str(tmp_path / "leader"), *tls, verify=str(tmp_path / "ca.pem")
    ) as one:
        enter(one, NODE, APP)
        follows = ("--state", str(tmp_path / "follower"), "--follow", one.urls[0])
        trusts = {"SSL_CERT_FILE": str(tmp_path / "ca.pem")}
        with Served(tmp_path, *follows, environment=trusts) as other:
            level(one, other)
        with Served(tmp_path, *follows, until_ready=False) as other:
            other.line(f"the leader is not followed: {one.urls[0]}: .*certificate verify failed")


def test_a_difference_ends_it(tmp_path: Path) -> None:
    # REPLICA-6
    with leader(tmp_path) as one:
        enter(one, NODE, APP)
        with follower(tmp_path, one) as other:
            level(one, other)
        kept = get(one, "/api/v1/replica")["batch"]
        enter(one, asks("x", 1))
    tamper(tmp_path / "leader", after=kept)
    with leader(tmp_path) as one:
        other = follower(tmp_path, one, until_ready=False)
        line = other.line(f"batch {kept + 1} decides otherwise today, from decision")
        assert "it was" in line
        assert other.process.wait(60) == 2
        other.kill()
        until(lambda: role(one)["differences"] == 1)
        assert f"batch {kept + 1} decides otherwise" in role(one)["difference"]
        enter(one, asks("y", 1))  # it goes on
        scraped = one.client.get("/metrics").text
        assert "muster_replica_differences_total 1.0" in scraped
    assert digest(tmp_path / "follower")[0] == kept


def tamper(directory: Path, after: int) -> None:
    """Write a store as if the batches after one had been decided otherwise."""
    with StateReader(directory) as reader:
        meta, batches = reader.meta, [*reader.batches()]
        loaded, beside = reader.newest_checkpoint(), reader.observer_state()
    assert loaded is not None
    assert beside is not None
    made = directory.with_name("tampered")
    with StateWriter.create(made, NewState(meta.partition, meta.origin_us)) as writer:
        for batch in batches:
            row = batch.row()
            if batch.number > after:
                decided = decode_decisions(row.decisions, row.first_seq, row.at_us)
                changed = [
                    one._replace(decision=one.decision._replace(node="elsewhere"))
                    if one.decision.kind is Kind.BOUND
                    else one
                    for one in decided
                ]
                row = attrs.evolve(row, decisions=encode_decisions(changed))
            writer.append([row])
        for number, part in enumerate(loaded.parts):
            writer.put_part(loaded.batch, number, part, last=number == len(loaded.parts) - 1)
        writer.put_companion(CompanionState(beside.batch, beside.parts))
    (made / "muster.db").replace(directory / "muster.db")


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["--follow", "http://127.0.0.1:9"], "--follow needs --state"),
        (["--sync", "strict"], "--sync needs --state"),
        (["--state", "s", "--token-file", "f"], "--token-file needs --follow"),
    ],
)
def test_what_makes_no_sense(tmp_path: Path, arguments: list[str], problem: str) -> None:
    # REPLICA-1
    with pytest.raises(AssertionError, match=problem):
        Served(tmp_path, *arguments)
