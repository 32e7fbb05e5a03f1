"""What concerns several queues, compared with CONFIG-28 to CONFIG-32 taken literally."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, strategies as st

from muster_core.config import load_configuration
from muster_core.errors import ConfigError
from tests.core.building import from_python

AMOUNTS = st.dictionaries(st.sampled_from(["a", "b"]), st.integers(0, 4))
LEAVES = st.fixed_dictionaries(
    {"guaranteed": AMOUNTS, "max": AMOUNTS, "apps": st.integers(0, 3), "below": st.just([])}
)


def parents(below: st.SearchStrategy[dict[str, Any]]) -> st.SearchStrategy[dict[str, Any]]:
    """Draw a queue with other queues below it."""
    return st.fixed_dictionaries(
        {
            "guaranteed": AMOUNTS,
            "max": AMOUNTS,
            "apps": st.integers(0, 3),
            "below": st.lists(below, max_size=3),
        }
    )


TREES = st.recursive(LEAVES, parents, max_leaves=6)


def written(queue: dict[str, Any], name: str = "q") -> dict[str, Any]:
    """Write a drawn queue as a configuration has it."""
    return {
        "name": name,
        "resources": {"guaranteed": queue["guaranteed"], "max": queue["max"]},
        "maxapplications": queue["apps"],
        "queues": [written(child, f"q{index}") for index, child in enumerate(queue["below"])],
    }


def counts_with(queue: dict[str, Any], name: str) -> int:
    """Give the ``guaranteed`` with which a queue counts."""
    total: int = sum(counts_with(child, name) for child in queue["below"])
    return queue["guaranteed"].get(name, 0) or total


def is_fine(queue: dict[str, Any], above: dict[str, int], apps: int) -> bool:
    """Say whether nothing below contradicts anything: each sentence as it stands."""
    most = {**above, **queue["max"]}  # smaller where it is fine: checked next
    if any(amount > above.get(name, amount) for name, amount in queue["max"].items()):
        return False
    if apps and (queue["apps"] == 0 or queue["apps"] > apps):
        return False
    for name in ("a", "b"):
        own = queue["guaranteed"].get(name, 0)
        total = sum(counts_with(child, name) for child in queue["below"])
        if own and total > own:
            return False
        if name in most and (total > most[name] or counts_with(queue, name) > most[name]):
            return False
    return all(is_fine(child, most, queue["apps"]) for child in queue["below"])


@given(TREES)
def test_a_tree_is_refused_exactly_if_a_sentence_is_broken(queue: dict[str, Any]) -> None:
    document = from_python({"partitions": [{"queues": [written(queue)]}]})
    try:
        load_configuration(document)
    except ConfigError:
        assert not is_fine(queue, {}, 0)
    else:
        assert is_fine(queue, {}, 0)


def test_sums_have_no_limit() -> None:
    most = 2**63 - 1
    queues = [{"name": name, "resources": {"guaranteed": {"pods": most}}} for name in "ab"]

    load_configuration(from_python({"partitions": [{"queues": queues}]}))
    parent = {"name": "p", "queues": queues, "resources": {"max": {"pods": most}}}
    with pytest.raises(ConfigError, match="18446744073709551614 together, is over max"):
        load_configuration(from_python({"partitions": [{"queues": [parent]}]}))
