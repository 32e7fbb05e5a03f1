"""Recording a replay, and reading a page again."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from typing import Any, final

import attrs
from typing_extensions import override

from muster.replay import Tally, begun_at, replay
from muster.report import Content, Ending, Recorder, page
from muster.testing import Recording
from muster_core.decisions import Announced
from tests.actors.samples import items

#: A queue with a max, a gang, a preemption, a lost node, and an ask that never fits.
EVERYTHING = """\
- op: configure
  config:
    partitions:
      - name: default
        queues:
          - name: root
            queues:
              - {name: batch, resources: {max: {vcore: 6}}, properties: {priority.policy: fence}}
              - name: web
                resources: {guaranteed: {vcore: 4}}
                properties: {preemption.delay: 5s, priority.offset: "10"}
- {op: add_node, node: n1, capacity: {vcore: 4, memory: 8Gi}}
- {op: add_node, node: n2, capacity: {vcore: 4, memory: 8Gi}}
- {op: add_app, app: a, queue: root.batch}
- {op: add_ask, app: a, ask: part, count: 9, resources: {vcore: 1, memory: 1Gi}, run_for: 20}
- {op: add_gang, gang: g, min_member: 2, at: 10}
- {op: add_app, app: b, queue: root.batch}
- {op: add_ask, app: b, ask: w, count: 2, resources: {vcore: 1}, gang: g, run_for: 30}
- {op: add_app, app: c, queue: root.web, at: 12}
- {op: add_ask, app: c, ask: page, count: 4, resources: {vcore: 1}, run_for: 25}
- {op: add_ask, app: c, ask: huge, resources: {vcore: 99}}
- {op: remove_node, node: n2, at: 30}
- {op: add_ask, app: d, ask: x, resources: {vcore: 1}, at: 50}
"""


@attrs.frozen
class RecordedReplay:
    """A replay that was recorded.

    Attributes:
        recorder: The recorder, closed.
        tally: The tally.
        decisions: What was decided.
    """

    recorder: Recorder
    tally: Tally
    decisions: list[Announced]

    @property
    def page(self) -> str:
        """The page."""
        content = Content(self.recorder, self.tally.summary(), "feed.yaml", Ending.COMPLETE)
        return page(content)


async def recorded(feed: str, until_us: int | None = None, start_us: int = 0) -> RecordedReplay:
    """Replay a feed, perhaps up to an instant or from one on only, and record it."""
    facts, rest = begun_at(iter(items(feed)), start_us) if start_us else (None, items(feed))
    found = RecordedReplay(Recorder(), Tally(), [])
    log = Recording()
    await replay(
        rest,
        facts=facts,
        journals=[log],
        watchers=[found.recorder],
        tally=found.tally,
        until_us=until_us,
    )
    found.recorder.close(found.tally.at_us)
    found.decisions.extend(log.decisions)
    return found


def known(html: str) -> dict[str, Any]:
    """Return what the script of a page knows."""
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', html, re.DOTALL)
    assert found
    value: dict[str, Any] = json.loads(found[1])
    return value


def tile(html: str, name: str) -> str:
    """Return the figure of the tile with a name."""
    found = re.search(rf'<div class="tile"><b>([^<]*)</b><span>{re.escape(name)}</span>', html)
    assert found, name
    return found[1]


@final
class Reader(HTMLParser):
    """Reads a page as strictly as a parser of XML would.

    Attributes:
        attributes: The attributes of all elements, by their names.
        text: All text outside of styles and scripts.
        tags: How many elements there are of each kind.
    """

    VOID = frozenset({"meta", "input", "br"})

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.attributes: dict[str, list[str]] = {}
        self.text = ""
        self.tags: dict[str, int] = {}
        self._open: list[str] = []
        self.feed(html)
        self.close()
        assert self._open == []

    @override
    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        names = [name for name, _ in attrs]
        assert len(names) == len(set(names)), (tag, names)
        self.tags[tag] = self.tags.get(tag, 0) + 1
        for name, value in attrs:
            self.attributes.setdefault(name, []).append(value or "")
        if tag not in self.VOID:
            self._open.append(tag)

    @override
    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag == "path", tag  # of HTML's own elements none ends so
        self.handle_starttag(tag, attrs)
        self.handle_endtag(tag)

    @override
    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag, tag

    @override
    def handle_data(self, data: str) -> None:
        if not self._open or self._open[-1] not in {"style", "script"}:
            assert "<" not in data or "&lt;" in self.rawdata
            self.text += data
