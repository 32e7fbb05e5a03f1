"""The summary of a replay, for people and for programs."""

from __future__ import annotations

import attrs
import click

from muster.replay import Summary


def as_map(summary: Summary, *, interrupted: bool) -> dict[str, object]:
    """Give a summary as JSON knows it."""
    return {
        **attrs.asdict(summary),
        "decisions_per_s": summary.decisions_per_s,
        "interrupted": interrupted,
    }


def print_summary(summary: Summary, *, interrupted: bool, err: bool) -> None:
    """Write a summary for people."""
    click.echo(str(as_map(summary, interrupted=interrupted)), err=err)
