"""Many programs: drawn by Hypothesis from a seed, run, and made small where one finds something."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Final, final

import attrs

import muster
from muster.testing.fuzz._drawing.programs import (
    FRAME_BYTES,
    NOTHING_GIVEN,
    STEP_BYTES,
    Drawn,
    Given,
    draw_program,
)
from muster.testing.fuzz._run import Oracle, Outcome, run_program

MOST_CLIENTS: Final = 6
MOST_STEPS: Final = 10
"""How many steps one list of a client has; there are two, as one long list is short too often."""
PROGRAMS: Final = 100
"""How many programs are drawn from one seed, unless it is said."""


class MissingHypothesisError(ImportError):
    """Hypothesis is not installed."""


@final
class _FoundError(Exception):
    """A program found something."""


@final
@attrs.frozen
class Finding:
    """A program that found something.

    Attributes:
        seed: The seed that it was drawn from, or None.
        token: The program as a short text.
        outcome: What came of it.
        first: How many programs had been run when something was found.
    """

    seed: int | None
    token: str
    outcome: Outcome
    first: int


@final
@attrs.define
class Tally:
    """How much was done.

    Attributes:
        programs: How many programs were run.
        calls: How many calls of each kind were made.
        decisions: How many decisions were announced, and compared.
        steps: How many steps all tasks took.
        orders: The orders of these steps, as numbers that stand for them.
        cancelled: How many scopes were cancelled in the middle.
        jumps: How often the clock was moved on.
    """

    programs: int = 0
    calls: Counter[str] = attrs.field(factory=Counter[str])
    decisions: int = 0
    steps: int = 0
    orders: set[int] = attrs.field(factory=set[int])
    cancelled: int = 0
    jumps: int = 0

    def count(self, outcome: Outcome) -> None:
        """Take a run into account."""
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
    """How programs are made and looked at.

    Attributes:
        given: What is not drawn.
        binder: Makes the binder of each program, in place of one that is planned.
        oracles: What looks at the outcomes, besides what always does.
        shrink: Whether a program that finds something is made small.
    """

    given: Given = NOTHING_GIVEN
    binder: Callable[[], muster.Binder] | None = None
    oracles: Sequence[Oracle] = ()
    shrink: bool = True

    def run(self, drawn: Drawn) -> Outcome:
        """Run one program."""
        program = draw_program(drawn, self.given)
        return run_program(program, oracles=self.oracles, binder=self.binder)

    def replay(self, token: str) -> Finding | None:
        """Run the program that a text stands for.

        Raises:
            ValueError: If it stands for none.
        """
        outcome = self.run(Drawn.of_token(token))
        return Finding(None, token, outcome, 1) if outcome.faults else None

    def search(
        self, seed: int, programs: int = PROGRAMS, tally: Tally | None = None
    ) -> Finding | None:
        """Run the programs of a seed, until one of them finds something.

        The same seed gives the same programs, as long as Muster's generator, Hypothesis and
        the number of programs are the same.

        Args:
            seed: The seed.
            programs: How many are run at the most.
            tally: What they are counted in.

        Raises:
            MissingHypothesisError: If Hypothesis is not installed.
        """
        try:
            import hypothesis  # noqa: PLC0415 - not needed by who replays a program
            import hypothesis.errors  # noqa: PLC0415 - as above
            import hypothesis.strategies as st  # noqa: PLC0415 - as above
        except ImportError as error:
            msg = "programs are drawn by Hypothesis: pip install 'muster-scheduler[fuzz]'"
            raise MissingHypothesisError(msg) from error
        found: list[tuple[Drawn, Outcome]] = []
        counted = Tally() if tally is None else tally
        before = counted.programs

        def one(frame: bytes, clients: list[tuple[list[bytes], list[bytes]]]) -> None:
            drawn = Drawn(frame, tuple((*first, *then) for first, then in clients))
            outcome = self.run(drawn)
            if not found:
                counted.count(outcome)
            if outcome.faults:
                found.append((drawn, outcome))
                del found[:-1]  # The last is what Hypothesis settled on.
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
            if found:  # Of a binder that depends on more than trio's time.
                found[-1][1].faults.append("the same program does not run alike each time")
        if not found:
            return None
        drawn, outcome = found[-1]
        return Finding(seed, drawn.token(), outcome, counted.programs - before)
