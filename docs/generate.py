"""Bring what the documentation takes from the code up to date.

    python docs/generate.py           rewrite what is out of date
    python docs/generate.py --check   only say what is, with exit status 1

The state diagrams come from the tables in the core, and the fields of events from the table of
operations. In the pages, a block of code below a comment with the name of a file holds that file,
and what stands below ``$ muster …`` is what the command says, run in ``docs/feeds``.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Mapping
from html import escape
from pathlib import Path

from muster.feeds import OPS
from muster_core.lifecycle import TIMERS_US, TRANSITIONS, AppState

DOCS = Path(__file__).resolve().parent
PROJECT = DOCS.parent

PAGES = (
    PROJECT / "README.md",
    DOCS / "tutorial.md",
    DOCS / "reference" / "cli.md",
    DOCS / "reference" / "feeds.md",
    DOCS / "reference" / "python.md",
)
SPEED = re.compile(r"in [\d.]+ s \([\d,]+ a second\)")
FIELDS = re.compile(r"(<!-- fields of (\w+) -->\n)(?:\|[^\n]*\n)*")
QUOTED_FILE = re.compile(r"(<!-- ([\w./-]+) -->\n```\w*\n).*?(?=^```$)", re.DOTALL | re.MULTILINE)
COMMAND = re.compile(r"(^\$ (muster [^\n]*)\n).*?(?=^```$|^\$ )", re.DOTALL | re.MULTILINE)

# The states stand below each other; all lengths are in pixels.
BOX_WIDTH, BOX_HEIGHT, STEP = 120, 34, 84
MIDDLE, TOP = 350, 16
LANE_WIDTH = 95  # between the arrows that pass states by

Edge = tuple[str, str, str]
"""From which state, to which, and why."""

STYLE = """\
<style>
rect.page { fill: #fff }
.state rect { fill: #eef3fb; stroke: #36517e; stroke-width: 1.5; rx: 8 }
text { font: 13px sans-serif; fill: #1b2a41; text-anchor: middle }
text.why { font-size: 12px; fill: #5a6473 }
text.right { text-anchor: start }
text.left { text-anchor: end }
path.edge { fill: none; stroke: #36517e; stroke-width: 1.3; marker-end: url(#head) }
</style>
<defs><marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7"
orient="auto"><path d="M0 0 L8 4 L0 8 z" fill="#36517e"/></marker></defs>"""


def merged(edges: list[Edge]) -> list[Edge]:
    """Put the reasons of arrows between the same two states into one."""
    reasons: dict[tuple[str, str], list[str]] = {}
    for source, target, why in edges:
        reasons.setdefault((source, target), []).append(why)
    return [(source, target, " or ".join(why)) for (source, target), why in reasons.items()]


def straight(at: int, why: str) -> str:
    """Draw the arrow to the next state below."""
    top, bottom = TOP + at * STEP + BOX_HEIGHT, TOP + (at + 1) * STEP
    return (
        f'<path class="edge" d="M{MIDDLE} {top} V{bottom}"/>\n'
        f'<text class="why right" x="{MIDDLE + 8}" y="{(top + bottom) // 2 + 4}">'
        f"{escape(why)}</text>"
    )


def around(start: int, end: int, lane: int, why: str) -> str:
    """Draw an arrow that passes states by: down on the right, up on the left."""
    side = 1 if end > start else -1
    edge = MIDDLE + side * BOX_WIDTH // 2
    out = edge + side * (165 + lane * LANE_WIDTH)
    shift = 6 * side
    leave, arrive = (TOP + at * STEP + BOX_HEIGHT // 2 for at in (start, end))
    leave, arrive = leave + shift, arrive - shift
    align = "right" if side > 0 else "left"
    corner = 10 * side
    return (
        f'<path class="edge" d="M{edge} {leave} H{out - corner} Q{out} {leave} {out} '
        f'{leave + corner} V{arrive - corner} Q{out} {arrive} {out - corner} {arrive} H{edge}"/>\n'
        f'<text class="why {align}" x="{out + side * 7}" y="{leave + 24 * side}">'
        f"{escape(why)}</text>"
    )


def diagram(states: list[str], edges: list[Edge]) -> str:
    """Draw a state machine.

    Args:
        states: The names of the states, in the order in which they stand from above.
        edges: The transitions.

    Returns:
        The text of an SVG file.
    """
    height = 2 * TOP + (len(states) - 1) * STEP + BOX_HEIGHT
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 760 {height}" width="760">',
        STYLE,
        f'<rect class="page" width="760" height="{height}"/>',
    ]
    place = {state: at for at, state in enumerate(states)}
    lanes = {True: 0, False: 0}
    # Short ways first, so that they lie inside the longer ones and nothing crosses.
    by_length = sorted(merged(edges), key=lambda edge: abs(place[edge[0]] - place[edge[1]]))
    for source, target, why in by_length:
        start, end = place[source], place[target]
        if end == start + 1:
            parts.append(straight(start, why))
        else:
            parts.append(around(start, end, lanes[end > start], why))
            lanes[end > start] += 1
    for at, state in enumerate(states):
        top = TOP + at * STEP
        parts.append(
            f'<g class="state"><rect x="{MIDDLE - BOX_WIDTH // 2}" y="{top}" '
            f'width="{BOX_WIDTH}" height="{BOX_HEIGHT}"/>'
            f'<text x="{MIDDLE}" y="{top + BOX_HEIGHT // 2 + 5}">{escape(state)}</text></g>'
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

STATES_PAGE = f"""\
# States

This page and its pictures are made from the tables in the code (`docs/generate.py`).

## Applications

```{{image}} _static/application-states.svg
:alt: The states of an application and what leads from one to another
```

{table(APPLICATION_EDGES, {state.value: time for state, time in TIMERS_US.items()})}

What is not in the table changes nothing. The tag `application.stateaware.disable: "true"` lets an
application skip Starting. "No ask is left" means none in any place: neither pending nor bound. A
Completed application takes no ask, and its name may be used again.
"""


def fields_of(op: str) -> str:
    """List the fields of an operation as Markdown."""
    rows = ["| field | form | meaning |", "| --- | --- | --- |"]
    for field in OPS[op].fields.values():
        name = field.name if field.required else f"{field.name}?"
        rows.append(f"| `{name}` | {field.kind.name} | {field.doc} |")
    return "\n".join([*rows, ""])


def output(command: str) -> str:
    """Give what a command says in ``docs/feeds``, run by this Python."""
    done = subprocess.run(
        f'muster() {{ "{sys.executable}" -m muster "$@"; }}; {command}',
        shell=True,
        cwd=DOCS / "feeds",
        env={
            **os.environ,
            "COLUMNS": "90",
            "NO_COLOR": "1",
            "PYTHONUTF8": "1",
        },
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        check=False,
    )
    if any(sign in done.stdout for sign in ("Traceback", "not found", "No module named")):
        sys.exit(f"{command}\n{done.stdout}")
    return "".join(f"{line.rstrip()}\n" for line in done.stdout.strip("\n").splitlines())


def rerun(found: re.Match[str]) -> str:
    """Give a command with its output as it is now, but for how fast it was."""
    text, then = output(found[2]), SPEED.search(found[0])
    return found[1] + (text if then is None else SPEED.sub(then[0], text))


def refreshed(page: str) -> str:
    """Give a page with its tables, quoted files and outputs of commands as they are now."""
    page = FIELDS.sub(lambda found: found[1] + fields_of(found[2]), page)
    page = QUOTED_FILE.sub(
        lambda found: found[1] + (PROJECT / found[2]).read_text(encoding="utf-8"), page
    )
    return COMMAND.sub(rerun, page)


def files() -> dict[Path, str]:
    """Give everything that is generated, with the text that it should have."""
    picture = diagram([state.value for state in AppState], APPLICATION_EDGES)
    return {
        DOCS / "states.md": STATES_PAGE,
        DOCS / "_static" / "application-states.svg": picture,
        **{page: refreshed(page.read_text(encoding="utf-8")) for page in PAGES},
    }


def main(arguments: list[str]) -> int:
    """Compare every generated file with what it should be.

    Args:
        arguments: ``--check``, to leave the files as they are, or nothing.

    Returns:
        The exit status: 1 if a file is out of date and was left so.
    """
    check = arguments == ["--check"]
    stale = {
        path: text
        for path, text in files().items()
        if not path.exists() or path.read_text(encoding="utf-8") != text
    }
    for path, text in stale.items():
        print(f"{path.relative_to(PROJECT)}: {'out of date' if check else 'rewritten'}")
        if not check:
            path.write_text(text, encoding="utf-8")
    return int(check and bool(stale))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
