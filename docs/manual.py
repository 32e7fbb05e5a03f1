"""Writes the manual page of ``muster`` from its commands: what ``--help`` says, for ``man``."""

from __future__ import annotations

import re
from collections.abc import Iterator
from inspect import cleandoc

import click

from muster._version import __version__
from muster.cli._main import muster

__all__ = ["page"]

CODE = re.compile(r"`([^`\n]+)`")
UNTOUCHED = "\b"
"""The line with which click begins a paragraph that it does not fill."""

STATUSES = {
    "0": "No problem was found.",
    "1": "A difference or a refusal was found.",
    "2": "The arguments, a file or the server cannot be used.",
    "130": "Ctrl-C ended it. `muster run` ends as the command that it ran.",
}
ENVIRONMENT = {
    "MUSTER_SERVER": "The server that is asked, unless --server names one.",
    "MUSTER_TOKEN": "The token that is sent, unless --token-file names a file.",
    "MUSTER_CACERT": "As --cacert.",
    "MUSTER_QUEUE": "The queue of what is submitted, unless --queue names one.",
    "MUSTER_PURE": "If it is set, the Python runs even where the core is compiled.",
    "NO_COLOR": "If it is set, nothing is coloured.",
}
FILES = {
    "/etc/muster/queues.yaml": "The configuration, where `muster.service` runs the service.",
    "/etc/muster/tokens": "The digests of the tokens there.",
    "/var/lib/muster/state": "Its state.",
}


def escaped(text: str) -> str:
    """Return a line of text as roff has it."""
    text = text.replace("\\", "\\e").replace("-", "\\-").replace("'", "\\(aq")
    text = CODE.sub(r"\\fB\1\\fR", text)
    text = "".join(one if one.isascii() else f"\\[u{ord(one):04X}]" for one in text)
    return f"\\&{text}" if text.startswith((".", "'")) else text


def filled(text: str) -> Iterator[str]:
    """Yield a text whose paragraphs are filled, but for those that click does not fill."""
    for part in re.split(r"\n\s*\n", cleandoc(text)):
        lines = part.split("\n")
        yield ".PP"
        if lines[0].strip() == UNTOUCHED:
            yield from (".nf", *map(escaped, lines[1:]), ".fi")
        else:
            yield from (escaped(line.strip()) for line in lines)


def listed(terms: dict[str, str]) -> Iterator[str]:
    """Yield a list of terms with their meanings."""
    for term, meaning in terms.items():
        yield from (".TP", f"\\fB{escaped(term)}\\fR", escaped(" ".join(meaning.split())))


def section(command: click.Command, name: str, parent: click.Context | None) -> Iterator[str]:
    """Yield the section of a command, and those of the commands below it."""
    context = click.Context(command, info_name=name, parent=parent, **command.context_settings)
    usage = " ".join([context.command_path, *command.collect_usage_pieces(context)])
    if parent is not None:
        yield f'.SS "{escaped(usage)}"'
        yield from filled(command.help or "")
    records = [parameter.get_help_record(context) for parameter in command.get_params(context)]
    yield from listed(dict(one for one in records if one is not None and one[1]))
    if parent is not None and command.epilog:
        yield from filled(command.epilog)
    if isinstance(command, click.Group):
        if parent is None:
            yield ".SH COMMANDS"
        for one in command.list_commands(context):
            found = command.get_command(context, one)
            assert found is not None
            yield from section(found, one, context)


def page() -> str:
    """Return the manual page of all commands."""
    about = (muster.help or "").rstrip(".")
    lines = [
        f'.TH MUSTER 1 "" "Muster {__version__}" "User Commands"',
        *(".SH NAME", escaped(f"muster - {about[0].lower()}{about[1:]}")),
        *(".SH SYNOPSIS", escaped("muster [OPTIONS] COMMAND [ARGS]...")),
        *(".SH OPTIONS", *section(muster, "muster", None)),
        *(".SH EXIT STATUS", *listed(STATUSES)),
        *(".SH ENVIRONMENT", *listed(ENVIRONMENT)),
        *(".SH FILES", *listed(FILES)),
    ]
    return "".join(f"{line}\n" for line in lines)
