"""The group ``muster import``; each kind of dump is a command in a module of its own."""

from __future__ import annotations

import importlib
from typing import Final, final

import click
from typing_extensions import override

from muster.cli._options import example

_KINDS: Final = ("csv", "kubernetes", "slurm", "swf")


@final
class Kinds(click.Group):
    """The kinds of dumps."""

    @override
    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_KINDS)

    @override
    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _KINDS:
            return None
        command = importlib.import_module(f"muster.cli._import.{cmd_name}").command
        assert isinstance(command, click.Command)
        return command


@click.command(cls=Kinds, epilog=example("muster import swf trace.swf.gz -o feed.jsonl"))
def command() -> None:
    """Make a feed of the jobs of another system.

    The feed begins with a configuration and the nodes; then the jobs come as they came there. What
    cannot be in the feed is counted, with the reason.
    """
