"""Who sends a request, and what their role allows."""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, Final, Protocol, final

import attrs

if TYPE_CHECKING:
    from starlette.requests import HTTPConnection


@final
class Role(IntEnum):
    """What somebody may do; each role may do what those below it may.

    ``ANYONE`` needs no token, and is for health and metrics of the process only.
    """

    ANYONE = 0
    READER = 1
    SUBMITTER = 2
    ADMIN = 3


@final
@attrs.frozen
class Who:
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
"""Where the scope of a request has who sends it, once that is known."""

EVERYBODY: Final = Who("", Role.ADMIN)
"""Everybody who reaches a service without tokens."""


NOBODY: Final = Who("", Role.ANYONE)
"""Whoever asks for what anyone may have; a token that they send is not looked at."""


class Access(Protocol):
    """Knows who sends a request."""

    @property
    def users(self) -> frozenset[str]:
        """All users whom a token names."""
        ...

    def who(self, request: HTTPConnection, /) -> Who:
        """Return who sends a request.

        Raises:
            Problem: 401 if a token is needed, and none or a wrong one was sent.
        """
        ...

    def holder(self, token: str, /) -> Who | None:
        """Return whose token this is, or None."""
        ...

    def still(self, who: Who, /) -> bool:
        """Return whether somebody who was known before still is, in the same role."""
        ...


# ACCESS-1
@final
class OpenAccess:
    """Access without tokens: everybody who reaches the service may do everything."""

    @property
    def users(self) -> frozenset[str]:
        """Nobody: there are no tokens."""
        return frozenset()

    def who(self, request: HTTPConnection, /) -> Who:
        """Return everybody."""
        return EVERYBODY

    def holder(self, token: str, /) -> Who | None:
        """Return everybody, whatever the token."""
        return EVERYBODY

    def still(self, who: Who, /) -> bool:
        """Return True, as nobody ever loses access."""
        return True
