"""For which group each application counts in the limits of groups (LIMIT-7, LIMIT-8).

The group is found when the application comes. It stays as long as a queue on the path limits it,
whatever other groups a new configuration limits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, final

from muster_core.values.configuration.user_limits import EVERY_NAME

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from muster_core.admission.queue_tree import QueueEntry
    from muster_core.values.configuration.partition import QueueConfig


@final
class UserGroups:
    """The groups of all applications."""

    def __init__(self) -> None:
        #: The groups of the user of each application, and the one for which it counts, by key.
        self._of: dict[int, tuple[tuple[str, ...], str | None]] = {}
        #: The groups that a queue limits, in the order of the file, by the key of the queue.
        self._named: dict[int, tuple[QueueConfig, dict[str, None]]] = {}

    def enter(self, key: int, leaf: QueueEntry, groups: tuple[str, ...]) -> str | None:
        """Find the group of a new application.

        Args:
            key: The application.
            leaf: Its queue.
            groups: The groups of its user.

        Returns:
            The group, ``*`` for that of all users, or None.
        """
        group = self._find(leaf, groups)
        self._of[key] = groups, group
        return group

    # CHECKPOINT-5
    def load(self, key: int, groups: tuple[str, ...], group: str | None) -> None:
        """Note the group of an application, which was found when the application came."""
        self._of[key] = groups, group

    def leave(self, key: int) -> None:
        """Forget an application."""
        del self._of[key]

    # LIMIT-8
    def find_again(
        self, apps: Iterable[tuple[int, QueueEntry]]
    ) -> Iterator[tuple[int, str | None]]:
        """Look at all applications again, after a new configuration.

        Args:
            apps: Each application with its queue.

        Yields:
            The applications whose group has changed, with the new one.
        """
        self._named.clear()
        for key, leaf in apps:
            groups, before = self._of[key]
            if before is not None and any(before in self._limited(one) for one in leaf.upward()):
                continue
            after = self._find(leaf, groups)
            if after != before:
                self._of[key] = groups, after
                yield key, after

    # LIMIT-7
    def _find(self, leaf: QueueEntry, groups: tuple[str, ...]) -> str | None:
        for queue in leaf.upward():
            limited = self._limited(queue)
            if limited:
                own = next((name for name in limited if name in groups), None)
                if own is not None:
                    return own
                if EVERY_NAME in limited:
                    return EVERY_NAME
        return None

    def _limited(self, queue: QueueEntry) -> dict[str, None]:
        """Return the groups that a queue limits, in the order of the file."""
        config = queue.config
        if not config.limits:
            return {}
        known = self._named.get(queue.key)
        if known is None or known[0] is not config:
            names = dict.fromkeys(name for entry in config.limits for name in entry.groups)
            known = self._named[queue.key] = config, names
        return known[1]

    def check(self, apps: Iterable[int]) -> None:
        """Assert the invariants, given the keys of all applications; for tests."""
        assert self._of.keys() == set(apps)
