"""Making a token, and adding it to a file of tokens."""

from __future__ import annotations

import fcntl
import os
import secrets
import stat
from collections.abc import Generator
from contextlib import contextmanager, suppress
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Final

from muster.service.access.tokens import Token, Tokens, TokensError, read_tokens

if TYPE_CHECKING:
    from muster.service.access.who import Who

_MARK: Final = "muster_"
"""How every token begins, so that programs that look for lost secrets can find it."""

_ENTROPY_BYTES: Final = 32


def mint(who: Who) -> tuple[str, Token]:
    """Return a new token, and what the file says about it."""
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
    """Keep others who add tokens to files of a folder waiting."""
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
