"""ACLs: how they are written, and whom they admit."""

from __future__ import annotations

import attrs
import pytest

from muster_core.config import admits, has_acl, load_configuration
from muster_core.config.model import Acl, Configuration, QueueConfig
from muster_core.config.users import parse_acl
from tests.core.building import from_python


@pytest.mark.parametrize(
    ("text", "acl"),
    [
        ("", None),
        ("  ", None),
        ("sue", Acl(users=frozenset({"sue"}))),
        ("sue,bob", Acl(users=frozenset({"sue", "bob"}))),
        ("sue dev,ops", Acl(users=frozenset({"sue"}), groups=frozenset({"dev", "ops"}))),
        ("sue   dev", Acl(users=frozenset({"sue"}), groups=frozenset({"dev"}))),
        (" dev", Acl(groups=frozenset({"dev"}))),
        ("sue ", Acl(users=frozenset({"sue"}))),
        ("*", Acl(everybody=True)),
        (" *", Acl(everybody=True)),
        ("sue *", Acl(everybody=True, users=frozenset({"sue"}))),
        ("* dev", Acl(everybody=True, groups=frozenset({"dev"}))),
    ],
)
def test_reading(text: str, acl: Acl | None) -> None:
    assert parse_acl(text) == acl


@pytest.mark.parametrize(
    "text", ["a b c", " a b", "a,,b", "a,", ",a", ",", "*,a", "a*", "a *,b", "a b,"]
)
def test_malformed(text: str) -> None:
    with pytest.raises(ValueError, match="is not an ACL"):
        parse_acl(text)


def path(*acls: str) -> list[QueueConfig]:
    """Give queues of which each has one ACL; even ones to submit, odd ones to administer."""
    queues: list[QueueConfig] = []
    for index, text in enumerate(acls):
        queue = QueueConfig(name=f"q{index}", path=f"root.q{index}", is_parent=True)
        acl = parse_acl(text)
        queues.append(
            attrs.evolve(queue, admin_acl=acl) if index % 2 else attrs.evolve(queue, submit_acl=acl)
        )
    return queues


@pytest.mark.parametrize(
    ("acls", "user", "groups", "admitted"),
    [
        (("sue",), "sue", (), True),
        (("sue",), "bob", (), False),
        (("sue",), "Sue", (), False),
        (("sue dev",), "bob", ("ops", "dev"), True),
        ((" sue",), "sue", (), False),
        (("", "sue"), "sue", (), True),
        (("bob", ""), "bob", (), True),
        (("", ""), "sue", (), False),
        (("*",), "anybody", (), True),
        (("*",), None, (), True),
        (("sue dev",), None, ("dev",), False),
        (("sue dev",), "", ("dev",), False),
        ((), "sue", (), False),
    ],
)
def test_admission(
    acls: tuple[str, ...], user: str | None, groups: tuple[str, ...], admitted: bool
) -> None:
    assert admits(path(*acls), user, groups, any_acl=True) is admitted


def test_everybody_is_admitted_where_no_queue_has_an_acl() -> None:
    assert admits(path(""), None, (), any_acl=False)


def configuration(**deepest: str) -> Configuration:
    queues = [{"name": "a", "queues": [{"name": "b", **deepest}]}]
    return load_configuration(from_python({"partitions": [{"queues": queues}]}))


def test_whether_a_configuration_has_an_acl() -> None:
    assert has_acl(configuration(submitacl="sue"))
    assert has_acl(configuration(adminacl="sue"))
    assert not has_acl(configuration(submitacl=" "))
    assert not has_acl(configuration())
