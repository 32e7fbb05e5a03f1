"""``muster validate``: check configurations."""

from __future__ import annotations

from typing import final

import attrs
import click

from muster.cli._options import (
    DIFFERENT,
    FILE,
    UNUSABLE,
    Format,
    complain,
    counted,
    example,
    format_option,
    name_of,
    print_json,
    read_configuration_text,
)
from muster.config_files import parse_configuration
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
    """

    name: str
    configuration: Configuration | None = None
    problems: tuple[Problem, ...] = ()
    unreadable: str | None = None

    @property
    def status(self) -> int:
        """The exit status."""
        if self.unreadable is not None:
            return UNUSABLE
        return DIFFERENT if self.problems else 0

    @property
    def warnings(self) -> tuple[str, ...]:
        """The warnings about a valid configuration."""
        return () if self.configuration is None else self.configuration.warnings


# COMMAND-3
@click.command("validate", epilog=example("muster validate queues.yaml"))
@click.argument("configs", nargs=-1, required=True, type=FILE, metavar="CONFIG...")
@click.option(
    "--partition",
    metavar="NAME",
    help="The partition to run. [default: `default`, or the only one]",
)
@format_option
@click.pass_context
def command(
    context: click.Context, configs: tuple[str, ...], partition: str | None, output: Format
) -> None:
    """Check configurations in YuniKorn's `queues.yaml` form.

    Prints every problem with the line and the path of the field, and all warnings. `-` is
    standard input.

    Exit status: 0 if all are valid, 1 if one is refused, 2 if one cannot be read.
    """
    verdicts = [_verdict(config, partition) for config in configs]
    status = max(verdict.status for verdict in verdicts)
    if output is Format.JSON:
        print_json({"ok": status == 0, "configs": [_as_map(verdict) for verdict in verdicts]})
    else:
        for verdict in verdicts:
            _print(verdict)
    context.exit(status)


def _verdict(config: str, partition: str | None) -> Verdict:
    name = name_of(config)
    try:
        text = read_configuration_text(config)
        if text is None:
            return Verdict(name, unreadable="is closed")
        return Verdict(name, parse_configuration(text, file=name, partition=partition))
    except ConfigError as error:
        return Verdict(name, problems=error.problems)
    except OSError as error:
        return Verdict(name, unreadable=error.strerror or str(error))


def _print(verdict: Verdict) -> None:
    for problem in verdict.problems:
        click.echo(problem)
    for warning in verdict.warnings:
        click.echo(f"{verdict.name}: warning: {warning}")
    if verdict.unreadable is not None:
        complain(f"{verdict.name}: {verdict.unreadable}")
    elif verdict.configuration is None:
        click.echo(f"{verdict.name}: refused ({counted(len(verdict.problems), 'problem')})")
    else:
        queues = counted(_queues(verdict.configuration.root), "queue")
        click.echo(f"{verdict.name}: ok (partition {verdict.configuration.partition}, {queues})")


def _queues(queue: QueueConfig) -> int:
    return 1 + sum(_queues(child) for child in queue.children)


def _as_map(verdict: Verdict) -> dict[str, object]:
    configuration = verdict.configuration
    return {
        "config": verdict.name,
        "ok": verdict.status == 0,
        "partition": None if configuration is None else configuration.partition,
        "problems": [
            {"line": problem.line, "path": problem.path, "message": problem.message}
            for problem in verdict.problems
        ],
        "warnings": list(verdict.warnings),
        "error": None
        if verdict.unreadable is None
        else {"file": verdict.name, "line": None, "message": verdict.unreadable},
    }
