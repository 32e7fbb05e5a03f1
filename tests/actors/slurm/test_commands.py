"""The commands of Slurm, as they are run."""

from __future__ import annotations

import pytest

from muster.slurm._commands import SilentError, SlurmCommands, SlurmError

pytestmark = pytest.mark.usefixtures("watchdog")


async def test_the_names_of_files_may_be_no_text() -> None:
    printed = await SlurmCommands().run(("od", "-An", "-tx1"), "\udcff")
    assert printed.split() == ["ff"]


@pytest.mark.parametrize(("argument", "given"), [("", "\ud800"), ("\ud800", ""), ("\0", "")])
async def test_what_cannot_be_said_is_refused(argument: str, given: str) -> None:
    with pytest.raises(SlurmError, match="cat: ") as caught:
        await SlurmCommands().run(("cat", argument), given)
    assert not isinstance(caught.value, SilentError), "nothing was asked"
