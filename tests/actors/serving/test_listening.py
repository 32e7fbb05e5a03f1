"""The addresses and host names of the service, and addresses that are refused at the start."""

from __future__ import annotations

import json
import os
import socket
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import attrs
import httpx
import pytest
import trustme

from muster.service.backends.local import LocalOptions
from muster.service.options import ServeOptions
from muster.service.server.addresses import Address, ListenError
from muster.service.startup_checks import problems_of
from tests.actors.cli.helpers import run
from tests.actors.serving.served import PATIENCE_S, RawConnection, Served


def refused(*arguments: str) -> str:
    """Start a server that is to refuse its options; return its output."""
    command = [sys.executable, "-m", "muster", "serve", *arguments]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert ended.returncode == 2, ended.stderr
    assert "Traceback" not in ended.stderr
    return ended.stderr


# ACCESS-6: without tokens only users of this machine may reach it


@pytest.mark.parametrize(
    ("written", "is_private"),
    [
        ("127.0.0.1:9080", True),
        ("127.1.2.3:0", True),
        ("[::1]:9080", True),
        ("localhost:9080", True),
        ("unix:/run/muster", True),
        ("0.0.0.0:9080", False),
        ("[::]:9080", False),
        ("192.0.2.1:9080", False),
        ("[2001:db8::1]:9080", False),
    ],
)
def test_who_can_reach_an_address(written: str, is_private: bool) -> None:
    assert Address.read(written).is_private() is is_private
    found = problems_of(ServeOptions(listen=(written,)))
    assert (found == []) is is_private
    assert problems_of(ServeOptions(listen=(written,), tokens=Path("tokens"))) == []
    elsewhere = problems_of(ServeOptions(listen=("unix:s",), yunikorn_listen=written))
    assert (elsewhere == []) is is_private


@pytest.mark.parametrize(
    "written",
    ["9080", "127.0.0.1", "127.0.0.1:x", "127.0.0.1:70000", "::1:9080", "unix:", "", "a:-1"],
)
def test_what_is_no_address(written: str) -> None:
    with pytest.raises(ListenError, match=r"must be HOST:PORT such as 127\.0\.0\.1:9080"):
        Address.read(written)


def test_an_open_address_is_refused_at_the_start() -> None:
    assert "listen: 0.0.0.0:0: others could reach it" in refused("--listen=0.0.0.0:0")
    # Who collects the log reads nothing else.
    line = json.loads(refused("--listen=0.0.0.0:0", "--log=json"))
    assert line["level"] == "error"
    assert line["message"].startswith("listen: 0.0.0.0:0: others could reach it")


def test_an_address_that_is_in_use(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        output = refused(f"--listen=127.0.0.1:{port}", f"--state={tmp_path / 'state'}")
        assert f"listen: 127.0.0.1:{port}: another process listens there" in output
    assert not (tmp_path / "state").exists()


def test_an_address_that_this_machine_does_not_have(tmp_path: Path) -> None:
    (tmp_path / "tokens").write_text("", encoding="utf-8")
    output = refused("--listen=192.0.2.1:0", f"--tokens={tmp_path / 'tokens'}")
    assert "listen: 192.0.2.1:0: Cannot assign requested address" in output


def test_several_addresses(tmp_path: Path) -> None:
    listen = ("127.0.0.1:0", "[::1]:0", f"unix:{tmp_path / 'socket'}")
    with Served(tmp_path, listen=listen) as served:
        assert served.urls[0].startswith("http://127.0.0.1:")
        assert served.urls[1].startswith("http://[::1]:")
        assert served.urls[2] == listen[2]
        assert not any(url.endswith(":0") for url in served.urls)
        for url in served.urls:
            with Served.client_of(url) as client:
                assert client.get("/readyz").json()["ready"] is True


# ACCESS-7: Unix sockets


def test_a_unix_socket_is_for_its_owner(tmp_path: Path) -> None:
    path = tmp_path / "socket"
    with Served(tmp_path, listen=[f"unix:{path}"]) as served:
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        # Under any name: no browser comes here.
        headers = {"Host": "anything.example"}
        assert served.client.get("/api/v1/decisions", headers=headers).status_code == 200
    assert not path.exists()


def test_with_tokens_it_is_for_all(tmp_path: Path) -> None:
    path = tmp_path / "socket"
    (tmp_path / "tokens").write_text("", encoding="utf-8")
    with Served(tmp_path, f"--tokens={tmp_path / 'tokens'}", listen=[f"unix:{path}"]) as served:
        assert stat.S_IMODE(path.stat().st_mode) == 0o666
        assert served.client.get("/api/v1/decisions").status_code == 401


def test_the_socket_of_a_process_that_was_killed(tmp_path: Path) -> None:
    path = tmp_path / "socket"
    with Served(tmp_path, listen=[f"unix:{path}"]) as served:
        served.kill()
    assert path.exists()
    with Served(tmp_path, listen=[f"unix:{path}"]) as served:
        assert served.client.get("/healthz").status_code == 200


def test_the_socket_of_a_process_that_runs(tmp_path: Path) -> None:
    path = tmp_path / "socket"
    with Served(tmp_path, listen=[f"unix:{path}"]) as served:
        output = refused(f"--listen=unix:{path}")
        assert f"listen: unix:{path}: another process listens there" in output
        assert served.client.get("/healthz").status_code == 200


def test_a_file_is_not_removed(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("mine", encoding="utf-8")
    assert "there is something else with this name" in refused(f"--listen=unix:{path}")
    assert path.read_text(encoding="utf-8") == "mine"


def test_a_path_that_is_too_long(tmp_path: Path) -> None:
    assert "path too long" in refused(f"--listen=unix:{tmp_path / ('x' * 120)}")


# ACCESS-14: TLS


@attrs.frozen
class Authority:
    """A certificate authority, and a server's certificate of it."""

    ca: trustme.CA
    folder: Path

    @property
    def root(self) -> str:
        return str(self.folder / "root.pem")

    def issue(self) -> trustme.LeafCert:
        leaf = self.ca.issue_cert("127.0.0.1", "localhost")
        for name, content in {
            "root.pem": self.ca.cert_pem.bytes(),
            "cert.pem": b"".join(one.bytes() for one in leaf.cert_chain_pems),
            "key.pem": leaf.private_key_pem.bytes(),
        }.items():
            (self.folder / name).write_bytes(content)
        return leaf

    @property
    def arguments(self) -> tuple[str, str]:
        return f"--tls-cert={self.folder / 'cert.pem'}", f"--tls-key={self.folder / 'key.pem'}"


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    made = Authority(trustme.CA(), tmp_path_factory.mktemp("authority"))
    made.issue()
    return made


@pytest.fixture(scope="module")
def secure(tmp_path_factory: pytest.TempPathFactory, authority: Authority) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("secure")
    limits = ("--max-head-time=3s", "--max-body-bytes=1000")
    with Served(folder, *authority.arguments, *limits, verify=authority.root) as served:
        yield served


def test_tls(secure: Served) -> None:
    assert secure.urls[0].startswith("https://127.0.0.1:")
    response = secure.client.get("/readyz")
    assert response.status_code == 200
    assert response.http_version == "HTTP/1.1"
    assert secure.client.get("/readyz").status_code == 200


def test_limits_hold_with_tls(secure: Served) -> None:
    assert secure.client.post("/api/v1/events", content=b" " * 2000).status_code == 413


def test_plain_http_where_tls_is_spoken(secure: Served) -> None:
    with RawConnection(secure.urls[0]) as raw:
        raw.send("GET /healthz HTTP/1.1", "Host: localhost", "")
        assert b"200" not in raw.rest()
    assert secure.client.get("/healthz").status_code == 200


def test_a_command_reports_which_of_http_and_https_is_wrong(secure: Served, named: Served) -> None:
    # CLIENT-2
    for url, wrong, scheme in (
        (secure.urls[0], "http://", "https://"),
        (named.urls[0], "https://", "http://"),
    ):
        result = run("get", "nodes", "--server", wrong + url.partition("://")[2])
        assert result.exit_code == 2
        assert f"so that its address begins with {scheme}?" in result.stderr


def test_a_handshake_that_takes_too_long(secure: Served) -> None:
    with RawConnection(secure.urls[0]) as raw:
        assert raw.rest() == b""


def test_a_client_that_does_not_trust_it(secure: Served) -> None:
    with Served.client_of(secure.urls[0]) as client, pytest.raises(httpx.ConnectError):
        client.get("/healthz")
    assert secure.client.get("/healthz").status_code == 200


def test_a_certificate_that_is_none(tmp_path: Path, authority: Authority) -> None:
    (tmp_path / "nonsense").write_text("nonsense", encoding="utf-8")
    output = refused(f"--tls-cert={tmp_path / 'nonsense'}", authority.arguments[1])
    assert f"TLS: {tmp_path / 'nonsense'} with " in output


# ACCESS-8: the names under which it answers


@pytest.fixture(scope="module")
def named(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("named")
    with Served(folder, "--host=muster.example", "--host=Other.Example") as served:
        yield served


@pytest.mark.parametrize(
    "host",
    [
        "localhost",
        "localhost:1234",
        "LOCALHOST",
        "localhost.",
        "127.0.0.1",
        "127.0.0.1:9080",
        "[::1]",
        "[::1]:80",
        "muster.example",
        "muster.example:443",
        "other.example",
    ],
)
def test_a_name_that_it_has(named: Served, host: str) -> None:
    assert named.client.get("/api/v1/decisions", headers={"Host": host}).status_code == 200


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "evil.example:9080",
        "localhost.evil.example",
        "127.0.0.1.evil.example",
        "192.0.2.1",
        "0.0.0.0",
        "localhost@evil.example",
        "evil.example/localhost",
        "",
        "[::2]",
        "muster.example.evil.example",
    ],
)
def test_a_name_that_it_does_not_have(named: Served, host: str) -> None:
    with RawConnection(named.urls[0]) as raw:
        raw.send("GET /healthz HTTP/1.1", f"Host: {host}", "Connection: close", "")
        status, answer = raw.answer()
    assert status == 421, answer
    assert b"the service does not have this name" in answer


def test_no_name_and_several_names(named: Served) -> None:
    for version, headers in (("1.1", ()), ("1.0", ()), ("1.1", ("Host: localhost",) * 2)):
        with RawConnection(named.urls[0]) as raw:
            raw.send(f"GET /healthz HTTP/{version}", *headers, "Connection: close", "")
            assert raw.answer()[0] == 400


# ACCESS-9: no other web site sends requests


@pytest.mark.parametrize(
    ("origin", "host", "status"),
    [
        ("https://evil.example", "localhost", 403),
        ("null", "localhost", 403),
        ("http://localhost:1", "localhost:9080", 403),
        ("http://localhost:9080", "localhost:9080", 200),
        ("http://localhost", "localhost:80", 200),
        ("https://muster.example", "localhost:9080", 200),
        ("https://muster.example.evil.example", "localhost:9080", 403),
        ("http://evil.example@localhost", "localhost", 403),
    ],
)
def test_the_site_that_sends(named: Served, origin: str, host: str, status: int) -> None:
    headers = {"Host": host, "Origin": origin, "Content-Type": "application/json"}
    assert named.client.post("/api/v1/events", headers=headers, content="[]").status_code == status


# ACCESS-19: options that make no sense


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (ServeOptions(keep="30d"), "--keep needs --state"),
        (ServeOptions(durability="process"), "--durability needs --state"),
        (ServeOptions(checkpoint_every=7), "--checkpoint-every needs --state"),
        (ServeOptions(tls_cert=Path("c")), "--tls-cert and --tls-key need each other"),
        (ServeOptions(tls_key=Path("c")), "--tls-cert and --tls-key need each other"),
        (ServeOptions(watch=True), "--watch needs --config"),
        (ServeOptions(yunikorn_ui=Path()), "--yunikorn-ui needs --yunikorn-listen"),
        (
            ServeOptions(yunikorn_ui=Path("none"), yunikorn_listen="127.0.0.1:0"),
            "--yunikorn-ui: none is no folder",
        ),
        (ServeOptions(hosts=("a:1",)), "--host: 'a:1': must be a name or an IP address"),
        (ServeOptions(hosts=("http://a",)), "--host: 'http://a': must be a name"),
        (ServeOptions(listen=("127.0.0.1:1",) * 2), "--listen: 127.0.0.1:1 is there twice"),
        (ServeOptions(run_as=(("*", "nobody"),)), "--run-as needs --run local"),
        (ServeOptions(trust_submitters=True), "--trust-submitters needs --run local, ray or slurm"),
        (ServeOptions(backend=LocalOptions(), tokens=Path("t")), "--run local with --tokens"),
        (
            ServeOptions(trust_local=True),
            "--trust-local needs --run local or slurm without --tokens",
        ),
        (
            ServeOptions(
                backend=LocalOptions(), tokens=Path("t"), trust_submitters=True, trust_local=True
            ),
            "--trust-local needs --run local or slurm without --tokens",
        ),
    ],
)
def test_what_makes_no_sense(options: ServeOptions, problem: str) -> None:
    (found,) = problems_of(options)
    assert found.startswith(problem)


@pytest.mark.parametrize(
    "options",
    [
        ServeOptions(),
        ServeOptions(state=Path("s"), keep="30d", durability="process", checkpoint_every=7),
        ServeOptions(tls_cert=Path("c"), tls_key=Path("k"), watch=True),
        ServeOptions(backend=LocalOptions(), tokens=Path("t"), trust_submitters=True),
        ServeOptions(backend=LocalOptions(), tokens=Path("t"), run_as=(("*", "nobody"),)),
        ServeOptions(listen=("127.0.0.1:0",) * 2),
    ],
)
def test_what_makes_sense(options: ServeOptions) -> None:
    assert problems_of(options) == []


@pytest.mark.parametrize(
    ("argument", "problem"),
    [
        ("--max-events=0", "0 is not in the range"),
        ("--max-head-time=0s", "must be above 0"),
        ("--max-head-time=soon", "soon"),
        ("--run=slurry", "'slurry' is not one of"),
        ("--run-as==x", "must be USER=ACCOUNT"),
        ("--config=missing.yaml", " error missing.yaml: No such file or directory\n"),
    ],
)
def test_arguments_that_are_wrong(argument: str, problem: str) -> None:
    assert problem in refused("--listen=127.0.0.1:0", argument)


def test_it_may_open_as_many_files_as_connections_need(tmp_path: Path) -> None:
    command = (
        f"ulimit -Sn 256; exec {sys.executable} -m muster serve --listen=unix:{tmp_path / 's'}"
    )
    with subprocess.Popen(["sh", "-c", command], stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        while "ready" not in process.stderr.readline():
            assert process.poll() is None
        limits = Path(f"/proc/{process.pid}/limits")
        if limits.exists():
            (line,) = [one for one in limits.read_text("utf-8").splitlines() if "open files" in one]
            assert int(line.split()[3]) >= 1200
        process.terminate()
        process.stderr.read()
        assert process.wait(PATIENCE_S) == 0
    assert os.listdir(tmp_path) == []
