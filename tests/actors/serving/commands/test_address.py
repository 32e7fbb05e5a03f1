"""Which server a command asks, and as whom."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.actors.cli.helpers import run
from tests.actors.serving.served import Served


def test_a_token_from_a_file_or_a_variable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # CLIENT-1
    tokens = tmp_path / "tokens"
    made = run("token", "new", "ann", "--role", "reader", "--tokens", tokens)
    assert made.exit_code == 0, made.output
    secret = tmp_path / "secret"
    secret.write_text(made.stdout.split()[-1] + "\n")
    with Served(tmp_path, "--tokens", str(tokens)) as served:
        ask = ("get", "queues", "--server", served.urls[0])
        refused = run(*ask)
        assert refused.exit_code == 2
        assert "put a token into MUSTER_TOKEN, or name a file with --token-file" in refused.stderr
        assert run(*ask, "--token-file", secret).exit_code == 0
        monkeypatch.setenv("MUSTER_TOKEN", secret.read_text().strip())
        assert run(*ask).exit_code == 0
        denied = run("cancel", "nobody", "--server", served.urls[0])
        assert denied.exit_code == 1
        assert "needs the role submitter" in denied.stderr


def test_a_socket_of_unix(tmp_path: Path) -> None:
    # CLIENT-1
    address = f"unix:{tmp_path}/socket"
    with Served(tmp_path, listen=[address]):
        assert run("get", "queues", "--server", address).exit_code == 0


@pytest.mark.parametrize("token", ["two words", "ünicode", "line\nfeed"])
def test_what_is_no_token(monkeypatch: pytest.MonkeyPatch, token: str) -> None:
    # CLIENT-1
    monkeypatch.setenv("MUSTER_TOKEN", token)

    result = run("get", "queues", "--server", "http://127.0.0.1:9")

    assert result.exit_code == 2
    assert "the token has characters that no token has" in result.stderr


def test_certificates_that_are_not_there(tmp_path: Path) -> None:
    # CLIENT-1
    missing = tmp_path / "missing.pem"

    result = run("get", "queues", "--server", "https://127.0.0.1:9", "--cacert", missing)

    assert result.exit_code == 2
    assert f"{missing}: cannot be used as certificates: No such file" in result.stderr
