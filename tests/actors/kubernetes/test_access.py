"""How an API server is reached: kubeconfig files, credential plugins, a pod's service account."""

from __future__ import annotations

import json
import os
import ssl
import subprocess
import sys
from pathlib import Path

import pytest
import trio

from muster.kubernetes._access import (
    Access,
    AccessError,
    in_cluster,
    kubeconfig_files,
    read_kubeconfig,
)
from muster_core.errors import ConfigError

CONFIG = """\
apiVersion: v1
kind: Config
current-context: here
preferences: {}
clusters:
- name: one
  cluster: {server: "http://one:8080/"}
- name: two
  cluster: {server: "https://two:6443", tls-server-name: kubernetes, proxy-url: "http://proxy:3128"}
contexts:
- name: here
  context: {cluster: one, user: ann}
- name: there
  context: {cluster: two, user: bob, namespace: lab}
users:
- name: ann
  user: {token: secret}
- name: bob
  user: {username: bob, password: pass}
"""


def written(folder: Path, text: str, name: str = "config") -> Path:
    path = folder / name
    path.write_text(text)
    return path


def header(access: Access, *, refused: bool = False) -> str | None:
    async def ask() -> str | None:
        return await access.credentials.header(refused=refused)

    return trio.run(ask)


def problems(path: Path, context: str | None = None) -> str:
    with pytest.raises(ConfigError) as refused:
        read_kubeconfig([path], context)
    return str(refused.value).replace(str(path), "FILE")


def test_the_current_context_counts(tmp_path: Path) -> None:
    access = read_kubeconfig([written(tmp_path, CONFIG)])

    assert (access.server, access.namespace, access.tls) == ("http://one:8080", "default", None)
    assert header(access) == "Bearer secret"


def test_a_context_is_chosen(tmp_path: Path) -> None:
    access = read_kubeconfig([written(tmp_path, CONFIG)], "there")

    assert (access.server, access.namespace) == ("https://two:6443", "lab")
    assert (access.proxy, access.server_name) == ("http://proxy:3128", "kubernetes")
    assert access.tls is not None
    assert access.tls.verify_mode is ssl.CERT_REQUIRED
    assert header(access) == "Basic Ym9iOnBhc3M="


def test_of_several_files_the_first_that_names_something_counts(tmp_path: Path) -> None:
    user_file = "users:\n- name: ann\n  user: {token: mine}\ncurrent-context: here\n"
    files = [written(tmp_path, user_file, "mine"), written(tmp_path, CONFIG)]

    assert header(read_kubeconfig(files)) == "Bearer mine"


def test_which_files_there_are(tmp_path: Path) -> None:
    path = written(tmp_path, CONFIG)
    listed = os.pathsep.join([str(path), str(tmp_path / "absent")])

    assert kubeconfig_files({"KUBECONFIG": listed}) == [path]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("current-context: here", "", "FILE: has no current-context: name one"),
        (
            "current-context: here",
            "current-context: hre",
            "FILE: contexts: there is no context 'hre': there are here, there; did you mean here",
        ),
        ("{cluster: one, user: ann}", "{cluster: on, user: ann}", "there is no cluster 'on'"),
        ("http://one:8080/", "one:8080", "is not a URL with http:// or https://"),
        ("token: secret", "tokn: secret", "FILE:17: users[0].user.tokn: is unknown"),
        ("token: secret", "auth-provider: {name: gcp}", "is not supported: use exec, a token"),
        ("token: secret", "client-key: absent", "cannot be read: No such file or directory"),
        ("token: secret", "client-certificate-data: '%'", "client-certificate-data: is not base64"),
        ("token: secret", "exec: {command: x}", "apiVersion: '' is none of client.auth"),
        ("preferences: {}", "clusters: 5", "stands here twice"),
    ],
)
def test_a_wrong_file_is_refused(tmp_path: Path, old: str, new: str, message: str) -> None:
    assert message in problems(written(tmp_path, CONFIG.replace(old, new)))


def test_a_token_in_a_file_is_read_again_when_it_changes(tmp_path: Path) -> None:
    token = written(tmp_path, "first\n", "token")
    access = read_kubeconfig(
        [written(tmp_path, CONFIG.replace("token: secret", "tokenFile: token"))]
    )

    assert header(access) == "Bearer first"
    token.unlink()
    written(tmp_path, "second\n", "token")
    assert header(access) == "Bearer second"
    token.unlink()
    with pytest.raises(AccessError, match="cannot be read"):
        header(access)


PLUGIN = """\
import json, os, sys
from pathlib import Path
info = json.loads(os.environ["KUBERNETES_EXEC_INFO"])
assert os.environ["WHO"] == "ann"
runs = Path(sys.argv[1])
runs.write_text(runs.read_text() + "x" if runs.exists() else "x")
status = {"token": info["spec"]["cluster"]["server"] + "#" + str(len(runs.read_text()))}
if len(runs.read_text()) == 3:
    status["expirationTimestamp"] = "2020-01-01T00:00:00Z"
print(json.dumps({"apiVersion": info["apiVersion"], "kind": "ExecCredential", "status": status}))
"""


def with_plugin(folder: Path, text: str) -> Access:
    plugin = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "command": sys.executable,
        "args": [str(written(folder, text, "plugin.py")), str(folder / "runs")],
        "env": [{"name": "WHO", "value": "ann"}],
        "provideClusterInfo": True,
    }
    changed = CONFIG.replace("token: secret", f"exec: {json.dumps(plugin)}")
    return read_kubeconfig([written(folder, changed)])


def test_a_plugin_is_run_when_there_is_no_credential(tmp_path: Path) -> None:
    access = with_plugin(tmp_path, PLUGIN)

    assert header(access) == header(access) == "Bearer http://one:8080/#1"
    assert header(access, refused=True) == "Bearer http://one:8080/#2"
    assert header(access, refused=True) == "Bearer http://one:8080/#3"
    assert header(access) == "Bearer http://one:8080/#4", "the third has expired"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("import sys; sys.exit('log in first')", "has ended with 1: log in first"),
        ("print('{}')", "has printed no ExecCredential with a status"),
        (
            'print(\'{"status": {"clientCertificateData": "no", "clientKeyData": "no"}}\')',
            "has printed a certificate that cannot be used",
        ),
        ("print('{\"status\": {}}')", "has printed neither a token nor a certificate"),
    ],
)
def test_a_plugin_that_fails_says_why(tmp_path: Path, text: str, message: str) -> None:
    access = with_plugin(tmp_path, text)

    with pytest.raises(AccessError, match=message):
        header(access)


def test_a_client_certificate_is_presented(tmp_path: Path) -> None:
    made = ("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=ann")
    files = ("-keyout", tmp_path / "key.pem", "-out", tmp_path / "cert.pem")
    subprocess.run([*made, *files], check=True, capture_output=True)
    user = "client-certificate: cert.pem, client-key: key.pem"
    path = written(tmp_path, CONFIG.replace("token: secret", user))

    assert header(read_kubeconfig([path])) is None
    wrong = path.read_text().replace("client-key: key.pem", "client-key: cert.pem")
    assert "it and its key cannot be used" in problems(written(tmp_path, wrong))


def test_a_pod_has_a_service_account(tmp_path: Path) -> None:
    authority = ssl.get_default_verify_paths().cafile or "/etc/ssl/certs/ca-certificates.crt"
    written(tmp_path, Path(authority).read_text(), "ca.crt")
    written(tmp_path, "lab", "namespace")
    written(tmp_path, "mine", "token")
    environment = {"KUBERNETES_SERVICE_HOST": "fd00::1", "KUBERNETES_SERVICE_PORT": "443"}

    access = in_cluster(environment, tmp_path)

    assert (access.server, access.namespace) == ("https://[fd00::1]:443", "lab")
    assert header(access) == "Bearer mine"
    with pytest.raises(ConfigError, match="this is not a pod"):
        in_cluster({}, tmp_path)
