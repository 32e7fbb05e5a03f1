"""Sessions: Hypothesis draws programs from a seed, and shrinks a program that finds a fault."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Final, final

import attrs

import muster
from muster.testing.fuzz._generator import (
    FRAME_BYTES,
    NOTHING_FIXED,
    STEP_BYTES,
    DrawnBytes,
    FixedParts,
    draw_program,
)
from muster.testing.fuzz._run import Oracle, Outcome, run_program

MOST_CLIENTS: Final = 6
MOST_STEPS: Final = 10
"""The most steps in a list. A client has two lists, as Hypothesis draws long lists too rarely."""
PROGRAMS: Final = 100
"""The default for how many programs are drawn from one seed."""


class MissingHypothesisError(ImportError):
    """Hypothesis is not installed."""


@final
class _FoundError(Exception):
    """A program found a fault."""


@final
@attrs.frozen
class Finding:
    """A program that found a fault.

    Attributes:
        seed: The seed from which it was drawn, or None.
        token: The program as a short text.
        outcome: The outcome of its run.
        first: How many programs had run when the first fault was found.
    """

    seed: int | None
    token: str
    outcome: Outcome
    first: int


@final
@attrs.define
class Tally:
    """How much a session has done.

    Attributes:
        programs: How many programs were run.
        calls: How many calls of each kind were made.
        decisions: How many decisions were announced and compared.
        steps: How many steps all tasks made.
        orders: The hashes of the orders of these steps.
        cancelled: How many scopes were cancelled in the middle.
        jumps: How often the clock jumped.
    """

    programs: int = 0
    calls: Counter[str] = attrs.field(factory=Counter[str])
    decisions: int = 0
    steps: int = 0
    orders: set[int] = attrs.field(factory=set[int])
    cancelled: int = 0
    jumps: int = 0

    def count(self, outcome: Outcome) -> None:
        """Add the figures of a run."""
        self.programs += 1
        self.calls.update(outcome.calls)
        self.decisions += len(outcome.story.decisions)
        self.steps += outcome.steps
        self.orders.add(outcome.order)
        self.cancelled += outcome.cancelled
        self.jumps += outcome.jumps


@final
@attrs.frozen
class Session:
    """The settings with which programs are drawn and checked.

    Attributes:
        given: The parts that are given instead of drawn.
        binder: Creates the binder of each program, instead of a planned one.
        oracles: Further checks of the outcomes.
        shrink: Whether to shrink a program that finds a fault.
    """

    given: FixedParts = NOTHING_FIXED
    binder: Callable[[], muster.Binder] | None = None
    oracles: Sequence[Oracle] = ()
    shrink: bool = True

    def run(self, drawn: DrawnBytes) -> Outcome:
        """Run one program."""
        program = draw_program(drawn, self.given)
        return run_program(program, oracles=self.oracles, binder=self.binder)

    def replay(self, token: str) -> Finding | None:
        """Run the program of a token; return a finding, or None if it has no fault.

        Raises:
            ValueError: If the token is invalid.
        """
        outcome = self.run(DrawnBytes.of_token(token))
        return Finding(None, token, outcome, 1) if outcome.faults else None

    def search(
        self, seed: int, programs: int = PROGRAMS, tally: Tally | None = None
    ) -> Finding | None:
        """Run the programs of a seed until one of them finds a fault.

        The same seed gives the same programs for the same versions of Muster and Hypothesis, and
        the same number of programs.

        Args:
            seed: The seed.
            programs: The most programs to run.
            tally: Counts what was done, or None.

        Raises:
            MissingHypothesisError: If Hypothesis is not installed.
        """
        try:
            import hypothesis  # noqa: PLC0415 - not needed to replay a program
            import hypothesis.errors  # noqa: PLC0415 - as above
            import hypothesis.strategies as st  # noqa: PLC0415 - as above
        except ImportError as error:
            msg = "programs are drawn by Hypothesis: pip install 'muster-scheduler[fuzz]'"
            raise MissingHypothesisError(msg) from error
        found: list[tuple[DrawnBytes, Outcome]] = []
        counted = Tally() if tally is None else tally
        before = counted.programs

        def one(frame: bytes, clients: list[tuple[list[bytes], list[bytes]]]) -> None:
            drawn = DrawnBytes(frame, tuple((*first, *then) for first, then in clients))
            outcome = self.run(drawn)
            if not found:
                counted.count(outcome)
            if outcome.faults:
                found.append((drawn, outcome))
                del found[:-1]  # The last one is the smallest that Hypothesis found.
                raise _FoundError

        phases = [hypothesis.Phase.generate]
        if self.shrink:
            phases.append(hypothesis.Phase.shrink)
        steps = st.lists(st.binary(min_size=STEP_BYTES, max_size=STEP_BYTES), max_size=MOST_STEPS)
        search = hypothesis.given(
            st.binary(min_size=FRAME_BYTES, max_size=FRAME_BYTES),
            st.lists(st.tuples(steps, steps), min_size=1, max_size=MOST_CLIENTS),
        )(one)
        search = hypothesis.settings(
            max_examples=programs,
            database=None,
            deadline=None,
            derandomize=False,
            report_multiple_bugs=False,
            print_blob=False,
            phases=phases,
            suppress_health_check=[
                hypothesis.HealthCheck.too_slow,
                hypothesis.HealthCheck.data_too_large,
                hypothesis.HealthCheck.large_base_example,
            ],
        )(search)
        try:
            hypothesis.seed(seed)(search)()
        except _FoundError:
            pass
        except hypothesis.errors.Flaky:
            if found:  # The binder depends on more than trio's time.
                found[-1][1].faults.append("the same program does not run alike each time")
        if not found:
            return None
        drawn, outcome = found[-1]
        return Finding(seed, drawn.token(), outcome, counted.programs - before)
