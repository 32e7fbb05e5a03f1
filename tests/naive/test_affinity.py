"""The naive model's taints and affinities, written out by hand."""

from __future__ import annotations

import attrs

from muster_core.events import AddApp, UpdateNode
from muster_core.reasons import Code
from muster_core.values.affinity import Operator, Requirement, Taint, TaintEffect, Toleration
from tests.naive.harness import Story, asks, node
from tests.naive.test_reasons import codes, figures

HARD = Taint("k", TaintEffect.NO_EXECUTE, "v")
SOFT = Taint("k", TaintEffect.PREFER_NO_SCHEDULE, "v")
ZONE = Requirement("zone", Operator.IN, ("x",))


def new_story() -> Story:
    return Story(attrs.evolve(node("n", 9), taints=(HARD,)), AddApp("a", "root.q"))


def pending(made: Story) -> list[str]:
    return [ask.name for ask in made.model.world.pending()]


def test_a_taint_needs_a_toleration_and_a_change_evicts_nobody() -> None:
    made = new_story()
    tolerant = attrs.evolve(asks("t"), tolerations=(Toleration("k", value="v"),))
    made.play(asks("k"), tolerant)

    assert pending(made) == ["k"]
    assert codes(made, "k") == ["NeverFits", "NoNodeFits", "NodesTainted"]
    assert figures(made, "k", Code.NODES_TAINTED) == {"nodes": 1, "taints": {"k=v:NoExecute": 1}}
    made.play(UpdateNode("n", taints=(SOFT,)))
    assert not pending(made)
    made.play(UpdateNode("n", taints=(HARD,)), asks("l"))
    assert pending(made) == ["l"]


def test_one_term_must_match_and_an_empty_one_never_does() -> None:
    made = new_story()
    choosy = attrs.evolve(asks("c"), affinity=((), (ZONE,)))
    made.play(UpdateNode("n", taints=()), choosy, attrs.evolve(asks("e"), affinity=((),)))

    assert pending(made) == ["c", "e"]
    assert codes(made, "c")[:3] == ["NeverFits", "NoNodeFits", "AffinityMismatch"]
    made.play(UpdateNode("n", attributes={"zone": "x"}))
    assert pending(made) == ["e"]
