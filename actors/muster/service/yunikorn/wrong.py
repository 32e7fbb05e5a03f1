"""Errors as YuniKorn's clients and its web UI read them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import final


@final
class Wrong(Exception):  # noqa: N818 - not every one is an error of the client
    """A request cannot be answered as it was asked.

    Args:
        status: The status of the response.
        message: What is wrong.
        headers: Further headers of the response.
    """

    def __init__(
        self, status: int, message: str, *, headers: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.headers = dict(headers or {})

    # REST-3
    def as_map(self) -> dict[str, object]:
        """Return the members of the answer, in the spelling of the server and in that of the UI."""
        return {
            "status_code": self.status,
            "message": self.message,
            "description": self.message,
            "StatusCode": self.status,
            "Message": self.message,
            "Description": self.message,
        }


@final
class NoEndpoint(Exception):  # noqa: N818 - an answer like others
    """A path is that of no end point after all."""
