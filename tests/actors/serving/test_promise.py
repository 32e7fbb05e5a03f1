"""The commands that ask a server exit, and print JSON, as ``docs/compatibility.md`` promises."""

from __future__ import annotations

from tests.compatibility.facts import differences
from tests.compatibility.promised import clients, kept_facts


def test_what_commands_say_of_a_server_is_as_it_was() -> None:
    wrong, _ = differences(kept_facts("clients"), clients())

    assert not wrong, "\n".join(wrong)
