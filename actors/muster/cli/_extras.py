"""Packages that only some commands need, and that need not be there."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import final

import click

from muster.cli._options import UNUSABLE


@final
class MissingPackageError(click.ClickException):
    """A package is missing that a command needs."""

    exit_code = UNUSABLE


# ACCESS-22
@contextmanager
def needing(extra: str) -> Generator[None]:
    """Import what an extra installs, or say how to install it.

    Args:
        extra: The name of the extra.

    Raises:
        MissingPackageError: If a package is missing.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        if missing in {"", "muster", "muster_core"}:
            raise
        told = f"the package {missing} is missing: pip install '.[{extra}]' in a checkout of Muster"
        raise MissingPackageError(told) from None
