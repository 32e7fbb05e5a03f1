"""Authentication: bearer tokens of requests, and sessions of browsers."""

from __future__ import annotations

import hmac
import re
from collections import OrderedDict
from pathlib import Path
from secrets import token_urlsafe
from typing import TYPE_CHECKING, Final, final

import attrs
import trio
from starlette.responses import Response

from muster.service.access import Access, Principal, Tokens, read_tokens
from muster.service.payloads import Problem

if TYPE_CHECKING:
    from starlette.requests import HTTPConnection


_BEARER: Final = re.compile(r"bearer +([A-Za-z0-9._~+/-]+=*) *", re.IGNORECASE)


@final
class TokenAccess:
    """Access by the tokens of a file, which can be read again.

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
    def who(self, request: HTTPConnection, /) -> Principal:
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
    def holder(self, token: str, /) -> Principal | None:
        """Return the principal of a token, or None if it is not in the file."""
        return self._tokens.holder(token.encode())

    # ACCESS-4
    def is_valid(self, who: Principal, /) -> bool:
        """Return whether a principal still has its token."""
        return any(one.who == who for one in self._tokens.tokens)


def _unauthorized(detail: str, *, wrong: bool = False) -> Problem:
    challenge = 'Bearer realm="muster"' + (', error="invalid_token"' if wrong else "")
    return Problem(401, detail, headers={"WWW-Authenticate": challenge})


COOKIE: Final = "muster_session"

_IDLE_S: Final = 12 * 3600.0
"""After how long without a request a session ends, in seconds."""

_MOST: Final = 10_000
"""How many sessions there are at most; the one that was idle for the longest ends first."""


@final
@attrs.define(eq=False)
class Session:
    """The session of a browser that has logged in.

    Attributes:
        who: Its principal.
        proof: The secret that each form must send; no other web site knows it.
        used_s: When it was used last, in seconds of trio's clock.
    """

    who: Principal
    proof: str = attrs.field(factory=lambda: token_urlsafe(24))
    used_s: float = attrs.field(factory=trio.current_time)

    def is_proved_by(self, proof: str) -> bool:
        """Return whether a form comes from a page of this session."""
        return hmac.compare_digest(self.proof.encode(), proof.encode())


# PAGE-2
@final
class Sessions:
    """All sessions. They are kept in memory: a service that starts again asks for tokens again."""

    def __init__(self) -> None:
        self._by_key: OrderedDict[str, Session] = OrderedDict()
        #: For those who need no session: there are no tokens, or the request has one itself.
        self._open: OrderedDict[Principal, Session] = OrderedDict()

    def of(self, request: HTTPConnection, access: Access) -> Session | None:
        """Return the session of a request, or None."""
        key = request.cookies.get(COOKIE, "")
        session = self._by_key.get(key)
        if session is None:
            return None
        now_s = trio.current_time()
        if now_s - session.used_s > _IDLE_S or not access.is_valid(session.who):
            del self._by_key[key]
            return None
        session.used_s = now_s
        self._by_key.move_to_end(key)
        return session

    def without(self, who: Principal) -> Session:
        """Return a session that is not kept, for a request that needs none."""
        session = self._open.get(who)
        if session is None:
            session = self._open[who] = Session(who)
            while len(self._open) > _MOST:
                self._open.popitem(last=False)
        return session

    def begin(self, who: Principal, response: Response, *, is_secure: bool) -> None:
        """Begin a session, and set its cookie.

        Args:
            who: Who has logged in.
            response: The response that gets the cookie.
            is_secure: Whether the browser may send the cookie by TLS only.
        """
        key = token_urlsafe(32)
        self._by_key[key] = Session(who)
        while len(self._by_key) > _MOST:
            self._by_key.popitem(last=False)
        response.set_cookie(COOKIE, key, httponly=True, samesite="strict", secure=is_secure)

    def end(self, request: HTTPConnection, response: Response) -> None:
        """End the session of a request, if there is one."""
        self._by_key.pop(request.cookies.get(COOKIE, ""), None)
        response.delete_cookie(COOKIE, httponly=True, samesite="strict")
