"""``muster validate``: check configurations."""

from __future__ import annotations

from typing import final

import attrs
import click

from muster.cli._configurations import read_configuration_text, told_as_feed
from muster.cli._options import (
    DIFFERENT,
    FILE,
    UNUSABLE,
    Format,
    complain,
    example,
    format_option,
    name_of,
    print_json,
)
from muster.config_files import parse_configuration
from muster.figures.text import counted
from muster_core.config.model import Configuration, QueueConfig
from muster_core.errors import ConfigError, Problem


@final
@attrs.frozen
class Verdict:
    """The result for one file.

    Attributes:
        name: The name of the file.
        configuration: The configuration, or None if it is refused or cannot be read.
        problems: Why it is refused.
        unreadable: Why it cannot be read, or None.
        strict: Whether a warning counts like a problem.
    """

    name: str
    configuration: Configuration | None = None
    problems: tuple[Problem, ...] = ()
    unreadable: str | None = None
    strict: bool = attrs.field(default=False, kw_only=True)

    @property
    def status(self) -> int:
        """The exit status."""
        if self.unreadable is not None:
            return UNUSABLE
        return DIFFERENT if self.problems or (self.strict and self.warnings) else 0

    @property
    def warnings(self) -> tuple[Problem, ...]:
        """The warnings about a valid configuration."""
        return () if self.configuration is None else self.configuration.told


# COMMAND-3
@click.command("validate", epilog=example("muster validate queues.yaml"))
@click.argument("configs", nargs=-1, required=True, type=FILE, metavar="CONFIG...")
@click.option(
    "--partition",
    metavar="NAME",
    help="The partition to run. [default: `default`, or the only one]",
)
@click.option("--strict", is_flag=True, help="Fail on warnings, too.")
@format_option
@click.pass_context
def command(
    context: click.Context,
    configs: tuple[str, ...],
    *,
    partition: str | None,
    strict: bool,
    output: Format,
) -> None:
    """Check configurations in YuniKorn's `queues.yaml` form.

    Prints every problem and every warning with the line and the path of the field. `-` is
    standard input.

    Exit status: 0 if all are valid, 1 if one is refused (or has a warning, with --strict), 2 if
    one cannot be read.
    """
    verdicts = [_verdict(config, partition, strict=strict) for config in configs]
    status = max(verdict.status for verdict in verdicts)
    if output is Format.JSON:
        print_json({"ok": status == 0, "configs": [_as_map(verdict) for verdict in verdicts]})
    else:
        for verdict in verdicts:
            _print(verdict)
    context.exit(status)


def _verdict(config: str, partition: str | None, *, strict: bool) -> Verdict:
    name, text = name_of(config), None
    try:
        text = read_configuration_text(config)
        if text is None:
            return Verdict(name, unreadable="is closed")
        configuration = parse_configuration(text, file=name, partition=partition)
        return Verdict(name, configuration, strict=strict)
    except ConfigError as error:
        told = None if text is None else told_as_feed(name, text)
        return Verdict(name, problems=() if told else error.problems, unreadable=told)
    except OSError as error:
        return Verdict(name, unreadable=error.strerror or str(error))


def _print(verdict: Verdict) -> None:
    for problem in verdict.problems:
        click.echo(problem)
    for warning in verdict.warnings:
        click.echo(_as_warning(warning))
    if verdict.unreadable is not None:
        complain(f"{verdict.name}: {verdict.unreadable}")
    elif verdict.configuration is None:
        click.echo(f"{verdict.name}: refused ({counted(len(verdict.problems), 'problem')})")
    elif verdict.status:
        told = counted(len(verdict.warnings), "warning")
        click.echo(f"{verdict.name}: valid, but not without warnings ({told})")
    else:
        queues = counted(_queues(verdict.configuration.root), "queue")
        click.echo(f"{verdict.name}: ok (partition {verdict.configuration.partition}, {queues})")


def _as_warning(warning: Problem) -> str:
    place = ":".join(str(part) for part in (warning.file, warning.line) if part is not None)
    return ": ".join(part for part in (place, "warning", warning.path, warning.message) if part)


def _queues(queue: QueueConfig) -> int:
    return 1 + sum(_queues(child) for child in queue.children)


def _as_map(verdict: Verdict) -> dict[str, object]:
    configuration = verdict.configuration
    return {
        "config": verdict.name,
        "ok": verdict.status == 0,
        "partition": None if configuration is None else configuration.partition,
        "problems": [_problem_map(problem) for problem in verdict.problems],
        "warnings": [_problem_map(warning) for warning in verdict.warnings],
        "error": None
        if verdict.unreadable is None
        else {"file": verdict.name, "line": None, "message": verdict.unreadable},
    }


def _problem_map(problem: Problem) -> dict[str, object]:
    return {"line": problem.line, "path": problem.path, "message": problem.message}
