"""How an API server is reached: kubeconfig files, a pod's service account, credential plugins.

A kubeconfig file is read as kubectl does: of several the first that names something counts, and
paths are relative to the file that has them. Tokens in files are read again when these change, as
the kubelet renews them; a plugin is run again when its credential has expired or was refused.
"""

from __future__ import annotations

import base64
import binascii
import json
import os
import shutil
import ssl
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, Protocol, cast, final

import attrs
import trio

from muster.mapping_reader import MappingReader
from muster_core.config.tree import describe, is_null, items_of
from muster_core.errors import ConfigError, MusterError, Problem
from muster_core.values.names import did_you_mean

Entry = Mapping[str, object]
"""The entries of a map in a file."""

_ACCOUNT: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")
_PLUGIN_S: Final = 60.0
"""How long a credential plugin may take, in seconds: it may wait for a user to log in."""
_EARLY_S: Final = 30.0
"""How long before its expiry a credential is renewed, in seconds."""
_EXEC_VERSIONS: Final = tuple(f"client.authentication.k8s.io/{one}" for one in ("v1", "v1beta1"))


@final
class AccessError(MusterError):
    """A credential cannot be obtained; the message names its source and the problem."""


class Credentials(Protocol):
    """The credentials for the requests to an API server."""

    async def header(self, *, refused: bool = False) -> str | None:
        """Return the value of the header ``Authorization``, or None for no such header.

        Args:
            refused: Whether the server has refused the last one.

        Raises:
            AccessError: If there is none.
        """
        ...


@final
@attrs.frozen
class Access:
    """How to reach an API server.

    Attributes:
        server: Its URL.
        namespace: The default namespace.
        credentials: The credentials of its client.
        tls: The trusted certificates, and the client's own; None for ``http``.
        proxy: The URL of a proxy, or None for what the environment says.
        server_name: The name that the server's certificate has, if it is not the URL's.
    """

    server: str
    namespace: str
    credentials: Credentials
    tls: ssl.SSLContext | None = None
    proxy: str | None = None
    server_name: str | None = None


@final
@attrs.frozen
class FixedCredentials:
    """A header that never changes, or none."""

    value: str | None = None

    async def header(self, *, refused: bool = False) -> str | None:
        """Return the header."""
        return self.value


@final
@attrs.define
class FileToken:
    """A token in a file, which is read again when the file has changed."""

    path: Path
    _seen: tuple[int, int] | None = None
    _token: str = ""

    async def header(self, *, refused: bool = False) -> str | None:
        """Return the header for the token that the file has now.

        Raises:
            AccessError: If the file cannot be read, or has no token.
        """
        try:
            status = self.path.stat()
            seen = (status.st_mtime_ns, status.st_ino)
            if refused or seen != self._seen:
                self._token, self._seen = self.path.read_text(encoding="ascii").strip(), seen
        except (OSError, UnicodeDecodeError) as error:
            msg = f"the token in {self.path} cannot be read: {error}"
            raise AccessError(msg) from None
        if not self._token:
            msg = f"{self.path} has no token"
            raise AccessError(msg)
        return f"Bearer {self._token}"


@final
@attrs.define
class PluginCredentials:
    """A credential that a program prints, as ``users[].user.exec`` of a kubeconfig file says.

    Attributes:
        command: The program and its arguments.
        version: The version of its input and output.
        environment: What its environment has besides that of this process.
        cluster: The description of the cluster in its input, or None.
        hint: What to do if the program is not there.
        tls: Takes the client certificate that it may print.
    """

    command: Sequence[str]
    version: str
    environment: Mapping[str, str]
    cluster: Mapping[str, Any] | None
    hint: str
    tls: ssl.SSLContext | None
    _lock: trio.Lock = attrs.field(factory=trio.Lock)
    _value: str | None = None
    _until: float | None = None
    _is_known: bool = False

    async def header(self, *, refused: bool = False) -> str | None:
        """Return the header for the credential; run the program if there is no valid one.

        Raises:
            AccessError: If the program cannot be run, fails, or prints no credential.
        """
        given = self._value
        async with self._lock:
            is_over = self._until is not None and _now() > self._until - _EARLY_S
            if not self._is_known or is_over or (refused and given == self._value):
                self._take(await self._run())
        return self._value

    async def _run(self) -> Mapping[str, Any]:
        spec: dict[str, Any] = {"interactive": False}
        if self.cluster is not None:
            spec["cluster"] = self.cluster
        info = {"apiVersion": self.version, "kind": "ExecCredential", "spec": spec}
        environment = os.environ | self.environment | {"KUBERNETES_EXEC_INFO": json.dumps(info)}
        try:
            with trio.fail_after(_PLUGIN_S):
                done = await trio.run_process(
                    self.command,
                    capture_stdout=True,
                    capture_stderr=True,
                    check=False,
                    stdin=subprocess.DEVNULL,
                    env=environment,
                )
        except OSError as error:
            raise self._error(
                f"cannot be run: {error.strerror}. {self.hint}".rstrip(". ")
            ) from None
        except trio.TooSlowError:
            raise self._error(f"has printed nothing for {_PLUGIN_S:.0f} s") from None
        if done.returncode:
            output = done.stderr.decode(errors="replace").strip()[-400:]
            raise self._error(f"has ended with {done.returncode}: {output}")
        try:
            return cast("Mapping[str, Any]", json.loads(done.stdout)["status"])
        except (ValueError, TypeError, LookupError):
            raise self._error("has printed no ExecCredential with a status") from None

    def _take(self, status: Mapping[str, Any]) -> None:
        token, until = status.get("token"), status.get("expirationTimestamp")
        certificate, key = status.get("clientCertificateData"), status.get("clientKeyData")
        if not token and not certificate:
            raise self._error("has printed neither a token nor a certificate")
        if certificate and self.tls is not None:
            try:
                _present(self.tls, str(certificate).encode(), str(key).encode())
            except ssl.SSLError as error:
                msg = f"has printed a certificate that cannot be used: {error.reason}"
                raise self._error(msg) from None
        try:
            self._until = None if until is None else datetime.fromisoformat(str(until)).timestamp()
        except ValueError:
            raise self._error(f"has printed {until!r} for the time of its end") from None
        self._value, self._is_known = f"Bearer {token}" if token else None, True

    def _error(self, problem: str) -> AccessError:
        return AccessError(f"the credential plugin {self.command[0]!r} {problem}")


def _now() -> float:
    return datetime.now(UTC).timestamp()


def in_cluster(environment: Mapping[str, str] = os.environ, account: Path = _ACCOUNT) -> Access:
    """Return how a pod reaches the API server of its cluster.

    Args:
        environment: The variables of the process.
        account: Where the files of its service account are.

    Raises:
        ConfigError: If this is not a pod with a service account.
    """
    host, port = (environment.get(f"KUBERNETES_SERVICE_{one}") for one in ("HOST", "PORT"))
    if not host or not port:
        msg = (
            "there is no kubeconfig file, and this is not a pod (KUBERNETES_SERVICE_HOST is not set): "
            "set KUBECONFIG"
        )
        raise ConfigError([Problem(msg)])
    try:
        trusted = ssl.create_default_context(cafile=account / "ca.crt")
        namespace = (account / "namespace").read_text(encoding="utf-8").strip()
    except OSError as error:
        msg = f"the service account cannot be read: {error.strerror}"
        raise ConfigError([Problem(msg, file=str(error.filename or account / "ca.crt"))]) from None
    server = f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}"
    return Access(server, namespace, FileToken(account / "token"), trusted)


def kubeconfig_files(environment: Mapping[str, str] = os.environ) -> list[Path]:
    """Return the default kubeconfig files that exist."""
    listed = environment.get("KUBECONFIG")
    if listed:
        return [Path(one) for one in listed.split(os.pathsep) if one and Path(one).exists()]
    usual = Path.home() / ".kube" / "config"
    return [usual] if usual.exists() else []


def read_kubeconfig(files: Sequence[Path], context: str | None = None) -> Access:
    """Return how kubeconfig files say that a cluster is reached.

    Args:
        files: The files; of what several of them name, the first counts.
        context: The context, or None for the current one.

    Raises:
        ConfigError: If a file cannot be read, something in it is wrong, or what it names is missing.
    """
    return _Kubeconfig([_File(MappingReader(str(one))) for one in files]).access(context)


_TOP: Final = (
    *("apiVersion", "kind", "preferences", "clusters", "users", "contexts"),
    *("current-context", "extensions"),
)
_CLUSTER: Final = (
    *("server", "certificate-authority", "certificate-authority-data", "tls-server-name"),
    *("insecure-skip-tls-verify", "proxy-url", "disable-compression", "extensions"),
)
_USER: Final = (
    *("token", "tokenFile", "client-certificate", "client-certificate-data", "client-key"),
    *("client-key-data", "username", "password", "exec", "auth-provider", "as", "as-uid"),
    *("as-groups", "as-user-extra", "extensions"),
)
_UNSUPPORTED: Final = ("auth-provider", "as", "as-uid", "as-groups", "as-user-extra")
_EXEC: Final = (
    *("apiVersion", "command", "args", "env", "installHint", "provideClusterInfo"),
    *("interactiveMode", "config"),
)


@final
class _File:
    """One file, and the entries of its lists by name."""

    def __init__(self, reader: MappingReader) -> None:
        self.reader = reader
        self.top = reader.table(reader.tree(), "", _TOP)

    def named(self, list_name: str, kind: str, name: str) -> tuple[Entry, str] | None:
        """Return the map of the entry with a name, and its path."""
        reader = self.reader
        for number, node in enumerate(_listed(reader, self.top.get(list_name), list_name)):
            path = f"{list_name}[{number}]"
            entry = reader.table(node, path, ("name", kind))
            if reader.text(entry.get("name"), f"{path}.name") == name:
                known = {"cluster": _CLUSTER, "user": _USER}.get(kind)
                return reader.table(entry.get(kind), f"{path}.{kind}", known), f"{path}.{kind}"
        return None

    def names(self, list_name: str) -> list[str]:
        """Return the names of the entries of a list."""
        reader = self.reader
        entries = [
            reader.table(one, list_name, None)
            for one in _listed(reader, self.top.get(list_name), list_name)
        ]
        return [str(one["name"]) for one in entries if "name" in one]


@final
@attrs.frozen
class _Part:
    """A cluster or user of a file, and how to read it."""

    file: _File
    entry: Entry
    path: str

    def text(self, key: str) -> str:
        value = self.entry.get(key)
        return "" if is_null(value) else self.file.reader.text(value, f"{self.path}.{key}")

    def is_on(self, key: str) -> bool:
        words = ("true", "false")
        node = self.entry.get(key)
        return self.file.reader.choice(node, f"{self.path}.{key}", words, "false") == "true"

    def refuse(self, key: str, message: str) -> None:
        self.file.reader.refuse(self.entry.get(key), f"{self.path}.{key}", message)

    def file_of(self, key: str) -> Path | None:
        name = self.text(key)
        return Path(self.file.reader.file).parent / name if name else None

    def content(self, key: str) -> bytes | None:
        """Return the value of ``key-data``, or the content of the file that ``key`` names."""
        if data := self.text(f"{key}-data"):
            try:
                return base64.b64decode(data, validate=True)
            except binascii.Error:
                self.refuse(f"{key}-data", "is not base64")
                return None
        path = self.file_of(key)
        if path is None:
            return None
        try:
            return path.read_bytes()
        except OSError as error:
            self.refuse(key, f"{str(path)!r} cannot be read: {error.strerror}")
            return None


@final
class _Kubeconfig:
    """Several files, as if they were one."""

    def __init__(self, files: Sequence[_File]) -> None:
        self._files = files

    def access(self, context: str | None) -> Access:
        name = context or self._current()
        link = self._part("contexts", "context", name)
        cluster = self._part("clusters", "cluster", link.text("cluster"))
        user = self._part("users", "user", link.text("user")) if link.text("user") else None
        tls = self._tls(cluster)
        credentials = FixedCredentials() if user is None else self._credentials(user, cluster, tls)
        server = cluster.text("server").rstrip("/")
        if not server.startswith(("http://", "https://")):
            cluster.refuse("server", f"{server!r} is not a URL with http:// or https://")
        self._raise()
        namespace = link.text("namespace") or "default"
        is_plain = server.startswith("http://")
        return Access(
            server,
            namespace,
            credentials,
            None if is_plain else tls,
            cluster.text("proxy-url") or None,
            cluster.text("tls-server-name") or None,
        )

    def _current(self) -> str:
        for one in self._files:
            node = one.top.get("current-context")
            if not is_null(node) and (name := one.reader.text(node, "current-context")):
                return name
        names = ", ".join(one.reader.file for one in self._files)
        msg = "has no current-context: name one"
        raise ConfigError([Problem(msg, file=names)])

    def _part(self, list_name: str, kind: str, name: str) -> _Part:
        for one in self._files:
            found = one.named(list_name, kind, name)
            self._raise()
            if found is not None:
                return _Part(one, *found)
        names = [name for one in self._files for name in one.names(list_name)]
        there = ", ".join(names) or "none"
        msg = f"there is no {kind} {name!r}: there are {there}{did_you_mean(name, names)}"
        file = ", ".join(one.reader.file for one in self._files)
        raise ConfigError([Problem(msg, list_name, file)])

    def _tls(self, cluster: _Part) -> ssl.SSLContext:
        authority = cluster.content("certificate-authority")
        tls = ssl.create_default_context()
        if cluster.is_on("insecure-skip-tls-verify"):
            tls.check_hostname, tls.verify_mode = False, ssl.CERT_NONE
        elif authority is not None:
            try:
                tls = ssl.create_default_context(cadata=authority.decode())
            except (ssl.SSLError, UnicodeDecodeError):
                cluster.refuse("certificate-authority-data", "is no certificate in PEM")
        return tls

    def _credentials(self, user: _Part, cluster: _Part, tls: ssl.SSLContext) -> Credentials:
        for key in _UNSUPPORTED:
            if key in user.entry:
                user.refuse(key, "is not supported: use exec, a token or a client certificate")
        certificate, own = user.content("client-certificate"), user.content("client-key")
        if (certificate is None) != (own is None):
            user.refuse("client-certificate", "a client certificate and its key need one another")
        elif certificate is not None and own is not None:
            try:
                _present(tls, certificate, own)
            except ssl.SSLError as error:
                user.refuse("client-certificate", f"it and its key cannot be used: {error.reason}")
        if "exec" in user.entry:
            return self._plugin(user, cluster, tls)
        if (path := user.file_of("tokenFile")) is not None:
            return FileToken(path)
        if token := user.text("token"):
            return FixedCredentials(f"Bearer {token}")
        if name := user.text("username"):
            pair = f"{name}:{user.text('password')}".encode()
            return FixedCredentials(f"Basic {base64.b64encode(pair).decode()}")
        return FixedCredentials()

    def _plugin(self, user: _Part, cluster: _Part, tls: ssl.SSLContext) -> Credentials:
        reader, path = user.file.reader, f"{user.path}.exec"
        part = _Part(user.file, reader.table(user.entry["exec"], path, _EXEC), path)
        version, command = part.text("apiVersion"), part.text("command")
        if version not in _EXEC_VERSIONS:
            part.refuse("apiVersion", f"{version!r} is none of {', '.join(_EXEC_VERSIONS)}")
        if part.text("interactiveMode") == "Always":
            part.refuse("interactiveMode", "a plugin that always asks somebody cannot be used")
        if not command:
            part.refuse("command", "is missing")
        elif os.sep in command:  # A path with a folder is relative to the file, as others are.
            command = str(Path(reader.file).parent / command)
        pairs = [
            reader.table(one, f"{path}.env", ("name", "value"))
            for one in _listed(reader, part.entry.get("env"), f"{path}.env")
        ]
        cluster_info = None
        if part.is_on("provideClusterInfo"):
            keys = ("server", "tls-server-name", "certificate-authority-data", "proxy-url")
            cluster_info = {one: text for one in keys if (text := cluster.text(one))}
        args = part.entry.get("args")
        return PluginCredentials(
            (
                shutil.which(command) or command,
                *reader.texts(None if is_null(args) else args, path),
            ),
            version,
            {str(one.get("name")): str(one.get("value")) for one in pairs},
            cluster_info,
            part.text("installHint"),
            tls,
        )

    def _raise(self) -> None:
        problems = [problem for one in self._files for problem in one.reader.problems]
        if problems:
            raise ConfigError(problems)


def _listed(reader: MappingReader, node: object, path: str) -> Sequence[object]:
    items = items_of(node)
    if items is None and not is_null(node):
        reader.refuse(node, path, f"{describe(node)} is not a list")
    return items or ()


def _present(tls: ssl.SSLContext, certificate: bytes, key: bytes) -> None:
    """Let connections present a client certificate; OpenSSL reads it from a file only."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "client.pem"
        path.touch(0o600)
        path.write_bytes(certificate.rstrip() + b"\n" + key)
        tls.load_cert_chain(path)
