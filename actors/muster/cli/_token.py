"""``muster token``: make tokens for ``muster serve``."""

from __future__ import annotations

from pathlib import Path

import click

from muster.cli._options import UNUSABLE, complain, example
from muster.service.access.minting import append, mint
from muster.service.access.tokens import NOBODY, ROLES, TokensError, listed_groups, who_of


@click.group("token")
def command() -> None:
    """Make tokens for muster serve."""


@command.command(
    "new", epilog=example("muster token new ci --role submitter --user ci --tokens tokens")
)
@click.argument("name")
@click.option(
    "--role",
    type=click.Choice([*ROLES]),
    required=True,
    help="What its holder may do: read, submit as a user, or everything.",
)
@click.option("--user", metavar="USER", help="The user as whom a submitter submits.")
@click.option(
    "--groups", default=NOBODY, metavar="G1,G2", help="The groups of the user, with commas."
)
@click.option(
    "--tokens",
    "path",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Add it to this file, which is made if it is missing.",
)
@click.pass_context
def new(
    context: click.Context, name: str, role: str, user: str | None, groups: str, path: Path | None
) -> None:
    """Make a token, and print it once; the file has only its digest.

    A running server takes it after SIGHUP, or at once with --watch. Exit status: 0, or 2 if
    something is wrong.
    """
    try:
        who = who_of(name, role, user, listed_groups(groups))
        secret, token = mint(who)
        if path is None:
            complain(f"add this line to the file of tokens: {token.line()}")
        else:
            append(path, token)
    except (ValueError, TokensError) as error:
        complain(str(error))
        context.exit(UNUSABLE)
    click.echo(secret)
