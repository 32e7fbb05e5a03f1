"""The annotation of a Pod that says whose application it is of, in YuniKorn's form."""

from __future__ import annotations

import json
from typing import Final, cast, final

import attrs

from muster.feeds._encodings.raw import is_unicode
from muster.feeds._fields.kinds import refused
from muster_core.values.events import USER_INFO

_RIGHT: Final = """is not JSON of the form {"user": "sue", "groups": ["developers"]}"""


@final
@attrs.frozen
class UserInfo:
    """A user and the groups of the user; without a user, the nameless one."""

    user: str | None = None
    groups: tuple[str, ...] = ()


# OBJECT-28
def read_user_info(written: str) -> UserInfo:
    """Read the annotation.

    Raises:
        FieldError: If it is malformed; its place is the key.
    """
    try:
        found: object = json.loads(written)
    except (ValueError, RecursionError):
        found = None
    error = refused(written, _RIGHT).inside(f".{USER_INFO}")
    if not isinstance(found, dict):
        raise error
    said = cast("dict[str, object]", found)
    # As a program in Go writes it, nothing is null or an empty text.
    user, groups = said.get("user"), said.get("groups")
    user = None if user == "" else user
    if not (user is None or _is_name(user)) or not isinstance(groups, list | None):
        raise error
    names = cast("list[object] | None", groups) or []
    if not all(_is_name(name) for name in names):
        raise error
    return UserInfo(cast("str | None", user), tuple(cast("list[str]", names)))


def _is_name(value: object) -> bool:
    return isinstance(value, str) and bool(value) and is_unicode(value)
