"""Tokens: who has one, what it allows, and that nothing goes without where one is needed."""

from __future__ import annotations

import re
import stat
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from pathlib import Path
from typing import Final

import pytest

from muster.service.access import (
    Principal,
    Role,
    TokensError,
    append,
    mint,
    parse_tokens,
    principal_of,
    read_tokens,
)
from tests.actors.serving.raw import Raw
from tests.actors.serving.served import CONFIG, PATIENCE_S, Served

DIGEST: Final = "0" * 64

SECRETS: Final = {role: f"secret-of-{role.name.lower()}" for role in Role if role}


def line_of(role: Role, secret: str, name: str | None = None) -> str:
    user = "- -" if role is not Role.SUBMITTER else "sue dev,ops"
    digest = sha256(secret.encode()).hexdigest()
    return f"{name or role.name.lower()} {role.name.lower()} {user} {digest}"


TOKENS: Final = "\n".join(
    ["# who may do what", "", *(line_of(role, secret) for role, secret in SECRETS.items())]
)


# ACCESS-2: the file of tokens


def test_a_line_says_who_somebody_is() -> None:
    tokens = parse_tokens(["ci submitter sue dev,ops " + DIGEST, "a admin - - " + "1" * 64], "t")

    assert [one.who for one in tokens.tokens] == [
        Principal("ci", Role.SUBMITTER, "sue", ("dev", "ops")),
        Principal("a", Role.ADMIN),
    ]
    assert tokens.tokens[0].line() == "ci submitter sue dev,ops " + DIGEST
    assert tokens.tokens[1].line() == "a admin - - " + "1" * 64


@pytest.mark.parametrize(
    ("lines", "problem"),
    [
        (["ci reader - -"], "t:1: has 4 words: must be name role user groups sha256-of-token"),
        (["# x", "ci reder - - " + DIGEST], "t:2: role: 'reder': must be one of reader"),
        (["ci anyone - - " + DIGEST], "t:1: role: 'anyone': must be one of reader"),
        (["ci reader - - abc"], "t:1: sha256-of-token: must be 64 hexadecimal digits"),
        (["ci submitter - - " + DIGEST], "t:1: user: a submitter needs one"),
        (["ci reader - g " + DIGEST], "t:1: groups: there is no user who could be in them"),
        (["ci reader u a,,b " + DIGEST], "t:1: groups: 'a,,b': must be names"),
        (["n\x07 reader - - " + DIGEST], "t:1: name: 'n\\x07': must be 1 to 253 characters"),
        (
            ["a reader - - " + DIGEST, "a reader - - " + "1" * 64],
            "t:2: name: 'a' is in line 1 already",
        ),
        (
            ["a reader - - " + DIGEST, "b reader - - " + DIGEST],
            "t:2: sha256-of-token: this token is in line 1 already",
        ),
    ],
)
def test_a_wrong_line_is_named(lines: list[str], problem: str) -> None:
    with pytest.raises(TokensError, match=re.escape(problem)):
        parse_tokens(lines, "t")


def test_a_token_by_mistake_is_not_shown() -> None:
    with pytest.raises(TokensError) as refused:
        parse_tokens(["ci reader - - muster_secret"], "t")
    assert "muster_secret" not in str(refused.value)


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(TokensError, match="missing: cannot be read: No such file"):
        read_tokens(tmp_path / "missing")
    (tmp_path / "binary").write_bytes(b"# x\n\xff")
    with pytest.raises(TokensError, match="binary:2: is not UTF-8"):
        read_tokens(tmp_path / "binary")


# ACCESS-5: making tokens


def test_a_token_is_added_to_a_file(tmp_path: Path) -> None:
    path = tmp_path / "tokens"
    path.write_text("# first", encoding="utf-8")
    path.chmod(0o644)
    secret, token = mint(principal_of("ci", "submitter", "sue", ("dev",)))
    append(path, token)

    assert path.read_text(encoding="utf-8") == f"# first\n{token.line()}\n"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert read_tokens(path).holder(secret.encode()) == token.who
    assert [one.name for one in tmp_path.iterdir()] == ["tokens"]


def test_a_name_is_there_already(tmp_path: Path) -> None:
    path = tmp_path / "tokens"
    append(path, mint(Principal("ci", Role.READER))[1])
    before = path.read_bytes()
    with pytest.raises(TokensError, match="name: 'ci' is there already"):
        append(path, mint(Principal("ci", Role.READER))[1])
    assert path.read_bytes() == before


def test_many_at_the_same_time_lose_nothing(tmp_path: Path) -> None:
    path = tmp_path / "tokens"
    with ThreadPoolExecutor(8) as pool:
        tokens = [mint(Principal(f"n{n}", Role.READER))[1] for n in range(40)]
        list(pool.map(append, [path] * 40, tokens))
    assert sorted(read_tokens(path).names()) == sorted(f"n{n}" for n in range(40))


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "tokens")
    append(tmp_path / "link", mint(Principal("ci", Role.READER))[1])
    assert (tmp_path / "link").is_symlink()
    assert [*read_tokens(tmp_path / "tokens").names()] == ["ci"]


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "muster", "token", "new", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False)


def test_the_command_prints_a_token_once(tmp_path: Path) -> None:
    path = tmp_path / "tokens"
    made = run(
        "ci", "--role", "submitter", "--user", "sue", "--groups", "a,b", "--tokens", str(path)
    )

    assert (made.returncode, made.stderr) == (0, "")
    assert read_tokens(path).holder(made.stdout.strip().encode()) == Principal(
        "ci", Role.SUBMITTER, "sue", ("a", "b")
    )
    assert made.stdout.strip() not in path.read_text(encoding="utf-8")


def test_the_command_says_what_is_wrong(tmp_path: Path) -> None:
    made = run("ci", "--role", "submitter")
    assert (made.returncode, made.stdout) == (2, "")
    assert "user: a submitter needs one" in made.stderr
    wrong = run("ci", "--role", "reader", "--tokens", str(tmp_path / "no" / "tokens"))
    assert (wrong.returncode, wrong.stdout) == (2, "")
    assert "cannot be written: No such file or directory" in wrong.stderr


def test_the_command_without_a_file_gives_the_line() -> None:
    made = run("ci", "--role", "reader")
    line = made.stderr.partition("tokens: ")[2]
    tokens = parse_tokens([line], "")
    assert tokens.holder(made.stdout.strip().encode()) == Principal("ci", Role.READER)


# ACCESS-3: requests with and without


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("guarded")
    (folder / "tokens").write_text(TOKENS, encoding="utf-8")
    with Served(folder, "--tokens", str(folder / "tokens")) as served:
        yield served


def bearer(secret: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {secret}"}


PATH: Final = "/api/v1/decisions"


@pytest.mark.parametrize(
    "written",
    [
        "Bearer",
        "Bearer ",
        "Token secret-of-admin",
        "secret-of-admin",
        "Bearer secret-of-admin x",
        "Bearer secret-of-admin,secret-of-admin",
        'Bearer "secret-of-admin"',
        "Bearer secret-of-admi\u00f1",
        "Bearer secret-of-admin\x01",
        "Bearer  ",
        "Bearer SECRET-OF-ADMIN",
        "Basic c2VjcmV0LW9mLWFkbWluOg==",
    ],
)
def test_other_ways_to_send_it(guarded: Served, written: str) -> None:
    with Raw(guarded.urls[0]) as raw:
        status, answer = raw.get(PATH, f"Authorization: {written}")
    if status == 400:  # h11 takes no control characters
        assert "\x01" in written
        return
    assert status == 401
    assert b'error="invalid_token"' in answer


@pytest.mark.parametrize("scheme", ["Bearer", "bearer", "BEARER"])
def test_the_scheme_in_any_case(guarded: Served, scheme: str) -> None:
    headers = {"Authorization": f"{scheme} secret-of-reader"}
    assert guarded.client.get(PATH, headers=headers).status_code == 200


def test_several_headers(guarded: Served) -> None:
    headers = [("Authorization", "Bearer secret-of-admin")] * 2
    response = guarded.client.get(PATH, headers=headers)
    assert response.status_code == 401
    assert response.json()["detail"] == "send one header Authorization, not several"


def test_no_token_is_no_wrong_token(guarded: Served) -> None:
    response = guarded.client.get(PATH)
    assert response.headers["www-authenticate"] == 'Bearer realm="muster"'


def test_a_path_that_there_is_not(guarded: Served) -> None:
    response = guarded.client.get("/nowhere")
    assert response.status_code == 404
    assert response.json()["detail"] == "there is nothing at '/nowhere'"
    assert response.headers["content-type"] == "application/problem+json"


def test_a_method_that_is_not_for_a_path(guarded: Served) -> None:
    response = guarded.client.request("PATCH", "/healthz")
    assert response.status_code == 405
    assert response.headers["content-type"] == "application/problem+json"
    assert "GET" in response.headers["allow"]


# ACCESS-1: without a file of tokens everybody may do everything


def test_nobody_needs_a_token_where_there_are_none(tmp_path: Path) -> None:
    with Served(tmp_path, config=CONFIG) as served:
        assert served.client.get(PATH).status_code == 200
        assert served.client.post("/api/v1/events", json=[]).status_code == 200


def test_a_wrong_file_ends_the_start(tmp_path: Path) -> None:
    (tmp_path / "tokens").write_text("nonsense", encoding="utf-8")
    command = [sys.executable, "-m", "muster", "serve", "--listen=127.0.0.1:0"]
    ended = subprocess.run(
        [*command, "--tokens", str(tmp_path / "tokens")],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert ended.returncode == 2
    assert "tokens:1: has 1 words" in ended.stderr
    assert "Traceback" not in ended.stderr
