from __future__ import annotations

from pathlib import Path

import attrs
import pytest

from muster.feeds import AT, OPS, Op
from muster.feeds._configuration import EventOrigin
from muster.feeds._fields import EXIT_FIELDS
from muster_core.gangs import GangFields

SPEC = {
    "configure": "config? file? partition?",
    "add_node": "node capacity attributes? schedulable? devices? lease?",
    "update_node": "node capacity? attributes? schedulable? devices?",
    "remove_node": "node",
    "add_app": "app queue? user? groups? tags?",
    "remove_app": "app",
    "add_ask": "app ask resources devices? priority? priority_class? count? gang? annotations? node?"
    " selector? run_for? estimate? retries? command? env? workdir?",
    "remove_ask": "app ask",
    "release": "app ask outcome? message? exit_status? signal? cpu_time? max_memory?",
    "add_gang": "gang min_member total? mode? wait_time? groups? topology? user?",
    "remove_gang": "gang",
    "add_priority_class": "name value preemption_policy?",
    "apply": "manifest",
    "delete": "manifest",
    "fail_bind": "app ask times?",
    "settle": "",
    "expect": "order? bound? waiting? pending? parked? placed? queues? apps? gangs? preempted?"
    " reclaimed? rejected? warnings? reasons? devices? reservations?",
}

ADDED = {"bind_failed": "app ask message?"}
"""What services record, and the contract does not name."""

OTHERWISE = {"add_ask": {"says", "timed_out", "work"}, "release": {"exited"}}
"""What events have that is made of several fields."""


def test_the_table_is_that_of_the_contract() -> None:
    found = {
        name: " ".join(field.name + "?" * (not field.required) for field in op.fields.values())
        for name, op in OPS.items()
    }

    assert found == SPEC | ADDED


@pytest.mark.parametrize("op", OPS.values(), ids=list(OPS))
def test_everything_is_described(op: Op) -> None:
    assert op.doc.endswith(".")
    assert all(field.doc and field.kind.name for field in [AT, *op.fields.values()])


@pytest.mark.parametrize("op", OPS.values(), ids=list(OPS))
def test_every_field_has_its_place_in_the_typed_event(op: Op) -> None:
    names = {field.attribute for field in op.fields.values()}
    if op.name in {"configure", "settle", "add_gang"}:
        return
    with attrs.validators.disabled():
        made = op.build(dict.fromkeys(names), EventOrigin(Path(), None))

    assert {attribute.name for attribute in attrs.fields(type(made))} == (
        names - {"annotations", "command", "env", "workdir", *EXIT_FIELDS}
    ) | OTHERWISE.get(op.name, set())


def test_what_defines_a_gang_has_its_place_in_the_typed_event() -> None:
    names = {field.attribute for field in OPS["add_gang"].fields.values()}

    assert {attribute.name for attribute in attrs.fields(GangFields)} == names - {"gang"}
