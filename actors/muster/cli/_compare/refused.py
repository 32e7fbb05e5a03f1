"""The events that are refused, in words."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import click

from muster.cli._options import counted
from muster.compare import Refusals
from muster.replay import Remark


def words_of_refused(refusals: Refusals, names: tuple[str, str]) -> Iterator[str]:
    """Say which events only one side refuses, in a paragraph for each side.

    Args:
        refusals: What is refused.
        names: The names of the feeds or logs that lines are of.
    """
    for side, number, first, name in (
        ("A", refusals.only_a, refusals.first_a, names[0]),
        ("B", refusals.only_b, refusals.first_b, names[1]),
    ):
        if number:
            told = [f"   {_place(name, remark)}: {remark.message}" for remark in first]
            more = [f"   … and {number - len(first):,} more"] if len(first) < number else []
            head = f"Only {side} refuses {counted(number, 'event')}:"
            yield "\n".join([head, "", *told, *more]) + "\n"


def tell_refused(refusals: Refusals, names: Sequence[str]) -> None:
    """Say on standard error which events both sides refuse.

    Args:
        refusals: What is refused.
        names: The names of the feeds or logs that lines are of: of one feed, one name.
    """
    for number, name in enumerate(names):
        for both in refusals.first_both:
            # Under two configurations an event may be refused for two reasons.
            told = both if len(names) == 1 else (both[number],)
            for message in dict.fromkeys(remark.message for remark in told):
                click.echo(f"{_place(name, told[0])}: refused: {message}", err=True)
        if len(refusals.first_both) < refusals.both:
            click.echo(f"{name}: refused: … {refusals.both:,} in all on both sides", err=True)


def _place(name: str, remark: Remark) -> str:
    return f"{name}:{f'event {remark.index}' if remark.line is None else remark.line}"
