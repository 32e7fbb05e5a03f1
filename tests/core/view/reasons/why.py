"""What the tests of reasons share: asking why, and checking that nothing changes by it."""

from __future__ import annotations

from collections.abc import Mapping

from muster_core.reasons import Code, Explanation, Fact
from tests.core.tree import Tree


def explain(here: Tree, ask: str = "p/x", at_us: int | None = None) -> Explanation:
    """Explain an ask that is not bound; the scheduler is as it was afterwards."""
    here.check()
    found = explained(here, ask, at_us)
    here.check()
    assert found is not None, f"{ask} is bound or unknown"
    return found


def explained(here: Tree, ask: str = "p/x", at_us: int | None = None) -> Explanation | None:
    app, _, name = ask.partition("/")
    return here.machine.explain(app, name, at_us)


def why(here: Tree, ask: str = "p/x", at_us: int | None = None) -> str:
    """Give the dominant reason of an ask."""
    return str(explain(here, ask, at_us))


def codes(here: Tree, ask: str = "p/x", at_us: int | None = None) -> list[Code]:
    """Give the codes that hold of an ask, the dominant one first."""
    return [reason.code for reason in explain(here, ask, at_us).reasons]


def said(here: Tree, code: Code, ask: str = "p/x", at_us: int | None = None) -> str:
    """Give what is said with a code, of which there is one."""
    (message,) = (one.message for one in explain(here, ask, at_us).reasons if one.code is code)
    return message


def facts(here: Tree, code: Code, ask: str = "p/x") -> Mapping[str, Fact]:
    """Give the facts that come with a code, of which there is one."""
    (found,) = (one.facts for one in explain(here, ask).reasons if one.code is code)
    return found
