"""Bring what the documentation takes from the code up to date.

    python docs/generate.py           rewrite what is out of date
    python docs/generate.py --check   only say what is, with exit status 1

Names of files after that leave all others alone.

The state diagrams come from the tables in the core, the pictures of the packages from the imports, and
the fields of events from the table of operations, and the manual page from the commands. In the pages, a block of code below a comment with the name of a file holds that file,
and what stands below ``$ muster …`` is what the command says, run in ``docs/feeds``; a program
(``$ python …``) is run in the main folder. The commands of pages that write files (``WRITING``) are
run one after the other in an empty folder that has ``examples``.
"""

from __future__ import annotations

import os
import re
import runpy
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from contextlib import chdir, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from functools import cache
from html import escape
from io import StringIO
from pathlib import Path
from textwrap import wrap

from click.testing import CliRunner, Result

from muster.cli._main import muster
from muster.feeds import OPS
from muster.feeds._affinity import REQUIREMENT_FIELDS, TAINT_FIELDS, TOLERATION_FIELDS
from muster.replay import JOB_COLUMNS
from muster.service.metrics.scrape import METRICS
from muster_core.config.properties import PROPERTIES
from muster_core.gangs import GANG_TRANSITIONS, GangState, GangTrigger
from muster_core.values.application_states import TIMERS_US, TRANSITIONS, AppState

DOCS = Path(__file__).resolve().parent
PROJECT = DOCS.parent
sys.path.insert(0, str(PROJECT))  # A script finds only modules beside it.

from docs import manual, packages, walk  # noqa: E402 - needs the line above

PAGES = (
    PROJECT / "README.md",
    DOCS / "tutorial.md",
    DOCS / "gangs.md",
    DOCS / "backfill.md",
    DOCS / "fair-share.md",
    DOCS / "devices.md",
    DOCS / "preemption.md",
    DOCS / "report.md",
    DOCS / "explain.md",
    DOCS / "compare.md",
    DOCS / "embedding.md",
    DOCS / "one-machine.md",
    DOCS / "ray.md",
    DOCS / "reference" / "cli.md",
    DOCS / "reference" / "config.md",
    DOCS / "reference" / "feeds.md",
    DOCS / "reference" / "metrics.md",
    DOCS / "reference" / "python.md",
    DOCS / "service" / "production.md",
)
WRITING = (
    DOCS / "importing" / "index.md",
    DOCS / "importing" / "csv.md",
    DOCS / "coming-from-slurm.md",
    DOCS / "importing" / "kubernetes.md",
)
"""Pages whose commands write files; each is run by itself, in the order of the page."""

SPEED = re.compile(r"in [\d.]+ s\s\([\d,.]+\sa\ssecond\)")
METRIC_ROWS = re.compile(r"(<!-- metrics -->\n)(?:\|[^\n]*\n)*")
JOB_ROWS = re.compile(r"(<!-- job columns -->\n)(?:\|[^\n]*\n)*")
PROPERTY_ROWS = re.compile(r"(<!-- properties -->\n)(?:\|[^\n]*\n)*")
PROPERTY_LINKS = {
    "application.sort.policy": "order.md#applications-of-a-leaf",
    "application.sort.blocking": "order.md#rounds",
    "priority.policy": "order.md#priority",
    "priority.offset": "order.md#priority",
    "priority.aging": "order.md#aging",
    "priority.aging.limit": "order.md#aging",
    "priority.limit": "../service/production.md#what-a-submitter-may-do",
    "queue.priority": "../preemption.md#queue-priority",
    "share.policy": "../preemption.md#shares-by-weight",
    "queue.reclaimable": "../preemption.md#reclaim",
    "queue.create": "#dynamic-queues",
    "preemption.policy": "../preemption.md#reclaim",
    "preemption.delay": "../preemption.md#delays",
    "quota.preemption.delay": "../preemption.md#quota-preemption",
    "preemption.min.runtime": "../preemption.md#minimum-run-time",
    "preemption.required.node": "../preemption.md#node-services",
    "bind.retry.delay": "feeds.md#back-off",
    "scheduling.order": "../backfill.md",
    "backfill.depth": "../backfill.md#how-many-reservations",
    "estimate.default": "../backfill.md#estimates",
    "run.limit": "feeds.md#limits-of-time",
    "queue.weight": "../fair-share.md",
    "usage.half.life": "../fair-share.md#choosing-a-half-life",
    "usage.users": "../fair-share.md",
    "gang.wait.time": "../gangs.md",
    "gang.deadlock.policy": "../gangs.md#deadlocks",
    "gang.retry.delay": "../gangs.md#trying-again",
    "gang.retry.limit": "../gangs.md#trying-again",
    "gang.second.try": "../gangs.md#a-second-try",
}
"""Where the reference says more about a property, if anywhere."""
FIELDS = re.compile(r"(<!-- fields of (\w+) -->\n)(?:\|[^\n]*\n)*")
QUOTED_FILE = re.compile(r"(<!-- ([\w./-]+) -->\n```\w*\n).*?(?=^```$)", re.DOTALL | re.MULTILINE)
COMMAND = re.compile(
    r"(^\$ ((?:muster|python) [^\n]*)\n).*?(?=^```$|^\$ )", re.DOTALL | re.MULTILINE
)

# The states stand below each other; all lengths are in pixels.
BOX_WIDTH, BOX_HEIGHT, STEP, TOP = 120, 56, 124, 16
FIRST_LANE, LANE = 60, 118  # from a box to the arrows that pass states by, and between these
LINE_LENGTH, LINE_HEIGHT = 14, 15  # of labels: in characters, and in pixels

Edge = tuple[str, str, str]
"""From which state, to which, and why."""

STYLE = """\
<style>
rect.page { fill: #fff }
.state rect { fill: #eef3fb; stroke: #36517e; stroke-width: 1.5; rx: 8 }
text { font: 14px sans-serif; fill: #1b2a41; text-anchor: middle }
text.why { font-size: 13px; fill: #5a6473 }
text.right { text-anchor: start }
text.left { text-anchor: end }
path { fill: none; stroke: #36517e; stroke-width: 1.3 }
path.edge { marker-end: url(#head) }
</style>
<defs><marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7"
orient="auto"><path d="M0 0 L8 4 L0 8 z" style="fill: #36517e; stroke: none"/></marker></defs>"""


@dataclass
class Lane:
    """Arrows that pass states by: they leave several states, and arrive in one as one line.

    Attributes:
        why: What leads along them.
        target: Where they arrive; the uppermost state is 0.
        sources: Where they come from, those that are farthest from the target first.
        place: Which lane it is, on its side; 0 is the innermost.
    """

    why: str
    target: int
    sources: list[int]
    place: int = 0

    @property
    def side(self) -> int:
        """On which side it is: down on the right (1), up on the left (-1)."""
        return 1 if self.target > self.sources[0] else -1

    @property
    def passed(self) -> set[int]:
        """Which states it passes by, both ends included."""
        return set(range(min(self.target, *self.sources), max(self.target, *self.sources) + 1))

    @property
    def width(self) -> int:
        """How far it is from the middle."""
        # On the right there are also the labels of the arrows from state to state.
        first = FIRST_LANE if self.side > 0 else FIRST_LANE // 2
        return BOX_WIDTH // 2 + first + self.place * LANE

    def port(self, at: int) -> tuple[bool, int]:
        """Return its place among the lanes at the same side of a state, so that few cross."""
        downward = (self.target > at) if at != self.target else (self.sources[0] > at)
        return (downward, -self.place if downward else self.place)


def lanes(states: list[str], edges: list[Edge]) -> tuple[dict[int, str], list[Lane]]:
    """Separate the arrows to the next state below from those that need a lane.

    Returns:
        What leads from a state to the next one, and the lanes.
    """
    place = {state: at for at, state in enumerate(states)}
    straight: dict[int, list[str]] = {}
    found: dict[tuple[int, str, bool], Lane] = {}
    for source, target, why in edges:
        start, end = place[source], place[target]
        if end == start + 1:
            straight.setdefault(start, []).append(why)
        else:
            lane = found.setdefault((end, why, end > start), Lane(why, end, []))
            lane.sources.append(start)
            lane.sources.sort(reverse=end < start)
    for side in (-1, 1):
        # Short ways first, so that they lie inside the longer ones.
        there = [lane for lane in found.values() if lane.side == side]
        there.sort(key=lambda lane: len(lane.passed))
        for number, lane in enumerate(there):
            beside = [other.place for other in there[:number] if other.passed & lane.passed]
            lane.place = max(beside, default=-1) + 1
    return {at: " or ".join(why) for at, why in straight.items()}, list(found.values())


def label(why: str, x: int, y: int, align: str, length: int = LINE_LENGTH) -> str:
    """Write why a state changes, in lines whose middle is at ``y``."""
    lines = wrap(why, length)
    first = y - (len(lines) - 1) * LINE_HEIGHT // 2 + 4
    return "\n".join(
        f'<text class="why {align}" x="{x}" y="{first + number * LINE_HEIGHT}">{escape(line)}</text>'
        for number, line in enumerate(lines)
    )


def around(lane: Lane, middle: int, ports: Mapping[tuple[int, int], int]) -> str:
    """Draw the arrows of a lane.

    Args:
        lane: The lane.
        middle: Where the states are.
        ports: How high the lane with a place leaves or enters a state, by both.
    """
    edge, out = middle + lane.side * BOX_WIDTH // 2, middle + lane.side * lane.width
    end, far = ports[lane.target, lane.place], ports[lane.sources[0], lane.place]
    parts = [f'<path class="edge" d="M{edge} {far} H{out} V{end} H{edge}"/>']
    parts += [
        f'<path d="M{edge} {ports[source, lane.place]} H{out}"/>' for source in lane.sources[1:]
    ]
    # Between the target and the state next to it no arrow leaves a state.
    gap = lane.target - 1 if lane.side > 0 else lane.target
    y = TOP + gap * STEP + (STEP + BOX_HEIGHT) // 2
    align = "right" if lane.side > 0 else "left"
    return "\n".join([*parts, label(lane.why, out + 6 * lane.side, y, align)])


def ports_of(states: list[str], found: list[Lane], side: int) -> dict[tuple[int, int], int]:
    """Return the heights at which the lanes of a side leave or enter the states."""
    ports: dict[tuple[int, int], int] = {}
    for at in range(len(states)):
        there = [lane for lane in found if lane.side == side and at in (lane.target, *lane.sources)]
        in_order = sorted((lane.port(at), lane.place) for lane in there)
        for number, (_, place) in enumerate(in_order, 1):
            ports[at, place] = TOP + at * STEP + number * BOX_HEIGHT // (len(there) + 1)
    return ports


def diagram(states: list[str], edges: list[Edge]) -> str:
    """Draw a state machine.

    Args:
        states: The names of the states, in the order in which they stand from above.
        edges: The transitions.

    Returns:
        The text of an SVG file.
    """
    straight, found = lanes(states, edges)
    left, right = (
        max((lane.width for lane in found if lane.side == side), default=0) + LANE + 10
        for side in (-1, 1)
    )
    width, height = left + right, 2 * TOP + (len(states) - 1) * STEP + BOX_HEIGHT
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}">',
        STYLE,
        f'<rect class="page" width="{width}" height="{height}"/>',
    ]
    for side in (-1, 1):
        ports = ports_of(states, found, side)
        parts += [around(lane, left, ports) for lane in found if lane.side == side]
    for at, why in straight.items():
        top, bottom = TOP + at * STEP + BOX_HEIGHT, TOP + (at + 1) * STEP
        parts.append(f'<path class="edge" d="M{left} {top} V{bottom}"/>')
        parts.append(label(why, left + 8, (top + bottom) // 2, "right"))
    for at, state in enumerate(states):
        top = TOP + at * STEP
        parts.append(
            f'<g class="state"><rect x="{left - BOX_WIDTH // 2}" y="{top}" '
            f'width="{BOX_WIDTH}" height="{BOX_HEIGHT}"/>'
            f'<text x="{left}" y="{top + BOX_HEIGHT // 2 + 5}">{escape(state)}</text></g>'
        )
    return "\n".join([*parts, "</svg>", ""])


def table(edges: list[Edge], timers_us: Mapping[str, int]) -> str:
    """List the transitions and timers of a state machine as Markdown."""
    rows = ["| state | what happens | next state |", "| --- | --- | --- |"]
    for source, target, why in edges:
        seconds = timers_us.get(source, 0) / 1_000_000
        timer = f" ({seconds:g} s)" if seconds and "timer" in why else ""
        rows.append(f"| {source} | {why}{timer} | {target} |")
    return "\n".join(rows)


APPLICATION_EDGES: list[Edge] = [
    (state.value, after.value, trigger.value) for (state, trigger), after in TRANSITIONS.items()
]

GANG_EDGES: list[Edge] = [
    (state.value, after.value, trigger.value)
    for (state, trigger), after in GANG_TRANSITIONS.items()
]

GANG_STATES: Mapping[GangState, str] = {
    GangState.PLACEHOLDER: "it has members and is not defined; Muster tries none of them",
    GangState.GATHERING: "it is defined, and no member holds a node and waits",
    GangState.WAITING: "some members hold nodes, and wait for the others",
    GangState.SATISFIED: "it has been bound; only its topology still holds for its members",
    GangState.TIMED_OUT: "it has timed out; its members are parked, and so are new ones",
}

GANG_TRIGGERS: Mapping[GangTrigger, str] = {
    GangTrigger.DEFINED: "`add_gang`, a PodGroup, or a member whose annotations say `min_member`",
    GangTrigger.REMOVED: "`remove_gang`, or the PodGroup is deleted",
    GangTrigger.FIRST_WAITS: "a batch ends with waiting members",
    GangTrigger.NONE_WAITS: "the last waiting member is released, and not bound",
    GangTrigger.GROUP_BOUND: "every gang of the group has `min_member` members waiting or bound; "
    "or a Pod with `spec.nodeName` is added",
    GangTrigger.TIMED_OUT: "the `wait_time` of a gang of the group is over; or a new member has "
    'the annotation `timeout: "true"`',
    GangTrigger.ALL_LOST: "its last bound member is evicted, lost with its node or fails to bind, "
    "and it still has `min_member` members; completions and removals do not count",
    GangTrigger.RETRIED: "with `gang.retry.delay`: its back-off after the timeout is over",
    GangTrigger.EMPTIED: "its last member has completed, was removed, or its time was up; if only "
    "annotations defined the gang, it disappears",
}


def gang_states() -> str:
    """List the states of a gang as Markdown."""
    rows = [f"| {state} | {GANG_STATES[state]} |" for state in GangState]
    return "\n".join(["| state | meaning |", "| --- | --- |", *rows])


def gang_triggers() -> str:
    """List the triggers of a change of a gang's state as Markdown."""
    rows = ["| what happens | when | from | to |", "| --- | --- | --- | --- |"]
    for trigger in GangTrigger:
        changes = [(state, GANG_TRANSITIONS.get((state, trigger))) for state in GangState]
        sources = ", ".join(state for state, after in changes if after is not None)
        targets = ", ".join({after: None for _, after in changes if after is not None})
        rows.append(f"| {trigger} | {GANG_TRIGGERS[trigger]} | {sources} | {targets} |")
    return "\n".join(rows)


STATES_PAGE = f"""\
# States

The tables and diagrams of this page come from the tables in the code (`docs/generate.py`).

## Applications

```{{image}} _static/application-states.svg
:alt: The states of an application and what leads from one to another
```

{table(APPLICATION_EDGES, {state.value: time for state, time in TIMERS_US.items()})}

Nothing else changes the state. With the tag `application.stateaware.disable: "true"` an
application skips Starting. "No ask is left" means that no ask is pending, parked, waiting or bound. An
ask that waits with its [gang](gangs.md) is not bound yet. A Completed application accepts no ask, and
its name may be used again.

## Gangs

```{{image}} _static/gang-states.svg
:alt: The states of a gang and what leads from one to another
```

{gang_states()}

{gang_triggers()}

Nothing else changes the state. A gang that would be Gathering but is not defined is a
Placeholder. A gang without a definition and without members does not exist. See [gangs](gangs.md).
"""


PARTS = {
    "taints": TAINT_FIELDS,
    "tolerations": TOLERATION_FIELDS,
    "affinity": REQUIREMENT_FIELDS,
}
"""The fields of the maps in some fields of operations."""


def fields_of(name: str) -> str:
    """List the fields of an operation, or of the maps in a field, as Markdown."""
    rows = ["| field | form | meaning |", "| --- | --- | --- |"]
    for field in PARTS.get(name) or OPS[name].fields.values():
        name = field.name if field.required else f"{field.name}?"
        rows.append(f"| `{name}` | {field.kind.name} | {field.doc} |")
    return "\n".join([*rows, ""])


COLUMNS = 90
ENVIRONMENT = {"COLUMNS": f"{COLUMNS}", "NO_COLOR": "1", "PYTHONUTF8": "1"}
FOR_SHELL = set("|<>&;$`'\"*")
PIPED = re.compile(r"muster ([^|<>&;$`'\"*]+) 2>/dev/null(?: \| (.+))?")
"""A command whose standard output alone is shown, or goes through others."""


def metric_rows() -> str:
    """Return the rows about all metrics of the service."""
    rows = ["| metric | kind | labels | meaning |", "| --- | --- | --- | --- |"]
    for metric in METRICS:
        labels = ", ".join(f"`{label}`" for label in metric.labels.split())
        rows.append(f"| `{metric.name}` | {metric.kind} | {labels} | {metric.about} |")
    return "\n".join([*rows, ""])


def job_rows() -> str:
    """List the columns of the table of jobs as the rows of a table."""
    rows = ["| column | what it says |", "| --- | --- |"]
    rows += [f"| `{column.name}` | {column.text} |" for column in JOB_COLUMNS]
    return "\n".join(rows) + "\n"


def property_rows() -> str:
    """Return the rows about all properties of queues."""
    rows = ["| property | values | says | default | inherited |", "| --- | --- | --- | --- | --- |"]
    for name, known in PROPERTIES.items():
        link = PROPERTY_LINKS.get(name)
        says = known.about if link is None else f"[{known.about}]({link})"
        text = known.text(known.default)
        default = text if known.default is None else f"`{text}`"
        cells = (f"`{name}`", known.form.words, says, default, known.inheritance)
        rows.append(f"| {' | '.join(cells)} |")
    return "\n".join([*rows, ""])


@cache
def output(command: str) -> str:
    """Return the output of a command in its usual folder, run by this Python."""
    return output_in(None, command)


def output_in(folder: Path | None, command: str) -> str:
    """Return the output of a command in a folder; None for its usual one."""
    name, *words = command.split()
    piped = PIPED.fullmatch(command)
    if piped is not None:
        text = run_muster(piped[1].split(), folder).stdout
        if piped[2] is not None:
            text = output_of_shell(piped[2], folder, text)
    elif FOR_SHELL & set(command):
        text = output_of_shell(command, folder)
    elif name == "muster":
        text = run_muster(words, folder).output
    elif name == "python":
        text = output_of_program(*words)
    else:
        text = output_of_shell(command, folder)
    if any(sign in text for sign in ("Traceback", "not found", "No module named")):
        sys.exit(f"{command}\n{text}")
    lines = (line.rstrip() for line in text.strip("\n").splitlines())
    return "".join(f"{line}\n" for line in lines if not PROGRESS.match(line))


PROGRESS = re.compile(r"[\d,]+ events, .* decisions/s")
"""A line of progress, which a command prints every ten seconds: only a busy machine is that slow."""


def run_muster(words: list[str], folder: Path | None) -> Result:
    """Run the command in this process: a new one would import all of Muster."""
    with chdir(folder or DOCS / "feeds"):
        # For a help the runner of click would not look at the environment; 2 are a margin.
        return CliRunner().invoke(
            muster, words, prog_name="muster", env=ENVIRONMENT, terminal_width=COLUMNS - 2
        )


def output_of_program(name: str, *arguments: str) -> str:
    """Return the output of a program, which runs in this process as well."""
    printed, argv = StringIO(), sys.argv
    sys.argv = [name, *arguments]
    try:
        with chdir(PROJECT), redirect_stdout(printed), redirect_stderr(printed):
            runpy.run_path(name, run_name="__main__")
    finally:
        sys.argv = argv
    return printed.getvalue()


def output_of_shell(command: str, folder: Path | None, text: str = "") -> str:
    """Return the output of a shell command with a text as its input."""
    done = subprocess.run(
        f'python() {{ "{sys.executable}" "$@"; }}; muster() {{ python -m muster "$@"; }}; {command}',
        shell=True,
        cwd=folder or (PROJECT if command.startswith("python ") else DOCS / "feeds"),
        env={**os.environ, **ENVIRONMENT},
        input=text,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        check=False,
    )
    if done.returncode and not FOR_SHELL & set(command):
        sys.exit(f"{command}: exit status {done.returncode}\n{done.stdout}")
    return done.stdout


def rerun(found: re.Match[str], folder: Path | None) -> str:
    """Return a command with its present output, except for its speed."""
    text = output(found[2]) if folder is None else output_in(folder, found[2])
    then = SPEED.search(found[0])
    return found[1] + (text if then is None else SPEED.sub(then[0], text))


def refreshed(page: str, folder: Path | None = None) -> str:
    """Return a page with its tables, quoted files and outputs of commands as they are now.

    Args:
        page: The text of the page.
        folder: Where its commands are run, one after the other; None for where each belongs.
    """
    page = METRIC_ROWS.sub(lambda found: found[1] + metric_rows(), page)
    page = JOB_ROWS.sub(lambda found: found[1] + job_rows(), page)
    page = PROPERTY_ROWS.sub(lambda found: found[1] + property_rows(), page)
    page = FIELDS.sub(lambda found: found[1] + fields_of(found[2]), page)
    page = QUOTED_FILE.sub(
        lambda found: found[1] + (PROJECT / found[2]).read_text(encoding="utf-8"), page
    )
    return COMMAND.sub(lambda found: rerun(found, folder), page)


def refreshed_alone(page: str) -> str:
    """Return a page whose commands write files, in a folder of its own."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "examples").symlink_to(PROJECT / "examples")
        return refreshed(page, folder)


def text_of(path: Path) -> str:
    """Return the text that a generated file should have.

    Args:
        path: One of ``FILES``.
    """
    if path in PAGES:
        return refreshed(path.read_text(encoding="utf-8"))
    if path in WRITING:
        return refreshed_alone(path.read_text(encoding="utf-8"))
    plan = packages.PLANS.get(path.name)
    return DRAWN[path]() if plan is None else packages.picture(plan)


DRAWN: dict[Path, Callable[[], str]] = {
    DOCS / "states.md": lambda: STATES_PAGE,
    DOCS / "_static" / "application-states.svg": lambda: diagram(
        [state.value for state in AppState], APPLICATION_EDGES
    ),
    DOCS / "_static" / "gang-states.svg": lambda: diagram(
        [state.value for state in GangState], GANG_EDGES
    ),
    DOCS / "_static" / "walk.svg": walk.picture,
    DOCS / "man" / "muster.1": manual.page,
}
"""What comes from the tables in the code alone."""

FILES = (*DRAWN, *(DOCS / "_static" / name for name in packages.PLANS), *PAGES, *WRITING)
"""Everything that is generated."""


def main(arguments: list[str]) -> int:
    """Compare every generated file with what it should be.

    Args:
        arguments: ``--check``, to leave the files as they are, if it is wanted; and the names of
            generated files, from the folder of the project, or nothing for all.

    Returns:
        The exit status: 1 if a file is out of date and was left so.
    """
    check = "--check" in arguments
    named = [PROJECT / name for name in arguments if name != "--check"]
    for path in named:
        if path not in FILES:
            sys.exit(f"{path.relative_to(PROJECT)}: is not generated")
    texts = {path: text_of(path) for path in named or FILES}
    stale = {
        path: text
        for path, text in texts.items()
        if not path.exists() or path.read_text(encoding="utf-8") != text
    }
    for path, text in stale.items():
        print(f"{path.relative_to(PROJECT)}: {'out of date' if check else 'rewritten'}")
        if not check:
            path.write_text(text, encoding="utf-8")
    return int(check and bool(stale))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
