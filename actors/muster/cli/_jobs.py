"""Jobs: one command each, with the options that say what it needs (CLIENT-11, CLIENT-12)."""

from __future__ import annotations

import getpass
import os
import re
import secrets
import shlex
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar, final

import attrs
import click
from click.core import ParameterSource

from muster._runtime.clock import WallClock
from muster.cli._server import CommandError, NameCompletion
from muster.feeds import date_text, is_like_date, parse_date
from muster_core.errors import QuantityError
from muster_core.values.resources import parse_duration

if TYPE_CHECKING:
    from muster.client import Server


Function = TypeVar("Function", bound=Callable[..., Any])

ASK: Final = "job"
"""The name of the ask of a job; with ``--count`` it is ``job-0``, ``job-1``, …."""

_MARK: Final = "#MUSTER"
"""The prefix of the lines of a script that have options."""

_TAKES_TEXT: Final = {
    **dict.fromkeys(("sh", "bash", "dash", "ash", "ksh", "zsh", "fish", "python", "pypy"), "-c"),
    **dict.fromkeys(("perl", "ruby", "node", "julia", "Rscript", "lua"), "-e"),
}
"""The option with which an interpreter takes a program as an argument."""

_LETTERS: Final = "abcdefghijkmnpqrstuvwxyz23456789"
"""The characters of the suffix of a generated name: none is easily taken for another."""


def _pair(
    _context: click.Context, parameter: click.Parameter, written: Sequence[str]
) -> Mapping[str, str]:
    pairs: dict[str, str] = {}
    for one in written:
        name, equals, value = one.partition("=")
        if not name or not equals:
            msg = f"{one!r}: write {parameter.metavar}"
            raise click.BadParameter(msg)
        pairs[name] = value
    return pairs


def _environment(
    _context: click.Context, _parameter: click.Parameter, written: Sequence[str]
) -> Mapping[str, str]:
    env: dict[str, str] = {}
    for one in written:
        name, equals, value = one.partition("=")
        if not equals and name not in os.environ:
            msg = f"{name!r} is not set: write NAME=VALUE"
            raise click.BadParameter(msg)
        env[name] = value if equals else os.environ[name]
    return env


def _instant(
    _context: click.Context, _parameter: click.Parameter, written: str | None
) -> str | None:
    """Return an instant as a date; a duration counts from now."""
    if written is None:
        return None
    try:
        if is_like_date(written):
            return date_text(parse_date(written))
        return date_text(WallClock.now_us() + parse_duration(written))
    except (QuantityError, ValueError) as error:
        raise click.BadParameter(str(error)) from None


def _duration(
    _context: click.Context, _parameter: click.Parameter, written: str | None
) -> str | None:
    if written is not None:
        try:
            parse_duration(written)
        except QuantityError as error:
            raise click.BadParameter(str(error)) from None
    return written


# CLIENT-11
_OPTIONS: Final = (
    click.option(
        "--queue",
        "-q",
        envvar="MUSTER_QUEUE",
        shell_complete=NameCompletion.of("queues"),
        help="The queue. Also MUSTER_QUEUE. [default: the only one, or root.default]",
    ),
    click.option("--cpus", "-c", metavar="N", help="How many CPUs: `vcore`. [default: 1]"),
    click.option("--memory", "-m", metavar="AMOUNT", help="How much memory, such as 4Gi."),
    click.option(
        "--gpus",
        "-g",
        type=click.IntRange(1),
        metavar="N",
        help="How many GPUs: of the type that the nodes have, `gpu` or one that ends with `/gpu`.",
    ),
    click.option(
        "--resource",
        "-r",
        "resources",
        multiple=True,
        metavar="TYPE=AMOUNT",
        callback=_pair,
        help="How much of any other type; may be repeated.",
    ),
    click.option("--name", "-n", help="The name of the application. [default: a new one]"),
    click.option(
        "--user",
        metavar="NAME",
        help="Whose it is. [default: the user of the token; without a token, who you are]",
    ),
    click.option(
        "--count", type=click.IntRange(1), metavar="N", help="Run it so many times, each as an ask."
    ),
    click.option("--priority", type=int, metavar="N", help="Its priority. [default: 0]"),
    click.option(
        "--priority-class", metavar="NAME", help="The class that its priority comes from."
    ),
    click.option("--gang", metavar="NAME", help="The gang whose members its asks are."),
    click.option(
        "--min-member",
        type=click.IntRange(1),
        metavar="N",
        help="Define the gang: none of it starts before so many members can.",
    ),
    click.option(
        "--retries", type=click.IntRange(0), metavar="N", help="Try it again so often if it fails."
    ),
    click.option(
        "--once", is_flag=True, default=None, help="Do not start it again if it loses its node."
    ),
    click.option(
        "--run-for",
        metavar="DURATION",
        callback=_duration,
        help="End it after so long, such as 2h.",
    ),
    click.option(
        "--run-limit",
        metavar="DURATION",
        callback=_duration,
        help="End it if it takes longer, such as 2h; then it has not completed.",
    ),
    click.option(
        "--start-by",
        metavar="DURATION|DATE",
        callback=_instant,
        help="Drop it if it has not started so long after now, such as 30m, or at a date, such as "
        "2026-01-31T18:30:00Z.",
    ),
    click.option(
        "--env",
        "-e",
        multiple=True,
        metavar="NAME[=VALUE]",
        callback=_environment,
        help="A variable of its environment; without a value, as it is here. May be repeated.",
    ),
    click.option(
        "--workdir",
        type=click.Path(),
        metavar="DIR",
        help="Its working folder. [default: the present one]",
    ),
    click.option(
        "--wait/--no-wait", default=None, help="Wait until it has ended, and exit as it did."
    ),
    click.option("--follow/--no-follow", default=None, help="Wait, and show what it writes."),
)


def job_options(function: Function) -> Function:
    """Add the options of a job to a command."""
    for option in reversed(_OPTIONS):
        function = option(function)
    return function


@job_options
def _nothing(**_options: object) -> None:
    """Take the options in a script."""


_IN_SCRIPTS: Final = click.Command(
    _MARK, params=click.command()(_nothing).params, add_help_option=False
)

OPTIONS: Final = frozenset(str(option.name) for option in _IN_SCRIPTS.params)
"""The names of the options of a job, as arguments of a function."""


@final
@attrs.frozen
class Program:
    """The program of a job.

    Attributes:
        command: A program with its arguments, or a text for the shell.
        name: What it is called in a new name.
    """

    command: Sequence[str] | str
    name: str


def program_of(words: Sequence[str]) -> Program:
    """Return the program with its arguments."""
    first, second = Path(words[0]), words[1] if len(words) > 1 else "-"
    is_run_by_first = _bare(first) in _TAKES_TEXT and not second.startswith("-")
    return Program(tuple(words), Path(second).stem if is_run_by_first else first.stem)


def shell_program(text: str) -> Program:
    """Return the program that a shell runs from a text."""
    try:
        words = shlex.split(text)
    except ValueError:  # the shell may know better
        words = []
    return Program(text, program_of(words).name if words else ASK)


def _bare(program: Path) -> str:
    """Return the name of a program without a version behind it."""
    return program.name.rstrip("0123456789.")


# CLIENT-12
@final
@attrs.frozen
class JobScript:
    """A script: a file whose first line names its interpreter.

    Attributes:
        file: Its name.
        text: Its content.
    """

    file: str
    text: str

    @classmethod
    def read(cls, file: str) -> JobScript | None:
        """Return the script in a file; None if it is none.

        Raises:
            Unusable: If it is one and no text.
        """
        path = Path(file)
        try:
            with path.open("rb") as opened:
                if not path.is_file() or opened.read(2) != b"#!":
                    return None
            return cls(file, path.read_text(encoding="utf-8"))
        except UnicodeDecodeError:
            msg = f"{file}: is no text in UTF-8"
            raise CommandError(msg) from None
        except OSError:
            return None  # the reader of feeds reports the error

    def program(self, arguments: Sequence[str]) -> Program:
        """Return the program that runs it.

        Raises:
            Unusable: If its first line names no interpreter.
        """
        words = self.text.partition("\n")[0].removeprefix("#!").split()
        # `env` may have options before the program.
        names = [word for word in words if not word.startswith("-")]
        by_env = bool(names) and Path(names[0]).name == "env"
        runner = _bare(Path(names[1 if by_env and len(names) > 1 else 0])) if names else ""
        option = _TAKES_TEXT.get(runner)
        if option is None:
            known = ", ".join(_TAKES_TEXT)
            msg = (
                f"{self.file}:1: {runner or '#!'!r} is none of {known}: "
                f"write muster submit --command {self.file}"
            )
            raise CommandError(msg)
        # A shell has the name of the script in $0; others count arguments from the first one.
        zeroth = [self.file] if option == "-c" and runner not in {"python", "pypy", "fish"} else []
        command = (*words, option, self.text, *zeroth, *arguments)
        return Program(command, Path(self.file).stem)

    def options(self, given: click.Context) -> dict[str, Any]:
        """Return the options of a job: those of the command line, else those in the script.

        Args:
            given: The context of the command line.

        Raises:
            Unusable: If a line has an option that there is not.
        """
        found = {name: given.params[name] for name in OPTIONS}
        for number, line in enumerate(self.text.splitlines(), 1):
            if line.strip() and not line.startswith("#"):
                break  # the program begins
            if not line.startswith(_MARK):
                continue
            try:
                words = shlex.split(line.removeprefix(_MARK), comments=True)
                within = _IN_SCRIPTS.make_context(_MARK, words, resilient_parsing=False)
            except (click.UsageError, ValueError) as error:
                message = error.format_message() if isinstance(error, click.UsageError) else error
                msg = f"{self.file}:{number}: {_MARK}: {message}"
                raise CommandError(msg) from None
            for name, value in within.params.items():
                if within.get_parameter_source(name) is not ParameterSource.COMMANDLINE:
                    continue
                if isinstance(value, dict):
                    found[name] = {**value, **found[name]}
                elif given.get_parameter_source(name) is not ParameterSource.COMMANDLINE:
                    found[name] = value
        return found


# CLIENT-11
@final
@attrs.frozen
class CommandJob:
    """A command, and what it needs.

    Attributes:
        program: What it runs.
        app: The name of its application.
        options: The options, by the names of their arguments.
        user: Its user, or None.
    """

    program: Program
    app: str
    options: Mapping[str, Any]
    user: str | None

    @property
    def queue(self) -> str | None:
        """The queue that is named, or None."""
        queue: str | None = self.options["queue"]
        return queue

    @property
    def run_for_us(self) -> int | None:
        """After how many microseconds its command is ended, or None."""
        written: str | None = self.options["run_for"]
        return None if written is None else parse_duration(written)

    def events(self, server: Server, queue: str | None) -> list[dict[str, object]]:
        """Return the events that submit it.

        Args:
            server: Knows how its nodes name GPUs.
            queue: The queue, or None if placement rules choose one.

        Raises:
            ServerError: If the server does not answer.
            Unusable: If no node has GPUs.
        """
        given = self.options
        app: dict[str, object] = {"op": "add_app", "app": self.app}
        ask: dict[str, object] = {
            "op": "add_ask",
            "app": self.app,
            "ask": ASK,
            "command": self.program.command,
            # As if it were started here.
            "env": {"PATH": os.environ.get("PATH", os.defpath), **given["env"]},
            "workdir": str(Path(given["workdir"] or ".").absolute()),
        }
        more = {name: given[name] for name in _FIELDS if given[name] is not None}
        if queue is not None:
            app["queue"] = queue
        if self.user is not None:
            app["user"] = self.user
        amounts = {"vcore": given["cpus"] or "1"}
        if given["memory"] is not None:
            amounts["memory"] = given["memory"]
        if given["gpus"] is not None:
            kind, is_device = _gpus_of(server)
            if is_device:
                ask["devices"] = {kind: given["gpus"]}
            else:
                amounts[kind] = str(given["gpus"])
        ask["resources"] = {**amounts, **given["resources"]}
        gang: list[dict[str, object]] = []
        if given["min_member"] is not None:
            gang.append(
                {"op": "add_gang", "gang": given["gang"], "min_member": given["min_member"]}
            )
        return [app, *gang, {**ask, **more}]


_FIELDS: Final = (
    "count",
    "priority",
    "priority_class",
    "gang",
    "retries",
    "once",
    "run_for",
    "run_limit",
    "start_by",
)
"""The options that are fields of an ask of the same name."""


def job_of(program: Program, options: Mapping[str, Any], *, has_token: bool) -> CommandJob:
    """Return a job.

    Args:
        program: What it runs.
        options: The options, by the names of their arguments.
        has_token: Whether a token says who the user is.

    Raises:
        Unusable: If an option needs another one.
    """
    if options["min_member"] is not None and options["gang"] is None:
        msg = "--min-member: name the gang with --gang"
        raise CommandError(msg)
    user: str | None = options["user"]
    if user is None and not has_token:
        try:
            user = getpass.getuser()
        except (KeyError, OSError):
            user = None  # this number has no name here
    return CommandJob(program, options["name"] or _new_name(program.name), options, user)


def _new_name(word: str) -> str:
    """Return a new name."""
    end = "".join(secrets.choice(_LETTERS) for _ in range(6))
    return f"{re.sub('[^A-Za-z0-9_.-]+', '-', word)[:40].strip('-.') or ASK}-{end}"


def _gpus_of(server: Server) -> tuple[str, bool]:
    """Return how nodes name GPUs, and whether they are devices."""
    found: dict[str, bool] = {}
    for node in server.get("nodes", limit=1000)["items"]:
        kinds = [(kind, True) for kind in node["devices"]]
        kinds += [(kind, False) for kind in node["capacity"]]
        for kind, is_device in kinds:
            if kind == "gpu" or kind.endswith("/gpu"):
                found.setdefault(kind, is_device)
    if len(found) != 1:
        kinds_text = f"nodes have {' and '.join(found)}" if found else "no node has GPUs"
        msg = f"--gpus: {kinds_text}: name their type with --resource TYPE=AMOUNT"
        raise CommandError(msg)
    return next(iter(found.items()))
