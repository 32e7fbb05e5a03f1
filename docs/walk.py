"""Draw the walk of one ask through the packages, from the call to the handle that knows its node.

``tests/test_docs.py`` runs such a call and compares what it enters, in order.
"""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from itertools import pairwise
from typing import Final, final

# All lengths are in pixels.
WIDTH, LANE, ROW, LEFT, TOP, TEXT = 980, 62, 34, 40, 60, 545

STYLE: Final = """\
<style>
rect.page { fill: #fff }
line { stroke: #d5dfef; stroke-width: 1.2 }
text { font: 13px sans-serif; fill: #1b2a41 }
text.package { font: bold 12px sans-serif; text-anchor: middle }
text.place { font: 11px monospace; fill: #5a6473 }
text.number { font: bold 11px sans-serif; fill: #fff; text-anchor: middle }
path { fill: none; stroke: #36517e; stroke-width: 1.6 }
circle { fill: #36517e }
</style>"""


@final
@dataclass(frozen=True)
class Step:
    """One step of the walk.

    Attributes:
        place: The function that is entered, as ``module:name``.
        what: What it does for the ask.
    """

    place: str
    what: str

    @property
    def package(self) -> str:
        """The package in which the function is."""
        return self.place.partition(":")[0].split(".")[1]


WALK: Final = (
    Step("muster._surface.scheduler:Operations.add_ask", "A program adds an ask."),
    Step("muster.feeds._parser:parse", "Its words become an event, as in a feed."),
    Step("muster._runtime.calls:Client.enter", "The call waits at the entry."),
    Step(
        "muster._runtime.live_coordinator:LiveCoordinator._serve",
        "The coordinator makes a batch of all calls.",
    ),
    Step(
        "muster_core.coordinator.coordinator:CoordinatorMachine.enter",
        "The event gets its number in the input.",
    ),
    Step(
        "muster_core.admission.admission:Admission.admit",
        "It is admitted: its application will be told.",
    ),
    Step("muster._runtime.batches:Batches.collect_reports", "The owners concerned are to report."),
    Step(
        "muster_core.owners.application:ApplicationMachine.handle",
        "The application has a pending ask, and reports.",
    ),
    Step(
        "muster_core.view.state.intake:Intake.apply",
        "The view adds it up in each queue above.",
    ),
    Step("muster_core.view.rounds:Rounds.decide", "A round chooses queue, application and ask,"),
    Step("muster_core.nodes.node_index:NodeIndex.find", "and the node."),
    Step(
        "muster_core.view.placements:Placements.assign",
        "The ask is bound, which is a decision.",
    ),
    Step(
        "muster_core.coordinator.coordinator:CoordinatorMachine._finish",
        "Decisions get numbers, owners get commits.",
    ),
    Step("muster._runtime.batches:Batches._commit", "The commits go into the mailboxes."),
    Step("muster._runtime.tracking:Tracker.update", "Handles see the allocation."),
    Step("muster._surface.allocation:TrioAllocation.__init__", "Ask.bound() returns it."),
)

LANES: Final = (
    "_surface",
    "feeds",
    "_runtime",
    "coordinator",
    "admission",
    "owners",
    "view",
    "nodes",
)


def short(place: str) -> str:
    """Return a place without the common prefix of all."""
    return place.replace("muster_core.", "").replace("muster.", "").replace(":", ": ")


def picture() -> str:
    """Draw the walk: a column for each package, a row for each step."""
    height = TOP + ROW * len(WALK) + 16
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}">',
        STYLE,
        f'<rect class="page" width="{WIDTH}" height="{height}"/>',
    ]
    across = {package: LEFT + LANE * number for number, package in enumerate(LANES)}
    for number, (package, x) in enumerate(across.items()):
        parts.append(f'<line x1="{x}" y1="{TOP - 16}" x2="{x}" y2="{height - 16}"/>')
        y = TOP - 38 if number % 2 else TOP - 24
        parts.append(f'<text class="package" x="{x}" y="{y}">{escape(package)}</text>')
    points = [(across[step.package], TOP + ROW * number) for number, step in enumerate(WALK)]
    for (x, y), (to_x, to_y) in pairwise(points):
        parts.append(
            f'<path d="M{x} {y} C{x} {y + ROW / 2:g} {to_x} {to_y - ROW / 2:g} {to_x} {to_y}"/>'
        )
    for number, (step, (x, y)) in enumerate(zip(WALK, points, strict=True), 1):
        parts += [
            f'<circle cx="{x}" cy="{y}" r="10"/>',
            f'<text class="number" x="{x}" y="{y + 4}">{number}</text>',
            f'<text x="{TEXT}" y="{y}">{number}. {escape(step.what)}</text>',
            f'<text class="place" x="{TEXT}" y="{y + 14}">{escape(short(step.place))}</text>',
        ]
    return "\n".join([*parts, "</svg>", ""])
