"""The file of tokens: who has one, as a digest, in which role and as which user."""

from __future__ import annotations

import hmac
import re
from collections.abc import Iterable, Iterator
from hashlib import sha256
from pathlib import Path
from typing import Final, TypeVar, final

import attrs

from muster.service.access.who import Role, Who
from muster_core.errors import MusterError
from muster_core.values.nearest import did_you_mean

K = TypeVar("K")

NOBODY: Final = "-"
"""Stands for no user, and for no groups."""

MAX_FILE_BYTES: Final = 16 * 1024 * 1024
"""The largest file of tokens that is read."""

ROLES: Final = {role.name.lower(): role for role in Role if role is not Role.ANYONE}
"""The roles that a token may have, as they are written."""

_FIELDS: Final = ("name", "role", "user", "groups", "sha256-of-token")
_DIGEST: Final = re.compile(r"[0-9a-fA-F]{64}")
_MAX_NAME: Final = 253


@final
class TokensError(MusterError):
    """A file of tokens cannot be used; the message names the file, the line and the field."""


@final
@attrs.frozen
class Token:
    """A token, as the file has it.

    Attributes:
        who: Whose token it is.
        digest: The SHA-256 of the token.
    """

    who: Who
    digest: bytes

    def line(self) -> str:
        """Return its line in the file."""
        who = self.who
        groups = ",".join(who.groups) or NOBODY
        return (
            f"{who.name} {who.role.name.lower()} {who.user or NOBODY} {groups} {self.digest.hex()}"
        )


@final
@attrs.frozen
class Tokens:
    """All tokens of a file."""

    tokens: tuple[Token, ...] = ()

    # ACCESS-3
    def holder(self, token: bytes) -> Who | None:
        """Return whose token this is, in a time that says nothing about the others."""
        digest, found = sha256(token).digest(), None
        for one in self.tokens:
            if hmac.compare_digest(one.digest, digest):
                found = one.who
        return found

    # INPUT-23
    def users(self) -> frozenset[str]:
        """Return all users whom a token names."""
        return frozenset(one.who.user for one in self.tokens if one.who.user is not None)

    def names(self) -> Iterator[str]:
        """Yield the names of all tokens."""
        return (one.who.name for one in self.tokens)


def read_tokens(path: Path) -> Tokens:
    """Read a file of tokens.

    Raises:
        TokensError: If it cannot be read, or a line is wrong.
    """
    try:
        with path.open("rb") as stream:
            content = stream.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        msg = f"{path}: cannot be read: {error.strerror}"
        raise TokensError(msg) from None
    if len(content) > MAX_FILE_BYTES:
        msg = f"{path}: has more than {MAX_FILE_BYTES} bytes, which no file of tokens has"
        raise TokensError(msg)
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        msg = f"{path}:{line}: is not UTF-8"
        raise TokensError(msg) from None
    return parse_tokens(text.split("\n"), str(path))


# ACCESS-2
def parse_tokens(lines: Iterable[str], file: str) -> Tokens:
    """Parse the lines of a file of tokens.

    Args:
        lines: The lines.
        file: The name of the file, for errors.

    Raises:
        TokensError: If a line is wrong; it names the first one.
    """
    tokens: list[Token] = []
    names: dict[str, int] = {}
    digests: dict[bytes, int] = {}
    for number, line in enumerate(lines, 1):
        words = line.split()
        if not words or words[0].startswith("#"):
            continue
        try:
            token = _token(words)
            _only_once(names, token.who.name, number, f"name: {token.who.name!r}")
            _only_once(digests, token.digest, number, "sha256-of-token: this token")
        except ValueError as error:
            msg = f"{file}:{number}: {error}"
            raise TokensError(msg) from None
        tokens.append(token)
    return Tokens(tuple(tokens))


def _only_once(seen: dict[K, int], key: K, line: int, what: str) -> None:
    before = seen.setdefault(key, line)
    if before != line:
        msg = f"{what} is in line {before} already"
        raise ValueError(msg)


def _token(words: list[str]) -> Token:
    if len(words) != len(_FIELDS):
        msg = f"has {len(words)} words: must be {' '.join(_FIELDS)} (`-` for no user or no groups)"
        raise ValueError(msg)
    name, role, user, groups, digest = words
    who = who_of(name, role, None if user == NOBODY else user, listed_groups(groups))
    if _DIGEST.fullmatch(digest) is None:
        msg = "sha256-of-token: must be 64 hexadecimal digits"  # it may be the token itself
        raise ValueError(msg)
    return Token(who, bytes.fromhex(digest))


def listed_groups(written: str) -> tuple[str, ...]:
    """Return groups that are written with commas between them, or as `-`.

    Raises:
        ValueError: If one is empty.
    """
    groups = () if written == NOBODY else tuple(written.split(","))
    if "" in groups or NOBODY in groups:
        msg = f"groups: {written!r}: must be names with commas between them, or -"
        raise ValueError(msg)
    return groups


def who_of(name: str, role: str, user: str | None, groups: tuple[str, ...]) -> Who:
    """Return who has a token.

    Raises:
        ValueError: If something is wrong, or does not go together.
    """
    for what, word in (("name", name), ("user", user), *(("groups", one) for one in groups)):
        if word is not None and not _is_word(word):
            msg = f"{what}: {word[:100]!r}: must be 1 to {_MAX_NAME} characters without blanks"
            raise ValueError(msg)
    if role not in ROLES:
        guess = did_you_mean(role, list(ROLES))
        msg = f"role: {role[:100]!r}: must be one of {', '.join(ROLES)}{guess}"
        raise ValueError(msg)
    if ROLES[role] is Role.SUBMITTER and user is None:
        msg = "user: a submitter needs one: its applications are those of this user"
        raise ValueError(msg)
    if groups and user is None:
        msg = "groups: there is no user who could be in them"
        raise ValueError(msg)
    return Who(name, ROLES[role], user, groups)


def _is_word(word: str) -> bool:
    return 0 < len(word) <= _MAX_NAME and word.isprintable() and not any(map(str.isspace, word))
