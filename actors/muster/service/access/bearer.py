"""Access by tokens, which a request sends as ``Authorization: Bearer TOKEN``."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Final, final

from muster.service.access.tokens import Tokens, read_tokens
from muster.service.problems import Problem

if TYPE_CHECKING:
    from starlette.requests import HTTPConnection

    from muster.service.access.who import Who

_BEARER: Final = re.compile(r"bearer +([A-Za-z0-9._~+/-]+=*) *", re.IGNORECASE)


@final
class TokenAccess:
    """Knows the tokens of a file, until it is read again.

    Args:
        path: The file.

    Raises:
        TokensError: If the file cannot be used.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.take(read_tokens(path))

    # ACCESS-4
    def take(self, tokens: Tokens) -> None:
        """Take other tokens; those that are not among them stop to work now."""
        self._tokens = tokens
        self._users = tokens.users()

    @property
    def users(self) -> frozenset[str]:
        """All users whom a token names."""
        return self._users

    # ACCESS-3
    def who(self, request: HTTPConnection, /) -> Who:
        """Return who sends a request.

        Raises:
            Problem: 401 without a token, or with one that is not in the file.
        """
        sent = request.headers.getlist("authorization")
        if not sent:
            raise _unauthorized("send a token: Authorization: Bearer TOKEN")
        if len(sent) > 1:
            raise _unauthorized("send one header Authorization, not several", wrong=True)
        found = _BEARER.fullmatch(sent[0])
        if found is None:
            raise _unauthorized("the header must be: Authorization: Bearer TOKEN", wrong=True)
        who = self._tokens.holder(found[1].encode())
        if who is None:
            raise _unauthorized("this token is unknown, or no longer valid", wrong=True)
        return who

    # PAGE-2
    def holder(self, token: str, /) -> Who | None:
        """Return whose token this is, or None if it is not in the file."""
        return self._tokens.holder(token.encode())

    # ACCESS-4
    def still(self, who: Who, /) -> bool:
        """Return whether somebody has a token as before."""
        return any(one.who == who for one in self._tokens.tokens)


def _unauthorized(detail: str, *, wrong: bool = False) -> Problem:
    challenge = 'Bearer realm="muster"' + (', error="invalid_token"' if wrong else "")
    return Problem(401, detail, headers={"WWW-Authenticate": challenge})
