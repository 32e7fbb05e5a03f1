"""Placement: how the rules of a partition choose the queue of a new application.

The rules are tried in order on the tree of queues as it is now. Nothing here changes the tree: the
registry makes the queues that are missing. The reasons that all pending asks of an application have
because of its queue or user, although they do not prevent placement, are here too.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, assert_never, final

import attrs

from muster_core.admission.queue_tree import QueueEntry, QueueTree
from muster_core.config.placement import Filter, is_whole_path
from muster_core.config.queues import DEEPEST, ROOT, check_queue_name
from muster_core.config.users import admits
from muster_core.values.configuration import PlacementRule, RuleName
from muster_core.values.errors import RefusedError
from muster_core.values.events import AddApp
from muster_core.values.resources import shown

# PLACEMENT-15
FORCE_TAG: Final = "application.create.force"
"""The tag of an application that is to be taken in even if no rule matches."""

# PLACEMENT-15
RECOVERY: Final = "@recovery@"
"""The name of the queue below ``root`` for such applications."""

# PLACEMENT-17
DEFAULT_QUEUE: Final = "root.default"
"""The queue of an application that no rule places."""

_DOT: Final = "_dot_"


@final
@attrs.frozen
class PlacedQueue:
    """A queue for an application.

    Attributes:
        nearest: The queue, or the last queue of its path that exists.
        missing: The names of the queues that are to be made below that one.
        has_template: Whether a leaf that is made gets the nearest ``childtemplate``.
    """

    nearest: QueueEntry
    missing: list[str]
    has_template: bool = True


@final
@attrs.frozen
class NoMatch:
    """A rule gives no queue."""

    why: str


@final
class _Rule:
    """A rule in force, with its filter."""

    def __init__(self, written: PlacementRule) -> None:
        self.written = written
        self.filter = Filter(written.filter)
        self.parent = None if written.parent is None else _Rule(written.parent)


@final
class Placement:
    """The placement rules in force.

    Args:
        any_acl: Whether any queue of the configuration has an ACL.
    """

    def __init__(self, rules: Sequence[PlacementRule], *, any_acl: bool) -> None:
        self._rules = [_Rule(rule) for rule in rules]
        self._any_acl = any_acl

    # PLACEMENT-1
    @property
    def has_rules(self) -> bool:
        """Whether rules choose the queue of an application."""
        return bool(self._rules)

    # PLACEMENT-2
    def choose(self, event: AddApp, tree: QueueTree) -> PlacedQueue:
        """Choose the queue of an application.

        Raises:
            RefusedError: If no queue is found for it, or a rule gives an illegal name.
        """
        tried: list[str] = []
        for number, rule in enumerate(self._rules, start=1):
            path = _path_of(rule, event, tree)
            found = path if isinstance(path, NoMatch) else self._usable(path, event, tree)
            if isinstance(found, PlacedQueue):
                return found
            tried.append(f"rule {number} ({rule.written.name}): {found.why}")
        # PLACEMENT-15
        if event.tags.get(FORCE_TAG) == "true":
            found = _recovery(tree)
            after = f"root.{RECOVERY}"
        # PLACEMENT-17
        else:
            found = self._default(event, tree)
            after = DEFAULT_QUEUE
        if isinstance(found, PlacedQueue):
            return found
        reasons = "; ".join([*tried, f"{after}: {found.why}"])
        msg = f"app: {event.app!r}: no placement rule matched: {reasons}"
        raise RefusedError(msg)

    # PLACEMENT-12
    def _usable(self, path: Sequence[str], event: AddApp, tree: QueueTree) -> PlacedQueue | NoMatch:
        """Return the place with this path, or why the application cannot go there."""
        nearest, missing = tree.nearest(path)
        written = repr(".".join(path))
        if any(above.draining for above in nearest.upward()):
            return NoMatch(f"{written} is draining")
        if not missing and nearest.config.is_parent:
            return NoMatch(f"{written} is a parent")
        if missing and not nearest.config.is_parent:
            return NoMatch(f"{written} is unknown, and {nearest.config.path!r} above it is a leaf")
        # PLACEMENT-13
        if missing and nearest.config.settings.create is False:
            path_text = repr(nearest.config.path)
            return NoMatch(f"{written} is unknown, and queue.create is disabled for {path_text}")
        configs = [entry.config for entry in nearest.upward()]
        if not admits(configs, event.user, event.groups, any_acl=self._any_acl):
            user = "nobody in particular" if event.user is None else shown(event.user)
            return NoMatch(f"{written} does not admit {user}")
        return PlacedQueue(nearest, missing)

    # PLACEMENT-17
    def _default(self, event: AddApp, tree: QueueTree) -> PlacedQueue | NoMatch:
        if DEFAULT_QUEUE not in tree.entries:
            return NoMatch("there is no such queue")
        return self._usable(DEFAULT_QUEUE.split("."), event, tree)


# PLACEMENT-15
def _recovery(tree: QueueTree) -> PlacedQueue | NoMatch:
    """Return the queue for applications that are taken in anyway."""
    nearest, missing = tree.nearest((ROOT, RECOVERY))
    if nearest.draining:
        return NoMatch("it is draining")
    if not missing and nearest.config.is_parent:
        return NoMatch("it is a parent")
    return PlacedQueue(nearest, missing, has_template=False)


def _path_of(rule: _Rule, event: AddApp, tree: QueueTree) -> Sequence[str] | NoMatch:
    """Return the path that a rule gives, as names from ``root``, or why it does not match.

    Raises:
        RefusedError: If the name of the queue is illegal.
    """
    written = rule.written
    # PLACEMENT-3
    if not rule.filter.lets_in(event.user, event.groups):
        user = "the nameless user" if not event.user else f"user {shown(event.user)}"
        return NoMatch(f"its filter is not for {user}")
    field, value = _value_of(written, event)
    # PLACEMENT-6
    if not value:
        return NoMatch(f"the application has no {field}")
    whole = _is_whole(written.name, value)
    names = _names_of(written.name, field, value, whole=whole)
    if not whole:
        above = _parent_path(rule, event, tree)
        if isinstance(above, NoMatch):
            return above
        names = [*above, *names]
    # PLACEMENT-10
    if len(names) > DEEPEST:
        levels = f"its path has {len(names)} levels; at most {DEEPEST} are possible"
        msg = f"{field}: {shown(value)}: {levels}"
        raise RefusedError(msg)
    path = ".".join(names)
    # PLACEMENT-16
    if names[1:2] == [RECOVERY]:
        return NoMatch(f"{path!r} is not for applications that a rule places")
    # PLACEMENT-11
    if not written.create and path not in tree.entries:
        return NoMatch(f"{path!r} is unknown, and the rule may not create it")
    return names


# PLACEMENT-8, PLACEMENT-9
def _parent_path(rule: _Rule, event: AddApp, tree: QueueTree) -> Sequence[str] | NoMatch:
    """Return the path of the queue below which a rule puts its name."""
    if rule.parent is None:
        return [ROOT]
    path = _path_of(rule.parent, event, tree)
    name = rule.parent.written.name
    if isinstance(path, NoMatch):
        return NoMatch(f"its parent rule ({name}) does not match: {path.why}")
    entry = tree.entries.get(".".join(path))
    if entry is not None and not entry.config.is_parent:
        return NoMatch(f"its parent rule ({name}) gives {entry.config.path!r}, which is a leaf")
    return path


# PLACEMENT-6
def _value_of(rule: PlacementRule, event: AddApp) -> tuple[str, str | None]:
    """Return the field that a rule takes its name from, and the value of that field."""
    name = rule.name
    if name is RuleName.PROVIDED:
        return "queue", event.queue
    if name is RuleName.USER:
        return "user", event.user
    if name is RuleName.FIXED:
        return "value", rule.value
    if name is RuleName.TAG:
        return _tag_of(rule.value, event)
    assert_never(name)


# PLACEMENT-23
def _tag_of(wanted: str, event: AddApp) -> tuple[str, str | None]:
    """Return a tag, whatever the case of its name; of several the first by code point."""
    lowered = wanted.lower()
    name = min((name for name in event.tags if name.lower() == lowered), default=wanted)
    return f"tags.{name}", event.tags.get(name)


# PLACEMENT-7
def _is_whole(name: RuleName, value: str) -> bool:
    """Return whether a value is a whole path, so that the parent rule is not looked at."""
    if name is RuleName.PROVIDED or name is RuleName.TAG:
        return value.lower().startswith(f"{ROOT}.")
    if name is RuleName.USER:
        return False
    if name is RuleName.FIXED:
        return is_whole_path(value)
    assert_never(name)


# PLACEMENT-8, PLACEMENT-10
def _names_of(name: RuleName, field: str, value: str, *, whole: bool) -> list[str]:
    """Return the names of queues in a value, in lower case.

    Raises:
        RefusedError: If one of them is illegal.
    """
    has_levels = whole or name is RuleName.FIXED
    parts = value.split(".") if has_levels else [value.replace(".", _DOT)]
    try:
        return [check_queue_name(part) for part in parts]
    except ValueError as error:
        msg = f"{field}: {shown(value)}: {error}"
        raise RefusedError(msg) from error
