"""The filters of placement rules: whom a rule is for."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final, TypeAlias, final

from muster_core.config.placement.expressions import Expression
from muster_core.values.configuration.user_limits import GROUP_NAME, USER_NAME
from muster_core.values.quantities import shown

if TYPE_CHECKING:
    from muster_core.values.configuration.placement_rules import PlacementFilter

Hits: TypeAlias = Callable[[str], bool]

# PLACEMENT-4
_SPECIAL: Final = frozenset("^$*+?()[{}|")
"""With one of these characters, the only entry of a list is a regular expression."""


def is_expression(entry: str) -> bool:
    """Return whether the only entry of a list is a regular expression."""
    return not _SPECIAL.isdisjoint(entry)


# PLACEMENT-4
def hits_of(entries: Sequence[str], legal: re.Pattern[str]) -> Hits:
    """Return which names a list hits.

    Args:
        entries: The list as written.
        legal: The legal names, :data:`USER_NAME` or :data:`GROUP_NAME`.

    Raises:
        ValueError: If its only entry is neither a legal name nor a regular expression.
    """
    if len(entries) == 1:
        (only,) = entries
        if is_expression(only):
            return _expression(only).found_in
        if not legal.fullmatch(only):
            msg = f"{shown(only)} is neither a name ({legal.pattern}) nor a regular expression"
            raise ValueError(msg)
    return frozenset(name for name in entries if legal.fullmatch(name)).__contains__


# PLACEMENT-5
def _expression(text: str) -> Expression:
    try:
        return Expression(text)
    except ValueError as error:
        msg = f"{shown(text)} is not a regular expression: {error}"
        raise ValueError(msg) from error


@final
class Filter:
    """A filter in force.

    Args:
        written: The filter as written, without problems.
    """

    def __init__(self, written: PlacementFilter) -> None:
        self._users = hits_of(written.users, USER_NAME)
        self._groups = hits_of(written.groups, GROUP_NAME)
        self._deny = written.deny
        self._is_empty = not written.users and not written.groups

    # PLACEMENT-3
    def lets_in(self, user: str | None, groups: Sequence[str]) -> bool:
        """Return whether the rule is for a user.

        Args:
            user: The name of the user; None for the nameless one, whom no list of users hits.
            groups: The groups of the user.
        """
        if self._is_empty:
            return not self._deny
        named = bool(user) and self._users(user or "")
        hit = named or any(self._groups(group) for group in groups)
        return hit is not self._deny
