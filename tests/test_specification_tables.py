"""The lists in the specification are those of the code."""

from __future__ import annotations

import re

import pytest

from docs.rules import PAGES, read_rules
from muster.feeds import OPS
from muster.feeds._annotations import MEMBER_KEYS
from muster.feeds._manifests import FORMS
from muster_core.config.loader import FILE_FIELDS, PARTITION_FIELDS
from muster_core.config.properties import PROPERTIES, resolve
from muster_core.config.queues import QUEUE_FIELDS
from muster_core.decisions import Kind, Reason
from muster_core.reasons import Code
from muster_core.values.priority import BUILT_IN_CLASSES

RULES = {rule.id: rule for rule in read_rules()}


def rows(rule: str) -> list[list[str]]:
    """Give the cells of the table of a rule, without its head."""
    lines = [line for line in RULES[rule].text.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines[2:]]


def quoted(text: str) -> list[str]:
    """Give what stands between backticks."""
    return re.findall(r"`([^`]+)`", text)


def first_column(rule: str) -> list[str]:
    return [name for row in rows(rule) for name in quoted(row[0])]


def test_operations() -> None:
    said = {op: quoted(row[1]) for row in rows("FEED-38") for op in quoted(row[0])}
    fields = {
        name: [known.name if known.required else f"{known.name}?" for known in op.fields.values()]
        for name, op in OPS.items()
    }

    assert list(said) == list(fields)
    assert said.pop("configure") == ["config", "file", "partition?"]
    assert said.pop("expect") == []
    assert said == {name: fields[name] for name in said}


def test_objects() -> None:
    said = RULES["OBJECT-1"].text

    assert [kind for kind in FORMS if kind not in said] == []
    assert sorted(first_column("OBJECT-16")) == sorted(
        key for key in MEMBER_KEYS if not key.endswith("/timeout")
    )


def test_properties() -> None:
    assert sorted(first_column("CONFIG-39")) == sorted(PROPERTIES)


@pytest.mark.parametrize("row", rows("CONFIG-39"), ids=first_column("CONFIG-39"))
def test_property_has_its_default(row: list[str]) -> None:
    [name], default = quoted(row[0]), quoted(row[2])
    if name == "queue.create":  # It has a rule of its own in place of one default.
        assert "#queue-28" in row[2]
        assert resolve({}, None).create is None
        return
    if name == "estimate.default":  # Nothing that can be written stands for its default.
        assert row[2] == "unknown"
        assert resolve({}, None).estimate_us is None
        return

    if name == "priority.limit":  # Likewise.
        assert row[2] == "none"
        assert resolve({}, None).priority_limit is None
        return

    assert resolve({name: default[0]}, None) == resolve({}, None)


def test_fields_of_a_configuration() -> None:
    assert set(quoted(RULES["CONFIG-1"].text)) >= {*FILE_FIELDS, *PARTITION_FIELDS}
    assert sorted(first_column("CONFIG-1")) == sorted(PARTITION_FIELDS)
    assert {"name", *first_column("CONFIG-2")} == set(QUEUE_FIELDS)


def test_classes() -> None:
    said = {quoted(name)[0]: int(value.replace(",", "")) for name, value, _ in rows("PRIORITY-6")}

    assert said == {known.name: known.value for known in BUILT_IN_CLASSES}


def test_kinds_of_decisions() -> None:
    assert sorted(first_column("DECISION-6")) == sorted(Kind)


def test_reasons_of_a_release() -> None:
    assert sorted(first_column("DECISION-7")) == sorted(Reason)


def test_reasons_of_pending_asks() -> None:
    assert quoted(RULES["REASON-2"].text) == list(Code)


@pytest.mark.parametrize("code", Code)
def test_a_code_of_a_reason_cites_rules(code: Code) -> None:
    page = (PAGES.parent / "reasons.md").read_text(encoding="utf-8")
    (row,) = [line for line in page.splitlines() if line.startswith(f"| `{code}` |")]

    assert code.rules
    assert set(code.rules) <= set(RULES)
    assert tuple(re.findall(r"\[([A-Z]+-[0-9]+)\]", row)) == code.rules
