"""Access: who sends a request, what their role allows, and the file of tokens.

The file has a digest of each token, with its role, its user and the groups of the user. Neither
Starlette nor the scheduler is needed here, so ``muster token`` works without the extra of the
service.
"""

from __future__ import annotations

import fcntl
import hmac
import os
import re
import secrets
import stat
from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager, suppress
from enum import IntEnum
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol, TypeVar, final

import attrs

from muster_core.errors import MusterError
from muster_core.values.names import did_you_mean

if TYPE_CHECKING:
    from starlette.requests import HTTPConnection


@final
class Role(IntEnum):
    """The roles of access; each may do what the roles below it may.

    ``ANYONE`` needs no token, and is for health and metrics of the process only. ``REPLICA`` is
    for a server that follows this one: it gets the whole store, as only administrators do.
    """

    ANYONE = 0
    READER = 1
    REPLICA = 2
    SUBMITTER = 3
    ADMIN = 4

    def may(self, needed: Role) -> bool:
        """Return whether a role may do what another one is needed for."""
        if needed is Role.REPLICA:
            return self in {Role.REPLICA, Role.ADMIN}
        return self >= needed


@final
@attrs.frozen
class Principal:
    """Who sends a request.

    Attributes:
        name: The name of the token; empty if tokens are not used.
        role: The role.
        user: The user as whom a submitter adds applications, or None.
        groups: The groups of this user.
    """

    name: str
    role: Role
    user: str | None = None
    groups: tuple[str, ...] = ()


WHO: Final = "muster.who"
"""The key of a request's scope for its principal, once that is known."""

EVERYBODY: Final = Principal("", Role.ADMIN)
"""Everybody who reaches a service without tokens."""


ANONYMOUS: Final = Principal("", Role.ANYONE)
"""The sender of a request that needs no token; a token in it is ignored."""


class Access(Protocol):
    """Identifies the sender of a request."""

    @property
    def users(self) -> frozenset[str]:
        """All users whom a token names."""
        ...

    def who(self, request: HTTPConnection, /) -> Principal:
        """Return who sends a request.

        Raises:
            Problem: 401 if a token is needed, and none or a wrong one was sent.
        """
        ...

    def holder(self, token: str, /) -> Principal | None:
        """Return the principal of a token, or None."""
        ...

    def is_valid(self, who: Principal, /) -> bool:
        """Return whether a principal still has a token for the same role."""
        ...


# ACCESS-1
@final
class OpenAccess:
    """Access without tokens: everybody who reaches the service may do everything."""

    @property
    def users(self) -> frozenset[str]:
        """No users: there are no tokens."""
        return frozenset()

    def who(self, request: HTTPConnection, /) -> Principal:
        """Return :data:`EVERYBODY`."""
        return EVERYBODY

    def holder(self, token: str, /) -> Principal | None:
        """Return :data:`EVERYBODY`, whatever the token."""
        return EVERYBODY

    def is_valid(self, who: Principal, /) -> bool:
        """Return True: access is never lost."""
        return True


K = TypeVar("K")

ABSENT: Final = "-"
"""The text for no user, and for no groups."""

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
        who: Its principal.
        digest: The SHA-256 of the token.
    """

    who: Principal
    digest: bytes

    def line(self) -> str:
        """Return its line in the file."""
        who = self.who
        groups = ",".join(who.groups) or ABSENT
        return (
            f"{who.name} {who.role.name.lower()} {who.user or ABSENT} {groups} {self.digest.hex()}"
        )


@final
@attrs.frozen
class Tokens:
    """All tokens of a file."""

    tokens: tuple[Token, ...] = ()

    # ACCESS-3
    def holder(self, token: bytes) -> Principal | None:
        """Return the principal of a token, in a time that reveals nothing about the others."""
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
    who = principal_of(name, role, None if user == ABSENT else user, listed_groups(groups))
    if _DIGEST.fullmatch(digest) is None:
        msg = "sha256-of-token: must be 64 hexadecimal digits"  # it may be the token itself
        raise ValueError(msg)
    return Token(who, bytes.fromhex(digest))


def listed_groups(written: str) -> tuple[str, ...]:
    """Return groups that are written with commas between them, or as `-`.

    Raises:
        ValueError: If one is empty.
    """
    groups = () if written == ABSENT else tuple(written.split(","))
    if "" in groups or ABSENT in groups:
        msg = f"groups: {written!r}: must be names with commas between them, or -"
        raise ValueError(msg)
    return groups


def principal_of(name: str, role: str, user: str | None, groups: tuple[str, ...]) -> Principal:
    """Return the principal of a token.

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
    return Principal(name, ROLES[role], user, groups)


def _is_word(word: str) -> bool:
    return 0 < len(word) <= _MAX_NAME and word.isprintable() and not any(map(str.isspace, word))


_MARK: Final = "muster_"
"""How every token begins, so that programs that look for lost secrets can find it."""

_ENTROPY_BYTES: Final = 32


def mint(who: Principal) -> tuple[str, Token]:
    """Return a new token, and its entry for the file."""
    secret = _MARK + secrets.token_urlsafe(_ENTROPY_BYTES)
    return secret, Token(who, sha256(secret.encode()).digest())


# ACCESS-5
def append(path: Path, token: Token) -> None:
    """Add a token to a file, which is made if it is missing.

    A service that reads the file meanwhile sees it as it was, or with the new line. Only the
    owner may read it; it keeps its owner.

    Args:
        path: The file.
        token: The token.

    Raises:
        TokensError: If the file is wrong, has such a name already, or cannot be written.
    """
    path = path.resolve()  # the file that a symbolic link names is replaced, not the link
    try:
        with _alone(path.parent):
            before = path.stat() if path.exists() else None
            content = b"" if before is None else path.read_bytes()
            known = Tokens() if before is None else read_tokens(path)
            if token.who.name in known.names():
                msg = f"{path}: name: {token.who.name!r} is there already: choose another one"
                raise TokensError(msg)
            if content and not content.endswith(b"\n"):
                content += b"\n"
            _replace(path, content + token.line().encode() + b"\n", before)
    except OSError as error:
        msg = f"{path}: cannot be written: {error.strerror}"
        raise TokensError(msg) from None


@contextmanager
def _alone(folder: Path) -> Generator[None]:
    """Lock a folder against other processes that add tokens to its files."""
    held = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(held, fcntl.LOCK_EX)
        yield
    finally:
        os.close(held)


def _replace(path: Path, content: bytes, before: os.stat_result | None) -> None:
    made = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    mode = stat.S_IRUSR | stat.S_IWUSR
    written = os.open(made, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    try:
        with os.fdopen(written, "wb") as stream:
            if before is not None and (before.st_uid, before.st_gid) != (os.getuid(), os.getgid()):
                os.fchown(stream.fileno(), before.st_uid, before.st_gid)
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        made.replace(path)
    except BaseException:
        with suppress(OSError):
            made.unlink()
        raise
