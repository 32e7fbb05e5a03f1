"""The command line of the fuzzer: its options and its output."""

from __future__ import annotations

import importlib
import json
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, cast

import click
import yaml

import muster
from muster.testing.fuzz._determinism import UnknownTrioError
from muster.testing.fuzz._generator import DrawnBytes, FixedParts
from muster.testing.fuzz._run import loaded
from muster.testing.fuzz._session import PROGRAMS, Finding, MissingHypothesisError, Session, Tally
from muster_core.errors import ConfigError

FOUND: Final = 1
"""The exit status if a fault was found."""

UNUSABLE: Final = 2
"""The exit status if the arguments are invalid."""


@click.command(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.option(
    "--seed", type=click.IntRange(0), default=0, show_default=True, help="The first seed."
)
@click.option(
    "--programs",
    type=click.IntRange(1),
    default=PROGRAMS,
    show_default=True,
    help="How many programs to generate from each seed.",
)
@click.option(
    "--time",
    "seconds",
    type=click.FloatRange(0),
    help="Continue with the next seeds for this many seconds.",
)
@click.option("--replay", "token", metavar="TEXT", help="Run the program of a finding.")
@click.option(
    "--config",
    "file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Open every scheduler with this queues.yaml.",
)
@click.option(
    "--binder",
    "maker",
    metavar="MODULE:FACTORY",
    help="Use the binders that FACTORY makes, one for each program.",
)
@click.option("--shrink/--no-shrink", default=True, help="Shrink a program that finds a fault.")
@click.option(
    "--format",
    "output",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="Text for people, or one JSON object for programs.",
)
def command(
    *,
    seed: int,
    programs: int,
    seconds: float | None,
    token: str | None,
    file: Path | None,
    maker: str | None,
    shrink: bool,
    output: str,
) -> None:
    """Run random programs of many clients against a scheduler, in random orders of tasks.

    Exit status: 0 if no fault was found, 1 if one was found, 2 if the arguments are invalid.

    \b
    Example:
      python -m muster.testing.fuzz --seed 7 --time 60 --config queues.yaml
    """  # noqa: D301 - click wants a backspace there
    given = FixedParts(_config(file), binder=maker is not None)
    session = Session(given=given, binder=_maker(maker), shrink=shrink)
    tally = Tally()
    try:
        if token is not None:
            finding = session.replay(_checked(token))
        else:
            finding = _search(session, seed, programs, seconds, tally, quiet=output == "json")
    except (MissingHypothesisError, UnknownTrioError) as error:
        click.echo(str(error), err=True)
        sys.exit(UNUSABLE)
    options = _options(file, maker)
    if output == "json":
        click.echo(json.dumps(_as_map(finding, tally, options)))
    elif finding is not None:
        _print_finding(finding, options, programs)
    elif token is not None:
        click.echo("nothing found")
    if finding is not None:
        sys.exit(FOUND)


def _search(
    session: Session, seed: int, programs: int, seconds: float | None, tally: Tally, *, quiet: bool
) -> Finding | None:
    until = None if seconds is None else time.monotonic() + seconds
    while True:
        of_seed = Tally()
        finding = session.search(seed, programs, of_seed)
        if not quiet:
            click.echo(f"seed {seed}: {summary(of_seed)}{'' if finding else ': nothing found'}")
        _add(tally, of_seed)
        if finding is not None or until is None or time.monotonic() >= until:
            return finding
        seed += 1


def _add(tally: Tally, more: Tally) -> None:
    tally.programs += more.programs
    tally.calls.update(more.calls)
    tally.decisions += more.decisions
    tally.steps += more.steps
    tally.orders |= more.orders
    tally.cancelled += more.cancelled
    tally.jumps += more.jumps


def summary(tally: Tally) -> str:
    """Return one line that says how much was done."""
    return (
        f"{tally.programs:,} programs, {tally.calls.total():,} calls, "
        f"{tally.decisions:,} decisions, {tally.steps:,} task steps, "
        f"{len(tally.orders):,} orders of them, {tally.cancelled:,} cancellations in the middle"
    )


def _checked(token: str) -> str:
    try:
        DrawnBytes.of_token(token)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--replay") from error
    return token


def _config(file: Path | None) -> Mapping[str, Any] | None:
    if file is None:
        return None
    try:
        # All scalars stay texts: the scheduler itself interprets `off` or `010`.
        config: object = yaml.load(file.read_text(encoding="utf-8"), Loader=yaml.BaseLoader)
        if not isinstance(config, Mapping):
            msg = f"{file} is no configuration: it holds no map"
            raise click.BadParameter(msg, param_hint="--config")
        made = cast("Mapping[str, Any]", config)
        loaded(made)
    except (OSError, UnicodeDecodeError, yaml.YAMLError, ConfigError) as error:
        raise click.BadParameter(str(error), param_hint="--config") from error
    return made


def _maker(name: str | None) -> Callable[[], muster.Binder] | None:
    if name is None:
        return None
    module, _, attribute = name.partition(":")
    sys.path.insert(0, "")  # As `python -m` does, so that modules of the working folder are found.
    try:
        found = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError, ValueError) as error:
        raise click.BadParameter(str(error), param_hint="--binder") from error
    if not callable(found):
        msg = f"{name!r} cannot be called to make a binder"
        raise click.BadParameter(msg, param_hint="--binder")
    return cast("Callable[[], muster.Binder]", found)


def _options(file: Path | None, maker: str | None) -> str:
    options = "" if file is None else f" --config {file}"
    return options + ("" if maker is None else f" --binder {maker}")


def replay_command(finding: Finding, options: str = "") -> str:
    """Return the command that runs the program of a finding again."""
    return f"python -m muster.testing.fuzz --replay {finding.token}{options}"


def _print_finding(finding: Finding, options: str, programs: int) -> None:
    click.echo(f"\nfound by program {finding.first}:\n")
    click.echo("\n".join(finding.outcome.faults))
    click.echo(f"\nthe program:\n\n{finding.outcome.program}")
    click.echo("\nthe calls and their answers:\n")
    click.echo("\n".join(finding.outcome.transcript))
    click.echo(f"\nto run this program again:\n  {replay_command(finding, options)}")
    if finding.seed is not None:
        again = f"--seed {finding.seed} --programs {programs}{options}"
        click.echo(f"to find it again:\n  python -m muster.testing.fuzz {again}")


def _as_map(finding: Finding | None, tally: Tally, options: str) -> dict[str, object]:
    outcome: dict[str, object] = {
        "programs": tally.programs,
        "calls": dict(sorted(tally.calls.items())),
        "decisions": tally.decisions,
        "steps": tally.steps,
        "orders": len(tally.orders),
        "cancelled": tally.cancelled,
        "finding": None,
    }
    if finding is not None:
        outcome["finding"] = {
            "seed": finding.seed,
            "program": str(finding.outcome.program).splitlines(),
            "faults": finding.outcome.faults,
            "transcript": finding.outcome.transcript,
            "replay": replay_command(finding, options),
        }
    return outcome
