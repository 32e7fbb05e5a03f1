"""Kubernetes objects that a program applies and deletes, however it has them."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import pytest

import muster
from tests.actors.service import service


def node(name: str) -> dict[str, Any]:
    return {"kind": "Node", "metadata": {"name": name}, "status": {"capacity": {"cpu": "2"}}}


def text_of(name: str) -> str:
    return f"kind: Node\nmetadata: {{name: {name}}}\nstatus: {{capacity: {{cpu: 2}}}}\n"


IN_LINE: Final = "{kind: Node, metadata: {name: x}, status: {capacity: {cpu: 2}}}"
BOTH: Final = {"kind": "List", "items": [node("x"), node("y")]}

MANIFESTS: Final[dict[str, Any]] = {
    "a map": node("x"),
    "a list": BOTH,
    "a text": text_of("x"),
    "a text of several": f"{text_of('x')}---\n{text_of('y')}",
    "a text with dashes around": f"---\n{text_of('x')}---\n{text_of('y')}---\n",
    "a text with comments only": f"# nothing\n---\n# x\n{text_of('x')}",
    "a text in braces": IN_LINE,
    "a list and more": f"kind: List\nitems:\n- {IN_LINE}\n---\n{text_of('y')}",
    "lines of Windows": f"{text_of('x')}---\n{text_of('y')}".replace("\n", "\r\n"),
}


async def nodes(scheduler: muster.Scheduler) -> set[str]:
    return set((await scheduler.snapshot()).nodes) - {"n"}


@pytest.mark.parametrize("name", MANIFESTS)
async def test_applying_and_deleting(name: str) -> None:
    manifest = MANIFESTS[name]
    two = {"a list", "a text of several", "a text with dashes around", "lines of Windows"}
    async with service() as scheduler:
        await scheduler.apply(manifest)
        assert await nodes(scheduler) == (
            {"x", "y"} if name in two | {"a list and more"} else {"x"}
        )

        await scheduler.apply(manifest)
        await scheduler.delete(manifest)

        assert await nodes(scheduler) == set()


async def test_a_file(tmp_path: Path) -> None:
    path = tmp_path / "nodes.yaml"
    path.write_text(f"{text_of('x')}---\n{text_of('y')}", "utf-8")
    async with service() as scheduler:
        await scheduler.apply(path)
        assert await nodes(scheduler) == {"x", "y"}
        await scheduler.delete(path)
        assert await nodes(scheduler) == set()


async def test_all_of_them_or_none() -> None:
    async with service() as scheduler:
        await scheduler.apply(node("y"))
        with pytest.raises(muster.RefusedError, match=r"items\[0\].*'x'"):
            await scheduler.delete(BOTH)
        assert await nodes(scheduler) == {"y"}

        bad = f"{text_of('x')}---\nkind: Node\n"
        with pytest.raises(muster.EventError, match=r"manifest.items\[1\]"):
            await scheduler.apply(bad)
        assert await nodes(scheduler) == {"y"}


@pytest.mark.parametrize(
    ("manifest", "message"),
    [
        ({}, "kind"),
        ({"kind": "Banana", "metadata": {"name": "x"}}, "Banana"),
        ({"kind": "Node"}, "metadata"),
        ({"kind": "Node", "metadata": {"name": object()}}, "object"),
        ("\n", "there is no object in"),
        ("# nothing\n---\n", "manifest"),
        ("kind: [\n", "manifest"),
        ("kind: Node\nkind: Node\n", "manifest.*kind"),
        ("- 1\n- 2\n", "manifest"),
        ("a: \ud800\n", "manifest"),
        ({"kind": "List", "items": 5}, "items"),
        ("kind: List\nitems: 5\n---\nkind: Node\n", "items"),
    ],
    ids=range(12),
)
async def test_bad_manifests(manifest: Any, message: str) -> None:  # noqa: ANN401 - of any kind
    async with service() as scheduler:
        with pytest.raises(muster.EventError, match=message):
            await scheduler.apply(manifest)
        with pytest.raises(muster.EventError, match=message):
            await scheduler.delete(manifest)
