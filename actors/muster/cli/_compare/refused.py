"""The refused events as text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import click

from muster.compare import Refusals
from muster.figures.text import counted
from muster.replay import Remark


def words_of_refused(
    refusals: Refusals,
    names: tuple[str, str],
    letters: tuple[str, str] = ("A", "B"),
    *,
    listed: bool = True,
) -> Iterator[str]:
    """Yield a paragraph for each side with the events that only this side refuses.

    Args:
        refusals: The refused events.
        names: The names of the feeds or logs of both sides.
        letters: The letters of both sides.
        listed: Whether to list the first events, or only to count them.
    """
    for side, number, ends, first, name in (
        (letters[0], refusals.only_a, refusals.ends_a, refusals.first_a, names[0]),
        (letters[1], refusals.only_b, refusals.ends_b, refusals.first_b, names[1]),
    ):
        if number and not listed:
            yield f"Only {side} refuses {counted(number, 'event')}.\n"
        elif number:
            told = [f"   {_place(name, remark)}: {remark.message}" for remark in first]
            more = [f"   … and {number - len(first):,} more"] if len(first) < number else []
            head = f"Only {side} refuses {counted(number, 'event')}:"
            yield "\n".join([head, "", *told, *more]) + "\n"
        if ends:
            asks = "ends an ask that is" if ends == 1 else "end asks that are"
            yield (
                f"{ends:,} of these {asks} not bound in {side} at that time. What gets a node "
                f"later keeps it.\n"
            )


def tell_refused(refusals: Refusals, names: Sequence[str]) -> None:
    """Print the events that both sides refuse to standard error.

    Args:
        refusals: The refused events.
        names: The names of the feeds or logs: one name if both sides have the same feed.
    """
    for number, name in enumerate(names):
        for both in refusals.first_both:
            # With two configurations, an event may be refused for two reasons.
            told = both if len(names) == 1 else (both[number],)
            for message in dict.fromkeys(remark.message for remark in told):
                click.echo(f"{_place(name, told[0])}: refused: {message}", err=True)
        if len(refusals.first_both) < refusals.both:
            click.echo(f"{name}: refused: … {refusals.both:,} in all on both sides", err=True)


def _place(name: str, remark: Remark) -> str:
    return f"{name}:{f'event {remark.index}' if remark.line is None else remark.line}"
