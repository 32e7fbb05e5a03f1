"""Whether the service works, as far as it is known without asking the scheduler."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final, final

import trio

if TYPE_CHECKING:
    from muster.service.options import Backend
    from muster.service.replication.leadership import Leadership

ALIVE_S: Final = 5.0
"""How long the scheduler may take to answer the heartbeat, in seconds."""


@final
class Health:
    """The health of the service, as its heartbeat and its parts note it.

    Attributes:
        batch: The number of the last batch that the heartbeat has seen.
        is_open: Whether recovery is over, and followers are answered.
        is_ready: Whether requests are answered: recovery is over, and no follower is waited for.
        is_ending: Whether the service ends.
        backend: What runs commands, or None.

    Args:
        runs: What runs the commands of asks: the option ``--run``.
        leadership: Whether the service leads or follows.
    """

    def __init__(self, runs: str, leadership: Leadership) -> None:
        self.batch = 0
        self.is_open = False
        self.is_ready = False
        self.is_ending = False
        self.backend: Backend | None = None
        self.leadership = leadership
        self._runs = runs
        self._failure: str | None = None
        #: When the heartbeat was sent that is not answered yet.
        self._asked_at: float | None = None
        #: What is wrong with files that were read again, by what they are.
        self._problems: dict[str, Sequence[str]] = {}

    def note_probe(self) -> None:
        """Note that a heartbeat was sent to the scheduler."""
        self._asked_at = trio.current_time()

    def note_answer(self, batch: int) -> None:
        """Note that the scheduler has answered.

        Args:
            batch: The number of its last batch.
        """
        self._asked_at = None
        self.batch = batch

    def note_failure(self, why: str) -> None:
        """Note that the scheduler has ended by an error."""
        self._failure = why

    def note_problems(self, what: str, problems: Sequence[str]) -> None:
        """Note what is wrong with a file that was read again; nothing if it is right.

        Args:
            what: What the file is, such as ``configuration``.
            problems: What is wrong with it.
        """
        if problems:
            self._problems[what] = [*problems]
        else:
            self._problems.pop(what, None)

    @property
    def problems(self) -> Mapping[str, Sequence[str]]:
        """Return what is wrong with files that were read again."""
        return self._problems

    def trouble(self) -> str | None:
        """Return why the scheduler is not alive, or None."""
        if self._failure is not None:
            return self._failure
        # REPLICA-10
        if self._asked_at is None or self.leadership.followers.is_held:
            return None
        waited_s = trio.current_time() - self._asked_at
        if waited_s <= ALIVE_S:
            return None
        return f"the scheduler was asked {waited_s:.1f} s ago, and has run no batch since"

    # ACCESS-17, RAY-7, SLURM-7
    def life(self) -> tuple[int, dict[str, object]]:
        """Return the status and the answer of ``/healthz``."""
        trouble = self.trouble()
        answer: dict[str, object] = {
            "alive": trouble is None,
            "ready": self.is_ready,
            "ending": self.is_ending,
            "batch": self.batch,
            "problems": dict(self._problems),
            "run": self._runs,
        }
        backend_health = None if self.backend is None else self.backend.health()
        if backend_health is not None:
            answer[self._runs] = backend_health
        if self.leadership.term:
            answer["replica"] = dict(self.leadership.health())
        if trouble is not None:
            answer["detail"] = trouble
        return (200 if trouble is None else 503), answer

    def awaited(self) -> str:
        """Return what is waited for before requests are answered."""
        awaited = None if self.backend is None else self.backend.waits_for()
        awaited = awaited or self.leadership.waits_for
        following = self.leadership.following
        if following is not None and not self.is_open:
            awaited = following.problem
        elif self.is_open:
            awaited = "no follower has what is kept, as --sync strict wants"
        return awaited or "the state is being loaded"

    # ACCESS-18
    def readiness(self) -> tuple[int, dict[str, object]]:
        """Return the status and the answer of ``/readyz``."""
        trouble = self.trouble()
        if trouble is None and not self.is_ready:
            trouble = self.awaited()
        if trouble is None and self.is_ending:
            trouble = "the service ends"
        if trouble is None and self.leadership.followers.lacks_first:
            trouble = "no follower has what is kept, as --sync strict wants"
        if trouble is None and self.leadership.followers.is_held:
            trouble = "no follower acknowledges, as --sync strict wants: calls are held back"
        if trouble is not None:
            return 503, {"ready": False, "batch": self.batch, "detail": trouble}
        answer: dict[str, object] = {"ready": True, "batch": self.batch}
        backend_health = {} if self.backend is None else self.backend.health() or {}
        if backend_health.get("connected") is False:
            answer[self._runs] = backend_health
        return 200, answer
